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

PLACES = (
    "name",
    "description",
    "output",
    "checkpoint",
    "imports",
    "pretrain",
    "report",
    "trackers",
)  # what does not change a result


def run_identity(recipe: Recipe) -> str:
    """A fingerprint of everything that decides a run's result.

    Of settings, those that differ from their defaults: a key that a later version adds changes nothing.
    """
    check_files(recipe)
    content: dict[str, Any] = recipe.model_dump(mode="json", exclude_defaults=True)
    for key in PLACES:
        content.pop(key, None)
    with_old_keys(content)  # results exported by version 0.1 still count
    content["data"] = {key: one for key, one in content.get("data", {}).items() if key != "root"}
    content["encoder"] = {**content.get("encoder", {}), "name": _encoder(recipe)}
    content["init"] = recipe.init and _folder_sums(Path(recipe.init) / "best")
    sources = {
        f"{name} {split}": [_source(one, recipe) for one in getattr(task, split) or []]
        for name, task in recipe.tasks.items()
        for split in ("train", "dev")
    }
    for task in content["tasks"].values():  # where data comes from is said by its content alone
        for key in ("train", "dev", "test", "predictions"):
            task.pop(key, None)
    own = [fingerprint(Path(file)) for file in recipe.imports]
    whole = json.dumps([__version__, content, sources, own], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _source(source: Source, recipe: Recipe) -> Any:
    if source.file is None:
        return source.model_dump(mode="json")
    file = find_file(source, Path(recipe.data.root or "."))
    return _sum(file, file.stat().st_mtime_ns) if file else None


def _encoder(recipe: Recipe) -> str:
    folder = Path(recipe.encoder.name)
    return _folder_sums(folder) if folder.is_dir() else recipe.encoder.name


def _folder_sums(folder: Path) -> str:
    files = sorted(one for one in folder.glob("*") if one.suffix in (".json", ".safetensors", ".txt"))
    return " ".join(f"{one.name} {_sum(one, one.stat().st_mtime_ns)}" for one in files)


@lru_cache(maxsize=1024)
def _sum(file: Path, changed: int) -> str:
    """Of a file's content, packed or not."""
    if file.suffix != ".gz":
        return file_sha256(file)
    with gzip.open(file) as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
