"""The command line: every command, and how it ends. Commands import what they need themselves, so --help is quick."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from manyheads.cli import inspect, predict, report, train
from manyheads.cli.average import average
from manyheads.cli.demo import demo
from manyheads.cli.embed import embed
from manyheads.cli.export import export
from manyheads.cli.extend import extend
from manyheads.cli.probe_bias import probe_bias
from manyheads.cli.publish import publish
from manyheads.cli.serve import serve
from manyheads.cli.study import app as study_app
from manyheads.errors import Interrupted, UserError

app = typer.Typer(
    name="manyheads",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(requested: bool) -> None:
    if requested:
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


COMMANDS = (  # in the order of --help
    *(train.train, train.distill, extend, train.pretrain, train.resume),
    average,
    *(predict.evaluate, predict.predict, embed),
    *(inspect.recipes, inspect.parts),
    *(report.conflicts, report.report),
    *(inspect.plan, inspect.check, probe_bias, inspect.doctor),
    *(serve, export, publish, demo),
)
for command in COMMANDS:
    app.command()(command)
app.add_typer(study_app, name="study")


def main() -> None:
    """Entry point: a user's fault is one message and exit code 2, never a traceback."""
    try:
        app(prog_name="manyheads")
    except UserError as fault:
        _fail(fault)
    except Interrupted as interruption:
        if os.environ.get("RANK", "0") == "0":  # of several processes the first prints
            print(interruption, file=sys.stderr)
        sys.exit(interruption.exit_code)
    except Exception as fault:
        from manyheads.config.plugins import explain_fault

        explained = explain_fault(fault) or _missing_package(fault)
        if explained is None:
            raise  # a bug of ours: the traceback helps
        _fail(explained)


def _missing_package(fault: Exception) -> UserError | None:
    """Where manyheads was installed without its requirements, to run exported models alone."""
    if not isinstance(fault, ModuleNotFoundError) or (fault.name or "manyheads").startswith("manyheads"):
        return None
    reason = f"this needs the package '{fault.name}', which is not installed; `pip install manyheads` brings all."
    return UserError(reason, code="missing-package")


def _fail(fault: UserError) -> NoReturn:
    print(f"error: {fault} [{fault.code}]", file=sys.stderr)
    sys.exit(2)
