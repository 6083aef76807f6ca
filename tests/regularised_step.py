"""One step of the three small tasks with regularisers: its gradient and what it was made of."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch

from manyheads.model.multitask import ManyHeads
from manyheads.parts.regularisers import Regulariser
from manyheads.parts.scalarizers import Sum
from manyheads.registry import find
from manyheads.training.gradients.backward import Backward, Step
from manyheads.training.gradients.combination import Combination
from three_tasks import NAMES, ROUND, Rows


def build(name: str, **options: Any) -> Regulariser:
    one: Regulariser = find("regularisers", name).factory(NAMES, **options)
    one.name = name
    return one


def run(
    model: ManyHeads, data: dict[str, Rows], regularisers: list[Regulariser], **more: Any
) -> tuple[dict[str, torch.Tensor], Step]:
    model.zero_grad(set_to_none=True)
    rounds, tokens = more.pop("rounds", [ROUND]), more.pop("tokens", 10**9)
    how = more.pop("how", Combination(Sum(NAMES)))
    backward = Backward(model, data, tokens, nullcontext)  # type: ignore[arg-type]
    done = backward.step(rounds, how, (0, 1), regularisers)
    found = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
    model.zero_grad(set_to_none=True)
    return found, done


def disturb(model: ManyHeads) -> None:
    drawn = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for one in model.parameters():
            one.add_(0.02 * torch.randn(one.shape, dtype=one.dtype, generator=drawn))
