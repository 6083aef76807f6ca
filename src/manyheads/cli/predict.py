"""Commands that use a run's model: evaluate, predict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from manyheads.cli.options import (
    AsJson,
    ColumnsOption,
    FormatOption,
    Imports,
    ModelArgument,
    ModelOption,
    Quiet,
    QuotingOption,
    RuntimeOption,
    read_runtime,
)
from manyheads.console import format_prediction, print_json, print_table
from manyheads.errors import UserError

if TYPE_CHECKING:
    from manyheads.inference.predictor import Predictor
    from manyheads.inference.scores import Scores
    from manyheads.inference.texts import FileLayout, LabelledLayout
    from manyheads.runs.run import Run
    from manyheads.runs.splits import Split
    from manyheads.tasks.task import Task

OPTION_NAMES = {"text_columns": "text-column", "label_column": "label-column"}  # of what Python calls otherwise
SHOWN_REASONS = 3  # why rows of a task were left out


def evaluate(
    run: ModelArgument,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Labelled files, each for the tasks whose columns it has."),
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="Of the run's own data: dev (unless told), test or train.")
    ] = None,
    task: Annotated[str | None, typer.Option("--task", "-t", help="This task alone.")] = None,
    text_column: Annotated[
        list[str] | None, typer.Option("--text-column", help="The FILEs' column of the task's texts; twice for pairs.")
    ] = None,
    label_column: Annotated[
        str | None, typer.Option("--label-column", help="The FILEs' column of the task's labels.")
    ] = None,
    columns: ColumnsOption = None,
    file_format: FormatOption = None,
    quoting: QuotingOption = None,
    model: ModelOption = None,
    imports: Imports = None,
    runtime: RuntimeOption = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Metrics with 95 % intervals: of a run on its dev, test or train data, or of a run or model on labelled files.

    For example: evaluate runs/reviews --split test; evaluate runs/reviews/best new.csv --task sentiment
    """
    from manyheads.console import Reporter
    from manyheads.runs.opening import is_model_folder, local_folder, open_predictor

    run = local_folder(run)
    if files and split is not None:
        raise UserError("evaluate: give FILE or --split, not both.", code="conflicting-options")
    layout = cast("LabelledLayout", read_layout(columns, file_format, quoting))
    if text_column:
        layout["text_columns"] = text_column
    if label_column:
        layout["label_column"] = label_column
    if not files:
        _check_no_layout("evaluate", layout)
        _check_has_data(run)
    if is_model_folder(run):
        predictor = open_predictor(run, model, imports or (), read_runtime(runtime))
        scores, about = predictor.evaluate(files or [], task, reporter=Reporter(quiet), **layout), predictor.about
    else:
        opened = _open_run(run, model, imports, runtime)
        scores = opened.evaluate(files or None, cast("Split | None", split), task, Reporter(quiet), **layout)
        about = opened.about
    measured = "files" if files else split or "dev"
    if as_json:
        print_json({measured: scores.to_json(), "model": about})
    else:
        print_table(_score_lines(scores, measured), False)
    _say_left_out(scores)


def _open_run(run: Path, model: str | None, imports: list[Path] | None, runtime: str | None) -> Run:
    from manyheads.runs.run import Run

    if runtime is not None:
        raise UserError(f"{run}: a run; --runtime is for exported models.", code="conflicting-options")
    return Run(run, model or "best", imports or ())


def _check_has_data(run: Path) -> None:
    from manyheads.runs.opening import is_model_folder

    if is_model_folder(run):
        reason = "a model folder has no data of its own; name a FILE, or the run folder."
        raise UserError(f"{run}: {reason}", code="no-evaluation-data")


