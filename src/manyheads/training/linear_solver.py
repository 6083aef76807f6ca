"""A linear map on fixed features, solved: the start of a head, and the baseline that training has to beat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from manyheads.seeding import generator

ExampleLoss = Callable[[Tensor, Tensor], Tensor]  # outputs [examples, outputs], labels → loss [examples]
STRENGTHS = tuple(10.0**-exponent for exponent in range(8))  # λ, strongest first
HELD_OUT = 5  # every fifth example tells which λ is best …
CHOSEN_ON = 6_000  # … of at most so many
PATH_ITERATIONS = 25  # of L-BFGS for each λ; the next goes on from there
LAST_ITERATIONS = 40
SMALLEST_SHARE = 0.1  # of the median deviation: a feature that hardly varies is not blown up to the size of the others
SMALLEST_DEVIATION = 1e-6


@dataclass(frozen=True)
class Solution:
    """outputs = features·Wᵀ + b."""

    weight: Tensor  # [outputs, features]
    bias: Tensor  # [outputs]
    strength: float  # the λ that was chosen


def solve(features: Tensor, labels: Tensor, loss: ExampleLoss, outputs: int, seed: int = 0) -> Solution:
    """The W, b that minimise mean loss(W·z + b, y) + λ/2·‖W‖² by L-BFGS; λ is chosen within these examples.

    z: features with mean 0 and deviation 1; the result is for the features as they are. With squared errors this is
    ridge regression, with cross-entropy multinomial logistic regression. λ comes down from 1 by tens, each time
    going on from the last solution, until the loss on every fifth of 6,000 examples gets worse; then all are used.
    """
    centre = features.mean(dim=0)
    deviation = features.std(dim=0, correction=0)
    deviation = deviation.clamp(min=max(SMALLEST_SHARE * deviation.median().item(), SMALLEST_DEVIATION))
    standardised = (features - centre) / deviation
    weight = torch.zeros(outputs, features.shape[1], dtype=features.dtype)
    bias = torch.zeros(outputs, dtype=features.dtype)
    strength = _choose_strength(standardised, labels, loss, weight, bias, seed)
    _minimise(standardised, labels, loss, weight, bias, strength, LAST_ITERATIONS)
    folded = weight / deviation
    return Solution(folded, bias - folded @ centre, strength)


def best_constant_loss(labels: Tensor, loss: ExampleLoss, outputs: int) -> float:
    """min over b of mean loss(b, y): what the best prediction that does not look at the text loses.

    Examples with equal labels have equal losses here: each label counts once, with its share of the examples.
    """
    distinct, counts = labels.unique(dim=0, return_counts=True)
    shares = counts / len(labels)
    features = torch.zeros(len(distinct), 0, dtype=torch.float64)
    weight, bias = torch.zeros(outputs, 0, dtype=torch.float64), torch.zeros(outputs, dtype=torch.float64)

    def shared_loss(constant: Tensor, distinct_labels: Tensor) -> Tensor:
        return loss(constant, distinct_labels) * shares * len(shares)  # whose mean is Σ share·loss

    _minimise(features, distinct, shared_loss, weight, bias, 0.0, 10 * LAST_ITERATIONS)
    return float(shared_loss(bias.expand(len(distinct), -1), distinct).mean())


def _choose_strength(
    features: Tensor, labels: Tensor, loss: ExampleLoss, weight: Tensor, bias: Tensor, seed: int
) -> float:
    """The best λ; W and b are left at its solution."""
    order = torch.from_numpy(generator(seed, "strength").permutation(len(features))[:CHOSEN_ON])
    held_out, kept = order[::HELD_OUT], order[torch.arange(len(order)) % HELD_OUT != 0]
    if not len(kept):
        return STRENGTHS[0]
    best_strength, best_loss = STRENGTHS[0], float("inf")
    best_weight, best_bias = weight.clone(), bias.clone()
    for strength in STRENGTHS:
        _minimise(features[kept], labels[kept], loss, weight, bias, strength, PATH_ITERATIONS)
        held_out_loss = loss(features[held_out] @ weight.T + bias, labels[held_out]).mean().item()
        if not held_out_loss < best_loss:
            break
        best_strength, best_loss = strength, held_out_loss
        best_weight, best_bias = weight.clone(), bias.clone()
    weight.copy_(best_weight)
    bias.copy_(best_bias)
    return best_strength


def _minimise(
    features: Tensor, labels: Tensor, loss: ExampleLoss, weight: Tensor, bias: Tensor, strength: float, iterations: int
) -> None:
    """Move W and b, in place, to the minimum."""
    parameters = [weight.clone().requires_grad_(), bias.clone().requires_grad_()]
    optimizer = torch.optim.LBFGS(
        parameters, max_iter=iterations, history_size=10, tolerance_change=1e-7, line_search_fn="strong_wolfe"
    )

    def objective() -> Tensor:
        optimizer.zero_grad()
        penalty = strength / 2 * parameters[0].square().sum()
        total = loss(features @ parameters[0].T + parameters[1], labels).mean() + penalty
        total.backward()
        return total

    with torch.enable_grad():
        optimizer.step(objective)
    weight.copy_(parameters[0].detach())
    bias.copy_(parameters[1].detach())
