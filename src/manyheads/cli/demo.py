"""`manyheads demo`: the main job on embedded defaults, from generated data to answers."""

from __future__ import annotations

from typing import Any

from manyheads.cli.report import write_run_report
from manyheads.config.load import load_recipe
from manyheads.training.loop import train

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


def run_demo(overrides: dict[str, Any], output: str) -> dict[str, Any]:
    """Train the demo recipe and answer a few sentences with what came out."""
    recipe = load_recipe("demo", {"output": output, **overrides})
    run = train(recipe, overwrite=True)
    write_run_report(run)
    predictions = []
    for task, texts in (("sentiment", SENTENCES), ("paraphrase", QUESTIONS), ("similarity", STATEMENTS)):
        for text, prediction in zip(texts, run.predict(task, texts), strict=True):
            shown = text if isinstance(text, str) else " / ".join(text)
            predictions.append({"task": task, "text": shown, "answer": prediction["prediction"]})
    return {"metrics": run.metrics, "answers": predictions}
