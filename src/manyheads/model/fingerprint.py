"""When two model folders hold the same model: equal weights, tokenizer and tasks, wherever they lie."""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path

from manyheads.model.folder_checks import HEADS_FILE, MODEL_FILE, read_json
from manyheads.storage.files import file_sha256

ENCODER_FILES = ("config.json", "tokenizer.json", HEADS_FILE)


def model_fingerprint(folder: Path) -> str:
    """Changes with anything that changes a prediction; not with the run's name, or what was measured of it."""
    digest = hashlib.sha256()
    for file in [*sorted(folder.glob("model*.safetensors")), *(folder / name for name in ENCODER_FILES)]:
        digest.update(f"{file.name} {_sha256(file)}\n".encode())
    content = read_json(folder / MODEL_FILE)
    if isinstance(content, dict):
        content.pop("about", None)
    digest.update(json.dumps(content, sort_keys=True).encode())
    return digest.hexdigest()[:32]


def _sha256(file: Path) -> str:
    if not file.is_file():
        return file_sha256(file)  # which says that it cannot be read
    return _unchanged_sha256(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=1024)
def _unchanged_sha256(file: Path, modified: int) -> str:
    """`modified` keeps the cache right when the file changes: studies ask for the same teachers again and again."""
    return file_sha256(file)
