"""Model soups (Wortsman et al. 2022): the mean of several trainings' weights is one model, as cheap as one of them.

    uniform   θ = (1/k)·Σ θ_i
    greedy    models in the order of their overall score on the selection split, best first; the next one stays in the
              mean where the score of the mean does not fall

The mean is taken in float64, tensor by tensor. The selection split is what `evaluate.select` holds out of train: which
rows those are depends on the recipe's data and on nothing else, so it is the same for all seeds, and every one of its
rows is read. Nothing is chosen or fitted on dev, which is read once, for the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from manyheads.console import Reporter
from manyheads.errors import UserError
from manyheads.inference.evaluate import Evaluation
from manyheads.model.folder import load_model, save_model
from manyheads.model.saved_tasks import read_model_file
from manyheads.model.task_tokens import TaskTokens
from manyheads.runs.run import Run, evaluate_with_progress
from manyheads.tasks.task import Task
from manyheads.training.datasets import of_model
from manyheads.training.extension import reopen_model
from manyheads.training.soup_checks import check_averageable
from manyheads.training.soup_data import SoupData, read_soup_data
from manyheads.training.soup_models import Ingredient, States, add_weights, best_models, kept_checkpoints, mean_weights
from manyheads.training.teaching.teachers import LEFT_OUT


@dataclass(frozen=True)
class Soup:
    """A model of averaged weights, and what it was made of."""

    folder: Path  # a model folder
    method: str  # 'uniform' or 'greedy'
    models: list[str]  # in the mean
    left_out: list[str]  # of a greedy soup
    selection: dict[str, Any] | None  # its evaluation on the selection split; None where that cannot be read
    dev: dict[str, Any] | None  # the same on dev
    singles: dict[str, Any]  # run → the evaluation of its best/ on dev, as its metrics.json has it
    tried: list[GreedyStep] = field(default_factory=list)  # what a greedy soup was chosen by
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "folder": str(self.folder)}


@dataclass(frozen=True)
class GreedyStep:
    """One model on its way into a greedy soup: overall scores on the selection split."""

    model: str
    alone: float
    in_mean: float  # of the mean with it
    taken: bool


def average(
    runs: Sequence[str | Path] | str | Path,
    to: str | Path,
    greedy: bool = False,
    checkpoints: bool = False,
    imports: Iterable[str | Path] = (),
    quiet: bool = True,
) -> Soup:
    """Average best/ of several runs that share their start, or the checkpoints that one run keeps, into a model folder.

    `imports` are Python files with parts that the models need, as for `Run`.
    """
    folders = [runs] if isinstance(runs, str | Path) else list(runs)
    opened = [Run(folder, imports=imports) for folder in folders]
    target = Path(to)
    _check_target(target)
    ingredients = kept_checkpoints(opened) if checkpoints else best_models(opened)
    notes = check_averageable(opened)
    averaging = _Averaging(opened[0], ingredients, Reporter(quiet), notes)
    return averaging.write(target, greedy)


def _check_target(folder: Path) -> None:
    """Before any work: the folder is new, and can be made."""
    if folder.exists():
        raise UserError(f"{folder}: it exists already; name a new folder for the average.", "folder-exists")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made: {error.strerror}. Name another folder.", "not-writable") from None


class _Averaging:
    """One average on its way: the models, the data they are measured on, and what has been noticed."""

    def __init__(self, run: Run, ingredients: list[Ingredient], reporter: Reporter, notes: list[str]) -> None:
        """`run`: whose recipe says on what data, and by what score, models are chosen and measured."""
        self.run, self.recipe, self.ingredients = run, run.recipe, ingredients
        self.reporter, self.notes = reporter, notes
        self.tried: list[GreedyStep] = []
        self.model = reopen_model(run.folder, run.recipe, reporter)  # whose weights each mean replaces
        self.model.tasks = {name: _uncalibrated(task) for name, task in self.model.tasks.items()}

    def write(self, target: Path, greedy: bool) -> Soup:
        data = self._read_data(greedy)
        taken = self._choose(data) if greedy and data else self.ingredients
        self._set_mean(taken)
        selection = self._calibrate(taken, data)
        dev = self._evaluate(of_model(data.dev, self.model)) if data else None
        soup = Soup(
            folder=target,
            method="greedy" if greedy else "uniform",
            models=[ingredient.name for ingredient in taken],
            left_out=[ingredient.name for ingredient in self.ingredients if ingredient not in taken],
            selection=_whole_json(selection, data) if selection and data else None,
            dev=dev.to_json() if dev else None,
            singles={str(item.run.folder): item.run.metrics["dev"] for item in self.ingredients},
            tried=self.tried,
            notes=self.notes,
        )
        best = self.ingredients[0].best_folder  # all runs left out the same: their data are the same
        description, _ = read_model_file(best)
        save_model(target, self.model, best, _about(soup, description.about))
        for note in self.notes:
            self.reporter.say(f"note: {note}")
        return soup

    def _read_data(self, greedy: bool) -> SoupData | None:
        try:
            data = read_soup_data(self.run, self.model)
        except UserError as fault:
            if greedy:
                raise
            self.notes.append(f"neither calibrated nor measured, because the run's data cannot be read: {fault}")
            return None
        unselected = [name for name in data.dev if name not in data.selection]
        if greedy and unselected:
            raise UserError(
                f"average: greedy chooses on rows that are held out of train, and {', '.join(unselected)} of "
                f"{self.run.folder} has none (evaluate.select); dev is not looked at. Average without --greedy.",
                "no-selection-split",
            )
        return data

    def _choose(self, data: SoupData) -> list[Ingredient]:
        """Greedy: the ingredients of the best mean, best first."""
        alone: list[tuple[float, Ingredient]] = []
        for ingredient in self.ingredients:
            self.model.load_state_dict(self._load(ingredient))
            alone.append((self._score(data), ingredient))
        alone.sort(key=lambda scored: -scored[0])  # stable: of equal ones the first stays first
        taken: list[Ingredient] = []
        sums: States = {}
        best = 0.0
        for score, ingredient in alone:
            weights = self._load(ingredient)
            with_it = add_weights(sums, weights)
            in_mean = score
            if taken:
                self.model.load_state_dict(mean_weights(with_it, len(taken) + 1, weights))
                in_mean = self._score(data)
            step = GreedyStep(ingredient.name, score, in_mean, taken=not taken or in_mean >= best)
            if step.taken:
                sums, best = with_it, in_mean
                taken.append(ingredient)
            self._say_step(step)
        return taken

    def _load(self, ingredient: Ingredient) -> States:
        """The weights of what was trained: best/ of a run that extends a model has that one's heads too."""
        weights = ingredient.load()
        return {name: weights[name] for name in self.model.state_dict()}

    def _score(self, data: SoupData) -> float:
        return self._evaluate(data.selection, fit=self.recipe.evaluate.calibrate).overall

    def _say_step(self, step: GreedyStep) -> None:
        self.tried.append(step)
        verdict = "taken" if step.taken else "left out"
        self.reporter.say(f"{step.model}: overall {step.alone:.4f} alone, {step.in_mean:.4f} in the mean: {verdict}")

    def _set_mean(self, taken: list[Ingredient]) -> None:
        sums: States = {}
        for ingredient in taken:
            weights = self._load(ingredient)
            sums = add_weights(sums, weights)
        self.model.load_state_dict(mean_weights(sums, len(taken), weights))

    def _calibrate(self, taken: list[Ingredient], data: SoupData | None) -> Evaluation | None:
        """Fit what predictions need to the selection split, and measure there. A model alone keeps what it has."""
        selection = data.selection if data else {}
        sources = {ingredient.source for ingredient in taken}
        if sources == {taken[0].best_folder.resolve()}:
            tasks = load_model(taken[0].best_folder)[0].tasks
            self.model.tasks = {name: tasks[name] for name in self.model.tasks}
            return self._evaluate(of_model(selection, self.model)) if selection else None
        fit = self.recipe.evaluate.calibrate
        if fit:
            self._note_uncalibrated(selection)
        if not selection:
            return None
        evaluation = self._evaluate(selection, fit)
        for name, fitted in evaluation.calibration.items():
            self.model.tasks[name] = self.model.tasks[name].with_calibration(fitted)
        return evaluation

    def _note_uncalibrated(self, selection: dict[str, TaskTokens]) -> None:
        for name, task in self.model.tasks.items():
            if name not in selection and task.kind.calibration_metrics:
                self.notes.append(f"{name}: not calibrated: there are no rows held out of train to fit anything to")

    def _evaluate(self, data: dict[str, TaskTokens], fit: bool = False) -> Evaluation:
        recipe = self.recipe
        if set(data) != set(recipe.training.active_tasks or recipe.tasks):  # those that are left may all weigh nothing
            unweighted = recipe.evaluate.model_copy(update={"weights": {}})
            recipe = recipe.model_copy(update={"evaluate": unweighted})
        return evaluate_with_progress(self.model, data, recipe, self.reporter, fit=fit)[0]


def _whole_json(evaluation: Evaluation, data: SoupData) -> dict[str, Any]:
    """Without an overall score where it would be of other tasks than dev's."""
    content = evaluation.to_json()
    if set(data.selection) != set(data.dev):
        del content["overall"]
    return content


def _uncalibrated(task: Task) -> Task:
    return replace(task, temperature=1.0, thresholds=())


def _about(soup: Soup, of_best: dict[str, Any]) -> dict[str, Any]:
    """What the model folder says of itself. `of_best`: what a run's best model does."""
    content = soup.to_json()
    about: dict[str, Any] = {
        "run": f"average of {', '.join(soup.models)}",
        "average": {key: content[key] for key in ("method", "models", "left_out", "tried", "notes")},
    }
    if LEFT_OUT in of_best:
        about[LEFT_OUT] = of_best[LEFT_OUT]
    if soup.selection is not None:
        about |= {"chosen_on": "all held-out train examples", **soup.selection}
    if soup.dev is not None:
        about["dev"] = soup.dev
    return about
