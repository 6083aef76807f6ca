"""`manyheads check`: each fault with its exact count and place, the command as a user runs it, the real files."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from command import check_refused, manyheads
from manyheads import load_recipe
from manyheads.checks.check import check_data
from manyheads.checks.findings import Finding, format_findings

MOODS = ["bad", "good"]
NO_ENCODER = "no-such-encoder"  # data is checked without one, but for lengths


def rows(start: int, count: int = 8) -> str:
    return "".join(f"{i},the film number {i},{MOODS[i % 2]}\n" for i in range(start, start + count))


def pairs(*lines: str) -> str:
    return "sentence1,sentence2,label\n" + "".join(f"{line}\n" for line in lines)


def write(folder: Path, encoder: Path, train: str, dev: str | None = None, **task: Any) -> dict[str, Any]:
    """A recipe with one task over files of these contents."""
    (folder / "train.csv").write_text(train)
    settings: dict[str, Any] = {"train": "train.csv", **task}
    if dev is not None:
        (folder / "dev.csv").write_text(dev)
        settings["dev"] = "dev.csv"
    return {"encoder": str(encoder), "data": {"root": str(folder)}, "tasks": {"t": settings}}


def check(recipe: dict[str, Any]) -> dict[tuple[str, str], Finding]:
    """What is found, by split and kind; each kind once per split."""
    found = check_data(load_recipe(recipe))
    named = {(one.split, one.kind): one for one in found}
    assert len(named) == len(found)
    return named


def only_notes_on_balance(found: dict[tuple[str, str], Finding]) -> bool:
    return {kind for _, kind in found} == {"balance"} and {one.severity for one in found.values()} == {"note"}


HEADER = "id,text,label\n"


def test_clean_data_has_nothing_but_its_balance(tmp_path: Path, toy_encoder: Path) -> None:
    found = check(write(tmp_path, toy_encoder, HEADER + rows(0), HEADER + rows(100)))
    assert only_notes_on_balance(found)
    assert found["train", "balance"].message == "Labels of train: 'bad' 4 (50%), 'good' 4 (50%)."


@pytest.mark.parametrize(("bad_rows", "severity"), [("error", "error"), ("skip", "warning")])
def test_bad_rows_by_reason(tmp_path: Path, toy_encoder: Path, bad_rows: str, severity: str) -> None:
    dev = HEADER + rows(100) + "1,a,\n2,b,ugly\n3,,good\n4,d\n5,e,\n"
    found = check(write(tmp_path, toy_encoder, HEADER + rows(0), dev, bad_rows=bad_rows))
    expected = {
        "no-label": (2, ("dev.csv:10: no label", "dev.csv:14: no label")),
        "impossible-label": (1, ("dev.csv:11: label 'ugly' is not one of bad, good",)),
        "empty-text": (1, ("dev.csv:12: empty text in column 'text'",)),
        "malformed-row": (1, ("dev.csv:13: 2 cells where the header has 3",)),
    }
    for kind, (count, examples) in expected.items():
        one = found["dev", kind]
        assert (one.count, one.of, one.severity, one.examples) == (count, 13, severity, examples)
    assert found["dev", "no-label"].message == "2 of 13 rows of dev have no label."
    assert found["dev", "empty-text"].message == "1 of 13 rows of dev has an empty text."
    assert found["dev", "balance"].count == 8, "only usable rows count"


def test_a_split_without_usable_rows_is_an_error(tmp_path: Path, toy_encoder: Path) -> None:
    found = check(write(tmp_path, toy_encoder, HEADER + rows(0), HEADER + "1,a,\n", bad_rows="skip"))
    assert found["dev", "no-rows"].severity == "error"


def test_files_that_cannot_be_read_do_not_stop_the_check(tmp_path: Path, toy_encoder: Path) -> None:
    recipe = write(tmp_path, toy_encoder, HEADER + rows(0), 'id,text,label\n1,"open,good\n')
    (tmp_path / "test.csv").write_text("id,words\n1,a\n")
    recipe["tasks"]["t"]["test"] = "test.csv"
    found = check(recipe)
    assert found["dev", "unreadable"].severity == "error"
    assert "dev.csv:2: not valid csv" in found["dev", "unreadable"].message
    assert "no column 'text'" in found["test", "unreadable"].message
    assert ("train", "balance") in found


def test_labels_that_make_no_sense_are_one_error(tmp_path: Path, toy_encoder: Path) -> None:
    found = check(write(tmp_path, toy_encoder, HEADER + "1,a,0.5\n2,b,good\n3,c,\n"))
    assert found["train", "labels"].severity == "error"
    assert found["train", "no-label"].examples == ("train.csv:4: no label",)


def test_duplicates_and_conflicts_of_single_texts(tmp_path: Path, toy_encoder: Path) -> None:
    extra = "90, same text ,good\n91,same text,good\n92,same text,bad\n93,Same text,bad\n"
    found = check(write(tmp_path, toy_encoder, HEADER + rows(0) + extra))
    one = found["train", "duplicates"]
    assert (one.count, one.of) == (2, 12), "all but the first; case matters, surrounding spaces do not"
    assert one.examples == (
        "train.csv:10 and train.csv:11: «same text»",
        "train.csv:10 and train.csv:12: «same text»",
    )
    one = found["train", "conflicts"]
    assert (one.count, one.of, one.severity) == (1, 1, "warning")
    assert one.examples == ("train.csv:10 (good) and train.csv:12 (bad): «same text»",)
    assert found["train", "surrounding-spaces"].examples == ("train.csv:10: « same text »",)
    assert ("train", "duplicates-swapped") not in found


def test_pairs_are_also_compared_swapped(tmp_path: Path, toy_encoder: Path) -> None:
    train = pairs("a,b,0", "a,b,0", "b,a,1", "c,d,1", "c,d,0", "e,e,1", "e,e,1", "f,g,0", "h,i,1")
    dev = pairs("g,f,0", "h,i,0", "a,z,1", "y,x,1")
    found = check(write(tmp_path, toy_encoder, train, dev))
    expected = {
        ("train", "duplicates"): (3, 9, "warning"),
        ("train", "duplicates-swapped"): (1, 9, "note"),
        ("train", "conflicts"): (1, 3, "warning"),
        ("train", "conflicts-swapped"): (1, 3, "note"),
        ("train/dev", "overlap"): (1, 9, "warning"),
        ("train/dev", "overlap-conflicts"): (1, 9, "warning"),
        ("train/dev", "overlap-swapped"): (1, 9, "note"),
        ("train/dev", "shared-sentences"): (5, 8, "note"),
    }
    for key, numbers in expected.items():
        assert (found[key].count, found[key].of, found[key].severity) == numbers, key
    assert found["train", "conflicts-swapped"].examples == ("train.csv:2 (0) and train.csv:4 (1): «a» «b»",)
    assert found["train/dev", "overlap"].examples == ("train.csv:10 and dev.csv:3: «h» «i»",)
    assert found["train/dev", "overlap-swapped"].examples == ("train.csv:9 and dev.csv:2: «f» «g»",)


def test_test_rows_are_compared_with_train_and_its_labels_are_not_read(tmp_path: Path, toy_encoder: Path) -> None:
    recipe = write(tmp_path, toy_encoder, HEADER + rows(0))
    (tmp_path / "test.csv").write_text("id,text,label\n1,the film number 3,nonsense\n")
    recipe["tasks"]["t"]["test"] = "test.csv"
    found = check(recipe)
    assert found["train/test", "overlap"].examples == ("train.csv:5 and test.csv:2: «the film number 3»",)
    assert not [kind for split, kind in found if split == "test"]


def test_texts_that_another_task_trains_on(tmp_path: Path, toy_encoder: Path) -> None:
    recipe = write(tmp_path, toy_encoder, HEADER + rows(0), HEADER + rows(100))
    (tmp_path / "pairs.csv").write_text(pairs("x,the film number 101,0", "the film number 103,y,1", "p,q,1"))
    recipe["tasks"]["other"] = {"train": "pairs.csv"}
    found = [one for one in check_data(load_recipe(recipe)) if one.kind == "other-task"]
    assert [(one.task, one.split, one.severity, one.count, one.of) for one in found] == [("t", "dev", "note", 2, 8)]
    assert found[0].message == "2 of 8 different sentences of dev are in train of task 'other'."
    assert found[0].examples[0] == "dev.csv:3 and pairs.csv:2: «the film number 101»"


def test_tasks_that_read_the_same_rows_are_not_compared(tmp_path: Path, toy_encoder: Path) -> None:
    recipe = write(tmp_path, toy_encoder, "text,a,b\nx,1,0\ny,0,1\nz,1,1\n", "text,a,b\nx,1,0\nw,0,1\n", label="a")
    recipe["tasks"]["other"] = {**recipe["tasks"]["t"], "label": "b"}
    kinds = [(one.task, one.kind) for one in check_data(load_recipe(recipe))]
    assert ("t", "overlap") in kinds
    assert not [kind for _, kind in kinds if kind == "other-task"], "that its own train has them is said"


def test_odd_characters(tmp_path: Path, toy_encoder: Path) -> None:
    extra = '90,"a """"b"""" c",good\n91,one "quoted" word,bad\n92,caf\ufffd,good\n93,bell\x07 rings,bad\n'
    found = check(write(tmp_path, toy_encoder, HEADER + rows(0) + extra))
    assert found["train", "doubled-quotes"].examples == ('train.csv:10: «a ""b"" c»',)
    assert found["train", "replacement-character"].examples == ("train.csv:12: «caf\ufffd»",)
    assert found["train", "control-character"].examples == (r"train.csv:13: «bell\x07 rings»",), "safe to print"


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("id,text,label", "one column fewer"),
        (",id,text,label", None),
        ('"",id,text,label', None),
        ("\ufeff,id,text,label", None),
        ("0,,text,label", "shifted: '0' stands before"),
    ],
)
def test_headers(tmp_path: Path, toy_encoder: Path, header: str, words: str | None) -> None:
    lines = "".join(f"{i},{line}\n" for i, line in enumerate(rows(0).splitlines()))
    found = check(write(tmp_path, toy_encoder, f"{header}\n{lines}"))
    assert (("train", "header") in found) == (words is not None)
    if words:
        assert words in found["train", "header"].message


def test_truncation_counts_what_the_encoding_makes(tmp_path: Path, toy_encoder: Path) -> None:
    long = " ".join(["good"] * 40)
    train = pairs("a,b,0", f"{long},{long},1", "c,d,1", f"{long} film,a,0")
    recipe = write(tmp_path, toy_encoder, train)
    one = check(recipe)["train", "truncation"]
    assert (one.count, one.of) == (1, 4)
    assert one.message == "1 of 4 inputs of train is longer than 64 tokens and will be cut."
    assert one.examples[0].startswith("train.csv:3: «good good")
    recipe["tasks"]["t"]["encoding"] = "bi-concat"
    assert ("train", "truncation") not in check(recipe)
    recipe["encoder"] = {"name": str(toy_encoder), "max_length": 42}
    assert check(recipe)["train", "truncation"].examples[0].startswith("train.csv:5:")


def test_without_an_encoder_the_rest_is_checked(tmp_path: Path) -> None:
    found = check(write(tmp_path, Path("no-such-encoder"), HEADER + rows(0)))
    one = found["train", "truncation"]
    assert one.severity == "note"
    assert one.message.startswith("Truncation was not checked: encoder 'no-such-encoder'")


def labelled(prefix: str, counts: dict[str, int]) -> str:
    """A file with so many rows of each class."""
    lines = [f"{prefix} {name} {i},{name}\n" for name, count in counts.items() for i in range(count)]
    return "text,label\n" + "".join(lines)


def test_classes_that_are_several_are_found(tmp_path: Path, toy_encoder: Path) -> None:
    train = labelled("train", {"joy": 3, "love": 3, "joy|love": 3, "this; that": 3})
    finding = check(write(tmp_path, toy_encoder, train))["train", "joined-classes"]
    assert finding.message == (
        "1 of 4 classes of train is others with '|' between them: where a row may have several classes, "
        "set `kind: multi-label`."
    )
    assert finding.examples == ("'joy|love'",)
    several = check(write(tmp_path, toy_encoder, train, kind="multi-label", separator="|"))
    assert ("train", "joined-classes") not in several


def test_a_column_of_texts_is_no_label(tmp_path: Path, toy_encoder: Path) -> None:
    found = check(write(tmp_path, toy_encoder, labelled("train", {f"question {number}": 1 for number in range(40)})))
    assert found["train", "single-rows"].severity == "warning"
    assert "40 of 40 classes" in found["train", "single-rows"].message
    few = check(
        write(tmp_path, toy_encoder, labelled("train", {f"class {number}": 3 for number in range(40)} | {"a": 1}))
    )
    assert ("train", "single-rows") not in few


def test_tasks_that_share_rows_share_what_was_found_of_them() -> None:
    """Paths are shown from the data's folder on; examples of notes only where they are asked for."""
    findings: list[Finding] = []
    for task in ("coarse", "fine"):
        findings.append(Finding(task, "train", "repeated", "warning", 2, 9, "2 repeat.", ("/data/a.csv:3: «x»",)))
        findings.append(Finding(task, "train", "balance", "note", 9, 9, f"Labels of {task}.", ("'a' 9",)))
    lines = format_findings(findings, Path("/data")).splitlines()
    assert lines[:3] == ["coarse, fine", "  warning  2 repeat.", "             a.csv:3: «x»"]
    assert "'a' 9" not in "\n".join(lines)
    assert lines[-1] == "0 errors, 2 warnings, 2 notes"
    assert format_findings(findings, notes=True).count("'a' 9") == 2


