"""The texts of further pre-training: those of the tasks' train files, or of plain text files, each once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from manyheads.config.recipe import Recipe
from manyheads.config.task import Source
from manyheads.data.readers import read_chunks
from manyheads.errors import UserError
from manyheads.pretraining.masking import Vocabulary
from manyheads.storage.strings import Strings
from manyheads.tasks.load import load_tasks
from manyheads.tokens.column import tokenise
from manyheads.tokens.packing import Sequence
from manyheads.tokens.tokenizer import Tokenizer


def collect_texts(
    recipe: Recipe, tokenizer: Tokenizer, longest: int, vocabulary: Vocabulary
) -> tuple[list[Sequence], int]:
    """Framed as a task would see them; a pair is one text. Also returns how many pairs were too long and cut.

    A single text that is too long becomes several. What has no ordinary token is left out.
    """
    sequences: dict[bytes, Sequence] = {}  # by their ids: each once
    cut_pairs = 0
    for sides in _texts(recipe):
        tokens = tuple(tokenise(side, tokenizer) for side in sides)
        is_pair = len(sides) == 2
        room = longest - tokenizer.special_tokens.around_single
        if is_pair:
            room = longest - tokenizer.special_tokens.around_pair
        for row in range(len(tokens[0])):
            row_ids = [np.asarray(column[row]) for column in tokens]
            pieces = [row_ids]
            if is_pair:
                cut_pairs += sum(map(len, row_ids)) > room
            else:
                pieces = [[row_ids[0][start : start + room]] for start in range(0, len(row_ids[0]), room)]
            for piece in pieces:
                sequence = _frame(tokenizer, piece, longest)
                if np.isin(sequence.ids, vocabulary.ordinary).any():
                    sequences.setdefault(sequence.ids.tobytes(), sequence)
    return list(sequences.values()), cut_pairs


def _texts(recipe: Recipe) -> list[tuple[Strings, ...]]:
    """Columns of texts, or of both sides of pairs: of files, else of tasks."""
    columns: list[tuple[Strings, ...]] = []
    for file in recipe.pretrain.files:
        columns.append((_lines(Path(recipe.data.root or "."), file, recipe),))
    return columns or _of_tasks(recipe)


def _of_tasks(recipe: Recipe) -> list[tuple[Strings, ...]]:
    wanted = recipe.pretrain.tasks or list(recipe.tasks)
    return [tuple(data.train.texts) for name, data in load_tasks(recipe).items() if name in wanted]


def _lines(root: Path, file: str, recipe: Recipe) -> Strings:
    lines: list[str] = []
    try:
        for chunk in read_chunks(Source(file=file, format="txt"), root, "train"):
            lines.extend(cells[0].strip() for cells in chunk.cells if cells)
    except UserError as fault:
        raise UserError(f"{recipe.location('pretrain', 'files')}: {fault}", fault.code) from None
    return Strings.of(lines)


def _frame(tokenizer: Tokenizer, sides: list[np.ndarray], longest: int) -> Sequence:
    if len(sides) == 1:
        return Sequence(*tokenizer.special_tokens.single(sides[0], longest))
    return Sequence(*tokenizer.special_tokens.pair(sides[0], sides[1], longest))
