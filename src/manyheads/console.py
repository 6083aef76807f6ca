"""What people see: progress of long jobs on stderr; tables, metrics and JSON on stdout."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

SECONDS_BETWEEN_LINES = 15.0
WIDTH_OF_FILES = 160  # of tables that are not printed to a terminal, and have no need of more
WIDEST = 10_000
# keys of metrics.json whose metrics stand beside the model's, and what people see above them
BASELINES = {"frozen": "frozen probe", "majority": "majority"}


class Reporter:
    """Says what happens. `quiet` says nothing."""

    def __init__(self, quiet: bool = False) -> None:
        self.console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    def job(self, name: str, total: int, completed: int = 0, delay: float = 0.0) -> Job:
        """`delay`: nothing is shown before so many seconds, so that a short job is silent."""
        return Job(self.console, name, total, completed, delay)


class Job:
    """A progress bar with a running status: counts, speed, time left. Where there is no terminal, a line at times."""

    def __init__(self, console: Console, name: str, total: int, completed: int, delay: float = 0.0) -> None:
        self.console, self.name, self.total, self.delay = console, name, total, delay
        self.completed, self.completed_before = completed, completed
        self.live: Progress | None = None
        if console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TextColumn("{task.fields[status]}"),
            )
            self.live = Progress(*columns, console=console, transient=True)
            self.bar = self.live.add_task(name, total=total, completed=completed, status="")

    def __enter__(self) -> Job:
        self.began = self.printed = time.monotonic()
        if self.live and not self.delay:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live and self.live.live.is_started:
            self.live.stop()

    def update(self, completed: int, status: str = "") -> None:
        """`status` is what this job knows besides its count, such as losses."""
        self.completed = completed
        if time.monotonic() - self.began < self.delay:
            return
        status = "  ".join(filter(None, [status, f"{self.time_left()} left"]))
        if self.live:
            self.live.start()
            self.live.update(self.bar, completed=completed, status=status)
        elif time.monotonic() - self.printed >= SECONDS_BETWEEN_LINES or completed == self.total:
            self.printed = time.monotonic()
            self.console.print(f"{self.name} {completed:,}/{self.total:,}  {status}", markup=False)

    def time_left(self) -> str:
        completed_here = max(1, self.completed - self.completed_before)
        return duration((time.monotonic() - self.began) / completed_here * (self.total - self.completed))


def counted(count: int, noun: str) -> str:
    """'1 step', '8,076 steps'"""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def duration(seconds: float) -> str:
    """0:42, 12:05, 3:00:00."""
    minutes, seconds_left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds_left:02d}"
    return f"{minutes}:{seconds_left:02d}"


# --- what commands print ----------------------------------------------------------------------------------------


def print_json(content: Any) -> None:
    print(json.dumps(content, indent=2, ensure_ascii=False))


def print_table(lines: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """A line per mapping; the keys of the first are the titles."""
    if as_json:
        print_json(lines)
        return
    from rich.measure import Measurement
    from rich.table import Table

    titles: list[str] = []
    if lines:
        titles = list(lines[0])
    table = Table(*titles, box=None, padding=(0, 3, 0, 0), header_style="bold")
    for line in lines:
        table.add_row(*map(_format_value, line.values()))
    console = Console(markup=False)
    if not console.is_terminal:
        wide = Console(markup=False, width=WIDEST)
        needed = Measurement.get(wide, wide.options, table).minimum  # no word is cut
        console = Console(markup=False, width=max(WIDTH_OF_FILES, needed))
    console.print(table)


def print_metrics(metrics: dict[str, Any], as_json: bool) -> None:
    """A line per task and metric; beside it the same model before training and baselines, where they were measured."""
    if os.environ.get("RANK", "0") != "0":
        return  # of several processes the first prints
    if as_json:
        print_json(metrics)
        return
    dev, before = metrics["dev"], metrics.get("before")
    baselines = {title: metrics[key] for key, title in BASELINES.items() if metrics.get(key)}
    lines: list[dict[str, Any]] = []
    for task, scores in dev["metrics"].items():
        for metric, value in scores.items():
            line = {"task": task, "metric": metric}
            if before:
                line["before training"] = before["metrics"][task][metric]
            line["dev"] = value
            for title, baseline in baselines.items():
                line[title] = or_dash(baseline["metrics"].get(task, {}).get(metric))
            lines.append({**line, "examples": dev["examples"][task]})
    line = {"task": "overall", "metric": ""}
    if before:
        line["before training"] = before["overall"]
    line["dev"] = dev["overall"]
    for title, baseline in baselines.items():
        line[title] = or_dash(baseline.get("overall"))
    lines.append({**line, "examples": ""})
    print_table(lines, False)


def or_dash(value: float | None) -> float | str:
    """What a baseline does not have, such as the correlation of a constant, is no fault that a word should point at."""
    return "–" if value is None else value


def _format_value(value: Any) -> str:
    if value is None:
        return "undefined"
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value)


def format_prediction(described: dict[str, Any]) -> str:
    """'yes\t0.912', 'comedy, drama', '3.250', or 'Ann Cole [PER 0–8]'."""
    prediction = described["prediction"]
    if "tagged" in described:
        spans = [f"{span['text']} [{span['label']} {span['start']}–{span['end']}]" for span in prediction]
        return ", ".join(spans) or "none"
    if "no_answer" in described:
        place = f" [{described['start']}–{described['end']}]" if prediction else "no answer"
        return f"{prediction}{place}\t{described['probability']:.3f}"
    if "candidates" in described:
        return f"{described['label']}\t{prediction}\t{described['probability']:.3f}"
    if isinstance(prediction, list):
        return ", ".join(prediction) or "none"
    if "probability" in described:
        return f"{prediction}\t{described['probability']:.3f}"
    return f"{prediction:.3f}"
