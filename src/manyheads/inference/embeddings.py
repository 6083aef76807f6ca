"""Where an encoder puts a task's examples: their mean token states, and the first two principal components of these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from manyheads.model.multitask import ManyHeads
from manyheads.storage.strings import Strings
from manyheads.tokens.column import tokenise_once
from manyheads.tokens.packing import Sequence, pack

BATCH_SIZE = 64


@dataclass(frozen=True)
class Projection:
    """Embeddings in two dimensions."""

    points: np.ndarray  # [examples, 2]
    explained: tuple[float, float]  # share of the variance that lies along each of them


def spread_rows(count: int, at_most: int) -> np.ndarray:
    """At most so many of `count` rows, evenly from first to last: the same ones every time."""
    return np.linspace(0, count - 1, min(at_most, count)).astype(int)


def embed_texts(model: ManyHeads, encoder: torch.nn.Module, task_name: str, texts: list[tuple[str, ...]]) -> np.ndarray:
    """[examples, width] the mean token state of each example, over both texts of a pair.

    `encoder` is the model's own, or another that reads the same tokens, such as the one that training started from.
    """
    columns = tuple(tokenise_once(Strings.of(column), model.tokenizer) for column in zip(*texts, strict=True))
    examples = []
    for row in range(len(texts)):
        inputs = model.inputs(task_name, columns, row)
        # all positions, whichever the task's pooling needs
        examples.append([Sequence(sequence.ids, sequence.segments) for sequence in inputs])
    return _mean_states(model, encoder, examples)


def embed_sentences(model: ManyHeads, encoder: torch.nn.Module, sentences: list[str]) -> np.ndarray:
    """[sentences, width] the mean token state of each sentence alone, whatever tasks make of it."""
    column = tokenise_once(Strings.of(sentences), model.tokenizer)
    special_tokens = model.tokenizer.special_tokens
    examples = []
    for row in range(len(sentences)):
        examples.append([Sequence(*special_tokens.single(column[row], model.max_length))])
    return _mean_states(model, encoder, examples)


@torch.no_grad()
def _mean_states(model: ManyHeads, encoder: torch.nn.Module, examples: list[list[Sequence]]) -> np.ndarray:
    """[examples, width] the mean over all tokens of an example's sequences: a bi-encoder has two."""
    encoder.eval()
    embeddings = []
    for start in range(0, len(examples), BATCH_SIZE):
        batch = examples[start : start + BATCH_SIZE]
        sequences = [sequence for example in batch for sequence in example]
        tokens = pack(sequences, model.device)
        states = encoder(tokens).cpu().numpy()
        starts, lengths = tokens.starts.tolist(), tokens.lengths.tolist()
        first = 0
        for example in batch:
            total, length = 0.0, 0
            for sequence in range(first, first + len(example)):
                end = starts[sequence] + lengths[sequence]
                total = total + states[starts[sequence] : end].sum(axis=0)
                length += lengths[sequence]
            embeddings.append(total / length)
            first += len(example)
    return np.stack(embeddings)


def project(embeddings: np.ndarray) -> Projection:
    """The first two principal components: X − mean(X) = U·S·Vᵀ, points = (U·S)[:, :2], explained = S²/ΣS²."""
    centred = embeddings - embeddings.mean(axis=0)
    components, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    shares = sizes**2 / max((sizes**2).sum(), 1e-12)
    return Projection(components[:, :2] * sizes[:2], (float(shares[0]), float(shares[1])))
