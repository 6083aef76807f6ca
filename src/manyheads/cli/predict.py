"""Commands that use a run's model: evaluate, predict."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from manyheads.cli.options import AsJson, Imports, ModelOption, Quiet, RunArgument
from manyheads.console import format_prediction, print_json, print_metrics
from manyheads.errors import UserError

if TYPE_CHECKING:
    from manyheads.inference.predictor import Predictor
    from manyheads.inference.texts import FileLayout


def evaluate(
    run: RunArgument,
    model: ModelOption = None,
    imports: Imports = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Metrics of a run's model on the whole dev set of every task."""
    from manyheads.console import Reporter
    from manyheads.runs.run import Run

    opened = Run(run, model or "best", imports or ())
    print_metrics({"dev": opened.evaluate(Reporter(quiet)).to_json(), "model": opened.about}, as_json)


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a model folder (best/, or a copy).")],
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="csv, tsv, jsonl, parquet or txt; else lines on stdin.")
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
    columns: Annotated[
        str | None, typer.Option("--columns", help="The columns of a FILE without a header: label,text.")
    ] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help="What FILE is, where its ending does not say: tsv.")
    ] = None,
    quoting: Annotated[
        str | None, typer.Option("--quoting", help="none: quote marks in FILE are letters, as in GLUE's tsv.")
    ] = None,
    model: ModelOption = None,
    imports: Imports = None,
    as_json: AsJson = False,
) -> None:
    """Predict for texts: --text, a file with the task's text columns, or lines on stdin (pairs separated by a tab)."""
    from manyheads.runs.run import open_predictor

    if file is not None and text:
        raise UserError("predict: give a FILE or --text, not both.", code="conflicting-options")
    if every and task:
        raise UserError("predict: give --task or --all, not both.", code="conflicting-options")
    layout = _read_layout(file, columns, file_format, quoting)
    opened = open_predictor(run, model, imports or ())
    if every:
        _predict_every_task(opened, file, layout, text, as_json)
    elif file is not None:
        ids, predictions = opened.predict_file(task, file, **layout)
        _print_predictions(ids, predictions, as_json, with_ids=True)
    else:
        predictions = opened.predict(task, _read_texts(text, opened.task(task).pair))
        _print_predictions(_numbers(predictions), predictions, as_json, with_ids=False)


def _read_layout(file: Path | None, columns: str | None, file_format: str | None, quoting: str | None) -> FileLayout:
    """How FILE is read; what is not said is left out."""
    options: dict[str, Any] = {"format": file_format, "quoting": quoting}
    if columns is not None:
        options["columns"] = [name.strip() for name in columns.split(",")]
    layout = {name: value for name, value in options.items() if value is not None}
    if layout and file is None:
        raise UserError(f"predict: --{next(iter(layout))} is about a FILE; name one.", code="conflicting-options")
    return cast("FileLayout", layout)


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


def _predict_every_task(
    predictor: Predictor, file: Path | None, layout: FileLayout, texts: list[str] | None, as_json: bool
) -> None:
    """A column, or a key, per task. Texts without a file are single ones; pairs are lines with a tab."""
    if file is not None:
        ids, predictions = predictor.predict_file_all(file, **layout)
    else:
        lines = texts or _stdin_lines()
        ids = _numbers(lines)
        predictions = predictor.predict_all(_split_pairs(lines, any("\t" in line for line in lines)))
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


def _stdin_lines() -> list[str]:
    return [line.rstrip("\r\n") for line in sys.stdin]


def _split_pairs(lines: list[str], pairs: bool) -> list[Any]:
    if not pairs:
        return list(lines)
    return [tuple(line.split("\t")) for line in lines]
