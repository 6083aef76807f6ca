"""A published model is fetched from the Hugging Face hub: safetensors, JSON and text alone, as a folder of files."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from manyheads.errors import UserError
from manyheads.model.folder_checks import MODEL_FILE, printable
from manyheads.storage.cache import cache_folder

FETCHED = ("*.safetensors", "*.json", "*.txt")
NOT_FETCHED = ("*/*",)  # what lies in folders: exports and whatever else their owner put there


def fetch_model(name: str, revision: str | None = None) -> Path:
    """The folder of a model on the hub; fetched once per commit. Whether it is sound is seen when it is opened."""
    from huggingface_hub import hf_hub_download, snapshot_download

    try:
        hf_hub_download(name, MODEL_FILE, revision=revision)  # another kind of model is not fetched at all
        snapshot = Path(
            snapshot_download(name, revision=revision, allow_patterns=list(FETCHED), ignore_patterns=list(NOT_FETCHED))
        )
    except Exception as fault:
        if not is_hub_fault(fault):
            raise
        raise _explained(name, revision, fault) from None
    return _as_plain_files(snapshot, cache_folder() / "hub" / name.replace("/", "--") / snapshot.name)


def is_hub_fault(fault: Exception) -> bool:
    """Whether the hub, or the way to it, is at fault. Versions of huggingface_hub differ in their HTTP library."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    return isinstance(fault, HfHubHTTPError | HFValidationError | OSError) or type(fault).__module__.startswith("httpx")


def _explained(name: str, revision: str | None, fault: Exception) -> UserError:
    from huggingface_hub import errors

    shown = f"hub:{printable(name)}"
    if isinstance(fault, errors.HFValidationError):
        return UserError(f"{shown}: not a name on the hub; expected OWNER/NAME.", code="bad-option")
    if isinstance(fault, errors.RevisionNotFoundError):
        return UserError(f"{shown}: it has no revision '{revision}'.", code="not-on-hub")
    if isinstance(fault, errors.RepositoryNotFoundError):
        reason = "no such model, or a private one: `hf auth login`, or set HF_TOKEN."
        return UserError(f"{shown}: {reason}", code="not-on-hub")
    if isinstance(fault, errors.RemoteEntryNotFoundError):
        reason = f"not a model that manyheads published: it has no {MODEL_FILE}."
        return UserError(f"{shown}: {reason}", code="not-a-run")
    lines = str(fault).strip().splitlines() or [type(fault).__name__]
    reason = f"cannot be fetched, and is not in the cache of huggingface_hub: {printable(lines[0])}"
    return UserError(f"{shown}: {reason}", code="hub-not-reached")


def _as_plain_files(snapshot: Path, folder: Path) -> Path:
    """The hub's cache links its files to others outside the snapshot, which a model folder must not. Here they are the
    same files under one more name, or copies."""
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        for file in snapshot.iterdir():
            if file.is_file() and file.suffix in {Path(pattern).suffix for pattern in FETCHED}:
                _link(file.resolve(), aside / file.name)
        try:
            aside.rename(folder)
        except OSError:  # another process was quicker
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return folder


def _link(file: Path, name: Path) -> None:
    try:
        os.link(file, name)
    except OSError:  # another file system
        shutil.copyfile(file, name)
