"""What is left of a finished run: metrics, costs and its answers on dev, as ids and numbers; no text, no weights.

A run's result is one small file under its identity. Files of a study go into one file to be kept or sent, and count
as finished runs wherever they are taken in.
"""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.errors import UserError
from manyheads.files import write_bytes
from manyheads.run import Run
from manyheads.tasks import Task

DIGITS = 4  # of a chance; numbers have more, because a correlation may rest on small differences


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
    answers: dict[str, np.ndarray]  # [rows, classes] chances, or [rows] values
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

    def read(self, identity: str) -> Result:
        record = _read(self.file(identity))
        dev = {task: self._dev_rows(key) for task, key in record["dev"].items()}
        tasks = {name: Task.from_json(one) for name, one in record["tasks"].items()}
        kept = ("seed", "dev", "metrics", "overall", "seconds", "gigabytes", "steps", "examples_seen")
        return Result(
            identity=identity,
            tasks=tasks,
            **{key: record[key] for key in kept},
            answers={name: np.array(one, dtype=np.float64) for name, one in record["answers"].items()},
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
        """Read such a file; returns how many of its runs were not here yet."""
        new = 0
        try:
            lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines()]
            for line in lines:
                name = line["run"]["identity"] if "run" in line else f"dev-{line.pop('dev')}"
                if not name.replace("-", "").isalnum():
                    raise ValueError(f"'{name}' is not a run's identity")
                if not self.file(name).is_file():
                    new += "run" in line
                    _write(self.file(name), line.get("run", line))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{file}: not a file that `manyheads study export` wrote: {error}.") from None
        return new

    def _dev_rows(self, key: str) -> dict[str, Any]:
        if key not in self._dev:
            self._dev[key] = _read(self.file(f"dev-{key}"))
        return self._dev[key]


def _ids(run: Run, task: str) -> list[str]:
    """The ids of a task's dev rows, from its prediction file."""
    style = run.recipe.tasks[task].predictions
    file = run.folder / "predictions" / style.file.format(task=task, split="dev")
    if style.format == "course":
        return [line.split(" , ")[0] for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    with file.open(encoding="utf-8", newline="") as rows:
        return [row[0] for row in csv.reader(rows)][1:]


def _rounded(answers: np.ndarray) -> list[Any]:
    """Few digits, but never so few that another class would be the largest."""
    short = np.round(answers.astype(np.float64), DIGITS if answers.ndim == 2 else DIGITS + 4)
    if answers.ndim == 2:
        sure = short.argmax(axis=1) == answers.argmax(axis=1)
        short[~sure] = answers[~sure]
    return short.tolist()


def _read(file: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    except (OSError, ValueError, EOFError) as error:
        raise UserError(f"{file}: a damaged result: {error}. Delete it; the run is then done again.") from None
    return content


def _write(file: Path, content: dict[str, Any]) -> None:
    write_bytes(file, gzip.compress(json.dumps(content, separators=(",", ":")).encode(), mtime=0))
