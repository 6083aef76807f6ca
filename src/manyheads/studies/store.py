"""Results of finished runs: metrics, their history, costs and dev predictions, as ids and numbers; no text, no weights.

A run's result is one small file under its identity. `export` puts results of many runs into one file; where it is
imported, they count as finished runs.
"""

from __future__ import annotations

import csv
import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.errors import UserError
from manyheads.inference.dev_examples import read_dev_examples
from manyheads.inference.embeddings import embed_texts, project, spread_rows
from manyheads.inference.prediction_files import read_dev_predictions
from manyheads.runs.history import Entry, read_history
from manyheads.runs.run import Run
from manyheads.storage.files import write_bytes
from manyheads.storage.ragged import Column, Ragged, starts_of
from manyheads.tasks.kind import Labels, Predictions
from manyheads.tasks.task import Task

DIGITS = 4  # of a probability; values have more, because a correlation may rest on small differences
RECORD_KEYS = (
    *("identity", "seed", "tasks", "dev", "metrics", "overall", "seconds", "gigabytes", "steps", "examples_seen"),
    "predictions",
)
# what later versions added, with what a record has where it was written before: the type is checked on import
OPTIONAL_KEYS: dict[str, type] = {
    "history": list,
    "pca": dict,
    "test": dict,
    "baselines": dict,
    "calibration": dict,
    "margins": dict,
}
BASELINES = ("majority", "frozen")  # as metrics.json names them: what every trained figure is held against
PCA_EXAMPLES = 200  # of a task
PCA_DIGITS = 3
COMPRESSION = 6  # of a result: 9 takes four times as long and saves 1 %; an export, which is sent, has 9
OLD_PREDICTIONS_KEY = "answers"  # as version 0.1 called them
NOT_AN_EXPORT = "not a file that `manyheads study export` wrote"
Record = dict[str, Any]


@dataclass(frozen=True)
class Result:
    """A finished run, with its predictions."""

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
    predictions: dict[str, Predictions]  # [examples, classes] probabilities, or [examples] values, or as many per word
    labels: dict[str, Labels]
    ids: dict[str, list[str]]
    # what follows is empty where a version that did not keep it wrote the result
    history: list[Entry] = field(default_factory=list)  # an entry per evaluation, see docs/studies.md
    pca: dict[str, Record] = field(default_factory=dict)  # task → {"points", "labels", "explained"}; first seed only
    test: Record = field(default_factory=dict)  # {"metrics", "overall", "examples"}, where a test file has labels
    baselines: Record = field(default_factory=dict)  # "majority", "frozen" → {task: {metric: value}}
    calibration: dict[str, Record] = field(default_factory=dict)  # task → what was fitted, metrics "before" and "after"
    margins: Record = field(default_factory=dict)  # `not_worse` of the study for which it was trained