def test_class_balance(tmp_path: Path, toy_encoder: Path) -> None:
    train = labelled("train", {"bad": 14, "good": 185, "rare": 1})
    found = check(write(tmp_path, toy_encoder, train, labelled("dev", {"bad": 7, "good": 1})))
    one = found["train", "balance"]
    assert (one.severity, one.message) == (
        "warning",
        "Labels of train: 'bad' 14 (7%), 'good' 185 (92%), 'rare' 1 (0.5%). "
        "Imbalanced: 'good' has 185 times the rows of 'rare'.",
    )
    assert found["dev", "balance"].severity == "note", "of dev it is said by what it lacks, and how it differs"
    assert found["train/dev", "missing-class"].message == "1 of 3 classes of train has no row in dev: 'rare'."
    one = found["train/dev", "shift"]
    assert one.message == (
        "Classes have other shares in dev than in train: 'bad' has 14 of 200 rows of train (7%), 7 of 8 of dev (88%); "
        "'good' has 185 of 200 rows of train (92%), 1 of 8 of dev (12%)."
    )
    assert one.count == 6, "so many of 8 rows would need another label"


def test_many_classes_are_said_by_their_sizes_and_named_whole(tmp_path: Path, toy_encoder: Path) -> None:
    names = [f"a rather long name of an intent, number {number}" for number in range(20)]
    counts = {name: 1 + 2 * number for number, name in enumerate(names)}
    found = check(write(tmp_path, toy_encoder, f"label\ttext\n{tabbed(counts)}", kind="classification"))
    one = found["train", "balance"]
    assert one.message == (
        f"Labels of train: 20 classes with 1 to 39 of 400 rows. Imbalanced: '{names[19]}' has 39 times the rows of "
        f"'{names[0]}'."
    )
    fewest, most = one.examples
    assert fewest.startswith(f"fewest: '{names[0]}' 1 (0.25%), '{names[1]}' 3 (0.75%), '{names[2]}' 5 (1.2%), ")
    assert most.startswith(f"most: '{names[19]}' 39 (9.8%), '{names[18]}' 37 (9.2%), ")
    equal = check(write(tmp_path, toy_encoder, f"label\ttext\n{tabbed(dict.fromkeys(names, 3))}"))
    assert equal["train", "balance"].message == "Labels of train: 20 classes with 3 rows each."
    assert equal["train", "balance"].examples == ()


