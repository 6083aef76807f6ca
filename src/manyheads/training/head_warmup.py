"""Heads that are not one linear map learn for a while on states of the frozen encoder, before all of it learns."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import torch

from manyheads.model.multitask import ManyHeads, evaluating
from manyheads.model.task_tokens import FrozenStates, TaskTokens
from manyheads.parts.samplers import Batch
from manyheads.parts.scalarizers import Sum
from manyheads.seeding import generator
from manyheads.storage.ragged import starts_of
from manyheads.tokens.packing import Sequence
from manyheads.training.frozen_cache import PIECE, states_of
from manyheads.training.gradients.backward import Backward
from manyheads.training.gradients.combination import Combination

STEPS = 200
BATCH_SIZE = 32
LEARNING_RATE = 1e-3
MOST_STATES = 200_000  # of each task, kept in memory


def warm_up_heads(
    model: ManyHeads,
    train: dict[str, TaskTokens],
    rows: dict[str, np.ndarray],
    tasks: list[str],
    seed: int,
    progress: Callable[[int], None] = lambda completed: None,
) -> None:
    """AdamW on the heads of `tasks` and of tasks that share them, all together; the encoder is not run again.

    `rows`: of each task, which may be learnt from; fewer where they have very many states.
    """
    data: dict[str, TaskTokens] = {}
    usable: dict[str, np.ndarray] = {}
    tasks_of_layer: dict[int, list[str]] = {}
    for name in rows:
        if (model.tasks[name].head_of or name) in tasks:
            data[name], usable[name] = _with_states(model, train[name], rows[name], seed)
            tasks_of_layer.setdefault(model.head(name).pooling.layer, []).append(name)
    backward = Backward(model, data, tokens_per_pass=2**30, autocast=nullcontext)
    combination = Combination(Sum(list(data)))
    model.train()
    with _frozen_encoder(model):
        optimizer = torch.optim.AdamW(_head_parameters(model, tasks), lr=LEARNING_RATE, weight_decay=0.01)
        for step in range(STEPS):
            optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / STEPS)
            for _, names in sorted(tasks_of_layer.items()):
                batches = [Batch(name, _draw(usable[name], seed, name, step)) for name in names]
                backward.step([batches], combination, (seed, -1 - step))
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            progress(step + 1)


@contextmanager
def _frozen_encoder(model: ManyHeads) -> Iterator[None]:
    learning = [parameter for parameter in model.encoder.parameters() if parameter.requires_grad]
    model.encoder.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)


def _head_parameters(model: ManyHeads, tasks: list[str]) -> list[torch.nn.Parameter]:
    """What learns of these tasks' heads, and of layers that several tasks' encodings share; each once."""
    parameters: dict[torch.nn.Parameter, None] = {}
    for name in tasks:
        encoding = model.head(name).encoding
        parameters |= dict.fromkeys(model.head(name).parameters())
        if encoding.group is not None:
            parameters |= dict.fromkeys(encoding.layer.parameters())
    return [parameter for parameter in parameters if parameter.requires_grad]


def _draw(rows: np.ndarray, seed: int, task: str, step: int) -> np.ndarray:
    rng = generator(seed, "warm up", task, step)
    return rng.choice(rows, size=min(BATCH_SIZE, len(rows)), replace=False)


def _with_states(model: ManyHeads, tokens: TaskTokens, rows: np.ndarray, seed: int) -> tuple[TaskTokens, np.ndarray]:
    """The same examples with the states that their pooling reads, of as many rows as there is room for."""
    task = tokens.task.name
    layer = model.head(task).pooling.layer
    sequences_of: dict[int, list[Sequence]] = {}
    room = MOST_STATES
    for row in generator(seed, "warm up", task).permutation(rows).tolist():
        sequences_of[row] = tokens.inputs(model, row)
        room -= sum(map(_kept_states, sequences_of[row]))
        if room <= 0:
            break
    chosen = sorted(sequences_of)
    lengths: list[int] = []
    counts = np.zeros(len(tokens), dtype=np.int64)  # none of rows that were not chosen
    pieces: list[np.ndarray] = []
    with evaluating(model):
        for first in range(0, len(chosen), PIECE):
            sequences: list[Sequence] = []
            for row in chosen[first : first + PIECE]:
                sequences += sequences_of[row]
                counts[row] = len(sequences_of[row])
                lengths += map(_kept_states, sequences_of[row])
            pieces.append(states_of(model, sequences, layer, whole=False).numpy())
    with_states = copy.copy(tokens)
    starts = starts_of(np.array(lengths))
    with_states.frozen = FrozenStates(layer, False, np.concatenate(pieces), starts, starts_of(counts))
    return with_states, np.array(chosen)


def _kept_states(sequence: Sequence) -> int:
    return len(sequence.ids) if sequence.positions_needed == "all" else 1
