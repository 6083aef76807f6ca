"""What a student cost, without its teachers and with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from manyheads.console import duration
from manyheads.training.state import Progress
from manyheads.training.teaching.teaching import Teaching


def distillation_cost(teaching: Teaching, progress: Progress) -> dict[str, Any]:
    """Seconds and examples trained on: of the student, of its teachers, of both; predicting counts to the teachers.

    `unknown`: teachers without the metrics.json of their run beside them, whose training is not counted.
    """
    student = {"seconds": round(progress.seconds, 1), "examples": sum(progress.examples.values())}
    seconds, examples, unknown = 0.0, 0, 0
    for teacher in teaching.teachers:
        metrics = _run_metrics(teacher.folder)
        if metrics is None:
            unknown += 1
            continue
        seconds += metrics["seconds"]
        examples += sum(metrics["examples_seen"].values())
    teachers = {
        "models": len(teaching.teachers),
        "unknown": unknown,
        "seconds": round(seconds + teaching.seconds, 1),
        "predicting_seconds": round(teaching.seconds, 1),
        "examples": examples,
    }
    together = {key: round(student[key] + teachers[key], 1) for key in ("seconds", "examples")}
    return {"student": student, "teachers": teachers, "together": together}


def _run_metrics(model: Path) -> dict[str, Any] | None:
    """metrics.json of the run that a model folder lies in."""
    try:
        metrics = json.loads((model.resolve().parent / "metrics.json").read_text(encoding="utf-8"))
        return metrics if {"seconds", "examples_seen"} <= set(metrics) else None
    except (OSError, ValueError):
        return None


def describe_cost(cost: dict[str, Any]) -> str:
    """'cost: 0:12 and 1,200 examples without the teachers, 0:58 and 5,400 with 3 of them'."""
    student, teachers, together = cost["student"], cost["teachers"], cost["together"]
    without = f"{duration(student['seconds'])} and {student['examples']:,} examples without the teachers"
    count = f"its {teachers['models']} teachers" if teachers["models"] > 1 else "its teacher"
    unknown = f" (of {teachers['unknown']} the training is not known)" if teachers["unknown"] else ""
    return f"cost: {without}, {duration(together['seconds'])} and {together['examples']:,} with {count}{unknown}"
