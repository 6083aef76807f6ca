"""An exponential moving average of the weights (Polyak averaging), evaluated beside the raw ones: the better is kept.

After optimizer step t = 0, 1, 2 …, with θ the raw and θ̄ the averaged weights:

    θ̄ ← β_t·θ̄ + (1 − β_t)·θ        β_t = min(β, (1 + t) / (10 + t))

θ̄ starts as the weights that training starts from, probed heads included. The warm-up of the decay corrects that bias:
it lets the average forget its start within the first steps, however large β is. What does not learn stays exactly as
it is.

At every evaluation both are candidates for best/ and best-TASK/; of equal ones the raw weights are taken.
best-averaged/ is the best of the averaged ones alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.inference.evaluate import Evaluation
from manyheads.model.folder import load_model, save_model
from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.runs.run import evaluate_with_progress
from manyheads.storage.files import restore_folder
from manyheads.training.best_models import AVERAGED, RAW
from manyheads.training.datasets import Datasets, of_model
from manyheads.training.state import PlainState, Stateful

FOLDER = "best-averaged"  # which a task of that name would take: tasks/compatibility.py refuses it


class WeightAverage:
    """θ̄ of one module. It is the same in every process, as the weights are."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.module, self.decay = module, decay
        self.restart()

    def restart(self) -> None:
        """Begin with the weights as they are now."""
        self.steps = 0  # that were averaged
        self.averages = {name: parameter.detach().clone() for name, parameter in self.module.named_parameters()}

    @torch.no_grad()
    def update(self) -> None:
        """After an optimizer step."""
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        parameters = dict(self.module.named_parameters())
        weights = [parameters[name].detach() for name in self.averages]
        torch._foreach_lerp_(list(self.averages.values()), weights, 1 - decay)
        self.steps += 1

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within the block the module has the averaged weights; afterwards its own, to the last bit."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        for name, parameter in self.module.named_parameters():
            parameter.data, self.averages[name] = self.averages[name], parameter.data

    def state_dict(self) -> dict[str, Tensor]:
        return {**self.averages, "steps": torch.tensor(self.steps)}

    def load_state_dict(self, tensors: dict[str, Tensor]) -> None:
        self.steps = int(tensors["steps"])
        for name, average in self.averages.items():
            average.copy_(tensors[name])


@dataclass
class BestAverage(PlainState):
    """The overall score of the best averaged weights so far."""

    best_overall: float | None = None
    best_step: int = 0


class WeightAveraging:
    """`training.average_weights`: averages while training, and keeps the best averaged model in best-averaged/."""

    def __init__(self, model: ManyHeads, decay: float, run: Path) -> None:
        self.model, self.folder = model, run / FOLDER
        self.average, self.best = WeightAverage(model, decay), BestAverage()

    def forget_lost(self, reporter: Reporter) -> None:
        """A folder that was deleted or damaged no longer counts as the best so far."""
        restore_folder(self.folder)
        if self.best.best_overall is not None and not self.folder.is_dir():
            self.best.best_overall = None
            reporter.say(f"note: {self.folder} is gone; the best from here on takes its place")

    def evaluate(self, evaluate: Callable[[], Evaluation], data: dict[str, TaskTokens]) -> Evaluation:
        """The averaged weights' evaluation; states of frozen layers are those of the raw weights, and not read."""
        frozen = {name: tokens.frozen for name, tokens in data.items()}
        for tokens in data.values():
            tokens.frozen = None
        try:
            with self.average.applied():
                return evaluate()
        finally:
            for name, tokens in data.items():
                tokens.frozen = frozen[name]

    def keep_best(self, evaluation: Evaluation, encoder_folder: Path, about: dict[str, Any], write: bool) -> None:
        """Remember the evaluation where it is the best so far; `write` also saves the model."""
        if self.best.best_overall is not None and evaluation.overall <= self.best.best_overall:
            return
        self.best.best_overall, self.best.best_step = evaluation.overall, about["step"]
        if write:
            with self.average.applied():
                about = {**about, "average_weights": self.average.decay}
                save_model(self.folder, self.model, encoder_folder, about, evaluation.calibration)

    @contextmanager
    def candidate(self, weights: str) -> Iterator[dict[str, Any]]:
        """Within the block the model has the raw or the averaged weights; gives what a model folder says of them."""
        if weights == RAW:
            yield {"weights": RAW}
            return
        with self.average.applied():
            yield {"weights": AVERAGED, "average_weights": self.average.decay}

    def describe_best(self, best: dict[str, Any]) -> str:
        """For people: which weights best/ has."""
        chosen = f"best/: {best.get('weights', RAW)} weights of step {best['step']:,}, overall {best['value']:.3f}"
        return f"{chosen} (best averaged ones: {self.best.best_overall:.3f} at step {self.best.best_step:,})"

    def final_metrics(self, datasets: Datasets, recipe: Recipe, reporter: Reporter) -> dict[str, Any]:
        """best-averaged/ on all of dev."""
        model, about = load_model(self.folder)
        dev = of_model(datasets.dev, model)
        evaluation, _ = evaluate_with_progress(model.to(self.model.device), dev, recipe, reporter)
        return {"dev": evaluation.to_json(), "model": about}


def averaging_entries(averaging: WeightAveraging | None) -> dict[str, Stateful]:
    """What checkpoints hold of it."""
    if averaging is None:
        return {}
    return {"average": averaging.average, "best_average": averaging.best}


def models_evaluated(recipe: Recipe) -> int:
    """How many models every evaluation measures: the raw weights, and the averaged ones."""
    return 1 if recipe.training.average_weights is None else 2


def build_averaging(recipe: Recipe, model: ManyHeads, run: Path) -> WeightAveraging | None:
    decay = recipe.training.average_weights
    if decay is None:
        return None
    return WeightAveraging(model, decay, run)
