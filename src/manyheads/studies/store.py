"""What is left of a finished run: metrics, costs and its answers on dev, as ids and numbers; no text, no weights.

A run's result is one small file under its identity. Files of a study go into one file to be kept or sent, and count
as finished runs wherever they are taken in.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.errors import UserError
from manyheads.runs.run import Run
from manyheads.storage.files import write_bytes
from manyheads.tasks.task import Task

DIGITS = 4  # of a chance; numbers have more, because a correlation may rest on small differences


RECORD = (  # what is kept of a run
    *("identity", "seed", "tasks", "dev", "metrics", "overall", "seconds", "gigabytes", "steps", "examples_seen"),
    "answers",
)


@dataclass(frozen=True)
class Result:
    """A finished run, with its answers."""

    identity: str
    seed: int
    tasks: dict[str, Task]
    dev: dict[str, str]  # task → fingerprint of its dev data
    metrics: dict[str, dict[str, float | None]]
    overall: float
    seconds: float
    gigabytes: float
    steps: int
    examples_seen: dict[str, int]
    predictions: dict[str, np.ndarray]  # [rows, classes] chances, or [rows] values
    labels: dict[str, np.ndarray]
    ids: dict[str, list[str]]


class Results:
    """The results in a folder: read, write, collect, put together, take in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._dev: dict[str, dict[str, Any]] = {}

    def file(self, identity: str) -> Path:
        return self.folder / f"{identity}.json.gz"

    def have(self, identity: str) -> bool:
        return self.file(identity).is_file()

    def identities(self) -> list[str]:
        names = [file.name.removesuffix(".json.gz") for file in sorted(self.folder.glob("*.json.gz"))]
        return [name for name in names if not name.startswith("dev-")]

    def read(self, identity: str) -> Result:
        record = _read(self.file(identity))
        dev = {task: self._dev_rows(key) for task, key in record["dev"].items()}
        tasks = {name: Task.from_json(one) for name, one in record["tasks"].items()}
        kept = ("seed", "dev", "metrics", "overall", "seconds", "gigabytes", "steps", "examples_seen")
        return Result(
            identity=identity,
            tasks=tasks,
            **{key: record[key] for key in kept},
            predictions={name: np.array(one, dtype=np.float64) for name, one in record["answers"].items()},
            labels={name: np.array(one["labels"]) for name, one in dev.items()},
            ids={name: one["ids"] for name, one in dev.items()},
        )

    def collect(self, run: Run, identity: str) -> None:
        """Make the result of a finished run folder."""
        from safetensors.numpy import load_file

        metrics = run.metrics
        tensors = load_file(run.folder / "dev.safetensors")
        names = [name for name in run.recipe.tasks if f"{name}.answers" in tensors]
        dev = {name: metrics["data"][f"{name} dev"] for name in names}
        for name in names:
            if not self.file(f"dev-{dev[name]}").is_file():
                rows = {"ids": _ids(run, name), "labels": tensors[f"{name}.labels"].tolist()}
                _write(self.file(f"dev-{dev[name]}"), rows)
        saved = json.loads((run.folder / "tasks.json").read_text(encoding="utf-8"))
        record = {
            "identity": identity,
            "seed": run.recipe.seed,
            "tasks": {one["name"]: one for one in saved if one["name"] in names},
            "dev": dev,
            "metrics": metrics["dev"]["metrics"],
            "overall": metrics["dev"]["overall"],
            "seconds": metrics["seconds"],
            "gigabytes": metrics["peak_gigabytes"],
            "steps": metrics["steps"],
            "examples_seen": metrics["examples_seen"],
            "answers": {name: _rounded(tensors[f"{name}.answers"]) for name in names},
        }
        _write(self.file(identity), record)

    def export(self, identities: list[str], file: Path) -> None:
        """All of these, and the dev rows they stand on, as lines of one file."""
        records = [_read(self.file(one)) for one in identities]
        keys = sorted({key for one in records for key in one["dev"].values()})
        lines = [{"dev": key, **self._dev_rows(key)} for key in keys] + [{"run": one} for one in records]
        text = "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in lines)
        write_bytes(file, gzip.compress(text.encode(), mtime=0))

    def take_in(self, file: Path) -> int:
        """Read such a file, all of it before any is kept; returns how many of its runs were not here yet."""
        if not file.is_file():
            raise UserError(f"{file}: no such file; `manyheads study export STUDY --to FILE` writes one.")
        try:
            dev, runs = _read_export(file)
        except KeyError as error:
            raise UserError(f"{file}: not a file that `manyheads study export` wrote: no {error}.") from None
        except (OSError, EOFError, zlib.error, ValueError, TypeError, AttributeError) as error:
            raise UserError(f"{file}: not a file that `manyheads study export` wrote: {error}.") from None
        new = [name for name in runs if not self.have(name)]
        for name, content in {**dev, **{name: runs[name] for name in new}}.items():
            if not self.file(name).is_file():
                _write(self.file(name), content)
        return len(new)

    def _dev_rows(self, key: str) -> dict[str, Any]:
        if key not in self._dev:
            self._dev[key] = _read(self.file(f"dev-{key}"))
        return self._dev[key]


def _read_export(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The dev rows and the runs of a file, by the names they are kept under; any fault is an exception."""
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines()]
    dev = {f"dev-{one['dev']}": {key: one[key] for key in ("ids", "labels")} for one in lines if "dev" in one}
    runs = {one["run"]["identity"]: one["run"] for one in lines if "dev" not in one}
    for name, run in runs.items():
        absent = [key for key in RECORD if key not in run]
        absent += [key for key in run.get("dev", {}).values() if f"dev-{key}" not in dev]
        if absent:
            raise ValueError(f"run '{name}' lacks {', '.join(absent)}")
    for name in [*dev, *runs]:
        if not name.replace("-", "").isalnum():
            raise ValueError(f"'{name}' is not a run's identity")
    return dev, runs


def _ids(run: Run, task: str) -> list[str]:
    """The ids of a task's dev rows, from its prediction file."""
    style = run.recipe.tasks[task].predictions
    file = run.folder / "predictions" / style.file.format(task=task, split="dev")
    if style.format == "course":
        return [line.split(" , ")[0] for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    with file.open(encoding="utf-8", newline="") as rows:
        return [row[0] for row in csv.reader(rows)][1:]


def _rounded(predictions: np.ndarray) -> list[Any]:
    """Few digits, but never so few that another class would be the largest."""
    short = np.round(predictions.astype(np.float64), DIGITS if predictions.ndim == 2 else DIGITS + 4)
    if predictions.ndim == 2:
        sure = short.argmax(axis=1) == predictions.argmax(axis=1)
        short[~sure] = predictions[~sure]
    return short.tolist()


def _read(file: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    except (OSError, ValueError, EOFError, zlib.error) as error:
        what = "Delete it; the run is then done again." if file.is_file() else "Import or run the study again."
        raise UserError(f"{file}: a damaged result: {error}. {what}") from None
    return content


def _write(file: Path, content: dict[str, Any]) -> None:
    write_bytes(file, gzip.compress(json.dumps(content, separators=(",", ":")).encode(), mtime=0))