class ResultStore:
    """The results in a folder: read, write, collect, export, import."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._dev_data: dict[str, Record] = {}

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.json.gz"

    def has(self, identity: str) -> bool:
        return self.file(identity).is_file()

    def count(self) -> int:
        """How many runs have a result."""
        files = list(self.folder.glob("*.json.gz"))
        dev_files = list(self.folder.glob("dev-*.json.gz"))
        return len(files) - len(dev_files)

    def read(self, identity: str) -> Result:
        record = self._read_record(identity)
        tasks: dict[str, Task] = {}
        for name, content in record["tasks"].items():
            tasks[name] = Task.from_json(content)
        labels: dict[str, Labels] = {}
        ids: dict[str, list[str]] = {}
        for name, fingerprint in record["dev"].items():
            dev_data = self._read_dev_data(fingerprint)
            labels[name] = _column(dev_data["labels"])
            ids[name] = dev_data["ids"]
        predictions: dict[str, Predictions] = {}
        for name, numbers in record["predictions"].items():
            predictions[name] = _column(numbers, np.float64)
        return Result(
            identity=identity,
            seed=record["seed"],
            tasks=tasks,
            dev=record["dev"],
            metrics=record["metrics"],
            overall=record["overall"],
            seconds=record["seconds"],
            gigabytes=record["gigabytes"],
            steps=record["steps"],
            examples_seen=record["examples_seen"],
            predictions=predictions,
            labels=labels,
            ids=ids,
            **{key: record.get(key, kind()) for key, kind in OPTIONAL_KEYS.items()},
        )

    def collect(self, run: Run, identity: str, keep_pca: bool = False, margins: Record | None = None) -> None:
        """Make the result of a finished run folder; the principal components need its model. `margins` are those that
        its study named when the run was trained."""
        metrics = run.metrics
        tensors = read_dev_predictions(run.folder / "dev.safetensors")
        names = [name for name in run.recipe.tasks if f"{name}.predictions" in tensors]
        saved_tasks = json.loads((run.folder / "tasks.json").read_text(encoding="utf-8"))
        tasks = {task["name"]: Task.from_json(task) for task in saved_tasks if task["name"] in names}
        dev: dict[str, str] = {}
        predictions: dict[str, Any] = {}
        for name in names:
            dev[name] = metrics["data"][f"{name} dev"]
            predictions[name] = _column_json(tensors[f"{name}.predictions"], partial(_rounded, task=tasks[name]))
            dev_file = self.file(f"dev-{dev[name]}")
            if not dev_file.is_file():
                labels = _column_json(tensors[f"{name}.labels"], np.ndarray.tolist)
                _write(dev_file, {"ids": _dev_ids(run, name), "labels": labels})
        record = {
            "identity": identity,
            "seed": run.recipe.seed,
            "tasks": {name: task.to_json() for name, task in tasks.items()},
            "dev": dev,
            "metrics": metrics["dev"]["metrics"],
            "overall": metrics["dev"]["overall"],
            "seconds": metrics["seconds"],
            "gigabytes": metrics["peak_gigabytes"],
            "steps": metrics["steps"],
            "examples_seen": metrics["examples_seen"],
            "predictions": predictions,
            "history": read_history(run.log()),
        }
        record |= _where_measured(metrics)
        if margins:
            record["margins"] = margins
        if keep_pca:
            record["pca"] = _principal_components(run, {name: tensors[f"{name}.labels"] for name in names})
        _write(self.file(identity), record)

    def export(self, identities: list[str], file: Path) -> None:
        """Write these results, and the dev data they were measured on, as lines of one file."""
        fingerprints: set[str] = set()
        run_lines = b""
        for identity in identities:
            record = self._read_record(identity)
            fingerprints.update(record["dev"].values())
            run_lines += _json_line({"run": record})
        dev_lines = b""
        for fingerprint in sorted(fingerprints):
            dev_lines += _json_line({"dev": fingerprint, **self._read_dev_data(fingerprint)})
        write_bytes(file, gzip.compress(dev_lines + run_lines, mtime=0))

    def import_file(self, file: Path) -> int:
        """Read an export, all of it before any of it is stored; return how many of its runs are new."""
        if not file.is_file():
            raise UserError(
                f"{file}: no such file; `manyheads study export STUDY --to FILE` writes one.", code="missing-file"
            )
        try:
            dev_data, runs = _read_export(file)
        except KeyError as error:
            raise UserError(f"{file}: {NOT_AN_EXPORT}: no {error}.", code="not-an-export") from None
        except (OSError, EOFError, zlib.error, ValueError, TypeError, AttributeError) as error:
            raise UserError(f"{file}: {NOT_AN_EXPORT}: {error}.", code="not-an-export") from None
        new_runs = [identity for identity in runs if not self.has(identity)]
        for name, content in dev_data.items():
            if not self.file(name).is_file():
                _write(self.file(name), content)
        for identity in new_runs:
            _write(self.file(identity), runs[identity])
        return len(new_runs)

    def _read_record(self, identity: str) -> Record:
        return _with_predictions(_read(self.file(identity)))

    def _read_dev_data(self, fingerprint: str) -> Record:
        if fingerprint not in self._dev_data:
            self._dev_data[fingerprint] = _read(self.file(f"dev-{fingerprint}"))
        return self._dev_data[fingerprint]


def _where_measured(metrics: Record) -> Record:
    """What not every run has."""
    kept: Record = {key: metrics[key] for key in ("test", "calibration") if key in metrics}
    baselines = {name: metrics[name]["metrics"] for name in BASELINES if name in metrics}
    if baselines:
        kept["baselines"] = baselines
    return kept


def _with_predictions(record: Record) -> Record:
    """A record as it is written today; version 0.1 called predictions answers."""
    if OLD_PREDICTIONS_KEY in record:
        record["predictions"] = record.pop(OLD_PREDICTIONS_KEY)
    return record


def _read_export(file: Path) -> tuple[dict[str, Record], dict[str, Record]]:
    """The dev data and the runs of an export, by the names of their files; any fault is an exception."""
    dev_data: dict[str, Record] = {}
    runs: dict[str, Record] = {}
    for line in gzip.decompress(file.read_bytes()).decode().splitlines():
        content = json.loads(line)
        if "dev" in content:
            dev_data[f"dev-{content['dev']}"] = {"ids": content["ids"], "labels": content["labels"]}
        else:
            run = _with_predictions(content["run"])
            runs[run["identity"]] = run
    for identity, run in runs.items():
        absent = [key for key in RECORD_KEYS if key not in run]
        absent += [fingerprint for fingerprint in run.get("dev", {}).values() if f"dev-{fingerprint}" not in dev_data]
        if absent:
            raise ValueError(f"run '{identity}' lacks {', '.join(absent)}")
        _check_optional(run)
    for name in [*dev_data, *runs]:
        if not name.replace("-", "").isalnum():
            raise ValueError(f"'{name}' is not a run's identity")
    return dev_data, runs


def _check_optional(run: Record) -> None:
    for key, kind in OPTIONAL_KEYS.items():
        if key in run and not isinstance(run[key], kind):
            raise ValueError(f"run '{run['identity']}' has a {key} that is no {kind.__name__}")
    _check_calibration(run)
    for entry in run.get("history", []):
        numbers = [entry[key] for key in ("step", "epoch", "overall")]
        if not isinstance(entry["metrics"], dict) or not all(isinstance(number, int | float) for number in numbers):
            raise ValueError(f"run '{run['identity']}' has a history of something else")
    for components in run.get("pca", {}).values():
        shape = np.array(components["points"], dtype=np.float64).shape
        if shape != (len(components["labels"]), 2) or len(components["explained"]) != 2:
            raise ValueError(f"run '{run['identity']}' has a pca of something else")


def _check_calibration(run: Record) -> None:
    for changes in run.get("calibration", {}).values():
        if set(changes["before"]) != set(changes["after"]):
            raise ValueError(f"run '{run['identity']}' has a calibration of something else")


def _principal_components(run: Run, labels: dict[str, Column]) -> dict[str, Record]:
    """Of some dev examples of every task with one label per example, by the trained encoder; empty without a model."""
    try:
        model = run.model
    except UserError:
        return {}
    examples = read_dev_examples(run.folder)
    components: dict[str, Record] = {}
    for name, task_labels in labels.items():
        if name not in examples or isinstance(task_labels, Ragged) or task_labels.ndim != 1 or len(task_labels) < 3:
            continue
        rows = spread_rows(len(task_labels), PCA_EXAMPLES)
        texts = [examples[name].texts[row] for row in rows]
        projection = project(embed_texts(model, model.encoder, name, texts))
        components[name] = {
            "points": np.round(projection.points.astype(np.float64), PCA_DIGITS).tolist(),
            "labels": task_labels[rows].tolist(),
            "explained": [round(share, PCA_DIGITS) for share in projection.explained],
        }
    return components


def _dev_ids(run: Run, task_name: str) -> list[str]:
    """The ids of a task's dev examples, from its prediction file."""
    style = run.recipe.tasks[task_name].predictions
    file = run.folder / "predictions" / style.file.format(task=task_name, split="dev")
    if style.format == "course":
        lines = file.read_text(encoding="utf-8").splitlines()[1:]
        return [line.split(" , ")[0] for line in lines]
    with file.open(encoding="utf-8", newline="") as content:
        return [row[0] for row in csv.reader(content)][1:]


