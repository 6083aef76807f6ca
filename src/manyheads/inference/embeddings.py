"""Where an encoder puts texts and a task's examples: mean token states, and their first two principal components."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from manyheads.encoder import Encoder
from manyheads.model.multitask import ManyHeads
from manyheads.parts.pooling import Mean, Pooling
from manyheads.storage.strings import Strings
from manyheads.tokens.budget import split_by_tokens
from manyheads.tokens.column import TokenColumn, tokenise_once
from manyheads.tokens.packing import Sequence, pack

TOKENS_PER_PASS = 4096


@dataclass(frozen=True)
class Projection:
    """Embeddings in two dimensions."""

    points: np.ndarray  # [examples, 2]
    explained: tuple[float, float]  # share of the variance that lies along each of them


def spread_rows(count: int, at_most: int) -> np.ndarray:
    """At most so many of `count` rows, evenly from first to last: the same ones every time."""
    return np.linspace(0, count - 1, min(at_most, count)).astype(int)


def embedding_pooling(encoder: Encoder) -> Pooling:
    """How the token states of a text become its embedding, whichever poolings the tasks have."""
    return Mean(encoder)


@torch.no_grad()
def embed_sequences(
    encoder: Encoder, pooling: Pooling, lengths: np.ndarray, sequence: Callable[[int], Sequence], tokens_per_pass: int
) -> np.ndarray:
    """[sequences, width] float32: a vector for each encoder input, in order.

    `sequence` makes the inputs, of these `lengths`, when they are needed. Inputs of like length go together, as many as
    fit into a pass; there is no padding.
    """
    device = encoder.words.device
    embeddings = np.empty((len(lengths), pooling.width), dtype=np.float32)
    shortest_first = np.argsort(lengths, kind="stable").tolist()
    for numbers in split_by_tokens(shortest_first, lambda number: int(lengths[number]), tokens_per_pass):
        tokens = pack(map(sequence, numbers), device)
        states = encoder(tokens)
        embeddings[numbers] = pooling(states, tokens.kept_starts, tokens.kept_lengths).float().cpu().numpy()
    return embeddings


def embed_column(model: ManyHeads, texts: TokenColumn, tokens_per_pass: int) -> np.ndarray:
    """[texts, width] the embeddings of single texts by the model's encoder."""
    special_tokens, pooling = model.tokenizer.special_tokens, embedding_pooling(model.encoder)

    def sequence(row: int) -> Sequence:
        return Sequence(*special_tokens.single(texts[row], model.max_length), pooling.positions_needed)

    lengths = np.minimum(texts.lengths + special_tokens.around_single, model.max_length)
    return embed_sequences(model.encoder, pooling, lengths, sequence, tokens_per_pass)


def embed_texts(model: ManyHeads, encoder: Encoder, task_name: str, texts: list[tuple[str, ...]]) -> np.ndarray:
    """[examples, width] the mean token state of each example as its task reads it, over both texts of a pair.

    `encoder` is the model's own, or another that reads the same tokens, such as the one that training started from.
    """
    encoder.eval()
    columns = tuple(tokenise_once(Strings.of(column), model.tokenizer) for column in zip(*texts, strict=True))
    sequences: list[Sequence] = []
    example_of: list[int] = []  # of each sequence: a bi-encoder has two of an example
    for row in range(len(texts)):
        for sequence in model.inputs(task_name, columns, row):
            # all positions, whichever the task's pooling needs
            sequences.append(Sequence(sequence.ids, sequence.segments))
            example_of.append(row)
    lengths = np.array([len(sequence.ids) for sequence in sequences])
    embedded = embed_sequences(encoder, Mean(encoder), lengths, sequences.__getitem__, TOKENS_PER_PASS)
    embeddings = np.zeros((len(texts), encoder.width), dtype=np.float32)
    np.add.at(embeddings, example_of, embedded * lengths[:, None])
    return embeddings / np.bincount(example_of, lengths)[:, None].astype(np.float32)


def embed_sentences(model: ManyHeads, encoder: Encoder, sentences: list[str]) -> np.ndarray:
    """[sentences, width] the mean token state of each sentence alone by an encoder, whatever tasks make of it."""
    encoder.eval()
    column = tokenise_once(Strings.of(sentences), model.tokenizer)
    special_tokens = model.tokenizer.special_tokens
    sequences = [Sequence(*special_tokens.single(column[row], model.max_length)) for row in range(len(sentences))]
    lengths = np.array([len(sequence.ids) for sequence in sequences])
    return embed_sequences(encoder, Mean(encoder), lengths, sequences.__getitem__, TOKENS_PER_PASS)


def project(embeddings: np.ndarray) -> Projection:
    """The first two principal components: X − mean(X) = U·S·Vᵀ, points = (U·S)[:, :2], explained = S²/ΣS²."""
    centred = embeddings - embeddings.mean(axis=0)
    components, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    shares = sizes**2 / max((sizes**2).sum(), 1e-12)
    return Projection(components[:, :2] * sizes[:2], (float(shares[0]), float(shares[1])))
