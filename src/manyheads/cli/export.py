"""The command that exports a model for runtimes without torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from manyheads.cli.options import AsJson, Imports, ModelArgument, ModelOption, Quiet
from manyheads.errors import UserError, nearest

if TYPE_CHECKING:
    from manyheads.exporting.folder import Exported
    from manyheads.inference.onnx_folder import Layout, Precision

FORMS = ("onnx", "transformers", "cross-encoder", "sentence-transformers")
FORMS_OF_A_TASK = ("transformers", "cross-encoder")
PRECISIONS = ("fp32", "int8")
LAYOUTS = ("packed", "padded")
MOST_LOST = 0.005
CHECK_ROWS = 2_000


def export(
    run: ModelArgument,
    form: Annotated[
        str, typer.Option("--to", help="onnx, transformers, cross-encoder, sentence-transformers.")
    ] = "onnx",
    task: Annotated[
        str | None, typer.Option("--task", "-t", help="Whose head, of transformers and cross-encoder.")
    ] = None,
    precision: Annotated[
        str, typer.Option("--precision", help="fp32, or int8: a fourth of the size, and faster.")
    ] = "fp32",
    layout: Annotated[
        str, typer.Option("--layout", help="packed, or padded: for runtimes that want batch × length.")
    ] = "packed",
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Where to; by default RUN/exported-PRECISION.")
    ] = None,
    float_layers: Annotated[
        str, typer.Option("--float-layers", help="Layers that stay in float32, counted from 1: 1,6.")
    ] = "",
    most_lost: Annotated[
        float, typer.Option("--most-lost", min=0, help="Of a task's primary metric; more is refused.")
    ] = MOST_LOST,
    check: Annotated[
        list[str] | None, typer.Option("--check", help="A labelled file to check it on; by default the run's dev.")
    ] = None,
    check_rows: Annotated[int, typer.Option("--check-rows", min=1, help="Of each task, at most.")] = CHECK_ROWS,
    model: ModelOption = None,
    imports: Imports = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Export a model for ONNX Runtime, and check it first; for example: manyheads export runs/demo --precision int8"""
    from manyheads.console import Reporter, print_json
    from manyheads.runs.opening import is_hub_name, local_folder

    if is_hub_name(run) and folder is None:
        raise UserError(f"export: {run} has no folder of its own; say where to: --folder.", code="bad-option")
    run = local_folder(run)
    _check_choice("--to", form, FORMS)
    _check_choice("--precision", precision, PRECISIONS)
    _check_choice("--layout", layout, LAYOUTS)
    layers = _read_layers(float_layers)
    graph_options = {
        "--precision": precision != "fp32",
        "--layout": layout != "packed",
        "--float-layers": bool(layers),
        "--most-lost": most_lost != MOST_LOST,
        "--check": bool(check),
        "--check-rows": check_rows != CHECK_ROWS,
    }
    _refuse_unused(form, task, [option for option, given in graph_options.items() if given])
    if layers and precision == "fp32":
        raise UserError("export: --float-layers is of --precision int8.", code="conflicting-options")
    if form != "onnx":
        written = _export_form(run, form, folder, task, model, tuple(imports or ()))
        if as_json:
            print_json({"folder": str(written)})
        else:
            print(written)
        return
    from manyheads.exporting.folder import ExportSettings
    from manyheads.exporting.folder import export as export_model

    settings = ExportSettings(
        cast("Precision", precision), cast("Layout", layout), layers, most_lost=most_lost, check_rows=check_rows
    )
    _print_exported(export_model(run, folder, settings, check, model, tuple(imports or ()), Reporter(quiet)), as_json)


def _print_exported(exported: Exported, as_json: bool) -> None:
    from manyheads.console import print_json, print_table
    from manyheads.exporting.folder import as_lines

    if as_json:
        sizes = {"bytes": exported.size, "original_bytes": exported.original_size}
        tasks = {name: measured.to_json() for name, measured in exported.measured.items()}
        print_json({"folder": str(exported.folder), **sizes, "tasks": tasks})
        return
    if exported.measured:
        print_table(as_lines(exported.measured), False)
    print(f"{exported.folder}: {exported.size / 1e6:.0f} MB, the original {exported.original_size / 1e6:.0f} MB")


def _export_form(
    run: Path, form: str, folder: Path | None, task: str | None, model: str | None, imports: tuple[Path, ...]
) -> Path:
    from manyheads.exporting.folder import default_folder, model_folder_of
    from manyheads.exporting.others import Form, export_form

    name = form if task is None else f"{form}-{task}"
    return export_form(
        model_folder_of(run, model), folder or default_folder(run, name), cast("Form", form), task, imports
    )


def _check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UserError(f"export: {option}: no '{value}'.{nearest(value, choices)}", code="bad-option")


def _refuse_unused(form: str, task: str | None, graph_options: list[str]) -> None:
    """Options that this form would ignore."""
    if task is not None and form not in (*FORMS_OF_A_TASK, "sentence-transformers"):
        reason = f"--task is of --to {' and '.join(FORMS_OF_A_TASK)}; --to {form} holds the encoder of all tasks"
        raise UserError(f"export: {reason}.", code="conflicting-options")
    if form != "onnx" and graph_options:
        reason = f"{', '.join(graph_options)}: of --to onnx; --to {form} holds the weights as they are"
        raise UserError(f"export: {reason}.", code="conflicting-options")


def _read_layers(text: str) -> tuple[int, ...]:
    layers: list[int] = []
    for part in filter(None, text.split(",")):
        if not part.strip().isdigit():
            raise UserError(f"export: --float-layers: expected numbers like 1,6, found '{part}'.", code="bad-option")
        layers.append(int(part))
    return tuple(layers)
