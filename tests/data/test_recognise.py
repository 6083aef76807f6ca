"""Which columns are text and label, and what a message proposes where their names do not tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from manyheads.config.task import Source
from manyheads.data.chunk import Chunk
from manyheads.data.readers import read_chunks
from manyheads.data.recognise import recognise_columns
from manyheads.data.table import Columns
from manyheads.errors import UserError

CSV = Source(file="x.csv")


def recognise(names: list[str], text: list[str] | None = None, label: str | None = None) -> Columns:
    return recognise_columns(CSV, Chunk(names, [], [], []), text, label, None)


@pytest.mark.parametrize(
    ("names", "text", "label"),
    [
        (["", "id", "sentence", "sentiment"], ("sentence",), "sentiment"),
        (["sentence1", "sentence2", "similarity"], ("sentence1", "sentence2"), "similarity"),
        (["question", "question1", "question2", "is_duplicate"], ("question1", "question2"), "is_duplicate"),
        (["hypothesis", "premise", "label"], ("premise", "hypothesis"), "label"),
        (["category", "tweet", "text"], ("text",), "category"),
        (["score", "label", "review"], ("review",), "label"),
    ],
)
def test_columns_are_recognised_by_their_names(names: list[str], text: tuple[str, ...], label: str) -> None:
    assert recognise(names) == Columns(text, label, None)


def test_named_columns_go_before_recognised_ones() -> None:
    names = ["text", "label", "sentiment", "body"]
    assert recognise(names, ["body"]) == Columns(("body",), "label", None)
    assert recognise(names, None, "sentiment") == Columns(("text",), "sentiment", None)
    assert recognise(names, ["label"]) == Columns(("label",), "sentiment", None)


def test_a_class_of_the_text_beside_tags_of_its_words_has_to_be_named() -> None:
    with pytest.raises(UserError, match="'intent' may be a class of the text, 'slots' tags of its words") as caught:
        recognise(["text", "tokens", "slots", "intent"])
    assert "`label: intent` or `label: slots`" in str(caught.value)
    assert recognise(["text", "label", "entities"]) == Columns(("text",), "label", None), "that name leaves no doubt"
    assert recognise(["text", "slots", "intent"], label="slots") == Columns(("text",), "slots", None)


@pytest.mark.parametrize(
    ("tags", "text"), [(["O", "B-x"], "tokens"), (["O"], "sentence"), ("x", "sentence"), (None, "sentence")]
)
def test_tags_that_are_named_are_of_the_words(tags: object, text: str) -> None:
    """A sentence may be cut into other words than the file's own list has."""
    rows: list[list[object] | None] = [["It 's", ["It", "'s"], tags]]
    chunk = Chunk(["sentence", "tokens", "slots"], rows, [1], [])  # type: ignore[arg-type]
    assert recognise_columns(CSV, chunk, None, "slots", None).text == (text,)


# --- what is proposed ------------------------------------------------------------------------------------------


def advice(
    folder: Path,
    content: str,
    text: list[str] | None = None,
    label: str | None = None,
    id_column: str | None = None,
    name: str = "x.csv",
) -> str:
    """What stands behind the list of columns."""
    (folder / name).write_text(content)
    source = Source(file=name)
    with pytest.raises(UserError) as caught:
        recognise_columns(source, next(read_chunks(source, folder, "train")), text, label, id_column)
    assert caught.value.code == "no-column"
    beginning, columns, end = str(caught.value).partition(". Columns: ")
    assert columns, beginning
    return f"{beginning.rpartition(' ')[2]}: {end.partition('. ')[2]}"


