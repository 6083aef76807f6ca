"""Commands that look and change nothing: plan, check, recipes, parts, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.options import AsJson, Overrides, Quiet, RecipeArgument, read_recipe
from manyheads.console import print_json, print_table


def plan(
    recipe: RecipeArgument,
    overrides: Overrides = None,
    timed: Annotated[
        bool, typer.Option("--time/--no-time", help="Run a few steps to estimate time and memory.")
    ] = True,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """What training a recipe would do: how often each task is seen, what an epoch is, time and memory."""
    from manyheads.console import Reporter
    from manyheads.training.plan import describe_plan, make_plan

    made_plan = make_plan(read_recipe(recipe, overrides), Reporter(quiet), timed)
    if as_json:
        print_json(made_plan.to_json())
        return
    lines: list[dict[str, Any]] = []
    for task_plan in made_plan.tasks:
        lines.append({key.replace("_", " "): value for key, value in vars(task_plan).items()})
    print_table(lines, False)
    print(describe_plan(made_plan))


def check(
    recipe: RecipeArgument,
    overrides: Overrides = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings too make the exit code 1.")] = False,
    notes: Annotated[bool, typer.Option("--notes", help="Examples of notes too.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """What is wrong with a recipe's data: bad rows, duplicates, overlaps, odd labels, long texts. Trains nothing."""
    from dataclasses import asdict

    from manyheads.checks.check import check_data
    from manyheads.checks.findings import format_findings
    from manyheads.console import Reporter

    opened = read_recipe(recipe, overrides)
    findings = check_data(opened, Reporter(quiet))
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        print(format_findings(findings, Path(opened.data.root) if opened.data.root else None, notes))
    severities = {finding.severity for finding in findings}
    if "error" in severities or (strict and "warning" in severities):
        raise typer.Exit(1)


def recipes(as_json: AsJson = False) -> None:
    """The recipes that come with manyheads."""
    import yaml

    from manyheads.config.load import shipped_recipes

    lines: list[dict[str, Any]] = []
    for name, file in shipped_recipes().items():
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        lines.append({"name": name, "description": content.get("description", "")})
    print_table(lines, as_json)


def parts(
    family: Annotated[str | None, typer.Argument(metavar="[FAMILY]", help="samplers, encodings, losses …")] = None,
    as_json: AsJson = False,
) -> None:
    """Every part that a recipe can name: what it is, and which paper it comes from."""
    from manyheads.registry import parts as registered_parts

    lines: list[dict[str, Any]] = []
    for part in registered_parts(family):
        lines.append({"family": part.family, "name": part.name, "what": part.summary, "paper": part.paper})
    print_table(lines, as_json)


def doctor(as_json: AsJson = False) -> None:
    """Versions, threads, devices, and which encoder is found where."""
    from manyheads.cli.doctor import examine

    lines: list[dict[str, Any]] = []
    for name, value in examine().items():
        lines.append({"what": name, "found": value})
    print_table(lines, as_json)
