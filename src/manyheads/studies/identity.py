"""When two runs are the same run: equal recipe, package version, data and encoder, whatever folders they stand in."""

from __future__ import annotations

import gzip
import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from manyheads import __version__
from manyheads.config.plugins import fingerprint
from manyheads.config.recipe import Recipe
from manyheads.config.renamed import with_old_keys
from manyheads.config.task import Source
from manyheads.data.readers import find_file
from manyheads.storage.files import file_sha256
from manyheads.tasks.load import check_files

NO_EFFECT = ("name", "description", "output", "checkpoint", "imports", "pretrain", "report", "trackers")
SPLITS = ("train", "dev")  # whose content decides a result


def run_identity(recipe: Recipe) -> str:
    """A fingerprint of everything that decides a run's result.

    Of settings, those that differ from their defaults: a key that a later version adds changes nothing.
    """
    check_files(recipe)
    content: dict[str, Any] = recipe.model_dump(mode="json", exclude_defaults=True)
    for key in NO_EFFECT:
        content.pop(key, None)
    with_old_keys(content)  # results exported by version 0.1 still count
    content["data"] = content.get("data", {})
    content["data"].pop("root", None)
    content["encoder"] = {**content.get("encoder", {}), "name": _encoder_fingerprint(recipe)}
    content["init"] = recipe.init and _folder_fingerprint(Path(recipe.init) / "best")
    for task in content["tasks"].values():  # data is known by its content, whatever its files are called
        for key in ("train", "dev", "test", "predictions"):
            task.pop(key, None)
    plugins = [fingerprint(Path(file)) for file in recipe.imports]
    text = json.dumps([__version__, content, _data_fingerprints(recipe), plugins], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _data_fingerprints(recipe: Recipe) -> dict[str, list[Any]]:
    fingerprints: dict[str, list[Any]] = {}
    for name, task in recipe.tasks.items():
        for split in SPLITS:
            sources = getattr(task, split) or []
            fingerprints[f"{name} {split}"] = [_source_fingerprint(source, recipe) for source in sources]
        if task.test:  # it may have labels, which are measured at the end
            fingerprints[f"{name} test"] = [_source_fingerprint(source, recipe) for source in task.test]
    return fingerprints


def _source_fingerprint(source: Source, recipe: Recipe) -> Any:
    if source.file is None:
        return source.model_dump(mode="json")
    file = find_file(source, Path(recipe.data.root or "."))
    if file is None:
        return None
    return _content_sha256(file, file.stat().st_mtime_ns)


def _encoder_fingerprint(recipe: Recipe) -> str:
    folder = Path(recipe.encoder.name)
    if folder.is_dir():
        return _folder_fingerprint(folder)
    return recipe.encoder.name


def _folder_fingerprint(folder: Path) -> str:
    words: list[str] = []
    for file in sorted(folder.glob("*")):
        if file.suffix in (".json", ".safetensors", ".txt"):
            words.append(f"{file.name} {_content_sha256(file, file.stat().st_mtime_ns)}")
    return " ".join(words)


@lru_cache(maxsize=1024)
def _content_sha256(file: Path, modified: int) -> str:
    """Of a file's content, compressed or not; `modified` keeps the cache right when the file changes."""
    if file.suffix != ".gz":
        return file_sha256(file)
    with gzip.open(file) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
