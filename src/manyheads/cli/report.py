"""Commands that report on runs and studies: report, conflicts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyheads.cli.options import AsJson, Imports, RunArgument
from manyheads.console import print_json, print_table
from manyheads.errors import UserError, nearest


def conflicts(run: RunArgument, imports: Imports = None, as_json: AsJson = False) -> None:
    """Which tasks' gradients agree or fight in a run, where in the encoder, and what to do about it."""
    from manyheads.reports.conflicts import conflict_table, describe_conflicts, read_conflicts
    from manyheads.runs.run import Run

    run_conflicts = read_conflicts(Run(run, imports=imports or ()))
    if as_json:
        print_json(run_conflicts.to_json())
        return
    print_table(conflict_table(run_conflicts), False)
    print("\n" + "\n".join(describe_conflicts(run_conflicts)))


def report(
    subjects: Annotated[
        list[str], typer.Argument(metavar="RUN|STUDY...", help="A run folder, several to compare, or a study.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", help="The file to write; by default report.html in the run, comparison.html, or STUDY.html."
        ),
    ] = None,
    scale: Annotated[str | None, typer.Option("--scale", help="Of a study: smoke, small or full.")] = None,
    studies: Annotated[Path, typer.Option("--studies", help="Folder that keeps the runs of studies.")] = Path(
        "studies"
    ),
    figures: Annotated[Path | None, typer.Option("--figures", help="Also write every figure into this folder.")] = None,
    form: Annotated[str, typer.Option("--format", help="Of these figures: svg, png or pdf.")] = "svg",
    imports: Imports = None,
) -> None:
    """One page about a run (finished or not), several runs compared with the first, or a study. Opens in any browser.

    For example: manyheads report runs/reviews; report runs/a runs/b; report papers/e1-encodings data.root=FOLDER
    """
    from manyheads.cli.study import open_named_study
    from manyheads.config.plugins import import_parts
    from manyheads.reports.write import write_comparison, write_report, write_study_report

    for python_file in imports or ():
        import_parts(python_file.resolve(), "imports")
    first, *following = subjects
    settings = [word for word in subjects if "=" in word and not Path(word).is_dir()]
    if following and not settings:
        print(write_comparison(list(map(Path, subjects)), output, figures, form))
        return
    if Path(first).is_dir():
        _check_run_words(following, scale)
        print(write_report(Path(first), output, figures, form))
        return
    _check_study_name(first)
    print(write_study_report(open_named_study(first, scale, studies, following), output, figures, form))


def _check_run_words(following: list[str], scale: str | None) -> None:
    """A run takes neither settings nor a scale."""
    if following:
        raise UserError(
            f"report: '{following[0]}' is a setting; only studies take settings.", code="conflicting-options"
        )
    if scale is not None:
        raise UserError("report: --scale is of studies; a run has none.", code="conflicting-options")


def _check_study_name(name: str) -> None:
    from manyheads.studies.load import shipped_studies

    if Path(name).is_file() or name in shipped_studies():
        return
    near = ""
    if name.startswith("papers/"):
        near = nearest(name, shipped_studies())
    raise UserError(
        f"report: '{name}' is no run folder, no study file and no shipped study.{near}", code="unknown-subject"
    )
