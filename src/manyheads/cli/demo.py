"""`manyheads demo`: train on embedded defaults, from generated data to predictions."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from manyheads.cli.options import AsJson, Overrides
from manyheads.console import print_json, print_metrics, print_table

SENTENCES = (
    "The soup was not bad at all.",
    "A tedious lecture, only rescued by its charming speaker.",
    "The hotel was a complete nightmare.",
)
QUESTIONS = (
    ("How do I learn to swim?", "What is the best way to learn swimming?"),
    ("Can a cat chase a dog?", "Can a dog chase a cat?"),
)
STATEMENTS = (
    ("A cook sliced the bread this morning.", "This morning the bread was cut by a chef."),
    ("A cook sliced the bread this morning.", "A tourist photographed the old bridge."),
)


def demo(
    overrides: Overrides = None,
    output: Annotated[str, typer.Option("--output", help="Folder for the run folder.")] = "runs",
    as_json: AsJson = False,
) -> None:
    """Train three generated tasks with the default encoder, and predict for a few sentences. Needs no network."""
    from manyheads.cli.run_report import write_run_report
    from manyheads.config.location import COMMAND_LINE
    from manyheads.config.overrides import parse_overrides
    from manyheads.tasks.resolve import load_recipe
    from manyheads.training.loop import train

    recipe = load_recipe("demo", {"output": output, **parse_overrides(overrides or [])}, COMMAND_LINE)
    run = train(recipe, overwrite=True)
    write_run_report(run)
    predictions = _predict_examples(run)
    if as_json:
        print_json({"metrics": run.metrics, "predictions": predictions})
        return
    print_metrics(run.metrics, as_json)
    print_table(predictions, as_json)


def _predict_examples(run: Any) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for task, texts in (("sentiment", SENTENCES), ("paraphrase", QUESTIONS), ("similarity", STATEMENTS)):
        for text, described in zip(texts, run.predict(task, texts), strict=True):
            joined = text
            if isinstance(text, tuple):
                joined = " / ".join(text)
            lines.append({"task": task, "text": joined, "prediction": described["prediction"]})
    return lines
