"""What a recipe may say of a file whose columns are not recognised: guesses by what is in the first rows.

They stand in messages only; nothing is ever read by a guess.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from manyheads.config.task import Source
from manyheads.data.chunk import Chunk
from manyheads.data.readers import file_format, is_lines

FRACTION = re.compile(r"-?\d+\.\d+")
LOOKED_AT = 1000  # rows
LONG_NAME = 60  # letters; no column is called that
SHORTEST_SECOND_TEXT = 15  # letters on average: a shorter column beside the text is hardly a text too


def guess_texts(chunk: Chunk, names: Collection[str]) -> list[str]:
    """Of these columns the one with the longest cells, or the two where another one's are about as long."""
    lengths: dict[str, float] = {}
    for name in names:
        cells = _cells(chunk, name)
        lengths[name] = sum(map(len, cells)) / max(1, len(cells))
    longest_first = sorted(lengths, key=lengths.__getitem__, reverse=True)
    texts = longest_first[:1]
    for name in longest_first[1:2]:
        if lengths[name] > max(SHORTEST_SECOND_TEXT, lengths[texts[0]] / 2):
            texts.append(name)
    return sorted(texts, key=chunk.columns.index)


def guess_label(chunk: Chunk, names: Collection[str]) -> list[str]:
    """Of these columns the one with the fewest different cells, but more than one; none of none."""

    def different_cells(name: str) -> tuple[bool, int]:
        count = len(set(_cells(chunk, name)))
        return count == 1, count

    return sorted(names, key=different_cells)[:1]


def shown_names(chunk: Chunk) -> list[str]:
    """The columns' names for a message. One that is no name but the first text of a file without a header is cut."""
    names: list[str] = []
    for name in filter(None, chunk.columns):
        if len(name) > LONG_NAME:
            name = name[: LONG_NAME - 1] + "…"
        names.append(name)
    return names


def layout_advice(source: Source, chunk: Chunk) -> str:
    """A sentence on `columns` or `format`, where the file looks as if it had no header or were no list of texts."""
    if source.file is None or source.columns is not None:
        return ""
    if is_lines(source):
        if any("\t" in cell for cell in _cells(chunk, chunk.columns[0])):
            return " Its lines have tabs: where these separate columns, set `format: tsv`."
        return (
            " A txt file has a text per line; where a label and a space stand before it, set `format: txt` and "
            "`columns: [label, text]`."
        )
    if file_format(source, Path(source.file)) in ("csv", "tsv") and _looks_like_data(chunk):
        columns = ", ".join(_likely_names(chunk))
        return f" Its first line looks like data: a file without a header needs `columns`, perhaps `[{columns}]`."
    return ""


def _looks_like_data(chunk: Chunk) -> bool:
    """Whether the header does: a name is very long, or a number with a fraction, or occurs beneath itself."""
    for name in filter(None, chunk.columns):
        if len(name) > LONG_NAME or FRACTION.fullmatch(name) or name in _cells(chunk, name):
            return True
    return False


def _likely_names(chunk: Chunk) -> list[str]:
    """Names for the columns of a file without a header, whose first row was taken for one."""
    chunk = Chunk(chunk.columns, [list(chunk.columns), *chunk.cells], [], [])
    texts = guess_texts(chunk, list(dict.fromkeys(chunk.columns)))
    label = guess_label(chunk, [name for name in chunk.columns if name not in texts])
    text_names = ["text"]
    if len(texts) == 2:
        text_names = ["sentence1", "sentence2"]
    likely_names = {**dict(zip(texts, text_names, strict=True)), **dict.fromkeys(label, "label")}
    names: list[str] = []
    for number, name in enumerate(chunk.columns, start=1):
        names.append(likely_names.pop(name, f"column{number}"))
    return names


def _cells(chunk: Chunk, name: str) -> list[str]:
    """The first cells of a column."""
    index = chunk.columns.index(name)
    return [str(row[index]).strip() for row in chunk.cells[:LOOKED_AT] if row is not None]
