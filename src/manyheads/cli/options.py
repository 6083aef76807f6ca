"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from manyheads.config.recipe import Recipe
    from manyheads.inference.graph_session import Runtime

RecipeArgument = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A recipe file, or the name of a shipped recipe.")
]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY.PATH=VALUE]...", help="Settings that replace the recipe's.")
]
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
ModelArgument = Annotated[
    Path, typer.Argument(metavar="RUN|MODEL", help="A run folder, a model folder (best/, or a copy), or hub:NAME.")
]
Imports = Annotated[
    list[Path] | None,
    typer.Option("--imports", help="A Python file with parts that the model needs; it is run. May be repeated."),
]
ModelOption = Annotated[
    str | None,
    typer.Option("--model", help="Which model of the run: best (unless told), best-TASK or best-averaged."),
]
ColumnsOption = Annotated[
    str | None, typer.Option("--columns", help="The columns of a FILE without a header: label,text.")
]
FormatOption = Annotated[str | None, typer.Option("--format", help="What FILE is, where its ending does not say: tsv.")]
QuotingOption = Annotated[
    str | None, typer.Option("--quoting", help="none: quote marks in FILE are letters, as in GLUE's tsv.")
]
RuntimeOption = Annotated[
    str | None, typer.Option("--runtime", help="Of an exported model: onnxruntime, openvino or openvino-bf16.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
TakeLock = Annotated[
    bool, typer.Option("--take-lock", help="Also where another machine, whose process is gone, holds the run's lock.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a run folder of the same name.")]


def read_runtime(runtime: str | None) -> Runtime | None:
    """The runtime that an option names."""
    from manyheads.errors import UserError, nearest
    from manyheads.inference.graph_session import RUNTIMES

    for known in RUNTIMES:
        if runtime == known:
            return known
    if runtime is not None:
        raise UserError(f"--runtime: no '{runtime}'.{nearest(runtime, RUNTIMES)}", code="bad-option")
    return None


def read_recipe(recipe: str, overrides: list[str] | None) -> Recipe:
    """The recipe that a command names, with the settings that follow it."""
    from manyheads.config.location import COMMAND_LINE
    from manyheads.config.overrides import parse_overrides
    from manyheads.tasks.resolve import load_recipe

    return load_recipe(recipe, parse_overrides(overrides or []), COMMAND_LINE)
