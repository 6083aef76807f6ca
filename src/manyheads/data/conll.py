"""CoNLL files: a word per line, its tags in columns beside it, a blank line after each sentence.

A sentence is a row, each column a list. Columns go by number from 1, and by the names that `columns` gives; without
names the first is also called 'tokens' and the last 'label', in CoNLL-U files form and upos.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TextIO

from manyheads.config.task import Source
from manyheads.data.chunk import Chunk, Row, in_chunks, open_bytes
from manyheads.errors import UserError

ENDINGS = ("conll", "conllu", "iob", "iob2", "bio")
CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
NO_WORD = re.compile(r"\d+[-.]\d+")  # a CoNLL-U line of several words or of none
DOCUMENT = "-DOCSTART-"
LOOKED_AT = 200  # lines by which the columns are counted


def read_conll(path: Path, source: Source) -> Iterator[Chunk]:
    """A row per sentence; one in which a line has too few or too many cells is a bad row."""
    with open_bytes(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig") as lines:
        width = _count_columns(lines)
        lines.seek(0)
        if not width:
            raise UserError(f"{path}: no word in it; expected one in each line, its tags beside it.", code="bad-conll")
        names = source.columns or []
        if names and len(names) != width:
            raise UserError(
                f"{path}: its lines have {width} columns, `columns` names {len(names)}: {', '.join(names)}.",
                code="bad-conll",
            )
        is_conllu = not names and width == len(CONLLU)
        numbers = [str(number) for number in range(1, width + 1)]
        aliases = dict(zip(names, range(width), strict=False))
        if is_conllu:
            aliases = {name: index for index, name in enumerate(CONLLU)}
            aliases |= {"tokens": 1, "label": 3}
        elif not names:
            aliases = {"tokens": 0, "label": width - 1}
        rows = _sentences(lines, width, list(aliases.values()), is_conllu)
        yield from in_chunks([*numbers, *aliases], rows)


def _cells(line: str) -> list[str]:
    line = line.rstrip("\n")
    return line.split("\t") if "\t" in line else line.split()


def _count_columns(lines: TextIO) -> int:
    """As many as most of the first lines have that are surely no comments."""
    counts: Counter[int] = Counter()
    for line in islice(lines, LOOKED_AT):
        if line.strip() and not line.startswith(("#", DOCUMENT)):
            counts[len(_cells(line))] += 1
    return counts.most_common(1)[0][0] if counts else 0


def _is_comment(line: str, width: int, is_conllu: bool) -> bool:
    """'# text = …', but not '#topic O': that is a word."""
    return line.startswith("#") and (is_conllu or len(_cells(line)) != width)


def _sentences(lines: TextIO, width: int, aliases: list[int], is_conllu: bool) -> Iterator[Row]:
    first, words = 0, list[list[str]]()
    for number, line in enumerate(lines, start=1):
        cells = _cells(line)
        if not line.strip() or cells[0] == DOCUMENT:
            if words:
                yield _row(first, words, width, aliases)
            words = []
        elif (words or not _is_comment(line, width, is_conllu)) and not (is_conllu and NO_WORD.fullmatch(cells[0])):
            first = first if words else number
            words.append(cells)
    if words:
        yield _row(first, words, width, aliases)


def _row(line: int, words: list[list[str]], width: int, aliases: list[int]) -> Row:
    for number, cells in enumerate(words, start=1):
        if len(cells) != width:
            return line, None, f"word {number} has {len(cells)} cells where there are {width} columns"
    columns = [list(column) for column in zip(*words, strict=True)]
    return line, [*columns, *(columns[index] for index in aliases)], ""
