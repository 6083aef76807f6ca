"""Task: columns in, label out, and the parts between. One dataclass; no subclass per dataset."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, TypeAdapter

from manyheads.config.part import PartConfig, dump_part, load_part
from manyheads.config.task import PredictionFile
from manyheads.data.labels import LabelReader
from manyheads.data.table import Columns
from manyheads.tasks.kind import Calibration, Kind, find_kind

PARTS = ("encoding", "pooling", "head", "output", "loss")
SavedPart = Annotated[PartConfig, BeforeValidator(load_part), PlainSerializer(dump_part)]


@dataclass(frozen=True)
class Task:
    """A task with every default filled in: what a run needs to train it and a reader needs to use it."""

    name: str
    columns: Columns
    labels: LabelReader
    encoding: SavedPart
    pooling: SavedPart
    head: SavedPart
    loss: SavedPart
    output: SavedPart = field(default_factory=lambda: PartConfig(name="raw"))
    head_of: str | None = None  # the task whose head this one uses
    symmetric: bool = False  # training draws the order of a pair's texts; never where the encoding has none
    both_orders: bool = False  # predictions are the mean over both orders of a pair
    offset: float = 0.0  # the head works on (label − offset) / unit where labels are numbers
    unit: float = 1.0
    bounds: tuple[float, float] | None = None  # smallest and largest number: declared, else train's
    train_examples: int = 0  # labelled rows of train
    counts: tuple[int, ...] = ()  # of them in each class
    metrics: tuple[SavedPart, ...] = ()  # the first is the primary one, by which models are chosen
    predictions: PredictionFile = field(default_factory=PredictionFile)
    temperature: float = 1.0  # of the probabilities of exclusive classes, see parts/kinds/calibration.py
    thresholds: tuple[float, ...] = ()  # from which probability on each class is predicted where several may be right

    @property
    def kind(self) -> Kind:
        return find_kind(self.labels.kind)

    @property
    def pair(self) -> bool:
        return len(self.columns.text) == 2

    @property
    def scaled_bounds(self) -> tuple[float, float]:
        """The range as the loss sees it."""
        low, high = self.bounds or (0.0, 1.0)
        return (low - self.offset) / self.unit, (high - self.offset) / self.unit

    def with_calibration(self, fitted: Calibration) -> Task:
        """This task with what its kind has fitted, or a log or file has kept of it."""
        values = dict(fitted)
        if "thresholds" in values:
            values["thresholds"] = tuple(values["thresholds"])
        return replace(self, **values)

    def to_json(self) -> dict[str, Any]:
        content: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return content

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Task:
        """What `to_json` wrote. A ValueError (pydantic's) says what does not fit."""
        if "rows" in saved:  # version 0.1's name
            saved = {**saved, "train_examples": saved["rows"]}
            del saved["rows"]
        return _adapter().validate_python(saved)


@cache
def _adapter() -> TypeAdapter[Task]:
    return TypeAdapter(Task)
