"""What one encoder pass adds to the tasks' losses: every example's loss, of its label or of teachers, and the terms of
regularisers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from manyheads.config.training import LossScale
from manyheads.errors import UserError
from manyheads.model.multitask import Inputs, ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.regularisers.base import ForwardPass, Regulariser
from manyheads.seeding import rng_state
from manyheads.tokens.packing import Words
from manyheads.training.gradients.chunks import encode_in_chunks, input_tokens
from manyheads.training.gradients.non_finite import NonFiniteLoss
from manyheads.training.gradients.passes import Pass, RoundPass
from manyheads.training.teaching.teaching import Teaching


class PassLosses:
    """Passes → losses, for one model and its data."""

    def __init__(
        self, model: ManyHeads, data: dict[str, TaskTokens], autocast: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.model, self.data, self.autocast = model, data, autocast
        self.tokens_per_pass: int | None = None  # how much of a batch that is compared as a whole is encoded at a time
        self.teaching: Teaching | None = None  # what tasks learn besides their labels
        self.constant_losses: dict[str, float] = {}  # task → that of the best constant prediction
        self.begin("raw", (), 0)

    def begin(self, loss_scale: LossScale, regularisers: Sequence[Regulariser], step: int) -> None:
        """What holds for the step under way."""
        self.scales = self.constant_losses if loss_scale == "constant" else {}  # what losses are divided by
        self.regularisers, self.step = regularisers, step

    def regularisers_of(self, task: str) -> list[Regulariser]:
        """Those that add a term to every example of a task."""
        return [
            regulariser for regulariser in self.regularisers if regulariser.reads_examples and task in regulariser.tasks
        ]

    def __call__(self, round_pass: RoundPass, terms: dict[str, float]) -> dict[str, Tensor]:
        """Task → its loss, divided by counts over all passes, so that parts add up. `terms`: regulariser → what it
        added so far; what it adds here is added."""
        passing, divisors = round_pass
        if self._is_cut(passing):
            return self._cut_losses(round_pass)
        forward_pass = self._run(round_pass)
        packed = forward_pass.packed
        values = []
        for (task, rows, inputs), outputs, words in zip(passing, forward_pass.outputs, packed.words, strict=True):
            values.append(self._example_losses(task, rows, outputs, words, _input_counts(inputs, outputs)))
        for regulariser in self.regularisers_of(passing[0][0]):
            for number, (task, term) in enumerate(zip(packed.tasks, regulariser.terms(forward_pass), strict=True)):
                words = packed.words[number]
                if words is not None:
                    term = self._per_example(task, words, term)
                values[number] = values[number] + regulariser.weight * term
                added = regulariser.weight * term.detach().sum().item() / divisors[task]
                terms[regulariser.name] = terms.get(regulariser.name, 0.0) + added
        losses = {}
        for (task, rows, _), example_losses in zip(passing, values, strict=True):
            losses[task] = _mean(task, rows, example_losses, divisors)
        return losses

    def _is_cut(self, passing: Pass) -> bool:
        """Whether the pass is the batch of a search that is larger than an encoder pass may be."""
        if self.tokens_per_pass is None or len(passing) > 1:
            return False
        task, rows, inputs = passing[0]
        if len(rows) < 2 or not self.model.head(task).loss.reads_inputs:
            return False
        return sum(map(input_tokens, inputs)) > self.tokens_per_pass

    def _cut_losses(self, round_pass: RoundPass) -> dict[str, Tensor]:
        """The same of a batch whose texts are encoded in several passes, with the gradient of the whole."""
        ((task, rows, inputs),) = round_pass.passing
        assert self.tokens_per_pass is not None

        def encode(chunk: Inputs) -> Tensor:
            with self.autocast():
                return self.model([(task, chunk)])[0]

        outputs = encode_in_chunks(encode, inputs, self.tokens_per_pass)
        values = self._example_losses(task, rows, outputs, None, _input_counts(inputs, outputs))
        return {task: _mean(task, rows, values, round_pass.divisors)}

    def _run(self, round_pass: RoundPass) -> ForwardPass:
        """Through encoder and heads."""
        passing, divisors = round_pass
        batches = [(task, inputs) for task, _, inputs in passing]
        regularisers = self.regularisers_of(passing[0][0])
        before = rng_state(self.model.device)
        with self.autocast():
            packed = self.model.pack(
                batches,
                merge=not any(regulariser.reruns for regulariser in regularisers),
                all_states=any(regulariser.reads_states for regulariser in regularisers),
            )
            embedded = self.model.embed(packed)
            after = rng_state(self.model.device)
            states = self.model.states(embedded, packed)
            outputs = self.model.outputs(states, packed)
        return ForwardPass(
            self.model,
            batches,
            packed,
            embedded,
            states,
            outputs,
            [divisors[task] for task, _ in batches],
            before,
            after,
            self.autocast,
        )

    def _example_losses(
        self, task: str, rows: list[int], outputs: Tensor, words: Words | None, input_counts: Tensor
    ) -> Tensor:
        """[examples]; where words have labels of their own, the mean over those of each example, or their sum."""
        data, loss = self.data[task], self.model.head(task).loss
        if loss.reads_inputs:
            numbers = data.text_numbers(rows, loss.reads_scores).to(outputs.device)
            values = loss(outputs, numbers, input_counts)  # type: ignore[call-arg]
            self._check_shape(task, values, len(rows), "example")
            return self._scaled(task, values)
        assert data.labels is not None
        labels = data.labels[rows] if data.label_places is None else data.word_labels(rows)
        labels = labels.to(outputs.device)
        per_word = words is not None and not loss.reads_sentences
        if self.teaching is not None and task in self.teaching:
            values = self.teaching.losses(loss, task, rows, outputs, labels, self.step)
        else:
            counts = () if words is None or per_word else (words.counts,)
            values = loss(outputs, labels, *counts)
        self._check_shape(task, values, len(labels) if per_word else len(rows), "word" if per_word else "example")
        if words is not None:
            values = self._per_example(task, words, values) if per_word else self._per_sentence(task, words, values)
        return self._scaled(task, values)

    def _scaled(self, task: str, values: Tensor) -> Tensor:
        return values / self.scales[task] if task in self.scales else values

    def _check_shape(self, task: str, values: Tensor, expected: int, item: str) -> None:
        if values.shape != (expected,):
            name = self.model.tasks[task].loss.name
            raise UserError(
                f"loss '{name}' of task '{task}' gave a tensor of shape {list(values.shape)} for {expected} "
                f"{item}s; a loss gives one value per {item}: [{expected}].",
                "bad-loss-shape",
            )

    def _per_sentence(self, task: str, words: Words, values: Tensor) -> Tensor:
        """A value per example that is a sum over its words → as the task's loss averages them."""
        return values / words.counts if self.model.head(task).loss.average == "sentence" else values

    def _per_example(self, task: str, words: Words, values: Tensor) -> Tensor:
        """A value per word → one per example, as the task's loss averages them."""
        return words.sum(values) if self.model.head(task).loss.average == "word" else words.mean(values)


def _mean(task: str, rows: list[int], example_losses: Tensor, divisors: dict[str, float]) -> Tensor:
    mean = example_losses.sum() / divisors[task]
    if not math.isfinite(value := mean.item()):
        raise NonFiniteLoss(task, rows, value)
    return mean


def _input_counts(inputs: Inputs, outputs: Tensor) -> Tensor:
    """[examples] how many encoder inputs each has."""
    return torch.tensor(list(map(len, inputs)), device=outputs.device)