def tabbed(counts: dict[str, int]) -> str:
    return "".join(f"{name}\ttext {name} {i}\n" for name, count in counts.items() for i in range(count))


def test_missing_classes_are_counted_where_they_are_too_many_to_name(tmp_path: Path, toy_encoder: Path) -> None:
    counts = {f"c{number:02}": 2 for number in range(20)}
    found = check(write(tmp_path, toy_encoder, labelled("train", counts), labelled("dev", {"c00": 2, "c01": 2})))
    message = found["train/dev", "missing-class"].message
    assert message.startswith("18 of 20 classes of train have no row in dev: 'c02', 'c03', ")
    assert message.endswith("'c13' and 6 more.")


def test_classes_that_the_recipe_names_and_train_lacks(tmp_path: Path, toy_encoder: Path) -> None:
    recipe = write(tmp_path, toy_encoder, labelled("train", {"a": 4, "b": 4}), labels=["a", "b", "c"])
    one = check(recipe)["train", "balance"]
    assert (one.severity, one.message) == (
        "warning",
        "Labels of train: 'a' 4 (50%), 'b' 4 (50%), 'c' 0 (0%). Without a row: 'c'.",
    )


def test_shares_that_differ_by_chance_alone_are_no_shift(tmp_path: Path, toy_encoder: Path) -> None:
    """150 rows drawn at random from 30 equal classes: ½ Σ |p − q| is above 0.1, and says nothing."""
    names = [f"c{number:02}" for number in range(30)]
    drawn = random.Random(0).choices(names, k=150)
    train, dev = dict.fromkeys(names, 20), {name: drawn.count(name) for name in names}
    assert sum(abs(dev[name] / 150 - 1 / 30) for name in names) / 2 > 0.1
    found = check(write(tmp_path, toy_encoder, labelled("train", train), labelled("dev", dev)))
    assert ("train/dev", "shift") not in found
    dev = {name: 11 if name < "c10" else 2 for name in names}
    one = check(write(tmp_path, toy_encoder, labelled("train", train), labelled("dev", dev)))["train/dev", "shift"]
    assert "'c00' has 20 of 600 rows of train (3.3%), 11 of 150 of dev (7.3%); 'c01' has" in one.message


