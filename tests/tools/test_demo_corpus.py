"""The generated demonstration corpus: deterministic, balanced, free of repeats, and labelled by its rules."""

import gzip
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import demo_corpus
from demo_corpus import COLUMNS, GENERATORS, SIZES, SPLITS, TASKS, demo_rows
from manyheads.data import demo as shipped

TOOL = Path(demo_corpus.__file__).parent
Rows = list[dict[str, str]]
EVERY_SPLIT = [(task, split) for task in TASKS for split in SPLITS]


@cache  # made by the first test that needs them, not whenever tests are collected
def rows_of(task: str, split: str, seed: int = 0) -> Rows:
    return demo_rows(task, split, seed)


def texts(task: str, row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[column] for column in COLUMNS[task][1:-1])


def tokens(text: str) -> list[str]:
    return re.findall(r"[\w'-]+", text.lower())


def all_text(task: str, *splits: str) -> str:
    """Every sentence of some splits, as tokens between spaces: a phrase is found whole or not at all."""
    sentences = (text for split in splits for row in rows_of(task, split) for text in texts(task, row))
    return " | ".join(f" {' '.join(tokens(sentence))} " for sentence in sentences)


def holds(text: str, phrase: str) -> bool:
    return f" {' '.join(tokens(phrase))} " in text


def label_words(task: str, pool: str) -> set[str]:
    """The words by which a label is told: opinions, and what the meanings in a pair are worded with."""
    if task == "sentiment":
        domains = {word for _, own in demo_corpus.DOMAINS[pool] for word in re.split(r"[,|]", own)}
        tables = (demo_corpus.OPINIONS[pool], demo_corpus.VERDICTS[pool], demo_corpus.REMARKS[pool])
        return domains | {word for table in tables for words in table.values() for word in words}
    if task == "paraphrase":
        groups = [group for kind in demo_corpus.FILLERS[pool].values() for group in kind]
    else:
        groups = [group for topic in demo_corpus.SCENES[pool] for line in topic for group in demo_corpus.groups(line)]
        groups += [group for details in demo_corpus.DETAILS[pool].values() for group in details]
    return {re.sub(r"^(a|an|the|some) ", "", wording) for group in groups for wording in group}


# --- shape


@pytest.mark.parametrize(("task", "split"), EVERY_SPLIT)
def test_rows_have_the_promised_size_columns_and_plain_strings(task: str, split: str) -> None:
    rows = rows_of(task, split)
    assert len(rows) == SIZES[split] == {"train": 1600, "dev": 400, "test": 200}[split]
    assert {tuple(row) for row in rows} == {COLUMNS[task]}
    values = [value for row in rows for value in row.values()]
    assert all(type(value) is str and value and value == value.strip() for value in values)
    assert len({row["id"] for row in rows}) == len(rows)


def test_columns_are_those_the_recipes_name() -> None:
    assert COLUMNS == {
        "sentiment": ("id", "sentence", "sentiment"),
        "paraphrase": ("id", "sentence1", "sentence2", "is_duplicate"),
        "similarity": ("id", "sentence1", "sentence2", "similarity"),
    }


@pytest.mark.parametrize(("task", "split"), EVERY_SPLIT)
def test_sentences_are_whole_and_of_ordinary_length(task: str, split: str) -> None:
    for row in rows_of(task, split):
        for text in texts(task, row):
            assert 4 <= len(text.split()) <= 25, text
            assert text[0].isupper(), text
            assert text.endswith("?" if task == "paraphrase" else "."), text
            assert not re.search(r"[{}|/]|  | [,.;]|\b[Aa] [aeio]|\ban [^aeiou]", text), text


@pytest.mark.parametrize("split", SPLITS)
def test_labels_are_in_range_and_balanced(split: str) -> None:
    sentiment = Counter(row["sentiment"] for row in rows_of("sentiment", split))
    assert sorted(sentiment) == ["0", "1", "2", "3", "4"]
    assert all(0.12 <= count / SIZES[split] <= 0.28 for count in sentiment.values())

    duplicates = Counter(row["is_duplicate"] for row in rows_of("paraphrase", split))
    assert sorted(duplicates) == ["0", "1"]
    assert 0.35 <= duplicates["1"] / SIZES[split] <= 0.45

    scores = [row["similarity"] for row in rows_of("similarity", split)]
    assert all(re.fullmatch(r"[0-4]\.[02468]|5\.0", score) for score in scores)
    whole = Counter(score[0] for score in scores)
    assert sorted(whole) == ["0", "1", "2", "3", "4", "5"]
    assert all(0.1 <= count / SIZES[split] <= 0.25 for count in whole.values())


