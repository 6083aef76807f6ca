"""Trackers that users may have already (TensorBoard and others), by name, through accelerate; off unless named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manyheads.config.recipe import Recipe
from manyheads.errors import UserError, nearest


def check_trackers(recipe: Recipe) -> None:
    """Names that accelerate knows, of packages that are installed: it would leave out others without a word."""
    from accelerate.tracking import get_available_trackers
    from accelerate.utils import LoggerType

    known_trackers = [str(tracker) for tracker in LoggerType if str(tracker) != "all"]
    installed = [str(tracker) for tracker in get_available_trackers()]
    for name in recipe.trackers:
        if name not in known_trackers:
            raise UserError(
                f"{recipe.location('trackers')}: no tracker '{name}'.{nearest(name, known_trackers)}", "unknown-tracker"
            )
        if name not in installed:
            raise UserError(
                f"{recipe.location('trackers')}: the package of '{name}' is not installed: pip install {name}",
                "tracker-not-installed",
            )


def tracker_settings(recipe: Recipe, folder: Path) -> dict[str, Any]:
    """What accelerate is told of trackers; nothing where there are none."""
    from accelerate.utils import ProjectConfiguration

    if not recipe.trackers:
        return {}
    project = ProjectConfiguration(project_dir=str(folder), logging_dir=str(folder / "trackers"))
    return {"log_with": list(recipe.trackers), "project_config": project}


@contextmanager
def tracking(recipe: Recipe, accelerator: Any) -> Iterator[None]:
    """Trackers are open while a run works, and closed whatever ends it."""
    if not recipe.trackers:
        yield
        return
    accelerator.init_trackers(recipe.name, config=dict(_flat(recipe.model_dump(mode="json"))))
    try:
        yield
    finally:
        for tracker in accelerator.trackers:
            tracker.finish()


def numbers_of(record: dict[str, Any]) -> dict[str, float]:
    """A record of the log as named numbers: 'loss/sst', 'dev/sts/pearson'."""
    numbers: dict[str, Any] = {}
    if record["event"] == "step":
        numbers = {"learning_rate": record["learning_rate"], "gradient_norm": record["gradient_norm"]}
        for key in ("loss", "weights", "surgery", "regularise"):
            numbers |= {f"{key}/{name}": value for name, value in record.get(key, {}).items()}
    elif record["event"] in ("evaluate", "end"):
        evaluation, split = (record, "dev") if record["event"] == "evaluate" else (record["dev"], "end")
        numbers = {f"{split}/overall": evaluation["overall"]}
        numbers |= {f"{split}/{task}/loss": value for task, value in evaluation.get("losses", {}).items()}
        numbers |= _by_task(split, evaluation["metrics"])
        numbers |= _by_task("train", evaluation.get("train", {}))
        numbers |= _by_task("test", record.get("test", {}).get("metrics", {}))
    return {name: float(value) for name, value in numbers.items() if isinstance(value, int | float)}


def _by_task(split: str, metrics: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """'dev/sts/pearson' → value."""
    numbers = {}
    for task, task_metrics in metrics.items():
        for metric, value in task_metrics.items():
            numbers[f"{split}/{task}/{metric}"] = value
    return numbers


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by dotted key, as trackers want them: no lists, no mappings."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from _flat(child, f"{name}.{key}" if name else str(key))
    elif value is not None:
        yield name, value if isinstance(value, bool | int | float | str) else str(value)
