"""Ways to spoil a model folder, as damage or as an attack would."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

Spoil = Callable[[Path], None]


def seal(folder: Path) -> None:
    """Make the checksums right again, as whoever changed the folder on purpose would."""
    files = [file for file in sorted(folder.iterdir()) if file.is_file() and file.name != "checksums.json"]
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    (folder / "checksums.json").write_text(json.dumps(sums))


def in_json(name: str, change: Callable[[Any], Any]) -> Spoil:
    def spoil(folder: Path) -> None:
        content = json.loads((folder / name).read_text())
        replaced = change(content)
        (folder / name).write_text(json.dumps(content if replaced is None else replaced))
        seal(folder)

    return spoil


def in_task(**values: Any) -> Spoil:
    """Replace values of the first task ('mood')."""
    return in_json("manyheads.json", lambda content: content["tasks"][0].update(values))


def in_config(**values: Any) -> Spoil:
    return in_json("config.json", lambda content: content.update(values))


def with_text(name: str, text: str) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).write_text(text)
        seal(folder)

    return spoil


def cut(name: str, size: int = -10) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:size])

    return spoil


def cut_and_sealed(name: str) -> Spoil:
    def spoil(folder: Path) -> None:
        cut(name)(folder)
        seal(folder)

    return spoil


def in_tensors(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Spoil:
    """Change the first tensor of a file."""

    def spoil(folder: Path) -> None:
        tensors = load_file(folder / name)
        first = sorted(tensors)[0]
        tensors[first] = change(tensors[first]).contiguous()
        save_file(tensors, folder / name)
        seal(folder)

    return spoil


def without(name: str) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        seal(folder)

    return spoil


def checksums(**names: str) -> Spoil:
    def spoil(folder: Path) -> None:
        sums = json.loads((folder / "checksums.json").read_text())
        (folder / "checksums.json").write_text(json.dumps({**sums, **names}))

    return spoil


def linked(name: str, target: str) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)

    return spoil


def pipe(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    os.mkfifo(folder / "tokenizer.json")


def labels(**values: Any) -> Spoil:
    return in_json("manyheads.json", lambda content: content["tasks"][0]["labels"].update(values))


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth
