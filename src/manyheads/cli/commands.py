"""The command line: command → function. No logic here; heavy imports inside each command keep --help quick."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.study import app as study_app
from manyheads.console import format_prediction, print_json, print_metrics, print_table
from manyheads.errors import Interrupted, UserError, nearest

app = typer.Typer(
    name="manyheads",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.add_typer(study_app, name="study")

RecipeArgument = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A recipe file, or the name of a shipped recipe.")
]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY.PATH=VALUE]...", help="Settings that replace the recipe's.")
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
ModelOption = Annotated[str, typer.Option("--model", help="Which model of the run: best, or best-TASK.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a run folder of the same name.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        from manyheads import __version__

        print(f"manyheads {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Train one shared BERT-family encoder for many text tasks, and serve every head from one encoder pass."""


@app.command()
def train(
    recipe: RecipeArgument,
    overrides: Overrides = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train a recipe; for example: manyheads train recipe.yaml training.epochs=1 seed=3"""
    from manyheads.cli.report import write_run_report
    from manyheads.config.load import load_recipe, parse_overrides
    from manyheads.training.loop import train as start

    run = start(load_recipe(recipe, parse_overrides(overrides or [])), overwrite, quiet)
    write_run_report(run, quiet)
    print_metrics(run.metrics, as_json)


@app.command()
def pretrain(
    recipe: RecipeArgument, overrides: Overrides = None, overwrite: Overwrite = False, quiet: Quiet = False
) -> None:
    """Pre-train the recipe's encoder further on the tasks' own texts; gives an encoder folder that recipes can name."""
    from manyheads.config.load import load_recipe, parse_overrides
    from manyheads.pretraining import pretrain as start

    print(start(load_recipe(recipe, parse_overrides(overrides or [])), overwrite, quiet))


@app.command()
def resume(run: RunArgument, as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Go on with a run that was stopped or killed, to the same result."""
    from manyheads.cli.report import write_run_report
    from manyheads.pretraining import is_pretraining, resume_pretraining
    from manyheads.runs.run import Run
    from manyheads.training.loop import is_finished
    from manyheads.training.loop import resume as go_on

    if is_pretraining(run):
        print(resume_pretraining(run, quiet))
        return
    finished_before = is_finished(Run(run))
    resumed = go_on(run, quiet)
    if not finished_before:
        write_run_report(resumed, quiet)
    print_metrics(resumed.metrics, as_json)


@app.command()
def evaluate(run: RunArgument, model: ModelOption = "best", as_json: AsJson = False, quiet: Quiet = False) -> None:
    """Metrics of a run's model on the whole dev set of every task."""
    from manyheads.console import Reporter
    from manyheads.runs.run import Run

    opened = _opened(Run(run, model))
    print_metrics({"dev": opened.evaluate(Reporter(quiet)).to_json(), "model": opened.about}, as_json)


@app.command()
def predict(
    run: RunArgument,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="csv, tsv, jsonl or parquet; else lines on stdin.")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", "-t", help="Which task; needed where there are several.")
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option("--text", help="A text; may be repeated. Pair tasks take them two by two.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All tasks that take such texts, from one encoder pass.")
    ] = False,
    model: ModelOption = "best",
    as_json: AsJson = False,
) -> None:
    """Answer texts: --text, a file with the task's text columns, or lines on stdin (pairs separated by a tab)."""
    from manyheads.runs.run import Run

    if file is not None and text:
        raise UserError("predict: give a FILE or --text, not both.")
    if every and task:
        raise UserError("predict: give --task or --all, not both.")
    opened = _opened(Run(run, model))
    if every:
        _print_every_task(opened, file, text, as_json)
        return
    if file is not None:
        ids, predictions = opened.predict_file(task, file)
    else:
        pair = opened.task(task).pair
        predictions = opened.predict(task, _pairs(text, pair) if text else _stdin_lines(pair))
        ids = [str(number) for number in range(len(predictions))]
    if as_json:
        print_json([{"id": i, **prediction} for i, prediction in zip(ids, predictions, strict=True)])
        return
    for i, prediction in zip(ids, predictions, strict=True):
        shown = format_prediction(prediction)
        print(f"{i}\t{shown}" if file is not None else shown)


@app.command()
def recipes(as_json: AsJson = False) -> None:
    """The recipes that come with manyheads."""
    import yaml

    from manyheads.config.load import shipped_recipes

    found = [
        {"name": name, "description": yaml.safe_load(file.read_text(encoding="utf-8")).get("description", "")}
        for name, file in shipped_recipes().items()
    ]
    print_table(found, as_json)


@app.command()
def parts(
    family: Annotated[str | None, typer.Argument(metavar="[FAMILY]", help="samplers, encodings, losses …")] = None,
    as_json: AsJson = False,
) -> None:
    """Every part that a recipe can name: what it is, and which paper it comes from."""
    from manyheads.registry import parts as registered

    print_table(
        [
            {"family": part.family, "name": part.name, "what": part.summary, "paper": part.paper}
            for part in registered(family)
        ],
        as_json,
    )


@app.command()
def conflicts(run: RunArgument, as_json: AsJson = False) -> None:
    """Which tasks' gradients agree or fight in a run, where in the encoder, and what to do about it."""
    from manyheads.reports.conflicts import conflict_table, describe_conflicts, read_conflicts
    from manyheads.runs.run import Run

    found = read_conflicts(Run(run))
    if as_json:
        print_json(found.to_json())
        return
    print_table(conflict_table(found), False)
    print("\n" + "\n".join(describe_conflicts(found)))


@app.command()
def report(
    what: Annotated[
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
) -> None:
    """One page about a run (finished or not), several runs compared with the first, or a study. Opens in any browser.

    For example: manyheads report runs/reviews; report runs/a runs/b; report papers/e1-encodings data.root=FOLDER
    """
    from manyheads.cli.study import open_from_words
    from manyheads.reports.write import write_comparison, write_report, write_study_report
    from manyheads.studies.config import shipped_studies

    if len(what) > 1 and not any("=" in one and not Path(one).is_dir() for one in what):
        print(write_comparison([Path(one) for one in what], output, figures, form))
    elif Path(what[0]).is_dir():
        if len(what) > 1:
            raise UserError(f"report: '{what[1]}' is a setting; only studies take settings.")
        if scale is not None:
            raise UserError("report: --scale is of studies; a run has none.")
        print(write_report(Path(what[0]), output, figures, form))
    elif not Path(what[0]).is_file() and what[0] not in shipped_studies():
        near = nearest(what[0], shipped_studies()) if what[0].startswith("papers/") else ""
        raise UserError(f"report: '{what[0]}' is no run folder, no study file and no shipped study.{near}")
    else:
        print(write_study_report(open_from_words(what[0], scale, studies, what[1:]), output, figures, form))


@app.command()
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
    from manyheads.config.load import load_recipe, parse_overrides
    from manyheads.console import Reporter
    from manyheads.training.plan import describe_plan, make_plan

    found = make_plan(load_recipe(recipe, parse_overrides(overrides or [])), Reporter(quiet), timed)
    if as_json:
        print_json(found.to_json())
        return
    print_table([{key.replace("_", " "): value for key, value in vars(one).items()} for one in found.tasks], False)
    print(describe_plan(found))


@app.command()
def check(
    recipe: RecipeArgument,
    overrides: Overrides = None,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings too make the exit code 1.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """What is wrong with a recipe's data: bad rows, duplicates, overlaps, odd labels, long texts. Trains nothing."""
    from dataclasses import asdict

    from manyheads.checks.checks import check_data
    from manyheads.checks.findings import report
    from manyheads.config.load import load_recipe, parse_overrides
    from manyheads.console import Reporter

    findings = check_data(load_recipe(recipe, parse_overrides(overrides or [])), Reporter(quiet))
    if as_json:
        print_json([asdict(one) for one in findings])
    else:
        print(report(findings))
    if any(one.severity == "error" or (strict and one.severity == "warning") for one in findings):
        raise typer.Exit(1)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Versions, threads, devices, and which encoder is found where."""
    from manyheads.cli.doctor import examine

    print_table([{"what": what, "found": found} for what, found in examine().items()], as_json)


@app.command()
def demo(
    overrides: Overrides = None,
    output: Annotated[str, typer.Option("--output", help="Folder for the run folder.")] = "runs",
    as_json: AsJson = False,
) -> None:
    """Train three generated tasks with the default encoder, and answer a few sentences. Needs no network."""
    from manyheads.cli.demo import run_demo
    from manyheads.config.load import parse_overrides

    result = run_demo(parse_overrides(overrides or []), output)
    if as_json:
        print_json(result)
        return
    print_metrics(result["metrics"], as_json)
    print_table(result["answers"], as_json)


def main() -> None:
    """Entry point: a user's fault is one message and exit code 2, never a traceback."""
    try:
        app(prog_name="manyheads")
    except UserError as fault:
        print(f"error: {fault} [{fault.code}]", file=sys.stderr)
        sys.exit(2)
    except Interrupted as stopped:
        if os.environ.get("RANK", "0") == "0":  # of several processes the first one speaks
            print(stopped, file=sys.stderr)
        sys.exit(stopped.exit_code)
    except Exception as fault:
        from manyheads.config.plugins import explain_fault

        told = explain_fault(fault)
        if told is None:
            raise  # ours to mend, so all of it is shown
        print(f"error: {told} [{told.code}]", file=sys.stderr)
        sys.exit(2)


# --- texts to answer --------------------------------------------------------------------------------------------


def _opened(run: Any) -> Any:
    """A run whose imported files, which are code, are named before they are used."""
    for file in run.recipe.imports:
        print(f"imports: {file}", file=sys.stderr)
    return run


def _print_every_task(run: Any, file: Path | None, text: list[str] | None, as_json: bool) -> None:
    """A column, or a key, per task. Texts without a file are single ones; pairs are lines with a tab."""
    if file is not None:
        ids, predictions = run.predict_file_all(file)
    else:
        lines = text or [line.rstrip("\r\n") for line in sys.stdin]
        pairs = any("\t" in line for line in lines)
        predictions = run.predict_all([tuple(line.split("\t")) for line in lines] if pairs else lines)
        ids = [str(number) for number in range(len(lines))]
    rows = [{"id": i, **{task: found[at] for task, found in predictions.items()}} for at, i in enumerate(ids)]
    if as_json:
        print_json(rows)
        return
    print("\t".join(["id", *predictions]))
    for row in rows:
        print("\t".join([row["id"], *(format_prediction(row[task]).replace("\t", " ") for task in predictions)]))


def _pairs(texts: list[str], pair: bool) -> list[Any]:
    if not pair:
        return texts
    if len(texts) % 2:
        raise UserError("--text: this task takes pairs, so give --text an even number of times.")
    return list(zip(texts[::2], texts[1::2], strict=True))


def _stdin_lines(pair: bool) -> list[Any]:
    if sys.stdin.isatty():
        print("One text per line, pairs separated by a tab; end with Ctrl-D.", file=sys.stderr)
    lines = [line.rstrip("\r\n") for line in sys.stdin]
    return [tuple(line.split("\t")) for line in lines] if pair else lines
