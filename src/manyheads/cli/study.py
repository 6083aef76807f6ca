"""`manyheads study …`: command → function. Heavy imports inside each command keep --help quick."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyheads.cli.options import AsJson, Quiet
from manyheads.console import print_json, print_table
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
    quiet: Quiet = False,
) -> None:
    """Train what is not finished of a study, then print its table; for example: manyheads study run mine.yaml"""
    from manyheads.console import Reporter
    from manyheads.reports.write import write_study_report
    from manyheads.studies.folder import create_study_folder
    from manyheads.studies.runner import run_study

    reporter = Reporter(quiet)
    opened = open_named_study(study, scale, output, overrides)
    create_study_folder(output)
    cores = _usable_cores()
    parallel_runs = jobs or _default_jobs(cores)
    threads_per_run = threads or max(1, cores // parallel_runs)
    runs = opened.runs_of(only or [])
    opened.check_metrics()
    statuses = run_study(opened.folder, runs, reporter, parallel_runs, threads_per_run, keep_models)
    finished = [status for status in statuses if status.state == "finished"]
    if not finished and not opened.finished_results():
        raise UserError(
            f"{opened.study.name}: no run could be finished; `manyheads study status` says why.", code="no-finished-run"
        )
    _print_tables(opened, "terminal")
    reporter.say(f"report → {write_study_report(opened)}")
    if len(finished) < len(statuses):
        raise typer.Exit(1)


@app.command("status")
def show_status(
    study: StudyArgument,
    overrides: Overrides = None,
    scale: ScaleOption = None,
    output: Output = Path("studies"),
    as_json: AsJson = False,
) -> None:
    """Which folder is which row of a study, how far every run is, and why any has failed."""
    from manyheads.studies.folder import status_line

    opened = open_named_study(study, scale, output, overrides)
    statuses = opened.run_statuses()
    lines: list[dict[str, Any]] = []
    finished = 0
    for status in statuses:
        finished += status.state == "finished"
        line = status_line(opened.folder, status)
        if as_json:
            line["identity"] = status.identity
        lines.append(line)
    print_table(lines, as_json)
    if not as_json:
        print(f"\n{finished} of {len(statuses)} runs finished")


@app.command("table")
def table(
    study: StudyArgument,
    overrides: Overrides = None,
    scale: ScaleOption = None,
    form: Annotated[str, typer.Option("--format", help="terminal, markdown, csv or json.")] = "terminal",
    output: Output = Path("studies"),
) -> None:
    """The study's table, of what is finished: means, differences, and which of them are real."""
    if form not in ("terminal", "markdown", "csv", "json"):
        raise UserError(f"--format: expected terminal, markdown, csv or json, found '{form}'.", code="unknown-format")
    _print_tables(open_named_study(study, scale, output, overrides), form)


@app.command("list")
def list_studies(as_json: AsJson = False) -> None:
    """The papers' studies that come with manyheads: paper, table, question, cost."""
    from manyheads.studies.cost import describe_cost
    from manyheads.studies.load import load_study, shipped_studies

    lines: list[dict[str, Any]] = []
    for name in shipped_studies():
        study = load_study(name)
        lines.append(
            {
                "study": name,
                "paper": study.paper,
                "shows": ", ".join(study.covers),
                "question": study.question,
                "cost": describe_cost(study),
            }
        )
    print_table(lines, as_json)


@app.command("smoke")
def smoke(
    studies: Annotated[list[str] | None, typer.Argument(metavar="[STUDY]...", help="By default all shipped.")] = None,
    ends: Annotated[bool, typer.Option("--ends", help="Only the first and the last row of each.")] = False,
) -> None:
    """Try studies in this one process, at the smallest scale with one seed: that they run, not what they find."""
    from tempfile import TemporaryDirectory

    from manyheads.console import Reporter
    from manyheads.studies.load import shipped_studies
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
    opened = open_named_study(study, scale, output, overrides)
    results = opened.folder.results
    finished: list[str] = []
    for identity, _ in opened.runs:
        if results.has(identity) and identity not in finished:
            finished.append(identity)
    if not finished:
        raise UserError(f"{opened.study.name}: no run is finished yet.", code="no-finished-run")
    try:
        results.export(finished, file)
    except OSError as error:
        raise UserError(f"{file}: cannot be written: {error.strerror}.", code="not-writable") from None
    print(f"{len(finished)} runs → {file} ({file.stat().st_size / 1e3:.0f} kB)")


@app.command("import")
def import_results(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files that `study export` wrote.")],
    output: Output = Path("studies"),
) -> None:
    """Import results of another machine: they count as finished runs."""
    from manyheads.studies.folder import create_study_folder

    folder = create_study_folder(output)
    for file in files:
        print(f"{file}: {folder.results.import_file(file)} new runs")


# --- shared -----------------------------------------------------------------------------------------------------


def open_named_study(study: str, scale: str | None, output: Path, overrides: list[str] | None) -> OpenStudy:
    from manyheads.config.overrides import parse_overrides
    from manyheads.studies.study import open_study

    return open_study(study, scale, output, parse_overrides(overrides or []))


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _default_jobs(cores: int) -> int:
    import torch

    if torch.accelerator.is_available():
        return 1
    return cores


def _print_tables(opened: OpenStudy, form: str) -> None:
    from manyheads.studies import tables
    from manyheads.studies.footer import footer
    from manyheads.studies.margin_tables import margins

    table, matrices = opened.tables()
    if form == "csv":
        print(tables.as_csv(table, matrices), end="")
        return
    if form == "json":
        print_json(tables.as_json(table, matrices, footer(table, matrices)))
        return
    if opened.study.layout == "confusion":
        task = next(iter(table.columns)).partition(".")[0]
        for name, grid in tables.confusions(table, opened.finished_results(), task):
            _print_section(f"{name}: {task}", grid, form)
    else:
        _print_section("", tables.values(table), form)
        _print_section("", tables.trivial(table), form)
        _print_section(f"Differences from '{table.reference}'", tables.differences(table), form)
        if table.margins is not None:
            _print_section(f"Not worse than '{table.margins.request.than}'?", margins(table), form)
        _print_section("On dev before and after calibration", tables.calibrations(table), form)
    for matrix in matrices:
        title = f"Transfer at equal {matrix.equal}: what joint training changes"
        _print_section(title, tables.transfers(matrix), form)
    for line in footer(table, matrices):
        if form == "markdown":
            line = f"- {line}"
        print(line)


def _print_section(title: str, grid: list[dict[str, str]], form: str) -> None:
    from manyheads.studies.tables import markdown

    if not grid:
        return
    if form == "markdown":
        if title:
            print(f"\n{title}\n")
        print(markdown(grid))
        return
    if title:
        print(f"\n{title}")
    print_table(grid, False)