@pytest.mark.parametrize("task", TASKS)
def test_rows_are_not_sorted_by_label(task: str) -> None:
    labels = [row[COLUMNS[task][-1]][0] for row in rows_of(task, "train")]
    first, second = Counter(labels[:800]), Counter(labels[800:])
    assert all(abs(first[label] - second[label]) < 128 for label in labels)


# --- the same again


@pytest.mark.slow
@pytest.mark.parametrize(("task", "split"), EVERY_SPLIT)
def test_the_seed_decides_the_rows(task: str, split: str) -> None:
    random.seed(99)  # the global generator must not matter
    assert demo_rows(task, split, seed=0) == rows_of(task, split)
    one, other = ({texts(task, row) for row in rows_of(task, split, seed)} for seed in (0, 1))
    assert len(one & other) < len(one) / 2


# --- the files that ship with the package


def generate(*options: str, hash_seed: str = "random") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TOOL / "generate.py"), *options],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["1", "4242"])
def test_the_shipped_files_are_what_the_tool_makes_in_any_process(hash_seed: str) -> None:
    """And what it makes in this one: a test below compares the rows."""
    run = generate("--check", hash_seed=hash_seed)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.endswith("up to date\n")


@pytest.mark.slow
def test_the_tool_writes_the_same_bytes_again_and_finds_a_changed_file(tmp_path: Path) -> None:
    assert generate("--folder", str(tmp_path)).returncode == 0
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == sorted(f"{task}-{split}.csv.gz" for task, split in EVERY_SPLIT)
    before = [file.read_bytes() for file in files]
    assert [content[4:8] for content in before] == [bytes(4)] * 9, "gzip's time stamp is zero"
    files[0].write_bytes(gzip.compress(b"id,sentence\n"))
    files[1].unlink()
    run = generate("--check", "--folder", str(tmp_path))
    assert run.returncode == 1
    assert f"{files[0].name}, {files[1].name}" in run.stdout
    assert generate("--folder", str(tmp_path)).returncode == 0
    assert [file.read_bytes() for file in files] == before


@pytest.mark.parametrize(("task", "split"), EVERY_SPLIT)
def test_the_package_reads_the_rows_of_the_generator(task: str, split: str) -> None:
    assert list(shipped.demo_rows(task, split)) == rows_of(task, split)
    assert (shipped.TASKS, shipped.SPLITS) == (TASKS, SPLITS)


def test_the_vocabulary_is_every_training_word_by_frequency() -> None:
    words = shipped.demo_vocabulary()
    assert words[:4] == ["a", ".", "the", "?"]
    assert len(set(words)) == len(words)
    assert set(words) >= {word for task in TASKS for word in re.findall(r"\w+", all_text(task, "train"))}


# --- no repeats


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_text_occurs_twice_in_any_split(task: str, seed: int) -> None:
    rows = [row for split in SPLITS for row in rows_of(task, split, seed)]
    counted = Counter(tuple(sorted(text.lower() for text in texts(task, row))) for row in rows)
    assert [key for key, count in counted.items() if count > 1] == []
    assert all(len(set(key)) == len(key) for key in counted)  # nor a sentence paired with itself


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("pool", ["train", "held"])
def test_the_rules_never_give_one_text_two_labels(task: str, pool: str) -> None:
    """Asked of the generators themselves, since demo_rows would hide a conflict by keeping the first."""
    rng = random.Random(7)
    labels: dict[tuple[str, ...], set[str]] = {}
    for _ in range(8000):
        sentences, label = GENERATORS[task](rng, pool)
        if len(set(sentences)) == len(sentences):
            labels.setdefault(tuple(sorted(sentences)), set()).add(label)
    assert {key: found for key, found in labels.items() if len(found) > 1} == {}


# --- dev and test need what train does not show


@pytest.mark.parametrize("task", TASKS)
def test_words_that_carry_the_label_in_dev_are_absent_from_train(task: str) -> None:
    train, held = all_text(task, "train"), all_text(task, "dev", "test")
    assert sorted(word for word in label_words(task, "held") if holds(train, word)) == []
    assert sorted(word for word in label_words(task, "train") if holds(held, word)) == []
    for pool, text in (("train", train), ("held", held)):  # and these are the words in use
        used = [holds(text, word) for word in label_words(task, pool)]
        assert sum(used) > 0.95 * len(used)


@pytest.mark.parametrize("task", TASKS)
def test_most_words_of_dev_are_unseen_in_train(task: str) -> None:
    train, dev = (set(all_text(task, split).split()) for split in ("train", "dev"))
    assert len(dev - train) > 0.75 * len(dev)


def test_well_known_opinion_words_are_on_one_side_only() -> None:
    train, held = all_text("sentiment", "train"), all_text("sentiment", "dev", "test")
    for word in ("terrible", "bad", "good", "excellent", "delicious"):
        assert holds(train, word)
        assert not holds(held, word)
    for word in ("dreadful", "flawed", "satisfying", "magnificent", "riveting"):
        assert holds(held, word)
        assert not holds(train, word)