def test_regression_balance(tmp_path: Path, toy_encoder: Path) -> None:
    train = HEADER + "".join(f"{i},text {i},{i % 2 + 0.5}\n" for i in range(10))
    dev = HEADER + "".join(f"{i},other {i},{1.4 + 0.2 * (i % 2)}\n" for i in range(4))
    found = check(write(tmp_path, toy_encoder, train, dev))
    assert found["train", "balance"].message == "Labels of train: mean 1, deviation 0.5, 0.5 to 1.5."
    assert found["train/dev", "shift"].message == "Mean label: 1 in train (deviation 0.5), 1.5 in dev."


def test_multi_label_classes_are_counted_apart(tmp_path: Path, toy_encoder: Path) -> None:
    train = HEADER + "1,a,red|blue\n2,b,red\n3,c,blue|red\n4,c,red\n"
    found = check(write(tmp_path, toy_encoder, train, kind="multi-label"))
    assert found["train", "balance"].message == "Labels of train: 'blue' 2 (50%), 'red' 4 (100%)."
    assert found["train", "conflicts"].count == 1


def test_lists_of_classes_are_shown_as_lists(tmp_path: Path, toy_encoder: Path) -> None:
    recipe = write(tmp_path, toy_encoder, "")
    lines = ['{"text": "a", "label": ["red", "blue"]}', '{"text": "a", "label": ["red"]}', '{"text": "b", "label": []}']
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    recipe["tasks"]["t"]["train"] = "train.jsonl"
    found = check(recipe)
    assert found["train", "conflicts"].examples == ("train.jsonl:1 (red, blue) and train.jsonl:2 (red): «a»",)
    assert found["train", "balance"].message == "Labels of train: 'blue' 1 (33%), 'red' 2 (67%)."