def _column_json(column: Column, numbers: Callable[[np.ndarray], list[Any]]) -> Any:
    """Numbers in lists; of a ragged column all of them end to end, and how many each row has."""
    if isinstance(column, Ragged):
        return {"values": numbers(column.values), "lengths": column.lengths.tolist()}
    return numbers(column)


def _column(content: Any, dtype: Any = None) -> Column:
    """What `_column_json` made."""
    if isinstance(content, dict):
        return Ragged(np.array(content["values"], dtype=dtype), starts_of(np.array(content["lengths"])))
    return np.array(content, dtype=dtype)


def _rounded(predictions: np.ndarray, task: Task) -> list[Any]:
    """Few digits, but never so few that another class would be predicted."""
    if predictions.ndim != 2:
        return np.round(predictions.astype(np.float64), DIGITS + 4).tolist()
    rounded = np.round(predictions.astype(np.float64), DIGITS)
    changed = task.kind.decode(rounded, task) != task.kind.decode(predictions, task)
    changed_rows = changed.reshape(len(changed), -1).any(axis=1)
    rounded[changed_rows] = predictions[changed_rows]
    return rounded.tolist()


def _read(file: Path) -> Record:
    try:
        content: Record = json.loads(gzip.decompress(file.read_bytes()))
    except (OSError, ValueError, EOFError, zlib.error) as error:
        advice = "Delete it; the run is then done again."
        if not file.is_file():
            advice = "Import or run the study again."
        raise UserError(f"{file}: a damaged result: {error}. {advice}", code="damaged-result") from None
    return content


def _write(file: Path, content: Record) -> None:
    text = _json_line(content).rstrip(b"\n")
    write_bytes(file, gzip.compress(text, COMPRESSION, mtime=0))


def _json_line(content: Record) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"