def _score_lines(scores: Scores, measured: str) -> list[dict[str, Any]]:
    """A line per task and metric."""
    title = "value" if measured == "files" else measured
    lines: list[dict[str, Any]] = []
    for name, metrics in scores.metrics.items():
        for metric, value in metrics.items():
            interval = scores.tasks[name].intervals[metric]
            shown = "–" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"
            lines.append(
                {"task": name, "metric": metric, title: value, "95 % interval": shown, "rows": scores.examples[name]}
            )
    if scores.overall is not None:
        lines.append({"task": "overall", "metric": "", title: scores.overall, "95 % interval": "", "rows": ""})
    return lines


def _say_left_out(scores: Scores) -> None:
    """On stderr: which rows and tasks were not measured."""
    for name, reasons in scores.left_out.items():
        for reason, rows in list(reasons.items())[:SHOWN_REASONS]:
            print(f"left out: {name}: {_row_count(rows)}: {reason}", file=sys.stderr)
        others = list(reasons.values())[SHOWN_REASONS:]
        if others:
            print(f"left out: {name}: {_row_count(sum(others))} for {len(others)} other reasons", file=sys.stderr)
    tasks_by_reason: dict[str, list[str]] = {}
    for name, reason in scores.unmeasured.items():
        tasks_by_reason.setdefault(reason, []).append(name)
    for reason, names in tasks_by_reason.items():
        print(f"left out: {', '.join(names)}: {reason}", file=sys.stderr)


def _row_count(rows: int) -> str:
    return "1 row" if rows == 1 else f"{rows:,} rows"


