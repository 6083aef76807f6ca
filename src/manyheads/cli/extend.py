"""The command that adds tasks to a trained model: extend."""

from __future__ import annotations

from manyheads.cli.options import AsJson, ModelArgument, Overrides, Overwrite, Quiet, RecipeArgument
from manyheads.console import print_metrics


def extend(
    model: ModelArgument,
    recipe: RecipeArgument,
    overrides: Overrides = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Add a recipe's tasks to a trained model, whose encoder and heads stay as they are. Their data is not needed.

    For example: manyheads extend runs/reviews topics.yaml
    """
    from manyheads.cli.run_report import write_run_report
    from manyheads.config.location import COMMAND_LINE
    from manyheads.config.overrides import parse_overrides
    from manyheads.training.loop import extend as start_extension

    run = start_extension(model, recipe, parse_overrides(overrides or []), overwrite, quiet, COMMAND_LINE)
    write_run_report(run, quiet)
    print_metrics(run.metrics, as_json)
