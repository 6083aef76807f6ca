"""What people see: progress of long jobs on stderr; tables, metrics and JSON on stdout."""

from __future__ import annotations

import json
import os
import time
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

SECONDS_BETWEEN_LINES = 15.0


class Reporter:
    """Says what happens. `quiet` says nothing."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    def job(self, name: str, total: int, done: int = 0) -> Job:
        return Job(self.console, name, total, done)


class Job:
    """One bounded piece of work with a running status: counts, speed, time left."""

    def __init__(self, console: Console, name: str, total: int, done: int) -> None:
        self.console, self.name, self.total, self.done, self.first = console, name, total, done, done
        self.live: Progress | None = None
        if console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TextColumn("{task.fields[status]}"),
            )
            self.live = Progress(*columns, console=console, transient=True)
            self.bar = self.live.add_task(name, total=total, completed=done, status="")

    def __enter__(self) -> Job:
        self.began = self.printed = time.monotonic()
        if self.live:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live:
            self.live.stop()

    def update(self, done: int, status: str = "") -> None:
        """`status` is what this job knows besides its count, such as losses."""
        self.done = done
        status = "  ".join(filter(None, [status, f"{self.time_left()} left"]))
        if self.live:
            self.live.update(self.bar, completed=done, status=status)
        elif time.monotonic() - self.printed >= SECONDS_BETWEEN_LINES or done == self.total:
            self.printed = time.monotonic()
            self.console.print(f"{self.name} {done:,}/{self.total:,}  {status}", markup=False)

    def time_left(self) -> str:
        worked = max(1, self.done - self.first)
        return duration((time.monotonic() - self.began) / worked * (self.total - self.done))


def duration(seconds: float) -> str:
    """0:42, 12:05, 3:00:00."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


# --- what commands print ----------------------------------------------------------------------------------------


def print_json(content: Any) -> None:
    print(json.dumps(content, indent=2, ensure_ascii=False))


def print_table(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(*(rows[0] if rows else ()), box=None, padding=(0, 3, 0, 0), header_style="bold")
    for row in rows:
        table.add_row(*(_shown(value) for value in row.values()))
    console = Console(markup=False)
    if not console.is_terminal:
        console = Console(markup=False, width=160)
    console.print(table)


def print_metrics(metrics: dict[str, Any], as_json: bool) -> None:
    """A row per task and metric; beside it the same model before training, where that was measured."""
    if os.environ.get("RANK", "0") != "0":
        return  # of several processes the first one speaks
    if as_json:
        print_json(metrics)
        return
    dev, before = metrics["dev"], metrics.get("before")
    rows = []
    for task, scores in dev["metrics"].items():
        for metric, value in scores.items():
            row = {"task": task, "metric": metric}
            if before:
                row["before training"] = before["metrics"][task][metric]
            rows.append({**row, "dev": value, "examples": dev["examples"][task]})
    row = {"task": "overall", "metric": ""}
    if before:
        row["before training"] = before["overall"]
    rows.append({**row, "dev": dev["overall"], "examples": ""})
    print_table(rows, False)


def _shown(value: Any) -> str:
    if value is None:
        return "undefined"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def format_prediction(prediction: dict[str, Any]) -> str:
    """'yes\t0.912', 'comedy, drama' or '3.250'."""
    value = prediction["prediction"]
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return f"{value}\t{prediction['probability']:.3f}" if "probability" in prediction else f"{value:.3f}"