def test_the_columns_that_are_there_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(",body,stars\n0,a film,3\n")
    with pytest.raises(UserError) as caught:
        recognise_columns(CSV, next(read_chunks(CSV, tmp_path, "train")), None, None, None)
    assert str(caught.value) == (
        "x.csv: cannot tell which column is the text. Columns: body, stars. "
        "Name it in the recipe, for example `text: body`."
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("question,topic\nwhat is up,a\nwho,b\n", "label: Name it in the recipe, for example `label: topic`."),
        ("topic,question\na,what is up\n", "label: Name it in the recipe, for example `label: topic`."),
        ("id,question,topic\n1,what is up,a\n", "label: Name it in the recipe, for example `label: topic`."),
        (
            "question,asked,topic\nwhat is up,1 May,a\nwho,2 May,b\nwhere,3 May,a\n",
            "label: Name it in the recipe, for example `label: topic`.",
        ),
        (
            "question,language,topic\nwhat is up,en,a\nwho,en,b\n",
            "label: Name it in the recipe, for example `label: topic`.",
        ),
        ("stars,body\n3,a fine film\n", "text: Name it in the recipe, for example `text: body`."),
        ("label,body\nvery long name of a class,short\n", "text: Name it in the recipe, for example `text: body`."),
        (
            "left,right,stars\na sentence of words,another sentence,3\n",
            "text: Name it in the recipe, for example `text: [left, right]`.",
        ),
        (
            "#1 String,yes: no\na sentence of words,3\n",
            "text: Name it in the recipe, for example `text: '#1 String'`.",
        ),
        ("text\na film\n", "label: "),
    ],
)
def test_the_example_is_the_column_that_may_be_meant(tmp_path: Path, content: str, expected: str) -> None:
    assert advice(tmp_path, content) == expected


def test_named_columns_are_not_proposed_again(tmp_path: Path) -> None:
    content = "key,body,stars\nk1,a,3\nk2,b,3\nk3,c,4\n"
    assert advice(tmp_path, content, text=["body"]).endswith("`label: stars`.")
    assert advice(tmp_path, content, text=["stars"], id_column="key").endswith("`label: body`.")
    long_label = "key,body,stars\nk1,a,a long word\nk2,b,a long word\n"
    assert advice(tmp_path, long_label, label="stars", id_column="key").endswith("`text: body`.")


@pytest.mark.parametrize(
    ("content", "name", "expected"),
    [
        ("1\ta fine film\n0\ta bad film\n1\tanother one\n", "x.tsv", "[label, text]"),
        ("a fine film\tpos\na bad film\tneg\nanother film\tpos\n", "x.tsv", "[text, label]"),
        ("2.5,a man plays the guitar,a man plays music\n1.2,a dog runs outside,somebody sleeps\n", "x.csv",
         "[label, sentence1, sentence2]"),
        ("q1,ABBR,what is it called\nq2,NUM,how far is it\nq3,ABBR,what does it stand for\n", "x.csv",
         "[column1, label, text]"),
        (f"{'a long text ' * 6},x\nshort,y\n", "x.csv", "[text, label]"),
    ],
)  # fmt: skip
def test_a_header_that_looks_like_data_is_said(tmp_path: Path, content: str, name: str, expected: str) -> None:
    assert advice(tmp_path, content, name=name) == (
        f"text: Its first line looks like data: a file without a header needs `columns`, perhaps `{expected}`."
    )


def test_keys_of_json_are_never_taken_for_data(tmp_path: Path) -> None:
    content = '{"body": "body", "stars": 3}\n'
    assert advice(tmp_path, content, name="x.jsonl") == "text: Name it in the recipe, for example `text: body`."


def test_a_long_first_text_is_cut_in_the_list_of_columns(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(f"{'word ' * 500},1\nshort,0\n")
    with pytest.raises(UserError) as caught:
        recognise_columns(CSV, next(read_chunks(CSV, tmp_path, "train")), None, None, None)
    assert f"Columns: {'word ' * 11}word…, 1." in str(caught.value)


def test_a_txt_file_that_may_have_columns(tmp_path: Path) -> None:
    assert advice(tmp_path, "1\ta film\n", name="x.txt") == (
        "label: Its lines have tabs: where these separate columns, set `format: tsv`."
    )
    assert "set `format: txt` and `columns: [label, text]`" in advice(tmp_path, "pos a film\n", name="x.txt")