# --- files as people have them ---------------------------------------------------------------------------------


def test_how_files_are_read(tmp_path: Path, toy_encoder: Path) -> None:
    """No header, quotes as letters, a text per line: line numbers and texts are those of the file."""
    recipe = write(tmp_path, toy_encoder, 'bad\t"dull\ngood\t fine\ngood\t"dull\n', columns=["label", "text"])
    recipe["tasks"]["t"]["quoting"] = "none"
    (tmp_path / "lines.txt").write_text('a line\n"dull\n')
    recipe["tasks"]["t"]["test"] = {"file": "lines.txt", "columns": "text"}
    found = check(recipe)
    assert found["train", "conflicts"].examples == ('train.csv:1 (bad) and train.csv:3 (good): «"dull»',)
    assert found["train", "surrounding-spaces"].examples == ("train.csv:2: « fine»",)
    assert found["train/test", "overlap"].examples[0] == 'train.csv:1 and lines.txt:2: «"dull»'
    assert not [kind for _, kind in found if kind == "header"]


def test_what_stops_training_is_said_once(tmp_path: Path, toy_encoder: Path) -> None:
    found = check(write(tmp_path, toy_encoder, "good\ta fine film\nbad\ta dull film\ngood\tfine\n"))
    assert list(found) == [("train", "unreadable")]
    assert "a file without a header needs `columns`, perhaps `[label, text]`" in found["train", "unreadable"].message