# --- sentiment follows its rule


IT = r"The \w+(?: \w+)?"  # one thing, of one or two words
NOT = "(?:was not|was hardly|was never|was not really)"
HELD_NOT = "(?:wasn't|was not|was scarcely|was by no means)"


@pytest.mark.parametrize(
    ("split", "pattern", "label"),
    [
        ("train", rf"{IT} was (good|nice|pleasant|decent)\.", "3"),
        ("train", rf"{IT} was (excellent|superb|wonderful|a triumph|a delight)\.", "4"),
        ("train", rf"{IT} was (very|really|extremely) (good|nice|pleasant|decent|enjoyable|solid)\.", "4"),
        ("train", rf"{IT} was (very|really|extremely|incredibly) (bad|weak|poor|dull|noisy|bland)\.", "0"),
        ("train", rf"{IT} was (a bit|slightly|rather) (bad|weak|poor|dull|noisy|bland|boring)\.", "1"),
        ("train", rf"{IT} was (never less than|nothing short of) (gripping|superb|excellent|amazing)\.", "4"),
        ("train", rf"{IT} {NOT} (good|nice|excellent|superb|a triumph|a delight)\.", "1"),
        ("train", rf"{IT} {NOT} (bad|weak|poor|annoying|unpleasant|disappointing)\.", "3"),
        ("train", rf"{IT} {NOT} (awful|terrible|horrible|a disaster|a nightmare)\.", "2"),
        ("train", rf"{IT} was .* but (saved|lifted) by .*", "3"),
        ("train", rf"{IT} was .* but (spoiled|let down) by .*", "1"),
        ("train", r".*, (but|yet) I (loved it|liked it|was thrilled)\.", "3"),
        ("train", r"I (loved it|liked it|was thrilled), although .*", "3"),
        ("train", r"Although .*, I (hated it|expected more|want my money back|was furious)\.", "1"),
        ("train", r".*\b(neither .* nor|partly .* and partly|evens out|cannot decide)\b.*", "2"),
        ("dev", rf"{IT} {HELD_NOT} (satisfying|fine|sublime|fantastic|a joy|a marvel)\.", "1"),
        ("dev", rf"{IT} {HELD_NOT} (ghastly|dreadful|horrendous|a fiasco|a shambles|a travesty)\.", "2"),
        ("dev", r"The .* (only to be redeemed|until rescued) by .*", "3"),
        ("dev", r"The .* (only to be ruined|until undermined) by .*", "1"),
        ("dev", r"(Even though .*,|True, .*, but|.*; still,) we (adored it|were over the moon)\.", "3"),
        ("dev", r".*(on balance, a draw|which leaves us undecided|in equal measure)\.", "2"),
    ],
)
def test_sentiment_follows_negation_degree_and_contrast(split: str, pattern: str, label: str) -> None:
    rows = rows_of("sentiment", split) + (rows_of("sentiment", "test") if split == "dev" else [])
    matching = [row for row in rows if re.fullmatch(pattern, row["sentence"])]
    assert matching, "the construction is missing from the corpus"
    assert [row for row in matching if row["sentiment"] != label] == []


def test_reviews_are_of_many_things() -> None:
    text = all_text("sentiment", "train")
    assert all(holds(text, thing) for thing in ("film", "novel", "lunch", "hotel", "phone", "clinic"))


# --- paraphrase and similarity follow theirs


def first_wordings(groups: list[tuple[str, ...]]) -> Callable[[str], str]:
    """What replaces every wording in a text by the first of its group."""
    first = {wording.lower(): group[0].lower() for group in groups for wording in group}
    longest = sorted(first, key=len, reverse=True)
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, longest)) + r")\b")

    def replace(text: str) -> str:
        return re.sub(r"\ban\b", "a", pattern.sub(lambda found: first[found[0]], text.lower()))

    return replace


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_synonyms_keep_a_question_and_other_changes_do_not(split: str) -> None:
    fillers = demo_corpus.FILLERS["train" if split == "train" else "held"]
    with_first_wordings = first_wordings([group for kind in fillers.values() for group in kind])
    equal = swapped = changed = reworded = 0
    for row in rows_of("paraphrase", split):
        one, two = (with_first_wordings(row[side]) for side in ("sentence1", "sentence2"))
        if one == two:
            equal += 1
            assert row["is_duplicate"] == "1", row
        elif sorted(tokens(one)) == sorted(tokens(two)):
            swapped += 1
            assert row["is_duplicate"] == "0", row
        elif len(set(tokens(one)) ^ set(tokens(two))) <= 2:
            changed += row["is_duplicate"] == "0"
        else:
            reworded += row["is_duplicate"] == "1"
    # every kind is there: synonym-only pairs, swapped roles, one word changed, and duplicates in other words
    assert min(equal, swapped, changed, reworded) >= 0.005 * SIZES[split]


