"""Randomness as a pure function of (seed, step, purpose), so that resuming needs no generator state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import torch
    from torch import Tensor

RngState: TypeAlias = "tuple[Tensor, Tensor | None]"  # of torch's generators: the CPU's, and the GPU's if there is one


def seed_for(*words: int | str) -> int:
    """A 63-bit seed that depends on every word: ``seed_for(seed, step, "dropout")``."""
    digest = hashlib.blake2b("/".join(map(str, words)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(*words: int | str) -> np.random.Generator:
    """A numpy generator of its own for one purpose (a permutation, a split)."""
    return np.random.Generator(np.random.PCG64(seed_for(*words)))


def rng_state(device: torch.device) -> RngState:
    """Where torch's generators stand."""
    import torch

    cpu_state = torch.random.get_rng_state()
    if device.type != "cuda":
        return cpu_state, None
    return cpu_state, torch.cuda.get_rng_state(device)


@contextmanager
def rng_from(state: RngState, device: torch.device) -> Iterator[None]:
    """Within the block torch draws what it drew after that state; outside it nothing has changed."""
    now = rng_state(device)
    _set_rng_state(state, device)
    try:
        yield
    finally:
        _set_rng_state(now, device)


def _set_rng_state(state: RngState, device: torch.device) -> None:
    import torch

    torch.random.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)


@contextmanager
def seeded_rng(*words: int | str) -> Iterator[None]:
    """Within the block torch draws from a generator seeded by ``words``; outside it nothing has changed."""
    import torch

    seed = seed_for(*words)
    if torch.accelerator.is_available():
        with torch.random.fork_rng(device_type=torch.accelerator.current_accelerator().type):  # type: ignore[union-attr]
            torch.manual_seed(seed)
            yield
        return
    before = torch.random.get_rng_state()  # fork_rng and manual_seed cost a millisecond where there is no device
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.random.set_rng_state(before)