def test_swallowed_rows(tmp_path: Path, toy_encoder: Path) -> None:
    train = 'label\ttext\ngood\t"open\nbad\tlost\ngood\tclosed"\nbad\tlast\ngood\tfine\n'
    found = check(write(tmp_path, toy_encoder, train, format="tsv"))
    assert found["train", "malformed-row"].examples == (
        "train.csv:2: a quoted cell takes in 3 lines: where quotes are plain letters, set `quoting: none`",
    )


def test_spaces_at_the_end_of_a_long_text_are_shown(tmp_path: Path, toy_encoder: Path) -> None:
    found = check(write(tmp_path, toy_encoder, f"text,label\n{'word ' * 30},good\nb,bad\n"))
    (example,) = found["train", "surrounding-spaces"].examples
    assert example == f"train.csv:2: «…{('word ' * 30)[-59:]}»"


# --- the command -----------------------------------------------------------------------------------------------


def save(folder: Path, recipe: dict[str, Any]) -> Path:
    file = folder / "recipe.yaml"
    file.write_text(json.dumps(recipe))
    return file


@pytest.mark.slow
def test_command_on_clean_data(tmp_path: Path, toy_encoder: Path) -> None:
    file = save(tmp_path, write(tmp_path, toy_encoder, HEADER + rows(0), HEADER + rows(100)))
    result = manyheads("check", file, "--strict")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "no faults found, 2 notes"
    assert "checking t …" in result.stderr
    assert manyheads("check", file, "-q").stderr == ""