def overlap(one: str, two: str) -> float:
    first, second = set(tokens(one)), set(tokens(two))
    return len(first & second) / len(first | second)


@pytest.mark.parametrize("split", SPLITS)
def test_shared_words_do_not_tell_duplicates(split: str) -> None:
    shared: dict[str, list[float]] = {"0": [], "1": []}
    for row in rows_of("paraphrase", split):
        shared[row["is_duplicate"]].append(overlap(row["sentence1"], row["sentence2"]))
    # hard negatives have half of all words in common, that is, two thirds of the words of each question
    assert sum(share >= 0.5 for share in shared["0"]) > 0.2 * len(shared["0"])
    assert sum(share < 0.4 for share in shared["1"]) > 0.3 * len(shared["1"])  # duplicates in other words


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_duplicates_ask_one_question_and_easy_negatives_come_from_elsewhere(split: str) -> None:
    families = demo_corpus.QUESTIONS["train" if split == "train" else "held"]
    patterns: list[tuple[int, str, re.Pattern[str]]] = []
    for number, family in enumerate(families):
        for line in family:
            wordings = (re.escape(wording.strip()) for wording in re.sub(r"\ban\b", "a", line).split("|"))
            pattern = "|".join(re.sub(r"\\{\w+\\}", ".+", wording) for wording in wordings)
            patterns.append((number, line, re.compile(pattern)))

    def asked(text: str) -> tuple[int, str]:
        """The family and the line whose wording a question has."""
        question = re.sub(r"\ban\b", "a", text)
        for number, line, pattern in patterns:
            if pattern.fullmatch(question):
                return number, line
        raise AssertionError(f"no wording fits {text!r}")

    pairs = [(row, asked(row["sentence1"]), asked(row["sentence2"])) for row in rows_of("paraphrase", split)]
    assert [row for row, one, two in pairs if row["is_duplicate"] == "1" and one != two] == []
    negatives = [(one, two) for row, one, two in pairs if row["is_duplicate"] == "0"]
    elsewhere = sum(one[0] != two[0] for one, two in negatives)
    neighbours = sum(one[0] == two[0] and one != two for one, two in negatives)
    assert elsewhere > 0.2 * len(negatives)
    assert neighbours > 0.05 * len(negatives)


def test_every_wording_of_a_question_speaks_of_the_same_slots() -> None:
    for family in (family for pool in demo_corpus.QUESTIONS.values() for family in pool):
        wordings = [wording for question in family for wording in question.split("|")]
        assert all(len(question.split("|")) > 1 for question in family)
        assert len({tuple(sorted(re.findall(r"{\w+}", wording))) for wording in wordings}) == 1, family


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_similarity_agrees_with_what_is_common(split: str) -> None:
    pool = "train" if split == "train" else "held"
    topics = [[demo_corpus.groups(line) for line in topic] for topic in demo_corpus.SCENES[pool]]
    groups = [group for topic in topics for line in topic for group in line]
    groups += [group for details in demo_corpus.DETAILS[pool].values() for group in details]
    known = [{group[0].lower() for line in topic for group in line} for topic in topics]

    with_first_wordings = first_wordings(groups)
    phrases = {group[0].lower(): f" {re.sub('^an ', 'a ', group[0].lower())} " for group in groups}

    def parts(sentence: str) -> set[str]:
        said = f" {with_first_wordings(sentence.strip('.').replace(',', ''))} "
        return {name for name, phrase in phrases.items() if phrase in said}

    seen = Counter[str]()
    for row in rows_of("similarity", split):
        one, two = parts(row["sentence1"]), parts(row["sentence2"])
        topic_one, topic_two = (next(t for t in known if len(t & side) == 3) for side in (one, two))
        score, core = float(row["similarity"]), len(topic_one & one & two)
        if topic_one is not topic_two:
            kind, expected = "unrelated", score < 0.5
        elif one == two:
            kind, expected = "same", score == 5.0
        else:
            kind = f"{core} of 3 common"
            low, high = ((0.6, 1.0), (1.2, 2.0), (2.2, 3.2), (4.0, 4.8))[core]
            expected = low <= score <= high
        seen[kind] += 1
        assert expected, (kind, row)
    assert set(seen) == {"same", "unrelated", *(f"{core} of 3 common" for core in range(4))}


# --- mistakes


def test_an_unknown_task_or_split_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(ValueError, match=r"'ner'.*sentiment, paraphrase, similarity"):
        demo_rows("ner", "train")
    with pytest.raises(ValueError, match=r"'validation'.*train, dev, test"):
        demo_rows("sentiment", "validation")
