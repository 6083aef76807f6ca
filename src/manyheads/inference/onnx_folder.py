"""An exported folder: what is in it and how it is read. Nothing here needs torch.

model.onnx       the graph: encoder, heads, label units, temperatures and thresholds
onnx.json        tasks, and how their texts become encoder inputs
tokenizer.json   the encoder's own
README.md        how to run it without manyheads
checksums.json   of all of these
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from manyheads.model.folder_checks import check_files, guarded, read_json, refused
from manyheads.tasks.task import Task
from manyheads.tokens.framing import Frame, frame_from_json, frame_to_json

GRAPH_FILE = "model.onnx"
DESCRIPTION_FILE = "onnx.json"
LONGEST_INPUT = 2**20  # tokens
PACKED_INPUTS = ("ids", "segments", "lengths")
PADDED_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
EMBEDDINGS = "embeddings"

Precision = Literal["fp32", "int8"]
Layout = Literal["packed", "padded"]


def numbers_input(task_name: str) -> str:
    """The graph's input that says which sequences are a task's [examples, inputs of an example]."""
    return f"{task_name}.sequences"


def output_names(task: Task) -> tuple[str, str]:
    """The graph's outputs for a task: its probabilities or values; and the class, classes, or value in its range."""
    return f"{task.name}.{'probabilities' if task.kind.has_classes else 'value'}", f"{task.name}.prediction"


class Description(BaseModel):
    """onnx.json"""

    model_config = ConfigDict(strict=True)

    format: Literal[1] = 1
    layout: Layout
    precision: Precision
    max_length: int = Field(ge=1, le=LONGEST_INPUT)
    width: int = Field(ge=1)  # of an embedding
    tasks: list[dict[str, Any]] = Field(min_length=1)
    frames: dict[str, list[dict[str, Any]]]  # of each task: what each encoder input of an example holds
    about: dict[str, Any] = {}  # which step of which run the model is of
    measured: dict[str, Any] = {}  # what exporting it showed: metrics, flips, size and speed beside float32


class OnnxFolder:
    """An exported folder, read and checked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        check_files(folder, (DESCRIPTION_FILE, GRAPH_FILE, "tokenizer.json"))
        file = folder / DESCRIPTION_FILE
        try:
            self.description = Description.model_validate(read_json(file))
        except ValidationError as error:
            fault = error.errors()[0]
            key = ".".join(map(str, fault["loc"]))
            raise refused(file, f"{key}: {fault['msg']}.") from None
        self.tasks: dict[str, Task] = {}
        self.frames: dict[str, tuple[Frame, ...]] = {}
        with guarded(file):
            for saved in self.description.tasks:
                task = Task.from_json(saved)
                _ = task.kind  # one that is not known shows here
                self.tasks[task.name] = task
                self.frames[task.name] = tuple(map(frame_from_json, self.description.frames[task.name]))

    @property
    def graph_file(self) -> Path:
        return self.folder / GRAPH_FILE


def is_onnx_folder(folder: Path) -> bool:
    return (folder / DESCRIPTION_FILE).is_file()


def write_description(folder: Path, description: Description) -> None:
    content = description.model_dump(mode="json")
    (folder / DESCRIPTION_FILE).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def frames_of(frames: tuple[Frame, ...]) -> list[dict[str, Any]]:
    return [frame_to_json(frame) for frame in frames]
