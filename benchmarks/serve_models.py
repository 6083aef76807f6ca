"""Model folders to serve: the default encoder, and heads that are not trained, for speed does not depend on that."""

from __future__ import annotations

from pathlib import Path

from manyheads.config.part import PartConfig
from manyheads.config.recipe import EncoderSettings
from manyheads.data.labels import LabelReader
from manyheads.data.table import Columns
from manyheads.encoder import load_encoder
from manyheads.exporting.folder import export
from manyheads.model.folder import save_model
from manyheads.model.multitask import ManyHeads
from manyheads.tasks.task import Task
from manyheads.tokens.tokenizer import Tokenizer

CLASSES = ("1", "2", "3", "4", "5")


def model_folder(folder: Path, heads: int, exported: bool = False) -> Path:
    """A model with so many heads, or its graph; made where it is not there."""
    model = folder / f"heads{heads}"
    if not model.exists():
        save_untrained(model, heads)
    if not exported:
        return model
    graph = folder / f"heads{heads}-exported"
    if not graph.exists():
        export(model, graph)
    return graph


def save_untrained(folder: Path, heads: int) -> None:
    """So many heads of five classes on the default encoder."""
    tasks: dict[str, Task] = {}
    for number in range(heads):
        tasks[f"task{number}"] = _task(f"task{number}")
    loaded = load_encoder(EncoderSettings())
    encoder_folder = loaded.found.folder
    model = ManyHeads(loaded.encoder, tasks, Tokenizer(encoder_folder), None, seed=0)
    save_model(folder, model, encoder_folder, {"run": "benchmark", "step": 0})


def _task(name: str) -> Task:
    codes = {label: code for code, label in enumerate(CLASSES)}
    return Task(
        name=name,
        columns=Columns(("sentence",), "label", None),
        labels=LabelReader("classification", CLASSES, codes),
        encoding=PartConfig(name="single"),
        pooling=PartConfig(name="head-pooler"),
        head=PartConfig(name="linear"),
        loss=PartConfig(name="cross-entropy"),
        train_examples=5,
        counts=(1,) * len(CLASSES),
    )
