"""One evaluation while training: measured, said and logged; its model is kept where it is the best so far."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.inference.evaluate import Evaluation, with_calibration
from manyheads.model.task_tokens import TaskTokens
from manyheads.runs.run import evaluate_with_progress
from manyheads.tasks.kind import Calibration
from manyheads.training.best_models import AVERAGED, OVERALL, RAW, BestModels, describe_choice, save_best
from manyheads.training.finish import DevPredictions
from manyheads.training.setup import Setup
from manyheads.training.state import Progress
from manyheads.training.summary import describe_evaluation
from manyheads.training.teaching.teachers import describe_left_out
from manyheads.training.weight_averaging import build_averaging


class Evaluator:
    """The evaluations of one training, and the best models so far."""

    def __init__(
        self, setup: Setup, folder: Path, progress: Progress, write_log: Callable[[dict[str, Any]], None]
    ) -> None:
        self.setup, self.recipe, self.folder = setup, setup.recipe, folder
        self.model, self.datasets, self.schedule = setup.model, setup.datasets, setup.schedule
        self.progress, self.write_log = progress, write_log
        self.best = BestModels()
        self.averaging = build_averaging(setup.recipe, setup.model, folder)
        self.dev_predictions = DevPredictions()

    def evaluate(self) -> Evaluation | None:
        """Of the weights as they are, and of averaged ones where there are such. The better of them may be the best;
        None of an untrained model, which is no candidate."""
        evaluation = self._evaluate_model()
        record = {"event": "evaluate", **evaluation.to_json(), "seen": self.progress.examples}
        record |= self.schedule.passes_over(self.progress.step)
        self.say(evaluation)
        if self.datasets.train_rows:
            calibrated_train = with_calibration(self.datasets.train, evaluation.calibration)
            train = self._evaluate_rows(calibrated_train, self.datasets.train_rows)
            record |= {"train": train.metrics, "train_losses": train.losses}
            self.say(train, "on train  ")
        averaged = None
        if self.averaging:
            averaged = self.averaging.evaluate(self._evaluate_model, self.datasets.selection)
            record["averaged"] = averaged.to_json()
            self.say(averaged, "averaged weights  ")
        self.write_log(record)
        if not self.progress.step and not self.recipe.training.probe:
            return None
        self._keep_best(evaluation, averaged)
        return evaluation

    def _keep_best(self, evaluation: Evaluation, averaged: Evaluation | None) -> None:
        if self.averaging and averaged:
            about, write = self._about(averaged), self.setup.processes.main
            self.averaging.keep_best(averaged, self.setup.encoder_folder, about, write)
        tasks = {}
        if self.recipe.checkpoint.best_per_task:
            tasks = {name: self.model.tasks[name] for name in self.datasets.selection}
        candidates = {RAW: evaluation}
        if averaged:
            candidates[AVERAGED] = averaged
        beaten = self.best.update(candidates, tasks, self.progress.step)
        if self.setup.processes.main:
            self._save_best(candidates, beaten)

    def _save_best(self, candidates: dict[str, Evaluation], beaten: dict[str, str]) -> None:
        """`beaten`: what has a new best → which of the candidates that is."""
        for weights, evaluation in candidates.items():
            names = [name for name, winner in beaten.items() if winner == weights]
            applied: AbstractContextManager[dict[str, Any]] = nullcontext({})
            if self.averaging:
                applied = self.averaging.candidate(weights)
            with applied as about_weights:
                if OVERALL in names:
                    self.dev_predictions.keep(weights == RAW and not self.averaging)
                about = {**self._about(evaluation), **about_weights}
                save_best(self.folder, names, self.model, self.setup.encoder_folder, about, evaluation.calibration)

    def _evaluate_model(self) -> Evaluation:
        fit = self.recipe.evaluate.calibrate
        return self._evaluate_rows(self.datasets.selection, self.datasets.selection_rows, fit)

    def _evaluate_rows(self, data: dict[str, TaskTokens], rows: dict[str, np.ndarray], fit: bool = False) -> Evaluation:
        """The main process evaluates; all get the result, but for the calibration: it alone saves models."""
        processes = self.setup.processes
        content: dict[str, Any] | None = None
        calibration: dict[str, Calibration] = {}
        if processes.main:
            evaluated = {name: data[name] for name in rows}
            evaluation, predictions = evaluate_with_progress(
                self.model, evaluated, self.recipe, self.setup.reporter, rows, fit
            )
            if data is self.datasets.selection:
                self.dev_predictions.note(predictions)
            content, calibration = evaluation.to_json(), evaluation.calibration
        return Evaluation(**processes.tell(content), calibration=calibration)

    def say(self, evaluation: Evaluation, prefix: str = "") -> None:
        """For people: where training stands, and the figures."""
        step, epoch = self.progress.step, self.schedule.epochs_begun(self.progress.step)
        figures = describe_evaluation(evaluation, self.model.tasks)
        self.setup.reporter.say(f"{prefix}step {step:,}  epoch {epoch}  {figures}")

    def _about(self, evaluation: Evaluation) -> dict[str, Any]:
        """What a model folder says of itself: which step, and the figures on which best/ and best-TASK/ are chosen."""
        return {
            "run": self.recipe.name,
            "step": self.progress.step,
            "epoch": self.schedule.epochs_begun(self.progress.step),
            "chosen_on": describe_choice(evaluation, self.datasets),
            "metrics": evaluation.metrics,
            "overall": evaluation.overall,
            **describe_left_out(self.datasets.left_out),
        }
