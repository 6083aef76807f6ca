"""The command that averages the weights of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyheads.cli.options import AsJson, Imports, Quiet
from manyheads.console import print_json, print_table

if TYPE_CHECKING:
    from manyheads.training.soup import Soup


def average(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders that share their start.")],
    to: Annotated[Path, typer.Option("--to", metavar="FOLDER", help="The model folder to write; it must be new.")],
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Leave out models that make the mean worse on held-out train rows.")
    ] = False,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="The checkpoints that one run keeps, in place of best/ of several.")
    ] = False,
    imports: Imports = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Average the weights of one recipe's runs over seeds into one model: average runs/a runs/b --to models/average"""
    from manyheads.training.soup import average as average_runs

    soup = average_runs(runs, to, greedy, checkpoints, imports or (), quiet)
    if as_json:
        print_json(soup.to_json())
        return
    if soup.dev is not None:
        print_table(_dev_lines(soup), False)
    print(f"{soup.method} average of {len(soup.models)} models → {soup.folder}")


def _dev_lines(soup: Soup) -> list[dict[str, Any]]:
    """A line per task and metric: the average on dev, and beside it best/ of every run."""
    assert soup.dev is not None
    titles = _titles(list(soup.singles))
    lines: list[dict[str, Any]] = []
    for task, metrics in soup.dev["metrics"].items():
        for metric, value in metrics.items():
            line = {"task": task, "metric": metric, "average": value}
            for run, dev in soup.singles.items():
                line[titles[run]] = dev["metrics"].get(task, {}).get(metric)
            lines.append({**line, "examples": soup.dev["examples"][task]})
    line = {"task": "overall", "metric": "", "average": soup.dev["overall"]}
    for run, dev in soup.singles.items():
        line[titles[run]] = dev["overall"]
    lines.append({**line, "examples": ""})
    return lines


def _titles(folders: list[str]) -> dict[str, str]:
    """The runs' own names, or their whole paths where two have the same."""
    names = [Path(folder).name for folder in folders]
    if len(set(names)) < len(names):
        names = folders
    return dict(zip(folders, names, strict=True))
