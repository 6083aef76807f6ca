"""Pair encodings against vectors worked out by hand, and how they frame the sentences."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from manyheads.registry import find
from manyheads.tokens import Tokenizer

# two pairs: u = (3, 4), v = (4, −3) are orthogonal; u = (1, 2), v = (2, 4) are parallel
POOLED = torch.tensor([[3.0, 4.0], [4.0, -3.0], [1.0, 2.0], [2.0, 4.0]], dtype=torch.float64)
EXPECTED = {
    "bi-concat": [[3, 4, 4, -3], [1, 2, 2, 4]],
    "bi-siamese": [[3, 4, 4, -3, 1, 7], [1, 2, 2, 4, 1, 2]],
    "bi-cosine-feature": [[3, 4, 4, -3, 0], [1, 2, 2, 4, 1]],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_features_by_hand(name: str) -> None:
    encoding = find("encodings", name).factory()
    found = encoding(POOLED)
    assert torch.allclose(found, torch.tensor(EXPECTED[name], dtype=torch.float64), atol=1e-12)
    assert found.shape[1] == encoding.features(2)


def test_cosine_of_a_zero_vector_is_zero_not_a_fault() -> None:
    encoding = find("encodings", "bi-cosine-feature").factory()
    assert encoding(torch.zeros(2, 3))[0, -1].item() == 0.0


def test_how_sentences_are_framed(toy_encoder: Path) -> None:
    frame = Tokenizer(toy_encoder).frame
    first, second = np.array([10, 11, 12]), np.array([20, 21])
    cls, sep = int(frame.start[0]), int(frame.end[0])
    (ids, segments), *more = find("encodings", "cross-nosep").factory().inputs((first, second), frame, 64)
    assert ids.tolist() == [cls, 10, 11, 12, 20, 21, sep]
    assert segments.tolist() == [0, 0, 0, 0, 1, 1, 1]
    assert not more
    plain = find("encodings", "cross-nosep").factory(segments=False).inputs((first, second), frame, 64)
    assert plain[0][1].sum() == 0
    both = find("encodings", "bi-concat").factory().inputs((first, second), frame, 4)
    assert [ids.tolist() for ids, _ in both] == [[cls, 10, 11, sep], [cls, 20, 21, sep]]
    assert all(segments.sum() == 0 for _, segments in both)
