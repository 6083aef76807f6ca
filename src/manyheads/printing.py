"""What commands print: JSON, tables, metrics, answers."""

from __future__ import annotations

import json
import os
from typing import Any


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


def shown_answer(answer: dict[str, Any]) -> str:
    """'yes\t0.912', 'comedy, drama' or '3.250'."""
    prediction = answer["prediction"]
    if isinstance(prediction, list):
        return ", ".join(prediction) or "none"
    return f"{prediction}\t{answer['probability']:.3f}" if "probability" in answer else f"{prediction:.3f}"
