"""The training loop on one page, and who starts it: `train`, `extend` and `resume`."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, Protocol

from manyheads.config.load import load_run_recipe
from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.errors import Interrupted, UserError
from manyheads.runs.lock import check_not_training
from manyheads.runs.run import Run
from manyheads.runs.trackers import tracking
from manyheads.storage.files import restore_folder
from manyheads.tasks.resolve import load_recipe
from manyheads.training.distributed import Processes
from manyheads.training.interrupt import stop_signals
from manyheads.training.run_folder import (
    check_free,
    check_not_its_own_source,
    checkpoints_of,
    has_checkpoint,
    locked_folder,
)
from manyheads.training.setup import assemble
from manyheads.training.state import Progress, TrainingState
from manyheads.training.trainer import Trainer


def train(
    recipe: Recipe | dict[str, Any] | str | Path,
    overrides: dict[str, Any] | None = None,
    overwrite: bool = False,
    quiet: bool = False,
) -> Run:
    """Train a recipe in a new run folder and return the run.

    `recipe` is a file, the name of a shipped recipe, a dict, or what `load_recipe` made of one of these. `overrides`
    are {dotted.key: value}, as for `load_recipe`.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, overrides)
    elif overrides is not None:
        raise UserError("overrides: this recipe is loaded already; give them to `load_recipe`.", code="bad-override")
    folder = recipe.folder
    check_free(folder, overwrite, is_run=(folder / "recipe.yaml").is_file())
    if overwrite:
        check_not_its_own_source(recipe)
    return _train(recipe, folder, Reporter(quiet), overwrite)


def extend(
    model: Run | str | Path,
    recipe: dict[str, Any] | str | Path,
    overrides: dict[str, Any] | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    overrides_from: str = "overrides",
) -> Run:
    """Add the tasks of a recipe to a trained model, whose encoder and heads stay as they are; returns the new run.

    `model` is a run, its folder, or a model folder. The old tasks' data is not needed. `overrides` are as for `train`;
    `overrides_from` is what messages call them.
    """
    folder = model.folder / model.model_name if isinstance(model, Run) else Path(model)
    settings = {**(overrides or {}), "extends": str(folder)}
    return train(load_recipe(recipe, settings, overrides_from), overwrite=overwrite, quiet=quiet)


def resume(folder: str | Path, quiet: bool = False, take_lock: bool = False) -> Run:
    """Go on with a run that was stopped or killed; the result is the same as if it had not been.

    `take_lock`: even where the run is locked by another machine, whose process is gone.
    """
    run = Run(folder)
    if not is_finished(run):
        check_not_training(run.folder, take_lock)  # before any work is done
        recipe = load_run_recipe(run.folder / "recipe.yaml")  # runs what it imports: the user trained with it
        _train(recipe, run.folder, Reporter(quiet), take_lock=take_lock)
    return run


def is_finished(run: Run) -> bool:
    restore_folder(run.folder / "best")
    return bool(run.metrics) and (run.folder / "best").is_dir()


def _train(recipe: Recipe, folder: Path, reporter: Reporter, overwrite: bool = False, take_lock: bool = False) -> Run:
    train_to_end(recipe, folder, reporter, overwrite, take_lock).leave()
    return Run(folder)


def train_to_end(
    recipe: Recipe, folder: Path, reporter: Reporter, overwrite: bool = False, take_lock: bool = False
) -> Processes:
    """Train a run from its start, or from its last checkpoint; returns the processes, which are still together."""
    resuming = not overwrite and has_checkpoint(folder)
    setup = assemble(recipe, reporter, folder if resuming else None)
    trainer = Trainer(setup, folder)
    with locked_folder(folder, setup.processes, take_lock), tracking(recipe, setup.accelerator):
        trainer.open(overwrite)
        run_steps(trainer, recipe.checkpoint.every_steps, setup.reporter, setup.processes)
        trainer.finish()
    return setup.processes


# --- the loop ----------------------------------------------------------------------------------------------------


class Work(Protocol):
    """What a run does; `run_steps` says when. Training and pre-training each bring their own."""

    name: str
    steps: int
    folder: Path
    progress: Progress
    state: TrainingState  # what checkpoints hold

    def start(self) -> None:
        """Before the first step, also of a resumed run."""

    def ready(self) -> bool:
        """Get ready for the next step; False ends the run early."""

    def step(self, stop_requested: bool) -> bool:
        """One optimizer step. Returns whether any process was asked to stop."""

    def end_step(self) -> bool:
        """Evaluate where it is time. Returns whether an epoch is over."""


def run_steps(work: Work, checkpoint_every: int | None, reporter: Reporter, processes: Processes) -> None:
    """All steps, from the first or from where an old run stopped: step, evaluate, save; stop where a signal asks."""
    progress, checkpoints = work.progress, checkpoints_of(work.folder)
    with stop_signals() as signals:
        work.start()  # before the bar, whose estimate is of steps
        with reporter.job(work.name, work.steps, progress.step) as bar:
            while progress.step < work.steps and work.ready():
                stopping = work.step(bool(signals))
                bar.update(progress.step, progress.status())
                epoch_over = work.end_step()
                stopping = stopping or (processes.count == 1 and bool(signals))
                checkpoint_due = checkpoint_every is not None and progress.step % checkpoint_every == 0
                if processes.main and (epoch_over or stopping or checkpoint_due):
                    work.state.save(checkpoints, progress.step)
                if stopping and progress.step < work.steps:
                    processes.wait()  # for the one that saves
                    raise Interrupted.run(work.folder, progress.step, signals[0] if signals else signal.SIGTERM)
