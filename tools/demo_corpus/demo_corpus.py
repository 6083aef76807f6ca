"""A small generated corpus for three tasks: a demonstration, not a benchmark.

It lets the trainer be tried offline, in minutes, without downloading or licensing anything: every sentence
is composed here from the tables of ``demo_words``, and every label follows from a rule stated in the code (in
``_predicate``, ``_sentiment``, ``_paraphrase`` and ``_score``). Results on it say whether training works,
and nothing about how good a model is on real text.

Train draws from the ``train`` tables; dev and test draw from the ``held`` tables, whose label-carrying words
and sentence patterns do not occur in train. So a model that only memorises training words does poorly on
dev, while a pretrained encoder can carry over what it learned to words that it knows but did not see here.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping

from demo_words import (
    DETAILS,
    DOMAINS,
    FILLERS,
    FORMS,
    OPINIONS,
    QUESTIONS,
    REMARKS,
    SCENES,
    STATEMENTS,
    VERDICTS,
    Synonyms,
    groups,
    listed,
)

TASKS: tuple[str, ...] = ("sentiment", "paraphrase", "similarity")
SPLITS: tuple[str, ...] = ("train", "dev", "test")
SIZES: dict[str, int] = {"train": 1600, "dev": 400, "test": 200}
COLUMNS: dict[str, tuple[str, ...]] = {
    "sentiment": ("id", "sentence", "sentiment"),
    "paraphrase": ("id", "sentence1", "sentence2", "is_duplicate"),
    "similarity": ("id", "sentence1", "sentence2", "similarity"),
}
# The share of each label in every split. Similarity is binned by its whole part, so bin "5" holds only 5.0.
SHARES: dict[str, dict[str, float]] = {
    "sentiment": {"0": 0.18, "1": 0.22, "2": 0.18, "3": 0.22, "4": 0.20},
    "paraphrase": {"0": 0.60, "1": 0.40},
    "similarity": {"0": 0.18, "1": 0.16, "2": 0.16, "3": 0.16, "4": 0.16, "5": 0.18},
}

# --- generators: each returns the texts of one row and its label

Row = tuple[tuple[str, ...], str]


def _polish(text: str) -> str:
    """Tidy spaces, choose between a and an, begin with a capital."""
    text = re.sub(r"\s+", " ", text).replace(" ,", ",").strip(" ,")
    text = re.sub(r"\b([Aa]) (?=[aeiouAEIOU])(?!unif|use)", r"\1n ", text)
    return text[0].upper() + text[1:]


def _predicate(rng: random.Random, pool: str, words: Mapping[int, list[str]]) -> tuple[str, int]:
    """What is said of one thing, and its value from -2 to 2.

    The rule: a mild word counts 1 and a strong one 2; an intensifier makes a mild word strong, a softener
    leaves it mild; negation flips and dampens: denied praise is mild blame, denied mild blame ("not bad") is
    mild praise, and denied strong blame ("not awful") is only neutral.
    """
    forms = FORMS[pool]
    sign, strength = rng.choice((-1, 1)), rng.choice((1, 2))
    word = rng.choice(words[sign * strength])
    shape = rng.choice(("plain", "plain", "degree", "degree", "emphatic", "not"))
    if rng.random() < 0.2:
        strength, word = 2, "a " + rng.choice(VERDICTS[pool][2 * sign])
        shape = rng.choice(("plain", "not"))
    if shape == "not":
        return f"{rng.choice(forms['not'])} {word}", -1 if sign > 0 else 2 - strength
    if shape == "emphatic" and strength == 2:
        return f"{rng.choice(forms['emphatic'])} {word}", 2 * sign
    if shape == "emphatic" and len(word) > 6:  # short adjectives do not go with "more"
        return f"{rng.choice(forms['most'])} {word}", 2 * sign
    degree = ""
    if shape == "degree" and strength == 2:
        degree = rng.choice(forms["utterly"])
    elif shape == "degree" and rng.random() < 0.5:
        degree, strength = rng.choice(forms["very"]), 2
    elif shape == "degree":
        degree = rng.choice(forms["fairly" if sign > 0 else "a bit"])
    return f"{rng.choice(forms['be'])} {degree} {word}", strength * sign


def _sentiment(rng: random.Random, pool: str) -> Row:
    """One review sentence.

    The rule where two opinions meet: of the same sign, the stronger one counts; of opposite signs, the main
    clause (after "but", beside "although") wins but is dampened to mild, and a declared tie is neutral.
    """
    forms, opinions = FORMS[pool], OPINIONS[pool]
    things, own = ([listed(part) for part in listed(line, "|")] for line in rng.choice(DOMAINS[pool]))
    words = {polarity: opinions[polarity] + own[i] for i, polarity in enumerate((-2, -1, 1, 2))}
    whole, part = rng.choice(things[0]), rng.choice(things[1])
    shape = rng.choice(("one", "one", "one", "one", "two", "two", "two", "saved", "flat"))
    if shape == "saved":
        value = rng.choice((-1, 1))
        pattern = f"the {whole} " + rng.choice(forms["saved" if value > 0 else "spoiled"])
        text = pattern.format(a=rng.choice(words[-value]), b=f"{rng.choice(words[2 * value])} {part}")
        return (_polish(text) + ".",), str(value + 2)
    if shape == "flat":
        good, bad = rng.choice(((opinions[1], opinions[-1]), (own[2], own[1])))  # both general or both own
        slots = {"it": whole, "flat": rng.choice(opinions[0]), "a": rng.choice(good), "b": rng.choice(bad)}
        return (_polish(rng.choice(forms["flat"]).format(**slots)) + ".",), "2"

    said, value = _predicate(rng, pool, words)
    first = f"the {whole} {said}"
    said, other = _predicate(rng, pool, words)
    second = f"the {part} {said}"
    if rng.random() < 0.4:
        other = rng.choice((-2, -1, 1, 2))
        second = rng.choice(REMARKS[pool][other])
    if shape == "one" or value * other == 0:
        text = rng.choice(forms["open"]) + first
    elif value * other > 0:
        text = rng.choice(forms["and"]).format(a=first, b=second)
        value = max(value, other, key=abs)
    elif rng.random() < 0.2:
        text = rng.choice(forms["tie"]).format(a=first, b=second)
        value = 0
    else:
        text = rng.choice(forms["but"]).format(a=first, b=second)
        value = 1 if other > 0 else -1
    return (_polish(text) + ".",), str(value + 2)


def _fill(rng: random.Random, pattern: str, meanings: Mapping[str, Synonyms]) -> str:
    """Give every slot of a pattern any of the wordings of its meaning."""
    words = {slot: rng.choice(wordings) for slot, wordings in meanings.items()}
    was = "were" if words.get("what", "").endswith("s") else "was"
    return _polish(pattern.format(was=was, **words))


def _slots(question: str) -> list[str]:
    return sorted(set(re.findall(r"{(\w+)}", question)))


def _paraphrase(rng: random.Random, pool: str) -> Row:
    """Two questions.

    The rule: they are duplicates if they are wordings of one line of QUESTIONS with the same meanings in its
    slots. A hard negative is such a pair with one change: two roles swapped, one slot given another meaning,
    or another question asked about the same things (other tense, negation, comparison, ...). As positives
    and hard negatives vary their wording alike, the share of common words hardly tells the label.
    """
    family, unrelated = rng.sample(QUESTIONS[pool], 2)
    question = rng.choice(family)
    meanings: dict[str, Synonyms] = {}
    spare: dict[str, Synonyms] = {}
    for kind, choices in FILLERS[pool].items():
        one, two, three = rng.sample(choices, 3)
        meanings |= {kind: one, f"{kind}1": one, f"{kind}2": two}
        spare |= {kind: three, f"{kind}1": three, f"{kind}2": three}
    wordings = listed(question, "|")
    first = second = rng.choice(wordings)
    if rng.random() < 0.55:
        first, second = rng.sample(wordings, 2)

    changed = dict(meanings)
    change = rng.choice(("none", "none", "role", "slot", "slot", "question", "easy", "easy"))
    if change == "role" and "1}" in question:
        for slot in [slot for slot in meanings if slot.endswith("1")]:
            changed[slot], changed[slot[:-1] + "2"] = meanings[slot[:-1] + "2"], meanings[slot]
    elif change in ("role", "slot"):
        slot = rng.choice(_slots(question))
        changed[slot] = spare[slot]
    elif change == "question":
        lines = family if rng.random() < 0.5 else [line for lines in QUESTIONS[pool] for line in lines]
        others = [line for line in lines if line != question and _slots(line) == _slots(question)]
        second = rng.choice(listed(rng.choice(others), "|"))
    elif change == "easy":
        second = rng.choice(listed(rng.choice(unrelated), "|"))
    texts = [_fill(rng, first, meanings), _fill(rng, second, changed)]
    rng.shuffle(texts)
    return tuple(texts), "1" if change == "none" else "0"


def _score(one: Mapping[str, Synonyms], two: Mapping[str, Synonyms], same_topic: bool) -> float:
    """How alike two scenes are, from 0 to 5; details weigh less once something important differs.

    The rule: 5 same meaning; 4.0 to 4.8 an unimportant detail (when, how) is missing or differs; about 3 who,
    what or the deed differs (the deed weighs most); about 2 two of these differ; about 1 only the topic is
    common; 0 another topic.
    """
    weights = {"who": 1.8, "what": 2.0, "did": 2.4}
    differing = [weight for role, weight in weights.items() if one[role] != two[role]]
    if not same_topic:
        return 0.4 if one["when"] == two["when"] != ("",) else 0.0
    cost = (0.0, max(differing, default=0), max(differing, default=0) + 1, 4.0)[len(differing)]
    for role, missing, other in (("when", 0.4, 0.6), ("how", 0.2, 0.4)):
        if one[role] != two[role]:
            detail = missing if ("",) in (one[role], two[role]) else other
            cost += 0.2 if differing else detail
    return round(5 - cost, 1)


def _similarity(rng: random.Random, pool: str) -> Row:
    """Two statements; the second differs from the first in some of who, what, the deed, when and how."""
    scene, elsewhere = rng.sample(SCENES[pool], 2)
    differing = rng.choice((0, 0, 0, 1, 1, 2, 2, 3, 4))
    one = {role: rng.choice(groups(line)) for role, line in zip(("who", "did", "what"), scene, strict=True)}
    two = dict(one)
    for role in rng.sample(sorted(one), min(differing, 3)):
        line = (elsewhere if differing == 4 else scene)[("who", "did", "what").index(role)]
        two[role] = rng.choice([group for group in groups(line) if group != one[role]])
    for role, choices in DETAILS[pool].items():
        details = choices + [("",)] * len(choices)
        one[role], two[role] = rng.choice(details), rng.choice(details)
        if rng.random() < 0.5:
            two[role] = one[role]
    texts = tuple(_fill(rng, rng.choice(STATEMENTS[pool]), meanings) + "." for meanings in (one, two))
    return texts, str(_score(one, two, same_topic=differing < 4))


GENERATORS: dict[str, Callable[[random.Random, str], Row]] = {
    "sentiment": _sentiment,
    "paraphrase": _paraphrase,
    "similarity": _similarity,
}


def demo_rows(task: str, split: str, seed: int = 0) -> list[dict[str, str]]:
    """The rows of one split of a task, all values strings as from a csv file; the same for the same seed."""
    if task not in TASKS:
        raise ValueError(f"unknown demo task {task!r}; valid tasks: {', '.join(TASKS)}")
    if split not in SPLITS:
        raise ValueError(f"unknown demo split {split!r}; valid splits: {', '.join(SPLITS)}")
    rng = random.Random(f"{seed}/{task}/{split}")
    pool = "train" if split == "train" else "held"
    # Dev and test draw from the same tables, so test has to avoid what dev holds.
    taken = {_key(row, task) for row in demo_rows(task, "dev", seed)} if split == "test" else set()
    wanted = Counter({label: round(share * SIZES[split]) for label, share in SHARES[task].items()})
    found: list[tuple[str, ...]] = []
    while wanted.total() > 0:
        texts, label = GENERATORS[task](rng, pool)
        bin_, key = label[0], tuple(sorted(texts))
        if wanted[bin_] > 0 and key not in taken and len(set(texts)) == len(texts):
            wanted[bin_] -= 1
            taken.add(key)
            found.append((*texts, label))
    rng.shuffle(found)  # the last ones found all have the labels that are hardest to fill
    return [
        dict(zip(COLUMNS[task], (f"{task}-{split}-{number}", *row), strict=True))
        for number, row in enumerate(found, start=1)
    ]


def _key(row: Mapping[str, str], task: str) -> tuple[str, ...]:
    """What makes a row the same as another: its texts, in whatever order."""
    return tuple(sorted(row[column] for column in COLUMNS[task][1:-1]))
