"""Paths that are cut, and Markdown that shows what it was given."""

from __future__ import annotations

import pytest

from manyheads import UserError
from manyheads.publishing.markdown import code, plain, prose, table
from manyheads.publishing.portable import refuse_folders, without_paths


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/home/me/runs/reviews", "reviews"),
        ("/home/me/runs/reviews/", "reviews"),
        ("~/models/bert", "bert"),
        ("C:\\Users\\me\\data\\train.csv", "train.csv"),
        ("mean of /a/b/one and /a/b/two, step 3", "mean of one and two, step 3"),
        ("/mnt/x/train.csv:7: the header is short", "train.csv:7: the header is short"),
        ("https://huggingface.co/me/model", "https://huggingface.co/me/model"),
        ("sentence-transformers/all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"),
        ("and/or", "and/or"),
        ("3 / 4 of all", "3 / 4 of all"),
        ("{task}-{split}.csv", "{task}-{split}.csv"),
        ("/", "/"),
    ],
)
def test_absolute_paths_are_cut_to_their_last_step(text: str, expected: str) -> None:
    assert without_paths(text) == expected
    assert without_paths({"/keys/stay": [text, 1, None]}) == {"/keys/stay": [expected, 1, None]}


def test_a_folder_that_is_left_is_refused() -> None:
    refuse_folders([("a.json", b"/home/you")], ["/home/me"])
    with pytest.raises(UserError) as fault:
        refuse_folders([("a.json", b'{"x": "/home/me/y"}')], ["/home/me"])
    assert fault.value.code == "local-path"


@pytest.mark.parametrize("name", ["<b>x</b>", "a|b", "_x_", "[a](b)", "`x`", "# x", "$x$"])
def test_names_format_nothing(name: str) -> None:
    escaped = plain(name)
    for letter in "<>|_[]`#$":
        assert escaped.count(letter) == escaped.count("\\" + letter)
    assert escaped.replace("\\", "") == name


def test_our_own_sentences_keep_their_code() -> None:
    assert prose("a_b: try `training.learning_rate`.") == "a\\_b: try `training.learning_rate`."
    assert prose("a class called ` or <b>") == "a class called \\` or \\<b\\>"


def test_code_spans_hold_backticks_and_stay_in_their_cell() -> None:
    assert code("a`b") == "`` a`b ``"
    assert code("a|b") == "`a\\|b`"
    assert table([{"x": code("a|b"), "y": "1"}]).splitlines()[2] == "| `a\\|b` | 1 |"
