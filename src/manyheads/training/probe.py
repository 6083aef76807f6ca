"""Before the first step: heads that start where the encoder already is, and the baseline that training has to beat.

Linear probing, then fine-tuning (Kumar et al. 2022): a random head's first gradients distort features that were good.
One pass over at most `training.probe_tokens` of each task with the frozen encoder gives features; a linear head is
then solved on them, any other learns for a few hundred steps on frozen states. The baseline is a linear model on the
frozen encoder's sentence vectors, of a pair [u; v; |u − v|; u∘v; cos], whatever the recipe's own encoding is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyheads.config.part import PartConfig
from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.inference.evaluate import Evaluation, fixed_subset, with_calibration
from manyheads.inference.predict import collect_features
from manyheads.model.head import TaskHead
from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.losses import ChoiceCrossEntropy, Loss, SpanCrossEntropy
from manyheads.parts.pooling import pooling_of
from manyheads.runs.run import evaluate_with_progress
from manyheads.seeding import generator
from manyheads.tasks.task import PARTS, Task
from manyheads.training.datasets import Datasets
from manyheads.training.head_warmup import STEPS, warm_up_heads
from manyheads.training.linear_solver import Solution, solve

BASELINE_ENCODINGS = {1: "single", 2: "bi-features"}  # by the number of texts


@dataclass(frozen=True)
class Probe:
    """What the frozen encoder can do, as the log keeps it."""

    selection: Evaluation  # of the baseline, on what checkpoints are chosen by
    dev: Evaluation  # of the baseline
    solved: dict[str, float]  # tasks whose heads were solved → the strength of their L2 term
    trained: list[str]  # tasks whose heads learnt on frozen states

    def to_json(self) -> dict[str, Any]:
        return {
            "selection": self.selection.to_json(),
            "dev": self.dev.to_json(),
            "solved": self.solved,
            "trained": self.trained,
        }


def baseline_task(task: Task, model: ManyHeads) -> Task:
    """The task with the parts of the baseline: sentence vectors of the encoder, and a linear model on them."""
    pooling = pooling_of(model.encoder)
    if task.kind.pooling is not None:
        pooling = PartConfig(name=task.kind.pooling)
    elif pooling.name == "head-pooler":  # which learns
        pooling = PartConfig(name="mean")
    if task.kind.searches:  # the vectors as they are: there is nothing to learn
        return replace(task, pooling=pooling, head=PartConfig(name="none"), head_of=None)
    return replace(
        task,
        encoding=PartConfig(name="cross" if task.kind.per_token else BASELINE_ENCODINGS[len(task.columns.text)]),
        pooling=pooling,
        head=PartConfig(name="linear"),
        output=PartConfig(name="raw"),
        loss=PartConfig(name=task.kind.default_loss(task.labels)),
        head_of=None,
    )


def start_tokens(most_tokens: int) -> int:
    """Of a task whose head reads other features than the baseline: they are only where it starts."""
    return most_tokens // 2


def probe_tokens_read(model: ManyHeads, datasets: Datasets, most_tokens: int) -> int:
    """How many tokens pass through the frozen encoder, of all tasks, where each gives at most so many."""
    read = 0
    for name in datasets.selection:
        tokens, task = _token_count(datasets.train[name]), model.tasks[name]
        read += min(most_tokens, tokens)
        if not _same_parts(task, baseline_task(task, model)):
            read += min(start_tokens(most_tokens), tokens)
    return read


def _token_count(data: TaskTokens) -> int:
    return sum(int(column.lengths.sum()) for column in data.texts)


class Prober:
    """Solves heads on the features of a frozen encoder, which it computes in the precision of the training."""

    def __init__(
        self,
        recipe: Recipe,
        model: ManyHeads,
        datasets: Datasets,
        reporter: Reporter,
        autocast: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.recipe, self.model, self.datasets, self.reporter = recipe, model, datasets, reporter
        self.autocast = autocast
        self.tokens_per_pass = recipe.evaluate.tokens_per_pass
        self.rows: dict[str, np.ndarray] = {}
        self.most_tokens = recipe.training.probe_tokens
        for name in datasets.selection:
            self.rows[name] = self._rows(name, self.most_tokens)

    def _rows(self, task: str, most_tokens: int) -> np.ndarray:
        data = self.datasets.train[task]
        most_rows = max(1, most_tokens * len(data) // max(1, _token_count(data)))
        if task not in self.datasets.visits:
            return fixed_subset(data, most_rows, self.recipe.seed)
        rows_name, seed = data.row_group or task, self.recipe.seed
        visited = np.unique(self.datasets.visits[task].rows_of_pass(0, seed, rows_name))
        rows = generator(seed, "evaluate", rows_name).permutation(visited)
        return np.sort(rows[data.examples.labelled[rows]][:most_rows])

    def run(self, kept: set[str]) -> Probe:
        """Give every head its start, but those of `kept` tasks, which are trained already; measure the baseline."""
        baseline_tasks = {name: baseline_task(self.model.tasks[name], self.model) for name in self.rows}
        baseline = ManyHeads(
            self.model.encoder, baseline_tasks, self.model.tokenizer, self.model.max_length, self.recipe.seed
        ).to(self.model.device)
        with_head = [name for name in self.rows if baseline.head(name).linear_map is not None]
        strengths = self._solve(baseline, with_head, self.most_tokens)
        solved: dict[str, float] = {}
        unlike: list[str] = []
        for name in self._owners():
            if name in kept:
                continue
            same_parts = _same_parts(self.model.tasks[name], baseline_tasks[name])
            if name in strengths and same_parts and not self._followers(name):
                self.model.head(name).load_state_dict(baseline.head(name).state_dict())
                solved[name] = strengths[name]
            else:
                unlike.append(name)
        linear = [name for name in unlike if self.model.head(name).linear_map is not None]
        solved |= self._solve(self.model, linear, start_tokens(self.most_tokens))
        trained = [name for name in unlike if name not in linear and _learns(self.model.head(name))]
        if trained:
            with self.reporter.job("warm up heads", STEPS) as bar:
                warm_up_heads(self.model, self.datasets.train, self.rows, trained, self.recipe.seed, bar.update)
        selection, dev = self._evaluate(baseline)
        return Probe(selection, dev, solved, trained)

    def _owners(self) -> list[str]:
        """Tasks with a head of their own."""
        return [name for name in self.rows if self.model.tasks[name].head_of is None]

    def _followers(self, owner: str) -> list[str]:
        """Tasks that use its head."""
        return [name for name in self.rows if self.model.tasks[name].head_of == owner]

    def _solve(self, model: ManyHeads, owners: list[str], most_tokens: int) -> dict[str, float]:
        """Solve the linear heads of some tasks, each with the rows of all tasks that use it."""
        users: dict[str, list[str]] = {}
        for owner in owners:
            users[owner] = [owner, *(name for name in self.rows if model.tasks[name].head_of == owner)]
        names = [name for group in users.values() for name in group]
        if not names:
            return {}
        data = {name: self.datasets.train[name].of(model.tasks[name]) for name in names}
        rows = {name: self._rows(name, most_tokens) for name in names}
        total = sum(len(task_rows) for task_rows in rows.values())
        with self.reporter.job("probe", total) as bar, self.autocast():
            features = collect_features(model, data, self.tokens_per_pass, rows, bar.update)
        strengths = {}
        for owner, group in users.items():
            group_features = torch.cat([features[name] for name in group])
            group_labels = torch.cat([_labels(data[name], rows[name]) for name in group])
            solution = _solve_head(model.head(owner), group_features, group_labels, self.recipe.seed)
            strengths[owner] = solution.strength
        return strengths

    def _evaluate(self, baseline: ManyHeads) -> tuple[Evaluation, Evaluation]:
        """On what checkpoints are chosen by, and on dev; calibrated as every model is."""
        settings = self.recipe.evaluate
        selection_data = _of_tasks(self.datasets.selection, baseline.tasks)
        rows = self.datasets.selection_rows
        with self.autocast():
            selection, _ = evaluate_with_progress(
                baseline, selection_data, self.recipe, self.reporter, rows, settings.calibrate
            )
            dev_data = with_calibration(_of_tasks(self.datasets.dev, baseline.tasks), selection.calibration)
            dev, _ = evaluate_with_progress(baseline, dev_data, self.recipe, self.reporter)
        return selection, dev


def _of_tasks(data: dict[str, TaskTokens], tasks: dict[str, Task]) -> dict[str, TaskTokens]:
    """The same tokens, of tasks with other parts."""
    return {name: tokens.of(tasks[name]) for name, tokens in data.items()}


def _same_parts(task: Task, other: Task) -> bool:
    return all(getattr(task, part) == getattr(other, part) for part in PARTS)


def _learns(head: TaskHead) -> bool:
    """Whether the head has anything to learn: a cosine that is the prediction itself has not."""
    return head.encoding.group is not None or any(True for _ in head.parameters())


def _labels(data: TaskTokens, rows: np.ndarray) -> Tensor:
    assert data.labels is not None
    if data.label_places is not None:
        return data.word_labels(rows.tolist())
    if data.task.kind.per_token:
        places = [data.labels[row] for row in rows.tolist()]
        counts = (1 + data.texts[1].lengths_of(rows)).tolist()
        right = [torch.nn.functional.one_hot(pair, count).T for pair, count in zip(places, counts, strict=True)]
        return torch.cat(right)
    if data.candidates is not None:
        return data.candidates.are_right(data.labels.numpy(), rows)
    return data.labels[torch.from_numpy(rows)]


def _solve_head(head: TaskHead, features: Tensor, labels: Tensor, seed: int) -> Solution:
    """Put the solution into the head's linear layer."""
    loss = head.loss
    if isinstance(loss, ChoiceCrossEntropy | SpanCrossEntropy):
        return _solve_linear(head, features, labels, seed, loss.one_by_one)
    if loss.whole_batch or loss.reads_sentences:  # which would compare every example with every other
        loss = _plain_loss(loss.task)

    return _solve_linear(head, features, labels, seed, loss)


def _solve_linear(
    head: TaskHead, features: Tensor, labels: Tensor, seed: int, loss: Callable[[Tensor, Tensor], Tensor]
) -> Solution:
    linear = head.linear_map
    assert linear is not None

    def example_loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return loss(head.output(outputs), targets)

    solution = solve(features, labels, example_loss, linear.out_features, seed)
    with torch.no_grad():
        linear.weight.copy_(solution.weight)
        linear.bias.copy_(solution.bias)
    return solution


def _plain_loss(task: Task) -> Loss:
    plain: Loss = PartConfig(name=task.kind.default_loss(task.labels)).build("losses", task)
    return plain
