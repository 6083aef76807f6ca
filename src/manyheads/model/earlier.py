"""The model that a run extends: its files, heads and tasks are saved again with every new model, byte for byte."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from manyheads.errors import UserError
from manyheads.storage.files import file_sha256

ABOUT_KEY = "extends"  # of a model's about: what the model that it extends says of itself


@dataclass(frozen=True)
class EarlierModel:
    """What is kept of it. The new tasks' heads read its encoder, which does not learn."""

    folder: Path  # where its encoder's and tokenizer's files lie
    files: dict[str, str]  # their names → sha256
    heads: dict[str, Tensor]  # every tensor of its tasks' heads, and of layers that they share
    tasks: dict[str, dict[str, Any]]  # as manyheads.json has them, calibration included
    about: dict[str, Any]  # what it says of itself, and which tasks it has
    imports: dict[str, str]

    def copy_files(self, target: Path) -> None:
        """Encoder and tokenizer, as they were when the run began."""
        for name, sha256 in self.files.items():
            try:
                shutil.copyfile(self.folder / name, target / name)
            except OSError as error:
                raise self._changed(name, str(error.strerror)) from None
            if file_sha256(target / name) != sha256:
                raise self._changed(name, "its content is another")

    def _changed(self, name: str, reason: str) -> UserError:
        return UserError(
            f"{self.folder / name}: this run extends the model in that folder, which has changed since the run began "
            f"({reason}). Restore it and resume the run, or start it anew.",
            code="extended-model-changed",
        )

    def with_heads(self, new_heads: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {**self.heads, **new_heads}

    def with_content(self, content: dict[str, Any]) -> dict[str, Any]:
        """manyheads.json of the new tasks, with the kept ones before them; what was said of those stands in about."""
        return {
            **content,
            "about": {**content["about"], ABOUT_KEY: self.about},
            "tasks": [*self.tasks.values(), *content["tasks"]],
            "imports": {**self.imports, **content["imports"]},
        }

    def fingerprint(self) -> str:
        """Changes with any of its files, tensors and tasks."""
        digest = hashlib.sha256(json.dumps([self.files, list(self.tasks.values())], sort_keys=True).encode())
        for name, tensor in sorted(self.heads.items()):
            digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
            digest.update(tensor.contiguous().numpy().tobytes())
        return digest.hexdigest()[:32]
