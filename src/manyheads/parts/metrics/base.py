"""What a metric is, and whether it fits a task."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

from manyheads import registry
from manyheads.data.labels import Kind

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

Best = Literal["high", "low"]
Scale = Literal["share", "correlation", "error"]  # 0 to 1; −1 to 1; 0 to ∞, low is best
Function = TypeVar("Function", bound=Callable[..., "float | dict[str, float]"])


class Metric(Protocol):
    """(predicted, labels, task) → a number, NaN where it is undefined. Keyword-only arguments are its options.

    | kind | predicted | labels |
    |---|---|---|
    | classification, ordinal | [examples, classes] probabilities | [examples] class indices |
    | multi-label | [examples, classes] probabilities, each on its own | [examples, classes] of 0 and 1 |
    | regression | [examples] values in the labels' units | [examples] numbers |
    """

    kinds: tuple[Kind, ...]
    best: Best
    scale: Scale
    two_classes: bool
    per_class: bool

    def __call__(self, *given: Any, **options: Any) -> float | dict[str, float]: ...


def metric(
    name: str,
    *,
    kinds: tuple[Kind, ...],
    best: Best,
    scale: Scale,
    two_classes: bool = False,
    per_class: bool = False,
    paper: str = "",
) -> Callable[[Function], Function]:
    """Decorator: make a function a metric that recipes can name.

    `kinds`: the kinds of task it fits; with `two_classes` those with one class per example must have exactly two.
    `best`: whether high or low values are good. `scale`: how it counts in the overall score.
    `per_class`: it returns one number for each of the task's class names.
    """

    def add(function: Function) -> Function:
        made = cast(Metric, function)
        made.kinds, made.best, made.scale = kinds, best, scale
        made.two_classes, made.per_class = two_classes, per_class
        return registry.register("metrics", name, paper=paper)(function)

    return add


def find(name: str) -> Metric:
    """The metric of that name. An unknown name is a ValueError that lists the valid ones and the nearest."""
    return cast(Metric, registry.find("metrics", name).factory)


def why_incompatible(name: str, task: Task) -> str | None:
    """Why a metric cannot measure a task, or None."""
    found = find(name)
    if not hasattr(found, "kinds"):
        return f"'{name}' is registered without saying which kinds it measures; use @metric of manyheads.parts.metrics."
    if task.kind not in found.kinds:
        this = task.kind if task.kind in ("ordinal", "multi-label") else f"a {task.kind}"
        return f"'{name}' needs {_needed(found.kinds)}, this task is {this}."
    classes = len(task.labels.names)
    if found.two_classes and task.kind != "multi-label" and classes != 2:
        return f"'{name}' needs two classes, this task has {classes}; use 'macro-f1'."
    return None


def _needed(kinds: tuple[Kind, ...]) -> str:
    words = {
        "classification": "one class per example",
        "ordinal": "classes in order",
        "multi-label": "several classes per example",
        "regression": "numbers",
    }
    if "classification" in kinds:  # what fits any classes fits ordered ones
        words["ordinal"] = words["classification"]
        if "multi-label" in kinds:
            words.update(dict.fromkeys(("classification", "ordinal", "multi-label"), "classes"))
    return " or ".join(dict.fromkeys(words[kind] for kind in kinds))