def predict(
    run: ModelArgument,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="csv, tsv, jsonl, parquet or txt; else lines on stdin.")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", "-t", help="Which task; needed where there are several.")
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            "--text",
            help="A text; may be repeated. Pair tasks take them two by two; a choice is a question, then candidates.",
        ),
    ] = None,
    text_column: Annotated[
        list[str] | None,
        typer.Option("--text-column", help="The FILE's column of texts; twice for pairs. By default recognised."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All tasks that take such texts, from one encoder pass.")
    ] = False,
    columns: ColumnsOption = None,
    file_format: FormatOption = None,
    quoting: QuotingOption = None,
    model: ModelOption = None,
    imports: Imports = None,
    runtime: RuntimeOption = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Predict for texts: --text, a file with the task's text columns, or lines on stdin (pairs separated by a tab)."""
    from manyheads.console import Reporter
    from manyheads.runs.opening import open_predictor

    if file is not None and text:
        raise UserError("predict: give a FILE or --text, not both.", code="conflicting-options")
    if every and task:
        raise UserError("predict: give --task or --all, not both.", code="conflicting-options")
    layout = read_layout(columns, file_format, quoting)
    if file is None:
        _check_no_layout("predict", layout, text_column)
    predictor = open_predictor(run, model, imports or (), read_runtime(runtime))
    # a bar on a terminal only: lines of progress would end up among predictions where both go into one file
    reporter = Reporter(quiet or not sys.stderr.isatty())
    if file is None:
        _predict_texts(predictor, task, text, every, as_json)
    elif every:
        ids, by_task = predictor.predict_file_all(file, text_column, reporter, **layout)
        _print_every_task(predictor, ids, by_task, as_json)
    else:
        ids, predictions = predictor.predict_file(task, file, text_column, reporter, **layout)
        _print_predictions(ids, predictions, as_json, with_ids=True)


def _predict_texts(predictor: Predictor, task: str | None, texts: list[str] | None, every: bool, as_json: bool) -> None:
    """Of texts on the command line or on stdin."""
    if every:
        lines = texts or _stdin_lines()
        by_task = predictor.predict_all(_split_pairs(lines, any("\t" in line for line in lines)))
        _print_every_task(predictor, _numbers(lines), by_task, as_json)
        return
    chosen = predictor.task(task)
    if chosen.kind.per_candidate:
        predictions = predictor.predict(chosen.name, _read_choices(texts, chosen))
    else:
        predictions = predictor.predict(task, _read_texts(texts, chosen.pair))
    _print_predictions(_numbers(predictions), predictions, as_json, with_ids=False)


def read_layout(columns: str | None, file_format: str | None, quoting: str | None) -> FileLayout:
    """How FILE is read; what is not said is left out."""
    options: dict[str, Any] = {"format": file_format, "quoting": quoting}
    if columns is not None:
        options["columns"] = [name.strip() for name in columns.split(",")]
    layout = {name: value for name, value in options.items() if value is not None}
    return cast("FileLayout", layout)


def _check_no_layout(command: str, layout: FileLayout, text_columns: list[str] | None = None) -> None:
    """Where there is no FILE, nothing may be said of one."""
    options = [OPTION_NAMES.get(name, name) for name in layout]
    if text_columns:
        options.append("text-column")
    if options:
        raise UserError(f"{command}: --{options[0]} is about a FILE; name one.", code="conflicting-options")


def _numbers(items: list[Any]) -> list[str]:
    """Ids of texts that have none."""
    return list(map(str, range(len(items))))


def _print_predictions(ids: list[str], predictions: list[dict[str, Any]], as_json: bool, with_ids: bool) -> None:
    lines: list[dict[str, Any]] = []
    for example_id, described in zip(ids, predictions, strict=True):
        lines.append({"id": example_id, **described})
    if as_json:
        print_json(lines)
        return
    for line in lines:
        cells = format_prediction(line)
        if with_ids:
            cells = f"{line['id']}\t{cells}"
        print(cells)


def _print_every_task(
    predictor: Predictor, ids: list[str], predictions: dict[str, list[dict[str, Any]]], as_json: bool
) -> None:
    """A column, or a key, per task; on stderr the tasks that take other texts."""
    left_out = [name for name in predictor.tasks if name not in predictions]
    if left_out:
        takes, given = "single texts", "pairs"
        if predictor.tasks[left_out[0]].pair:
            takes, given = "pairs", "single texts"
        reason = f"they take {takes}, and these are {given}"
        if any(predictor.tasks[name].kind.per_candidate for name in (*left_out, *predictions)):
            given, reason = "others", "they take other texts than these, or other columns"
        if given == "single texts":
            reason += " (of a FILE, name two columns: --text-column)"
        print(f"left out: {', '.join(left_out)}: {reason}", file=sys.stderr)
    rows: list[dict[str, Any]] = []
    for row_index, example_id in enumerate(ids):
        row: dict[str, Any] = {"id": example_id}
        for task, task_predictions in predictions.items():
            row[task] = task_predictions[row_index]
        rows.append(row)
    if as_json:
        print_json(rows)
        return
    print("\t".join(["id", *predictions]))
    for row in rows:
        cells = [format_prediction(row[task]).replace("\t", " ") for task in predictions]
        print("\t".join([row["id"], *cells]))


# --- texts ------------------------------------------------------------------------------------------------------


def _read_texts(texts: list[str] | None, pair: bool) -> list[Any]:
    """From --text, else from stdin."""
    if texts and pair:
        if len(texts) % 2:
            raise UserError("--text: this task takes pairs, so give --text an even number of times.", code="odd-texts")
        return list(zip(texts[::2], texts[1::2], strict=True))
    if texts:
        return list(texts)
    if sys.stdin.isatty():
        print("One text per line, pairs separated by a tab; end with Ctrl-D.", file=sys.stderr)
    return _split_pairs(_stdin_lines(), pair)


def _read_choices(texts: list[str] | None, task: Task) -> list[Any]:
    """One question and its candidates from --text, else one from each line of stdin, with tabs between."""
    assert task.columns.choices is not None
    before = 1 if task.columns.choices.question is None else 2  # texts before the first candidate
    lines = [texts] if texts else [line.split("\t") for line in _stdin_lines()]
    return [(*line[:before], line[before:]) for line in lines]


def _stdin_lines() -> list[str]:
    return [line.rstrip("\r\n") for line in sys.stdin]


def _split_pairs(lines: list[str], pairs: bool) -> list[Any]:
    if not pairs:
        return list(lines)
    return [tuple(line.split("\t")) for line in lines]
