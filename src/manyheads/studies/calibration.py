"""What calibration changed in a study's runs: of each row and task metrics before and after, as means over seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from manyheads.studies.store import Record, Result


@dataclass(frozen=True)
class CalibrationChange:
    """Of one row and task, on dev: means over the seeds that have a value."""

    temperature: float | None  # None where thresholds were fitted
    before: dict[str, float]  # metric → value
    after: dict[str, float]


CalibrationByRow = dict[str, dict[str, CalibrationChange]]  # row → task


def calibration_by_row(
    finished: Mapping[str, Mapping[int, Mapping[str, Result]]], row_names: Sequence[str]
) -> CalibrationByRow:
    """Of these rows (row → seed → member → result); without rows and tasks whose results hold no calibration."""
    by_row: CalibrationByRow = {}
    for row_name in row_names:
        records: dict[str, list[Record]] = {}  # by task, one per seed
        for members in finished[row_name].values():
            for task, record in _of_seed(members).items():
                records.setdefault(task, []).append(record)
        if records:
            by_row[row_name] = {task: _mean_change(task_records) for task, task_records in records.items()}
    return by_row


def _of_seed(members: Mapping[str, Result]) -> dict[str, Record]:
    """Task → its record; where a run of all tasks is for one task, that task's."""
    records: dict[str, Record] = {}
    for member, result in members.items():
        for task, record in result.calibration.items():
            if member in ("", task):
                records[task] = record
    return records


def _mean_change(records: list[Record]) -> CalibrationChange:
    temperature: float | None = None
    if all("temperature" in record for record in records):
        temperature = float(np.mean([record["temperature"] for record in records]))
    before: dict[str, float] = {}
    after: dict[str, float] = {}
    for metric in records[0]["before"]:
        pairs = [(record["before"].get(metric), record["after"].get(metric)) for record in records]
        defined = [(old, new) for old, new in pairs if old is not None and new is not None]
        if defined:
            before[metric] = _mean(old for old, _ in defined)
            after[metric] = _mean(new for _, new in defined)
    return CalibrationChange(temperature, before, after)


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
