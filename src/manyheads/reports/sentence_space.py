"""Whether sentences still lie to each other as they did for the encoder that training started from.

Of n dev sentences of a task, each encoded alone, with v and v₀ their mean token states after and before training:

    mean cosine         of all pairs cos(v_i, v_j): near 1 all sentences lie in one place. Alone it says little: classes
                        that are driven apart keep it low while nothing of the order within and between them is left
    rank correlation    Spearman's, of cos(v_i, v_j) and cos(v₀_i, v₀_j) over all pairs: which are alike, as before?
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from manyheads.encoder import Encoder
from manyheads.inference.embeddings import embed_sentences, spread_rows
from manyheads.model.multitask import ManyHeads
from manyheads.parts.metrics.numbers import correlation

SENTENCES = 100  # of a task: 4,950 pairs
FEWEST_SENTENCES = 20  # 190 pairs


@dataclass(frozen=True)
class SentenceSpace:
    """How some dev sentences of a task lie to each other before and after training."""

    cosine_before: float
    cosine_after: float
    rank_correlation: float


def compare_spaces(model: ManyHeads, first_encoder: Encoder, texts: list[tuple[str, ...]]) -> SentenceSpace | None:
    """Of the first texts of some examples; None where there are too few."""
    distinct = list(dict.fromkeys(example[0] for example in texts))
    if len(distinct) < FEWEST_SENTENCES:
        return None
    sentences = [distinct[row] for row in spread_rows(len(distinct), SENTENCES)]
    before = pair_cosines(embed_sentences(model, first_encoder, sentences))
    after = pair_cosines(embed_sentences(model, model.encoder, sentences))
    agreement = 0.0  # where all cosines are equal, they have no order
    if np.ptp(before) > 0 and np.ptp(after) > 0:
        agreement = correlation("spearmanr", before, after)
    return SentenceSpace(float(before.mean()), float(after.mean()), agreement)


def pair_cosines(vectors: np.ndarray) -> np.ndarray:
    """[n, width] → [n(n − 1)/2] the cosine of every two."""
    directions = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    first, second = np.triu_indices(len(vectors), 1)
    return (directions @ directions.T)[first, second]
