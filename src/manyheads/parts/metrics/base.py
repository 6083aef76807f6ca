"""What a metric is, and whether it fits a task."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast

from manyheads import registry
from manyheads.data.labels import LabelType

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

Best = Literal["high", "low"]
Scale = Literal["share", "correlation", "error"]  # 0 to 1; −1 to 1; 0 to ∞, low is best
Function = TypeVar("Function", bound=Callable[..., "float | dict[str, float]"])


# what a metric may read
ONE_CLASS: tuple[LabelType, ...] = ("class", "ordered class")
CLASS_SET: tuple[LabelType, ...] = ("class set",)
ANY_CLASSES = (*ONE_CLASS, *CLASS_SET)
NUMBER: tuple[LabelType, ...] = ("number",)
TAGS: tuple[LabelType, ...] = ("word tags",)
ANSWERS: tuple[LabelType, ...] = ("answer",)
CANDIDATES: tuple[LabelType, ...] = ("candidate",)
MATCH: tuple[LabelType, ...] = ("match",)


class Metric(Protocol):
    """(predicted, labels, task) → a number, NaN where it is undefined. Keyword-only arguments are its options.

    | kind | predicted | labels |
    |---|---|---|
    | classification, ordinal | [examples, classes] probabilities | [examples] class indices |
    | multi-label | [examples, classes] probabilities, each on its own | [examples, classes] of 0 and 1 |
    | regression | [examples] values in the labels' units | [examples] numbers |
    | multiple-choice | ragged [candidates] probabilities | [examples] the right one's number |
    | similarity-search | [examples, 5] see parts/metrics/ranks.py | ragged scores of answers |
    | tags | ragged [words, classes] probabilities | ragged [words] class indices |
    """

    label_types: tuple[LabelType, ...]
    why_incompatible: Callable[[Task], str | None]
    best: Best
    scale: Scale
    two_classes: bool
    per_class: bool

    def __call__(self, *given: Any, **options: Any) -> float | dict[str, float]: ...


def metric(
    name: str,
    *,
    label_types: tuple[LabelType, ...],
    best: Best,
    scale: Scale,
    two_classes: bool = False,
    per_class: bool = False,
    paper: str = "",
) -> Callable[[Function], Function]:
    """Decorator: make a function a metric that recipes can name.

    `label_types`: what labels it reads; with `two_classes` tasks with one class per example must have exactly two.
    `best`: whether high or low values are good. `scale`: how it counts in the overall score.
    `per_class`: it returns one number for each of the task's class names.
    """

    def add(function: Function) -> Function:
        made = cast(Metric, function)
        made.label_types, made.best, made.scale = label_types, best, scale
        made.two_classes, made.per_class = two_classes, per_class
        made.why_incompatible = partial(why_incompatible, name)
        return registry.register("metrics", name, paper=paper)(function)

    return add


def find(name: str) -> Metric:
    """The metric of that name. An unknown name is a ValueError that lists the valid ones and the nearest."""
    return cast(Metric, registry.find("metrics", name).factory)


def why_incompatible(name: str, task: Task) -> str | None:
    """Why a metric cannot measure a task, or None."""
    found = find(name)
    if task.kind.label_type not in found.label_types:
        return f"'{name}' needs {_needed(found.label_types)}, this task is {task.kind.called}."
    classes = len(task.labels.names)
    if found.label_types == TAGS and name.startswith("entity-") and task.labels.scheme == "plain":
        return f"'{name}' needs entities, this task's tags are plain; use 'token-accuracy'."
    if found.two_classes and task.kind.exclusive and classes != 2:
        return f"'{name}' needs two classes, this task has {classes}; use 'macro-f1'."
    return None


def _needed(label_types: tuple[LabelType, ...]) -> str:
    """What a metric reads, for people. What fits any classes fits ordered ones."""
    needs = []
    if "class" in label_types and "class set" in label_types:
        needs.append("classes")
    elif "class" in label_types:
        needs.append("one class per example")
    elif "ordered class" in label_types:
        needs.append("classes in order")
    elif "class set" in label_types:
        needs.append("several classes per example")
    if "number" in label_types:
        needs.append("numbers")
    if "candidate" in label_types and "class" not in label_types:
        needs.append("candidates")
    if "answer" in label_types:
        needs.append("answers in a text")
    if "word tags" in label_types:
        needs.append("tags of words")
    if "match" in label_types:
        needs.append("texts that match")
    return " or ".join(needs)
