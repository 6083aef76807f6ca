"""Task: columns in, label out, and the parts between. One dataclass; no subclass per dataset."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from manyheads import registry
from manyheads.config.part import PartConfig, dump_part, load_part, why_head_incompatible, why_output_incompatible
from manyheads.config.recipe import Predictions
from manyheads.data.labels import Kind, LabelReader
from manyheads.data.table import Columns
from manyheads.parts import metrics

PARTS = ("encoding", "pooling", "head", "output", "loss")


@dataclass(frozen=True)
class Task:
    """A task with nothing left to guess: what a run needs to train it and a reader needs to use it."""

    name: str
    columns: Columns
    labels: LabelReader
    encoding: PartConfig
    pooling: PartConfig
    head: PartConfig
    loss: PartConfig
    output: PartConfig = field(default_factory=lambda: PartConfig(name="raw"))
    head_of: str | None = None  # the task whose head this one uses
    offset: float = 0.0  # a regression's head works on (label − offset) / unit
    unit: float = 1.0
    bounds: tuple[float, float] | None = None  # a regression's smallest and largest label: declared, else train's
    rows: int = 0  # labelled train rows
    counts: tuple[int, ...] = ()  # of them in each class
    metrics: tuple[PartConfig, ...] = ()  # the first is the primary one, by which models are chosen
    predictions: Predictions = field(default_factory=Predictions)

    @property
    def kind(self) -> Kind:
        return self.labels.kind

    @property
    def pair(self) -> bool:
        return len(self.columns.text) == 2

    @property
    def scaled_bounds(self) -> tuple[float, float]:
        """The range as the loss sees it."""
        low, high = self.bounds or (0.0, 1.0)
        return (low - self.offset) / self.unit, (high - self.offset) / self.unit

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in ("name", "head_of", "offset", "unit", "bounds", "rows", "counts")},
            **{part: dump_part(getattr(self, part)) for part in PARTS},
            "columns": asdict(self.columns),
            "labels": asdict(self.labels),
            "metrics": [dump_part(one) for one in self.metrics],
            "predictions": self.predictions.model_dump(),
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Task:
        columns, labels = saved["columns"], saved["labels"]
        label = columns["label"]
        parts: dict[str, Any] = {part: load_part(saved[part]) for part in PARTS}
        return cls(
            **{name: saved[name] for name in ("name", "head_of", "offset", "unit", "rows")},
            **parts,
            columns=Columns(tuple(columns["text"]), tuple(label) if isinstance(label, list) else label, columns["id"]),
            labels=LabelReader(
                **{
                    **labels,
                    "names": tuple(labels["names"]),
                    "range": tuple(labels["range"]) if labels["range"] else None,
                }
            ),
            bounds=tuple(saved["bounds"]) if saved["bounds"] else None,
            counts=tuple(saved["counts"]),
            metrics=tuple(load_part(one) for one in saved["metrics"]),
            predictions=Predictions(**saved["predictions"]),
        )


def incompatible_parts(task: Task) -> list[tuple[str, str]]:
    """Every part that does not fit the task or the task's other parts: (key, reason)."""

    def made_by(family: str, choice: PartConfig) -> Any:
        return registry.find(family, choice.name).factory

    encoding, head = made_by("encodings", task.encoding), made_by("heads", task.head)
    output, loss = made_by("outputs", task.output), made_by("losses", task.loss)
    found: list[tuple[str, str | None]] = [
        ("encoding", encoding.why_incompatible(task)),
        ("loss", loss.why_incompatible(task)),
    ]
    similarity = encoding.gives != "features"
    two_classes = task.kind == "classification" and len(task.labels.names) == 2
    if similarity and task.kind != "regression" and not two_classes:
        reason = f"'{task.encoding.name}' gives one similarity, which serves numbers or a classification of two classes"
        found.append(("encoding", f"{reason}; this task is {task.labels.called} of {len(task.labels.names)} classes."))
    elif similarity and loss.why_incompatible(task) is None and _outputs(task) not in (1, None):
        reason = f"'{task.loss.name}' needs an output per class, '{task.encoding.name}' gives one similarity"
        found.append(("loss", f"{reason}; use 'binary-cross-entropy'."))
    found.append(("head", why_head_incompatible(task.encoding, task.head)))
    output_fault = why_output_incompatible(task.encoding, task.output)
    found.append(("output", output_fault or output.why_incompatible(task)))
    brought = head.pooling(task.head.options) if hasattr(head, "pooling") else None
    if brought is not None and brought != task.pooling:
        found.append(("pooling", f"head '{task.head.name}' reads the token states itself; leave 'pooling' out."))
    found += [("metrics", metrics.why_incompatible(one.name, task)) for one in task.metrics]
    if task.metrics and getattr(made_by("metrics", task.metrics[0]), "per_class", False):
        found.append(("metrics", f"'{task.metrics[0].name}' has a number per class, so it cannot be the first."))
    if len({one.model_dump_json() for one in task.metrics}) < len(task.metrics):
        found.append(("metrics", "a metric is named twice."))
    return [(part, reason) for part, reason in found if reason]


def _outputs(task: Task) -> int | None:
    """How many outputs the task's loss reads; None where it cannot even be built, which is told elsewhere."""
    try:
        return int(task.loss.build("losses", task).outputs)
    except ValueError:
        return None