@pytest.mark.slow
def test_command_exit_codes_and_json(tmp_path: Path, toy_encoder: Path) -> None:
    train = HEADER + rows(0) + "90,the film number 1,good\n"
    file = save(tmp_path, write(tmp_path, toy_encoder, train, HEADER + rows(100) + "99,x,\n"))
    result = manyheads("check", file)
    assert result.returncode == 1, result.stderr
    assert result.stdout.splitlines()[:3] == [
        "t",
        "  error    1 of 9 rows of dev has no label.",
        "             dev.csv:10: no label",
    ]
    assert result.stdout.splitlines()[-1] == "1 error, 1 warning, 2 notes"
    assert not (tmp_path / "runs").exists()
    skipping = manyheads("check", file, "data.bad_rows=skip")
    assert (skipping.returncode, skipping.stdout.splitlines()[-1]) == (0, "0 errors, 2 warnings, 2 notes")
    assert manyheads("check", file, "data.bad_rows=skip", "--strict").returncode == 1
    as_json = manyheads("check", file, "--json")
    assert as_json.returncode == 1
    assert json.loads(as_json.stdout)[0] == {
        "task": "t",
        "split": "dev",
        "kind": "no-label",
        "severity": "error",
        "count": 1,
        "of": 9,
        "message": "1 of 9 rows of dev has no label.",
        "examples": ["dev.csv:10: no label"],
    }


@pytest.mark.slow
def test_command_names_missing_files(tmp_path: Path, toy_encoder: Path) -> None:
    recipe = write(tmp_path, toy_encoder, HEADER + rows(0))
    recipe["tasks"]["t"]["dev"] = "gone.csv"
    check_refused(manyheads("check", save(tmp_path, recipe)), "no file 'gone.csv'")


# --- the real files: counts only -------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_papers_data(shared_data: Path) -> None:
    # nothing is tokenised; the next test sees lengths, and test_demo_command.py trains on these files
    found = check_data(load_recipe("best", {"data.root": str(shared_data), "encoder": NO_ENCODER}))
    counts = {(one.task, one.split, one.kind): one.count for one in found}
    # all but the first of each group of equal pairs: 43 where the order of the sentences does not count
    assert (counts["sts", "train", "duplicates"], counts["sts", "train", "duplicates-swapped"]) == (30, 13)
    assert (counts["sts", "train", "conflicts"], counts["sts", "train", "conflicts-swapped"]) == (4, 9)
    assert (counts["sts", "train/dev", "overlap"], counts["sts", "train/dev", "overlap-swapped"]) == (13, 4)
    assert (counts["qqp", "dev", "no-label"], counts["qqp", "dev", "empty-text"]) == (1, 1)
    assert counts["qqp", "dev", "doubled-quotes"] == 693
    assert ("qqp", "train/dev", "overlap") not in counts
    assert counts["sst", "train", "surrounding-spaces"] == 8544
    assert [key for key in counts if key[2] == "header"] == [("sst", "test", "header")]
    assert not [one for one in found if one.severity == "error"]


@pytest.mark.slow
def test_more_real_files(shared_data: Path) -> None:
    tasks = {
        "cfimdb": {"train": "ids-cfimdb-train.csv", "dev": "ids-cfimdb-dev.csv"},
        "yelp": {"train": "yelp5-train.csv", "dev": "yelp5-dev.csv", "label": "polarity"},
        "extra": {"train": "quora-train-extra.csv", "dev": "quora-dev.csv"},
    }
    data = {"root": str(shared_data)}
    extra = {"extra": tasks.pop("extra")}
    found = check_data(load_recipe({"data": data, "tasks": tasks}))
    found += check_data(load_recipe({"data": data, "tasks": extra, "encoder": NO_ENCODER}))
    by_key = {(one.task, one.split, one.kind): one for one in found}
    cut = by_key["cfimdb", "train", "truncation"]
    assert cut.message == "1 of 1,707 inputs of train is longer than 512 tokens and will be cut."
    blank = by_key["yelp", "train", "no-label"]
    assert (blank.severity, blank.count, blank.of) == ("error", 516, 5000)
    shift = by_key["extra", "train/dev", "shift"]
    assert shift.message == (
        "Classes have other shares in dev than in train: '0' has 11,213 of 55,893 rows of train (20%), "
        "12,627 of 20,212 of dev (62%)."
    )
