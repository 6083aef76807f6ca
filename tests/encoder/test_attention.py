"""Attention's written-out gradient, with dropout, against differences of its own values."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from manyheads.encoder.attention import attend
from manyheads.encoder.layout import lay_out
from manyheads.seeding import seeded_rng
from manyheads.tokens.packing import PositionsNeeded, Sequence, pack

pytestmark = pytest.mark.numeric
HEADS, SIZE = 2, 3


@pytest.mark.slow
@pytest.mark.parametrize("drop", [0.0, 0.4])
@pytest.mark.parametrize("positions_needed", ["all", "first"])
def test_gradient(drop: float, positions_needed: PositionsNeeded) -> None:
    tokens = pack([Sequence(np.arange(n), np.zeros(n, dtype=np.int64), positions_needed) for n in (3, 5, 5, 9)])
    blocks = lay_out(tokens.groups, HEADS, positions_needed == "first", torch.device("cpu")).blocks
    assert [one.mask is None for one in blocks] == [False, True], "one block with padding, one without"
    generator = torch.Generator().manual_seed(0)
    parts = 3 if positions_needed == "all" else 2
    key_value = torch.randn(len(tokens), parts * HEADS * SIZE, dtype=torch.float64, generator=generator)
    given = [key_value.requires_grad_()]
    if positions_needed == "first":
        given.append(torch.randn(4, HEADS * SIZE, dtype=torch.float64, generator=generator).requires_grad_())

    def seen(key_value: torch.Tensor, query: torch.Tensor | None = None) -> torch.Tensor:
        with seeded_rng(0, "test"):  # the same mask every time
            return attend(query, key_value, tokens, HEADS, drop)

    assert torch.autograd.gradcheck(seen, given)


def test_dropout_takes_the_share_it_is_told_and_keeps_the_mean() -> None:
    """Of values that are all one, attention gives the sum of the weights that are left."""
    tokens = pack([Sequence(np.arange(n), np.zeros(n, dtype=np.int64), "all") for n in [7] * 40 + [12, 13]])
    key_value = torch.zeros(len(tokens), 3 * HEADS * SIZE)
    key_value[:, 2 * HEADS * SIZE :] = 1.0
    with seeded_rng(0, "test"):
        sums = torch.cat([attend(None, key_value, tokens, HEADS, 0.25) for _ in range(20)])[:, ::SIZE]
    assert abs(sums.mean().item() - 1.0) < 0.01
    left = sums[: len(tokens)][:280] * 7 * 0.75  # the sequences of seven tokens: how many weights are left
    assert torch.allclose(left, left.round(), atol=1e-4)
    assert abs(left.mean().item() / 7 - 0.75) < 0.03


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_backward_within_autocast(dtype: torch.dtype) -> None:
    """Products keep the type they were given, whatever autocast would choose."""
    tokens = pack([Sequence(np.arange(n), np.zeros(n, dtype=np.int64), "all") for n in (3, 5, 9)])
    given = torch.randn(len(tokens), 3 * HEADS * SIZE, generator=torch.Generator().manual_seed(0))
    found = {}
    for wanted in (torch.float64, dtype):
        key_value = given.to(wanted).requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            attend(None, key_value, tokens, HEADS, 0.0).square().sum().backward()
        assert key_value.grad is not None
        assert key_value.grad.dtype == wanted
        found[wanted] = key_value.grad.double()
    assert torch.allclose(found[torch.float64], found[dtype], atol=1e-5 if dtype == torch.float32 else 0.1)
