"""Commands that train: train, distill, pretrain, resume."""

from __future__ import annotations

from manyheads.cli.options import (
    AsJson,
    Overrides,
    Overwrite,
    Quiet,
    RecipeArgument,
    RunArgument,
    TakeLock,
    read_recipe,
)
from manyheads.console import print_metrics


def train(
    recipe: RecipeArgument,
    overrides: Overrides = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train a recipe; for example: manyheads train recipe.yaml training.epochs=1 seed=3"""
    from manyheads.cli.run_report import write_run_report
    from manyheads.training.loop import train as start_training

    run = start_training(read_recipe(recipe, overrides), overwrite=overwrite, quiet=quiet)
    write_run_report(run, quiet)
    print_metrics(run.metrics, as_json)


def distill(
    recipe: RecipeArgument,
    overrides: Overrides = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train the single-task teachers that a recipe lacks, then the recipe on labels and their predictions."""
    from manyheads.cli.run_report import write_run_report
    from manyheads.distilling.distill import distill as start_distilling

    run = start_distilling(read_recipe(recipe, overrides), overwrite=overwrite, quiet=quiet)
    write_run_report(run, quiet)
    print_metrics(run.metrics, as_json)


def pretrain(
    recipe: RecipeArgument, overrides: Overrides = None, overwrite: Overwrite = False, quiet: Quiet = False
) -> None:
    """Pre-train the recipe's encoder further on the tasks' own texts; gives an encoder folder that recipes can name."""
    from manyheads.pretraining import pretrain as start_pretraining

    print(start_pretraining(read_recipe(recipe, overrides), overwrite, quiet))


def resume(run: RunArgument, as_json: AsJson = False, quiet: Quiet = False, take_lock: TakeLock = False) -> None:
    """Go on with a run that was stopped or killed, to the same result."""
    from manyheads.cli.run_report import write_run_report
    from manyheads.pretraining import is_pretraining, resume_pretraining
    from manyheads.runs.run import Run
    from manyheads.training.loop import is_finished
    from manyheads.training.loop import resume as resume_training

    if is_pretraining(run):
        print(resume_pretraining(run, quiet, take_lock))
        return
    was_finished = is_finished(Run(run))
    finished = resume_training(run, quiet, take_lock)
    if not was_finished:
        write_run_report(finished, quiet)
    print_metrics(finished.metrics, as_json)
