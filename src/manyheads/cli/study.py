"""`manyheads study …`: command → function. Heavy imports inside each command keep --help quick."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyheads.console import print_table
from manyheads.errors import UserError

if TYPE_CHECKING:
    from manyheads.studies.study import OpenStudy

app = typer.Typer(
    no_args_is_help=True, help="Compare variants of a recipe over seeds, and see which differences are real."
)

StudyArgument = Annotated[str, typer.Argument(metavar="STUDY", help="A study file, or the name of a shipped study.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY.PATH=VALUE]...", help="Settings for every run, such as data.root=FOLDER."),
]
ScaleOption = Annotated[str | None, typer.Option("--scale", help="smoke, small or full; by default small.")]
Output = Annotated[Path, typer.Option("--output", help="Folder that keeps the runs of all studies.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Only = Annotated[list[str] | None, typer.Option("--only", help="Only this row; may be repeated.")]


@app.command("run")
def run(
    study: StudyArgument,
    overrides: Overrides = None,
    scale: ScaleOption = None,
    only: Only = None,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Runs at a time; by default one per core.")] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Of each run; by default cores / jobs.")
    ] = None,
    keep_models: Annotated[bool, typer.Option("--keep-models", help="Keep the weights of finished runs.")] = False,
    output: Output = Path("studies"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Train what is not finished of a study, then print its table; for example: manyheads study run mine.yaml"""
    from manyheads.console import Reporter
    from manyheads.reports.write import write_study_report
    from manyheads.studies.runner import check_folder, run_study

    reporter = Reporter(quiet)
    opened = open_from_words(study, scale, output, overrides)
    check_folder(output)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    at_once = jobs or _default_jobs(cores)
    chosen = opened.chosen(only or [])
    opened.check_metrics()
    ended = run_study(opened.location, chosen, reporter, at_once, threads or max(1, cores // at_once), keep_models)
    if all(one.state != "finished" for one in ended) and not opened.found():
        raise UserError(f"{opened.study.name}: no run could be finished; `manyheads study status` says why.")
    _print_tables(opened, "terminal")
    reporter.say(f"report → {write_study_report(opened)}")
    if any(one.state != "finished" for one in ended):
        raise typer.Exit(1)


@app.command("status")
def status(
    study: StudyArgument,
    overrides: Overrides = None,
    scale: ScaleOption = None,
    output: Output = Path("studies"),
    as_json: AsJson = False,
) -> None:
    """How far every run of a study is, and why any has failed."""
    opened = open_from_words(study, scale, output, overrides)
    standings = opened.standings()
    rows = [
        {
            "row": one.planned.row,
            "run": one.planned.member,
            "seed": one.planned.seed,
            "state": one.state if one.state in ("finished", "to do") else f"{one.state} at {one.share:.0%}",
            "reason": one.reason,
        }
        for one in standings
    ]
    print_table(rows, as_json)
    if not as_json:
        done = sum(one.state == "finished" for one in standings)
        print(f"\n{done} of {len(standings)} runs finished")


@app.command("table")
def table(
    study: StudyArgument,
    overrides: Overrides = None,
    scale: ScaleOption = None,
    form: Annotated[str, typer.Option("--format", help="terminal, markdown or csv.")] = "terminal",
    output: Output = Path("studies"),
) -> None:
    """The study's table, of what is finished: means, differences, and which of them are real."""
    if form not in ("terminal", "markdown", "csv"):
        raise UserError(f"--format: expected terminal, markdown or csv, found '{form}'.")
    _print_tables(open_from_words(study, scale, output, overrides), form)


@app.command("list")
def list_studies(as_json: AsJson = False) -> None:
    """The papers' studies that come with manyheads: paper, table, question, cost."""
    from manyheads.studies.config import load_study, shipped_studies
    from manyheads.studies.cost import describe_cost

    rows = []
    for name in shipped_studies():
        one = load_study(name)
        rows.append(
            {
                "study": name,
                "paper": one.paper,
                "shows": ", ".join(one.covers),
                "question": one.question,
                "cost": describe_cost(one),
            }
        )
    print_table(rows, as_json)


@app.command("smoke")
def smoke(
    studies: Annotated[list[str] | None, typer.Argument(metavar="[STUDY]...", help="By default all shipped.")] = None,
    ends: Annotated[bool, typer.Option("--ends", help="Only the first and the last row of each.")] = False,
) -> None:
    """Try studies in this one process, at the smallest scale with one seed: that they run, not what they find."""
    from tempfile import TemporaryDirectory

    from manyheads.console import Reporter
    from manyheads.studies.config import shipped_studies
    from manyheads.studies.smoke import try_studies

    with TemporaryDirectory() as folder:  # so that everything is trained again, whatever was tried before
        failed = try_studies(studies or list(shipped_studies()), Path(folder), ends, Reporter())
    if failed:
        raise typer.Exit(1)


@app.command("export")
def export(
    study: StudyArgument,
    file: Annotated[Path, typer.Option("--to", help="The file to write.")],
    overrides: Overrides = None,
    scale: ScaleOption = None,
    output: Output = Path("studies"),
) -> None:
    """Put the finished runs of a study into one small file: metrics, ids and numbers, no texts."""
    opened = open_from_words(study, scale, output, overrides)
    done = list(dict.fromkeys(one for one, _ in opened.runs if opened.location.results.have(one)))
    if not done:
        raise UserError(f"{opened.study.name}: no run is finished yet.")
    try:
        opened.location.results.export(done, file)
    except OSError as error:
        raise UserError(f"{file}: cannot be written: {error.strerror}.") from None
    print(f"{len(done)} runs → {file} ({file.stat().st_size / 1e3:.0f} kB)")


@app.command("import")
def take_in(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files that `study export` wrote.")],
    output: Output = Path("studies"),
) -> None:
    """Take in results of another machine: they count as finished runs."""
    from manyheads.studies.runner import check_folder

    location = check_folder(output)
    for file in files:
        print(f"{file}: {location.results.take_in(file)} new runs")


# --- shared -----------------------------------------------------------------------------------------------------


def open_from_words(study: str, scale: str | None, output: Path, overrides: list[str] | None) -> OpenStudy:
    from manyheads.config.overrides import parse_overrides
    from manyheads.studies.study import open_study

    return open_study(study, scale, output, parse_overrides(overrides or []))


def _default_jobs(cores: int) -> int:
    import torch

    return 1 if torch.accelerator.is_available() else cores


def _print_tables(opened: OpenStudy, form: str) -> None:
    from manyheads.studies import tables as render

    found, matrices = opened.tables()
    if form == "csv":
        print(render.as_csv(found, matrices), end="")
        return
    if opened.study.layout == "confusion":
        task = next(iter(found.columns)).partition(".")[0]
        for name, grid in render.confusions(found, opened.found(), task):
            _section(f"{name}: {task}", grid, form)
    else:
        _section("", render.values(found), form)
        _section(f"Differences from '{found.reference}'", render.differences(found), form)
    for matrix in matrices:
        _section(f"Transfer at equal {matrix.equal}: what company changes", render.transfers(matrix), form)
    for line in render.footer(found, matrices):
        print(f"- {line}" if form == "markdown" else line)


def _section(title: str, grid: list[dict[str, Any]], form: str) -> None:
    from manyheads.studies.tables import markdown

    if not grid:
        return
    if title:
        print(f"\n{title}\n" if form == "markdown" else f"\n{title}")
    if form == "markdown":
        print(markdown(grid))
    else:
        print_table(grid, False)
