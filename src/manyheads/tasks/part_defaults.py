"""Which part a task has where its recipe names none: a rule for each key, today's or an earlier version's.

A rule is a table: what the choice depends on → the part's name.

    encoding   how many text columns the task has
    head       whether the encoding gives features or the prediction itself (a similarity)
    output     the same
    pooling    the encoding, unless the head brings its own
    loss       the kind of task, and whether it has two classes
    metrics    the same; a list of names
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

from manyheads import registry
from manyheads.config.defaults import read_defaults
from manyheads.config.part import PartConfig
from manyheads.config.task import TaskSettings
from manyheads.data.labels import LabelReader
from manyheads.tasks.kind import Kind, all_kinds, find_kind
from manyheads.tasks.part_compatibility import gives_similarity, gives_vectors
from manyheads.tasks.task import Task

FAMILIES = {
    "encoding": "encodings",
    "pooling": "pooling",
    "head": "heads",
    "output": "outputs",
    "loss": "losses",
    "metrics": "metrics",
}
ENCODINGS = {"one text": "single", "two texts": "cross"}
HEADS = {"features": "linear", "similarity": "none", "vectors": "none"}
OUTPUTS = {"features": "raw", "similarity": "similarity", "vectors": "raw"}
OWN_PACKAGE = "manyheads."  # a user's part is known by the content of its file, whatever its defaults are


def text_case(pair: bool) -> str:
    return "two texts" if pair else "one text"


def encoding_case(encoding: PartConfig) -> str:
    if gives_vectors(encoding):
        return "vectors"
    return "similarity" if gives_similarity(encoding) else "features"


def label_case(reader: LabelReader) -> str:
    return f"{reader.kind} of 2 classes" if len(reader.names) == 2 else reader.kind


class PartDefaults:
    """The rules of today (None), or of an earlier version."""

    def __init__(self, version: str | None) -> None:
        self.version = None if version is None else read_defaults(version)

    def part(self, key: str, case: str, today: str) -> PartConfig:
        """The part that a rule gives; `today` where that version has no such case."""
        if self.version is None:
            return PartConfig(name=today)
        name = self.version.task_parts[key].get(case, today)
        return self.version.complete(FAMILIES[key], PartConfig(name=name))

    def pooling(self, encoding: PartConfig) -> PartConfig:
        return self.part("pooling", encoding.name, _encoding_pooling(encoding.name))

    def loss(self, reader: LabelReader) -> PartConfig:
        return self.part("loss", label_case(reader), find_kind(reader.kind).default_loss(reader))

    def metrics(self, task: Task) -> tuple[PartConfig, ...]:
        names = task.kind.default_metrics(task)
        if self.version is None:
            return tuple(PartConfig(name=name) for name in names)
        names = self.version.task_parts["metrics"].get(label_case(task.labels), names)
        return tuple(self.version.complete("metrics", PartConfig(name=name)) for name in names)


def code_rules() -> dict[str, dict[str, Any]]:
    """Today's rules as tables, for the parts that come with the package."""
    pooling: dict[str, Any] = {}
    for encoding in registry.parts("encodings"):
        if is_own(encoding):
            pooling[encoding.name] = _encoding_pooling(encoding.name)
    losses: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    for kind in all_kinds():
        if is_own(registry.find("kinds", kind.name)):
            for reader in _example_readers(kind):
                losses[label_case(reader)] = kind.default_loss(reader)
                metrics[label_case(reader)] = list(kind.default_metrics(cast(Task, SimpleNamespace(labels=reader))))
    return {
        "encoding": dict(ENCODINGS),
        "pooling": pooling,
        "head": dict(HEADS),
        "output": dict(OUTPUTS),
        "loss": losses,
        "metrics": metrics,
    }


def is_own(part: registry.Part) -> bool:
    """Whether it comes with the package."""
    return bool(part.factory.__module__.startswith(OWN_PACKAGE))


def open_cases(key: str, settings: TaskSettings) -> Iterator[str] | None:
    """The cases of a rule that a task may be, as far as its settings say; None is any."""
    if key == "pooling":
        names = ENCODINGS.values() if settings.encoding is None else [settings.encoding.name]
        return iter(names)
    if key in ("loss", "metrics") and settings.kind is not None:
        return iter((settings.kind, f"{settings.kind} of 2 classes"))
    return None


def _encoding_pooling(encoding: str) -> str:
    return str(registry.find("encodings", encoding).factory.pooling)


def _example_readers(kind: Kind) -> Iterator[LabelReader]:
    if not kind.has_classes:
        yield LabelReader(kind.name)
        return
    for names in (("a", "b", "c"), ("a", "b")):
        yield LabelReader(kind.name, names=names)
