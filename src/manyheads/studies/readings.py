"""What a table reads from a run besides best/ on dev: its history, and its test metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from manyheads.runs.history import Entry, best_entry, best_overall_entry
from manyheads.studies.columns import OVERALL, Reading, column_reading, column_task
from manyheads.studies.store import Result

NO_DIFFERENCES = (
    "No differences are given for {columns}: runs keep their predictions of best/ on dev, and of nothing else."
)
EXPLANATIONS: dict[Reading, str] = {
    "best": "'(own best)' is the best of a task's evaluations while training, each task for itself, so columns may "
    "be of different models; the other columns are of best/, the one model with the best overall score.",
    "best_epoch": "A best epoch is that of the best evaluation while training; of equal ones the first.",
    "train": "'On train' is measured on a fixed part of train (evaluate.train_examples), without dropout, at the "
    "evaluation that chose best/.",
    "test": "'On test' is measured once, at the end of a run, with best/; nothing was chosen on it.",
}
NOT_KNOWN = "Not known for {count} of {total} runs: {columns}. {reason}"
REASONS: dict[Reading, str] = {
    "best": "Their results were kept before there was a history; train them again.",
    "best_epoch": "Their results were kept before there was a history; train them again.",
    "train": "Their results have no metrics on train; train them again with evaluate.train_examples.",
    "test": "They name no test data that has labels (tasks.NAME.test).",
}


def read_value(result: Result, task_name: str, reading: Reading, metric: str) -> float | None:
    """A task's value; None where it is undefined, or the run's result does not hold it."""
    if reading == "test":
        return _number(result.test.get("metrics", {}).get(task_name, {}).get(metric))
    if reading == "train":
        chosen = best_overall_entry(result.history)
        if chosen is None:
            return None
        return _number(chosen.get("train", {}).get(task_name, {}).get(metric))
    best = best_entry(result.history, result.tasks[task_name])
    if best is None:
        return None
    if reading == "best_epoch":
        return float(best["epoch"])
    return _number(best["metrics"][task_name].get(metric))


def best_overall_epoch(result: Result) -> float | None:
    best = best_overall_entry(result.history)
    if best is None:
        return None
    return float(best["epoch"])


def _number(value: float | None) -> float | None:
    if value is None:
        return None
    return float(value)


# --- lines beneath the table ------------------------------------------------------------------------------------


def describe_readings(columns: dict[str, str], results: Iterable[Result]) -> list[str]:
    """What a reader must know of these columns (column → title), and of runs that have no values for them."""
    by_reading: dict[Reading, list[str]] = {}
    for column in columns:
        reading = column_reading(column)
        if reading is not None:
            by_reading.setdefault(reading, []).append(column)
    if not by_reading:
        return []
    distinct = list({result.identity: result for result in results}.values())
    lines: list[str] = []
    titles: list[str] = []
    for reading, names in by_reading.items():
        reading_titles = [columns[name] for name in names]
        titles += reading_titles
        lines.append(EXPLANATIONS[reading])
        if reading == "best":
            lines += _evaluated_on(names, distinct)
        lacking = [result for result in distinct if not _holds(result, reading, names)]
        if lacking:
            shown = ", ".join(reading_titles)
            lines.append(
                NOT_KNOWN.format(count=len(lacking), total=len(distinct), columns=shown, reason=REASONS[reading])
            )
    lines.append(NO_DIFFERENCES.format(columns=", ".join(titles)))
    return lines


def _evaluated_on(columns: Sequence[str], results: Sequence[Result]) -> list[str]:
    """Which columns are measured on a part of dev; nothing where it is all of it."""
    parts: dict[str, str] = {}
    for result in results:
        for task_name in map(column_task, columns):
            if not result.history or task_name not in result.tasks:
                continue
            examples, whole = _examples(result.history[-1], task_name), len(result.labels[task_name])
            if examples is not None and examples < whole:
                parts[task_name] = f"{task_name} {examples:,} of {whole:,}"
    if not parts:
        return []
    shown = ", ".join(parts.values())
    return [f"It is measured on a part of the dev examples, the other columns on all: {shown} (evaluate.max_examples)."]


def _examples(entry: Entry, task_name: str) -> int | None:
    examples: int | None = entry.get("examples", {}).get(task_name)
    return examples


def _holds(result: Result, reading: Reading, columns: Sequence[str]) -> bool:
    """Whether a result has what these columns read, of those tasks that its run has."""
    for name in map(column_task, columns):
        if name != OVERALL and name not in result.tasks:
            continue
        if reading == "test":
            holds = bool(result.test) and (name == OVERALL or name in result.test.get("metrics", {}))
        elif reading == "train":
            holds = bool(result.history) and name in result.history[-1].get("train", {})
        else:
            holds = bool(result.history)
        if not holds:
            return False
    return True
