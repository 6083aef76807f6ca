"""Randomness as a pure function of (seed, step, purpose), so that resuming needs no generator state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


def seed_for(*words: int | str) -> int:
    """A 63-bit seed that depends on every word: ``seed_for(seed, step, "dropout")``."""
    digest = hashlib.blake2b("/".join(map(str, words)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(*words: int | str) -> np.random.Generator:
    """A numpy generator of its own for one purpose (a permutation, a split)."""
    return np.random.Generator(np.random.PCG64(seed_for(*words)))


@contextmanager
def draws(*words: int | str) -> Iterator[None]:
    """Within the block torch draws from a generator seeded by ``words``; outside it nothing has changed."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(seed_for(*words))
        yield
