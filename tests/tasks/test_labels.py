"""Labels: one spelling each, what is inferred from train, what is declared, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from manyheads.config.label_text import as_number, normalise
from manyheads.data.labels import BadLabel, LabelReader
from manyheads.tasks.kind import LabelDeclaration
from manyheads.tasks.resolve import infer_reader


def infer(found: list[str], **declared: Any) -> LabelReader:
    kind = declared.pop("kind", None)
    return infer_reader(found, kind, LabelDeclaration(**declared))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 1.0, "1", "1.0", " 1 ", "01", "+1", "1e0"], "1"),
        ([-3, "-3.0"], "-3"),
        ([0, -0.0, "-0"], "0"),
        ([2.5, "2.5", " 2.5"], "2.5"),
        ([None, float("nan"), "", "  "], ""),
        ([True, "True", "true ", "TRUE"], "true"),
        ([False, "False", "false"], "false"),
        (["Yes", " Yes\t"], "Yes"),
        (["1_2"], "1_2"),
        (["inf"], "inf"),
        ([10**20], "1" + "0" * 20),
    ],
)
def test_one_spelling_per_label(values: list[Any], expected: str) -> None:
    assert [normalise(value) for value in values] == [expected] * len(values)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("3", 3.0),
        ("-2.5e1", -25.0),
        ("inf", None),
        ("nan", None),
        ("1_2", None),
        ("1,5", None),
        ("x", None),
        ("", None),
    ],
)
def test_only_finite_numbers_are_numbers(word: str, expected: float | None) -> None:
    assert as_number(word) == expected


# --- what train's labels say -----------------------------------------------------------------------------------


def test_words_are_classes_in_alphabetical_order() -> None:
    reader = infer(["neutral", "good", "", "bad", "good"])
    assert (reader.kind, reader.names) == ("classification", ("bad", "good", "neutral"))
    assert [reader.read(label) for label in ("good", "bad", "neutral")] == [1, 0, 2]


def test_whole_numbers_are_classes_in_numerical_order() -> None:
    reader = infer(["10", "9", "-1", "0"])
    assert (reader.kind, reader.names) == ("classification", ("-1", "0", "9", "10"))
    assert reader.read("10") == 3


def test_numbers_and_words_together_are_classes() -> None:
    assert infer(["2", "10", "other"]).names == ("10", "2", "other")


def test_one_fraction_makes_a_regression() -> None:
    reader = infer(["3", "2.5", "", "5"])
    assert (reader.kind, reader.names, reader.range) == ("regression", (), None)
    assert [reader.read(label) for label in ("3", "2.5", "-1e3")] == [3.0, 2.5, -1000.0]


def test_a_word_among_fractions_must_be_declared() -> None:
    """Else one '?' would turn a column of scores into hundreds of classes."""
    with pytest.raises(ValueError, match=r"label '2\.5' looks like a regression, but '\?' is not a number; set"):
        infer(["1", "2.5", "?"])
    assert infer(["2.5", "?"], kind="classification").names == ("2.5", "?")
    assert infer(["2.5", "?"], kind="regression").kind == "regression"


def test_whole_numbers_are_a_regression_if_declared_or_given_a_range() -> None:
    assert infer(["1", "2"], kind="regression").kind == "regression"
    assert infer(["1", "2"], range=(0, 5)) == LabelReader("regression", range=(0, 5))


def test_fractions_are_classes_if_declared() -> None:
    assert infer(["0.5", "0.25", "3"], kind="classification").names == ("0.25", "0.5", "3")


# --- what is declared ------------------------------------------------------------------------------------------


def test_a_list_gives_the_order_of_classes() -> None:
    reader = infer(["no"], labels=["yes", "no", "never seen"])
    assert reader.names == ("yes", "no", "never seen")
    assert [reader.read(label) for label in reader.names] == [0, 1, 2]


def test_a_map_renames_and_may_join_classes() -> None:
    reader = infer([], labels={"1": "bad", "2": "bad", "3": "so-so", "5": "good", "4": "good"})
    assert reader.names == ("bad", "so-so", "good")
    assert [reader.read(label) for label in "12345"] == [0, 0, 1, 2, 2]
    with pytest.raises(BadLabel, match=r"^label 'bad' is not one of 1, 2, 3, 5, 4$"):
        reader.read("bad")  # the file's values count, not the names given to them


@pytest.mark.parametrize(
    ("found", "declared", "expected"),
    [
        (["1", "1", ""], {}, r"needs at least two classes, found \['1'\]"),
        ([], {}, r"needs at least two classes, found \[\]"),
        (["1", "2"], {"labels": {"1": "a", "2": "a"}}, r"needs at least two classes, found \['a'\]"),
        (
            [str(i) for i in range(1001)],
            {},
            r"1001 different labels are too many for classes; is this the label column",
        ),
        (
            ["1", "2"],
            {"labels": ["1", "2"], "kind": "regression"},
            "'labels' names classes, but this task is a regress",
        ),
        (["1", "2"], {"labels": ["1", "2"], "range": (0, 5)}, "'labels' names classes, but this task is a regression"),
        (["1", "2"], {"kind": "classification", "range": (0, 5)}, "'range' belongs to regression"),
    ],
)
def test_what_cannot_be_a_task_is_refused(found: list[str], declared: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        infer(found, **declared)


# --- labels that cannot be used --------------------------------------------------------------------------------


def test_bad_labels_say_why() -> None:
    classes, numbers = infer([], labels=["0", "1"]), infer([], range=(-1, 5.5))
    for reader in (classes, numbers):
        with pytest.raises(BadLabel, match=r"^no label$"):
            reader.read("")
    with pytest.raises(BadLabel, match=r"^label '2' is not one of 0, 1$"):
        classes.read("2")
    with pytest.raises(BadLabel, match=r"^label 'three' is not a number$"):
        numbers.read("three")
    for outside in ("-1.01", "5.51"):
        with pytest.raises(BadLabel, match=f"^label {outside} is outside the range -1 to 5.5$"):
            numbers.read(outside)
    assert [numbers.read("-1"), numbers.read("5.5")] == [-1.0, 5.5]


def test_a_label_that_joins_classes_advises_multi_label() -> None:
    reader = infer(["joy", "love", "joy|love", "grief"])
    with pytest.raises(
        BadLabel, match=r"^label 'joy\|grief' is several classes with '\|' between them; .*multi-label`$"
    ):
        reader.read("joy|grief")
    with pytest.raises(BadLabel, match=r"^label 'joy\|anger' is not one of"):
        reader.read("joy|anger")


def test_a_long_list_of_classes_is_shortened() -> None:
    with pytest.raises(BadLabel, match=r"is not one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, …$"):
        infer([str(i) for i in range(20)]).read("x")
