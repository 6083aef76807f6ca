"""Files and folders that are either whole or not there: written aside, synced, renamed, checksummed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from manyheads.errors import UserError

CHECKSUMS = "checksums.json"
CHECKED_SUFFIXES = (".safetensors", ".json")  # of files that are read: nothing else in a folder matters
DAMAGED = "\nDelete that folder and run `manyheads resume RUN`: it goes on from the newest checkpoint that is left."


def write_folder(folder: Path, fill: Callable[[Path], None], unlisted: Collection[str] = ()) -> None:
    """`fill` writes into a folder aside, which takes the place of `folder` only when every byte is on disk.

    `unlisted`: files and folders directly in it that its checksums leave out.
    """
    aside, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    restore_folder(folder)
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    fill(aside)
    files = sorted(file for file in aside.rglob("*") if file.is_file())
    sums: dict[str, str] = {}
    for file in files:
        name = file.relative_to(aside)
        if name.parts[0] not in unlisted:
            sums[str(name)] = file_sha256(file)
    (aside / CHECKSUMS).write_text(json.dumps(sums, indent=1))
    for file in [*files, aside / CHECKSUMS, aside]:
        _sync(file)
    if folder.exists():
        folder.rename(old)
    aside.rename(folder)
    _sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


def restore_folder(folder: Path) -> None:
    """Undo a replacement that was cut off between its two renames; remove what else it left."""
    old = folder.with_name(f".{folder.name}.old")
    if old.is_dir() and not folder.exists():
        old.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def check_folder(folder: Path, code: str = "damaged-checkpoint") -> None:
    """Stop unless every file of the folder is there with the checksum it was written with."""
    try:
        sums: dict[str, str] = dict(json.loads((folder / CHECKSUMS).read_text()))
    except (OSError, ValueError, TypeError):
        raise UserError(
            f"{folder}: not a whole checkpoint: {CHECKSUMS} is missing or damaged.{DAMAGED}", code=code
        ) from None
    for file in sorted(folder.rglob("*")):
        name = str(file.relative_to(folder))
        if (folder / Path(name).parts[0] / CHECKSUMS).is_file():
            continue  # a folder inside with checksums of its own, such as an export beside a published model
        if file.suffix in CHECKED_SUFFIXES and file.is_file() and name != CHECKSUMS and name not in sums:
            reason = f"{CHECKSUMS} does not name it: it was added later, or the list was cut."
            raise UserError(f"{file}: {reason}{DAMAGED}", code=code)
    for name, sha256 in sums.items():
        file = folder / name
        if not file.is_file():
            raise UserError(f"{file}: missing from the checkpoint.{DAMAGED}", code=code)
        if file_sha256(file) != sha256:
            raise UserError(f"{file}: damaged: its checksum is not the one it was written with.{DAMAGED}", code=code)


def write_text(file: Path, text: str) -> None:
    """Write a file whole or not at all."""
    write_bytes(file, text.encode())


def write_bytes(file: Path, content: bytes) -> None:
    """The same of bytes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f".{file.name}.new")
    aside.write_bytes(content)
    _sync(aside)
    aside.replace(file)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def file_sha256(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{file}: cannot be read: {error.strerror}.", code="unreadable-file") from None
