"""CoNLL files: columns by name or number, comments, documents, faults with their lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyheads import load_recipe
from manyheads.errors import UserError
from manyheads.tasks.load import TaskData, load_tasks

CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
# SYM I-VP O
German JJ B-NP B-MISC
call NN I-NP I-MISC

# a comment of several words in all
Peter NNP B-NP I-PER
Blackburn NNP I-NP I-PER
"""
CONLLU = (
    "# text = du bois\n1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n"
    + "".join(f"{n}\t{w}\t{w}\t{t}\t_\t_\t0\troot\t_\t_\n" for n, w, t in ((1, "de", "ADP"), (2, "le", "DET")))
    + "3\t20 000\t_\tNUM\t_\t_\t0\t_\t_\t_\n"
)


@pytest.fixture
def loaded(tmp_path: Path, toy_encoder: Path) -> Callable[..., TaskData]:
    def load(content: str, file: str = "x.conll", **settings: Any) -> TaskData:
        (tmp_path / file).write_bytes(content.encode())
        task = {"train": file, "dev": file, **settings}
        recipe = {"name": "x", "encoder": str(toy_encoder), "data": {"root": str(tmp_path)}, "tasks": {"ner": task}}
        return load_tasks(load_recipe(recipe))["ner"]

    return load


def read_back(data: TaskData) -> list[list[tuple[str, str]]]:
    """Words and tags of each row of train."""
    assert data.train.labels is not None
    rows = []
    for words, tags in zip(data.task.kind.words(data.train, data.task), data.train.labels, strict=True):
        names = [data.task.labels.names[tag] for tag in tags]
        rows.append([(words.text[a:b], name) for (a, b), name in zip(words.spans, names, strict=True)])
    return rows


EU = [("EU", "B-ORG"), ("rejects", "O"), ("#", "O"), ("German", "B-MISC"), ("call", "I-MISC")]
PETER = [("Peter", "B-PER"), ("Blackburn", "I-PER")]


@pytest.mark.parametrize(
    "settings",
    [{}, {"text": 1, "label": 4}, {"columns": ["word", "pos", "chunk", "ner"], "text": "word", "label": "ner"}],
)
def test_columns_by_name_by_number_and_by_default(loaded: Callable[..., TaskData], settings: dict[str, Any]) -> None:
    data = loaded(CONLL, **settings)
    assert read_back(data) == [EU, PETER]
    assert data.task.labels.scheme == "BIO"
    assert data.train.lines.tolist() == [3, 10]
    assert data.notes[:2] == [
        f"ner: 1 tag of {split} breaks the rules of BIO and is repaired" for split in ("train", "dev")
    ]


def test_windows_line_ends_and_other_columns(loaded: Callable[..., TaskData]) -> None:
    data = loaded(CONLL.replace("\n", "\r\n"), label="2", kind="tags")
    assert [tag for _, tag in read_back(data)[0]] == ["NNP", "VBZ", "SYM", "JJ", "NN"]
    assert data.task.labels.scheme == "plain"
    assert [metric.name for metric in data.task.metrics] == ["token-accuracy"]


def test_conllu_leaves_out_lines_that_are_no_words(loaded: Callable[..., TaskData]) -> None:
    data = loaded(CONLLU, "x.conllu")
    assert read_back(data) == [[("de", "ADP"), ("le", "DET"), ("20\u00a0000", "NUM")]]


def test_a_line_with_a_cell_too_few_is_told(loaded: Callable[..., TaskData]) -> None:
    with pytest.raises(UserError, match=r"x\.conll:3: word 2 has 3 cells where there are 4 columns") as fault:
        loaded(CONLL.replace("VBZ ", ""))
    assert fault.value.code == "bad-rows"
    with pytest.raises(UserError, match="its lines have 4 columns, `columns` names 2: a, b"):
        loaded(CONLL, columns=["a", "b"], text="a", label="b")


WORDS = [{"tokens": [w for w, _ in row], "ner": [t for _, t in row], "n": 1} for row in (EU, PETER)]
SPANS = [
    {"text": "  Ann B. Cole\r\nfled.", "entities": [{"start": 2, "end": 13, "label": "PER"}]},
    {"text": "nobody did", "entities": []},
]


def test_lists_of_words_and_tags(loaded: Callable[..., TaskData], tmp_path: Path) -> None:
    lines = "\n".join(map(json.dumps, WORDS))
    assert read_back(loaded(lines, "x.jsonl")) == [EU, PETER]
    texts = [{**row, "tokens": " ".join(row["tokens"]), "ner": " ".join(row["ner"])} for row in WORDS]
    joined = loaded("\n".join(map(json.dumps, texts)), "x.jsonl", kind="tags", text="tokens", label="ner")
    assert read_back(joined) == [EU, PETER]
    pq.write_table(pa.Table.from_pylist(WORDS), tmp_path / "p.parquet")
    assert read_back(loaded("", "other.jsonl", train="p.parquet", dev="p.parquet")) == [EU, PETER]
    short = lines.replace('"B-PER", ', "")
    with pytest.raises(UserError, match=r"x\.jsonl:2: 1 tags for 2 words"):
        loaded(short, "x.jsonl")


def test_spans_of_characters(loaded: Callable[..., TaskData]) -> None:
    data = loaded("\n".join(map(json.dumps, SPANS)), "x.jsonl")
    assert data.task.columns.words == "letters"
    ann = [("Ann", "B-PER"), ("B", "I-PER"), (".", "I-PER"), ("Cole", "I-PER"), ("fled", "O"), (".", "O")]
    assert read_back(data) == [ann, [("nobody", "O"), ("did", "O")]]
    assert [words.indent for words in data.task.kind.words(data.train, data.task)] == [2, 0]
    bad = json.dumps({"text": "Annabel", "entities": [[0, 3, "PER"]]})
    with pytest.raises(UserError, match=r"x\.jsonl:3: span 0–3 'Ann' begins or ends inside a word"):
        loaded("\n".join([*map(json.dumps, SPANS), bad]), "x.jsonl")
