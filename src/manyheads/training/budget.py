"""How long a training with a `budget` is: its examples, and the rounds in which a sampler deals them out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from manyheads.config.training import Budget
from manyheads.parts.samplers import Sampler, SamplerInput


def budget_examples(budget: Budget, sampler_input: SamplerInput, accumulate: int) -> int:
    """passes·ΣN_i, the examples themselves, or those of so many steps."""
    if budget.passes is not None:
        return max(1, round(budget.passes * sum(sampler_input.sizes.values())))
    if budget.steps is not None:
        return budget.steps * accumulate * sampler_input.round_size
    assert budget.examples is not None, "minutes are turned into examples before the schedule is made"
    return budget.examples


def sampler_within(
    budget: Budget, build: Callable[[SamplerInput], Sampler], sampler_input: SamplerInput, accumulate: int
) -> tuple[Sampler, int]:
    """The sampler with enough epochs for the budget, and the rounds after which that is used up.

    A sampler that deals out examples is told how many; any other is followed until it has drawn as many.
    """
    examples = budget_examples(budget, sampler_input, accumulate)
    epochs = max(1, round(examples / sum(sampler_input.sizes.values())))
    sampler = build(replace(sampler_input, examples=examples, epochs=epochs))
    if sampler.deals_examples:
        return sampler, sum(sampler.epochs)
    while True:
        rounds = _rounds_needed(sampler, budget, examples, accumulate)
        if rounds is not None:
            return sampler, rounds
        epochs *= 2
        sampler = build(replace(sampler_input, epochs=epochs))


def _rounds_needed(sampler: Sampler, budget: Budget, examples: int, accumulate: int) -> int | None:
    """None where the sampler's epochs are too few."""
    if budget.steps is not None:
        rounds = budget.steps * accumulate
        return rounds if rounds <= sum(sampler.epochs) else None
    drawn = 0
    for index in range(sum(sampler.epochs)):
        drawn += sum(len(batch.indices) for batch in sampler.round(index))
        if drawn >= examples:
            return index + 1
    return None
