"""Classes in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from manyheads.config.label_text import as_number
from manyheads.data.labels import LabelType
from manyheads.parts.kinds.classification import Classification
from manyheads.registry import register
from manyheads.tasks.kind import LabelDeclaration

if TYPE_CHECKING:
    from manyheads.tasks.task import Task


@register("kinds", "ordinal", paper="all")
class Ordinal(Classification):
    """Exactly one class is right, and classes are in order: a class beside the right one is less wrong.

    Labels and predictions are as in `classification`; the order is that of the numbers, or of `labels`.
    """

    name = "ordinal"
    called = "an ordinal classification"
    label_type: ClassVar[LabelType] = "ordered class"
    ordered = True
    figures: ClassVar[tuple[str, ...]] = ("confusion", "calibration", "per-class", "error-sizes")

    def recognise(self, labels: set[str], declared: LabelDeclaration) -> int:
        return 0  # a recipe says so

    def order_classes(self, labels: set[str]) -> list[str]:
        for label in labels:
            if as_number(label) is None:
                raise ValueError(
                    "the classes of an ordinal task are in order, and words have none; list them in 'labels'"
                )
        return super().order_classes(labels)

    def default_metrics(self, task: Task) -> tuple[str, ...]:
        return ("accuracy", "macro-f1", "kappa", "off-by-two", "class-mae", "calibration-error")

    def reads_similarity(self, task: Task) -> bool:
        return False
