"""Bracketed trees with a label at every node, as the Stanford Sentiment Treebank has them: `(3 (2 It) (4 shines))`.

A line is a tree. A tree is a row, its words with spaces between them; with `phrases` every node is one, the whole
sentence first and then from left to right.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

from manyheads.config.task import Source
from manyheads.data.chunk import Chunk, Row, in_chunks, open_bytes
from manyheads.errors import UserError

COLUMNS = ["text", "label"]
TOKEN = re.compile(r"[()]|[^\s()]+")
# how treebanks write what would be read as part of a tree, or of a tag; quotes (`` and '') stay as they are
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}
ESCAPE = re.compile("|".join([*BRACKETS, r"\\([/*])"]), re.IGNORECASE)

Node = tuple[str, int, int]  # label, first word, end of its words


def undo_escapes(text: str) -> str:
    """'-LRB- co-writer\\/director -RRB-' → '( co-writer/director )'."""
    if "-" not in text and "\\" not in text:
        return text
    return ESCAPE.sub(lambda escape: escape[1] or BRACKETS[escape[0].upper()], text)


def read_trees(path: Path, source: Source) -> Iterator[Chunk]:
    """A row per tree, or per node; a line that is no tree is a bad row."""
    columns = source.columns or COLUMNS
    if len(columns) != len(COLUMNS):
        raise UserError(
            f"{path}: trees have a text and a label, so `columns` names two, in this order; found "
            f"{', '.join(columns)}.",
            code="bad-tree-columns",
        )
    with open_bytes(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig") as lines:
        yield from in_chunks(columns, _rows(lines, source))


def _rows(lines: Iterator[str], source: Source) -> Iterator[Row]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            words, nodes = parse_tree(line)
        except ValueError as fault:
            yield number, None, str(fault)
            continue
        if source.escapes == "undo":
            words = list(map(undo_escapes, words))
        if not source.phrases:
            nodes = nodes[:1]
        for label, first, end in nodes:
            yield number, [" ".join(words[first:end]), label], ""


def parse_tree(line: str) -> tuple[list[str], list[Node]]:
    """(words, nodes) of one tree, a node before those inside it. A ValueError says what is wrong with the line.

    A node is `(label words…)` or `(label nodes…)`.
    """
    tree = _TreeBuilder()
    for token in TOKEN.findall(line):
        if token == "(":
            tree.open_node()
        elif token == ")":
            tree.close_node()
        else:
            tree.add(token)
    return tree.finish()


class _TreeBuilder:
    """Nodes in the order of their brackets. Deep trees need no deep recursion."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.labels: list[str] = []
        self.first_words: list[int] = []
        self.ends: list[int] = []
        self.open_nodes: list[int] = []

    def open_node(self) -> None:
        if self.open_nodes:
            self._check_label("(")
            if self._has_no_nodes() and self.first_words[-1] < len(self.words):
                raise ValueError(f"a node after '{self.words[-1]}', whose node holds words")
        elif self.labels:
            raise self._outside("(")
        self.open_nodes.append(len(self.first_words))
        self.first_words.append(len(self.words))
        self.ends.append(len(self.words))

    def close_node(self) -> None:
        if not self.open_nodes:
            raise self._outside(")")
        self._check_label(")")
        node = self.open_nodes.pop()
        if self.first_words[node] == len(self.words):
            raise ValueError(f"no words in a node with label '{self.labels[node]}'")
        self.ends[node] = len(self.words)

    def add(self, token: str) -> None:
        """A label, where the node has none yet; else a word."""
        if not self.open_nodes:
            raise self._outside(token)
        if len(self.labels) < len(self.first_words):
            self.labels.append(token)
        elif self._has_no_nodes():
            self.words.append(token)
        else:
            raise ValueError(f"'{token}' beside a node, not in one of its own")

    def finish(self) -> tuple[list[str], list[Node]]:
        if self.open_nodes:
            raise ValueError(f"closing brackets are missing: {len(self.open_nodes)}")
        return self.words, list(zip(self.labels, self.first_words, self.ends, strict=True))

    def _has_no_nodes(self) -> bool:
        """Whether the innermost open node is also the last that was opened."""
        return self.open_nodes[-1] == len(self.first_words) - 1

    def _check_label(self, token: str) -> None:
        if len(self.labels) < len(self.first_words):
            raise ValueError(f"'{token}' where a node's label is expected")

    def _outside(self, token: str) -> ValueError:
        return ValueError(f"'{token}' outside of a tree; a line is one tree, such as (3 (2 It) (4 shines))")
