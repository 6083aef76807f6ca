"""`manyheads embed`: vectors of texts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manyheads.cli.options import ColumnsOption, FormatOption, Imports, ModelArgument, ModelOption, QuotingOption
from manyheads.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from manyheads.data.dataset import Dataset


def embed(
    run: ModelArgument,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="csv, tsv, jsonl, parquet or txt with a text per row.")],
    to: Annotated[
        Path | None, typer.Option("--to", help="OUT.npy or OUT.parquet (with ids); by default FILE's name and .npy.")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", "-t", help="Which similarity search; needed where there are several.")
    ] = None,
    text_column: Annotated[
        str | None, typer.Option("--text-column", help="The FILE's column of texts; by default recognised.")
    ] = None,
    width: Annotated[
        int | None, typer.Option("--width", min=1, help="The first numbers of each vector alone (Matryoshka).")
    ] = None,
    columns: ColumnsOption = None,
    file_format: FormatOption = None,
    quoting: QuotingOption = None,
    model: ModelOption = None,
    imports: Imports = None,
) -> None:
    """Vectors of length 1 of a file's texts, in its order: of a similarity search, else means of token states.

    For example: embed runs/faq questions.csv --to questions.npy
    """
    from manyheads.cli.predict import read_layout
    from manyheads.inference.predictor import unit_vectors
    from manyheads.inference.texts import source_of_file
    from manyheads.inference.vector_files import write_vectors
    from manyheads.runs.opening import open_predictor

    source = source_of_file(file, read_layout(columns, file_format, quoting))
    target = to if to is not None else file.with_name(f"{file.name.partition('.')[0]}.npy")
    predictor = open_predictor(run, model, imports or (), None)
    chosen = predictor.search_task(task)

    def vectors_of(examples: Dataset) -> np.ndarray:
        vectors = predictor.backend.embed(examples, chosen)
        if width is not None and width > vectors.shape[1]:
            raise UserError(f"--width: vectors have {vectors.shape[1]} numbers, found {width}.", code="bad-option")
        return unit_vectors(vectors[:, :width])

    rows = write_vectors(source, [text_column] if text_column else None, vectors_of, target)
    print(f"{rows:,} vectors → {target}")
