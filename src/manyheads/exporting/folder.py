"""`manyheads export`: a model as a folder that ONNX Runtime runs, checked before it is written.

runs/reviews/exported-int8/
  model.onnx  onnx.json  tokenizer.json  README.md  checksums.json
"""

from __future__ import annotations

import copy
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.config.plugins import import_parts
from manyheads.console import Reporter
from manyheads.data.dataset import Dataset
from manyheads.errors import UserError
from manyheads.exporting.channels import channel_maxima
from manyheads.exporting.check import Measured, check_same, loses_too_much, losing_tasks, measure_precisions
from manyheads.exporting.onnx_file import to_onnx
from manyheads.exporting.quantise import quantise
from manyheads.exporting.readme import usage
from manyheads.exporting.sensitivity import advise_layers
from manyheads.inference.labelled_files import read_labelled_files
from manyheads.inference.onnx_backend import OnnxBackend
from manyheads.inference.onnx_folder import (
    GRAPH_FILE,
    Description,
    Layout,
    Precision,
    frames_of,
    is_onnx_folder,
    write_description,
)
from manyheads.inference.predictor import TOKENS_PER_PASS
from manyheads.inference.torch_backend import TorchBackend
from manyheads.model.folder import copy_tokenizer
from manyheads.runs.opening import is_model_folder
from manyheads.runs.run import Run
from manyheads.runs.splits import read_split
from manyheads.storage.files import write_folder

MOST_LOST = 0.005  # of a task's primary metric


@dataclass(frozen=True)
class ExportSettings:
    """What is exported, and what it may cost."""

    precision: Precision = "fp32"
    layout: Layout = "packed"
    float_layers: tuple[int, ...] = ()  # that stay in float32, counted from 1
    most_lost: float = MOST_LOST
    check_rows: int = 2_000  # of each task, that it is checked on


@dataclass(frozen=True)
class Exported:
    """Where it is, and what the check showed."""

    folder: Path
    measured: dict[str, Measured]
    size: int  # bytes
    original_size: int


def export(
    source: str | Path,
    to: str | Path | None = None,
    settings: ExportSettings | None = None,
    files: list[str] | None = None,
    model: str | None = None,
    imports: tuple[str | Path, ...] = (),
    reporter: Reporter | None = None,
) -> Exported:
    """Export a run's model, or a model folder, which is checked on the run's dev data or on labelled `files`.

    Nothing is written where the exported model differs from the original by more than it may.
    """
    settings, reporter = settings or ExportSettings(), reporter or Reporter(quiet=True)
    source = Path(source)
    _check_extra()
    for file in imports:
        import_parts(Path(file).expanduser().resolve(), "imports")
    model_folder = model_folder_of(source, model)
    backend = _original(source, model)
    target = Path(to) if to is not None else default_folder(source, _name(settings))
    examples = _examples(source, backend, files, settings)
    if settings.precision != "fp32" and not examples:
        reason = "int8 is checked on labelled examples, and a model folder has none"
        raise UserError(f"export: {reason}; name the run, or --check FILE.", code="nothing-to-check")
    reporter.say("writing the graph …")
    graph = to_onnx(backend.model, settings.layout, int8_words=settings.precision == "int8")
    float_graph, maxima = graph, dict[str, np.ndarray]()
    if settings.precision == "int8":
        vocabulary = backend.model.tokenizer.backend.get_vocab_size()
        maxima = channel_maxima(float_graph, settings.layout, vocabulary, backend.max_length)
        graph = copy.deepcopy(float_graph)
        quantise(graph, maxima, settings.float_layers)
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "exported"
        description = _describe(backend, settings)

        def fill(aside: Path) -> None:
            (aside / GRAPH_FILE).write_bytes(graph.SerializeToString())
            copy_tokenizer(model_folder, backend.model.tokenizer, aside)
            write_description(aside, description)
            (aside / "README.md").write_text(usage(description, backend.tasks), encoding="utf-8")

        write_folder(draft, fill)
        exported = OnnxBackend.open(draft, TOKENS_PER_PASS)
        if settings.precision == "fp32":
            check_same(backend, exported, examples)
        measured = measure_precisions(backend, exported, examples, reporter)
        if losing_tasks(measured, settings.most_lost):
            reporter.say("it loses too much; looking for the layer that costs most …")
            layers = advise_layers(backend, exported, float_graph, maxima, settings.float_layers, examples)
            raise loses_too_much(measured, settings.most_lost, layers)
        description.measured = {name: values.to_json() for name, values in measured.items()}
        write_folder(target, fill)
    return Exported(target, measured, _size(target), _size(model_folder))


def model_folder_of(source: Path, model: str | None) -> Path:
    """A model folder itself, or that of a run."""
    if is_onnx_folder(source):
        raise UserError(f"export: {source} is exported already; name the run or its best/.", code="not-a-run")
    return source if is_model_folder(source) else source / (model or "best")


def default_folder(source: Path, name: str) -> Path:
    """In a run's folder, or beside a model folder."""
    if is_model_folder(source):
        return source.parent / f"{source.name}-exported-{name}"
    return source / f"exported-{name}"


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def _name(settings: ExportSettings) -> str:
    return f"{settings.precision}-padded" if settings.layout == "padded" else settings.precision


def _check_extra() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as fault:
        reason = f"export needs {fault.name}: pip install 'manyheads[export]'."
        raise UserError(reason, code="missing-extra") from None


def _original(source: Path, model: str | None) -> TorchBackend:
    if is_model_folder(source):
        return TorchBackend.open(source, TOKENS_PER_PASS)
    backend = Run(source, model or "best").predictor.backend
    assert isinstance(backend, TorchBackend)
    return backend


def _describe(backend: TorchBackend, settings: ExportSettings) -> Description:
    frames = {name: frames_of(backend.model.head(name).encoding.frames) for name in backend.tasks}
    return Description(
        layout=settings.layout,
        precision=settings.precision,
        max_length=backend.max_length,
        width=backend.model.encoder.width,
        tasks=[task.to_json() for task in backend.tasks.values()],
        frames=frames,
        about=dict(backend.about),
    )


def _examples(
    source: Path, backend: TorchBackend, files: list[str] | None, settings: ExportSettings
) -> dict[str, Dataset]:
    """Labelled examples of each task, at most as many as are checked, evenly from first to last."""
    examples: dict[str, Dataset] = {}
    if files:
        examples, _ = read_labelled_files(backend.tasks, files, (), {})
    elif not is_model_folder(source):
        data, _ = read_split(Run(source).recipe, backend.model, "dev")
        examples = {name: tokens.examples for name, tokens in data.items()}
    chosen: dict[str, Dataset] = {}
    for name, dataset in examples.items():
        rows = dataset.labelled_rows
        at = np.linspace(0, len(rows) - 1, min(settings.check_rows, len(rows))).astype(int)
        chosen[name] = dataset.take(rows[at])
    return chosen


def as_lines(measured: dict[str, Measured]) -> list[dict[str, Any]]:
    """A line per task, for a table."""
    return [{"task": name, **values.to_line()} for name, values in measured.items()]
