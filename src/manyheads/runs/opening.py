"""The predictor of whatever folder holds a model: a run, a model folder, an exported one. torch comes with those that
need it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from manyheads.errors import UserError
from manyheads.inference.graph_session import Runtime
from manyheads.inference.onnx_folder import DESCRIPTION_FILE, is_onnx_folder
from manyheads.inference.predictor import Predictor
from manyheads.model.folder_checks import MODEL_FILE
from manyheads.runs.hub import fetch_model

HUB = "hub:"


def is_model_folder(folder: Path) -> bool:
    """Whether it is best/, a copy of it, or an exported model, and not a run folder."""
    return (folder / MODEL_FILE).exists() or is_onnx_folder(folder)


def is_hub_name(source: str | Path) -> bool:
    return str(source).startswith(HUB)


def local_folder(source: str | Path) -> Path:
    """A folder as it is; 'hub:NAME' or 'hub:NAME@REVISION' is fetched first."""
    if not is_hub_name(source):
        return Path(source)
    name, at, revision = str(source).removeprefix(HUB).partition("@")
    return fetch_model(name, revision if at else None)


def open_predictor(
    folder: str | Path,
    model: str | None = None,
    imports: Iterable[str | Path] = (),
    runtime: Runtime | None = None,
) -> Predictor:
    """The predictor of a run, a model folder or 'hub:NAME'. `model`: which of a run's models, 'best' unless told."""
    folder = local_folder(folder)
    if is_model_folder(folder) or not (folder / "recipe.yaml").exists():
        if folder.is_dir() and not is_model_folder(folder):
            files = f"a model folder (it has no {MODEL_FILE}) nor an exported one (it has no {DESCRIPTION_FILE})"
            raise UserError(f"{folder}: neither a run folder (it has no recipe.yaml), {files}.", code="not-a-run")
        if model is not None and folder.is_dir():
            reason = f"a model folder, of which --model {model} chooses nothing; leave it out, or name the run folder."
            raise UserError(f"{folder}: {reason}", code="conflicting-options")
        return Predictor.open(folder, imports, runtime=runtime)
    if runtime is not None:
        raise UserError(f"{folder}: a run; --runtime is for exported models.", code="conflicting-options")
    from manyheads.runs.run import Run

    return Run(folder, model or "best", imports).predictor
