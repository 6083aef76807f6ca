"""The batches of a round as encoder passes that keep to the token budget."""

from __future__ import annotations

from typing import NamedTuple

from manyheads.config.training import Average
from manyheads.model.multitask import Inputs, ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.samplers import Batch
from manyheads.tokens.budget import split_by_tokens
from manyheads.tokens.packing import Sequence, merge_equal
from manyheads.training.gradients.pair_order import drawn_inputs

Pass = list[tuple[str, list[int], Inputs]]  # (task, rows, their encoder inputs)
Group = list[tuple[str, int, list[Sequence]]]  # examples that stay in one pass: (task, row, its encoder inputs)


class RoundPass(NamedTuple):
    """A pass of one round, and what the losses of each task's examples are divided by."""

    passing: Pass
    divisors: dict[str, float]


def split_passes(
    model: ManyHeads,
    data: dict[str, TaskTokens],
    batches: list[Batch],
    tokens_per_pass: int,
    seeds: tuple[int, int] = (0, 0),
) -> list[Pass]:
    """A round's examples in their order, cut where the next would exceed the budget of tokens. `seeds` (the run's, the
    step's number) draw the order of pairs that have none.

    Examples of one row that several tasks drew stay together, so that the row is encoded once; so does the batch of a
    loss that compares its examples.
    """
    if batches and all(_skips_encoder(data[batch.task]) for batch in batches):
        return [_whole_pass(model, data, batches)]
    groups: dict[tuple[object, ...], Group] = {}
    for batch in batches:
        tokens = data[batch.task]
        whole_batch = model.head(batch.task).loss.whole_batch
        for row in batch.indices.tolist():
            key = ("batch", batch.task) if whole_batch else ("row", tokens.row_group or batch.task, row)
            groups.setdefault(key, []).append((batch.task, row, drawn_inputs(model, tokens, row, seeds)))
    return [_by_task(passing) for passing in split_by_tokens(groups.values(), _tokens, tokens_per_pass)]


def divisors_of(rounds: list[list[Batch]], average: Average) -> list[dict[str, int]]:
    """Round by round, what the losses of a task's examples are divided by; their sum is the task's loss of the step.

    step    N_i, the task's examples in all rounds: every example counts alike, however many batches the task has
    examples  ΣN_i, all tasks' examples in all rounds: tasks weigh as their shares of the step
    batch   k·n_ij, the step's k rounds times the examples of the task's batch in round j: the mean over rounds of the
            batches' means, in which a round without the task counts 0

    Counts are over all processes, and rounds whose batches were all left out are none of the k.
    """
    counts: dict[str, int] = {}
    for batches in rounds:
        for batch in batches:
            counts[batch.task] = counts.get(batch.task, 0) + len(batch.indices)
    if average == "step":
        return [counts] * len(rounds)
    if average == "examples":
        return [dict.fromkeys(counts, sum(counts.values()))] * len(rounds)
    trained_rounds = sum(1 for batches in rounds if batches)
    return [{batch.task: trained_rounds * len(batch.indices) for batch in batches} for batches in rounds]


def loss_divisors(
    model: ManyHeads, data: dict[str, TaskTokens], rounds: list[list[Batch]], average: Average
) -> list[dict[str, float]]:
    """The same for tasks whose loss averages over words: D·n/N for a divisor D that is shared by N examples of n words.

    Their examples have sums over words, not means, so every word counts alike; what the task weighs stays.
    Counts are over all processes: a step in several has the gradient of one in a single process.
    """
    divisors: list[dict[str, float]] = []
    for round_divisors in divisors_of(rounds, average):
        divisors.append(dict(round_divisors))
    sharing = [range(len(rounds))]
    if average == "batch":
        sharing = [range(number, number + 1) for number in range(len(rounds))]
    for numbers in sharing:
        examples: dict[str, int] = {}
        words: dict[str, int] = {}
        for number in numbers:
            for batch in rounds[number]:
                if model.head(batch.task).loss.average == "word":
                    examples[batch.task] = examples.get(batch.task, 0) + len(batch.indices)
                    words[batch.task] = words.get(batch.task, 0) + data[batch.task].count_words(batch.indices)
        for number in numbers:
            for task in set(divisors[number]) & set(words):
                divisors[number][task] *= words[task] / examples[task]
    return divisors


def shares_of_rounds(rounds: list[list[Batch]], average: Average) -> dict[str, float]:
    """Of each task, its share of the step's examples, or of its rounds, where that is part of its loss; else 1."""
    tasks = [batch.task for batches in rounds for batch in batches]
    if average == "step":
        return dict.fromkeys(tasks, 1.0)
    if average == "examples":
        counts: dict[str, int] = {}
        for batches in rounds:
            for batch in batches:
                counts[batch.task] = counts.get(batch.task, 0) + len(batch.indices)
        return {task: count / sum(counts.values()) for task, count in counts.items()}
    trained_rounds = sum(1 for batches in rounds if batches)
    return {task: tasks.count(task) / trained_rounds for task in tasks}


def _skips_encoder(tokens: TaskTokens) -> bool:
    """Whether the states of all layers are kept: no tokens go through the encoder."""
    return tokens.frozen is not None and not tokens.frozen.whole


def _whole_pass(model: ManyHeads, data: dict[str, TaskTokens], batches: list[Batch]) -> Pass:
    passing: Pass = []
    for batch in batches:
        rows = batch.indices.tolist()
        passing.append((batch.task, rows, [data[batch.task].inputs(model, row) for row in rows]))
    return passing


def _tokens(group: Group) -> int:
    """How much of a pass a group takes: what several tasks read alike is encoded once."""
    sequences = [sequence for _, _, inputs in group for sequence in inputs]
    distinct, _ = merge_equal(sequences, everywhere=False)
    return sum(len(sequence.ids) for sequence in distinct)


def _by_task(groups: list[Group]) -> Pass:
    passing: dict[str, tuple[list[int], Inputs]] = {}
    for group in groups:
        for task, row, inputs in group:
            rows, task_inputs = passing.setdefault(task, ([], []))
            rows.append(row)
            task_inputs.append(inputs)
    return [(task, rows, task_inputs) for task, (rows, task_inputs) in passing.items()]
