"""The cache: folders of named columns of numbers, written piece by piece, read by memory map.

    $MANYHEADS_CACHE/v3/KIND/FINGERPRINT/
        meta.json     dtype, shape and checksum of each column, the writer's notes, and a checksum of all this
        NAME.bin      a column's numbers end to end

Checksums are compared whenever an entry is opened: one flipped bit of a token would train another model. CRC-32 finds
every flipped bit and reads about a gigabyte a second.

Rows, strings, tokens and the states of frozen layers are all stored like this. The columns are plain arrays and not
Arrow files: an Arrow file that is written piece by piece is a list of record batches, and to take rows of strings out
of many batches Arrow first copies all of them into one. Here any row is a slice of one array.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from manyheads.errors import UserError
from manyheads.storage.ragged import Ragged

FORMAT = "v3"  # changes with the layout of an entry, so that older entries are not taken for damaged ones
META = "meta.json"
PIECE = 4_000_000  # bytes of a column that are checked at a time


def cache_folder() -> Path:
    """$MANYHEADS_CACHE, or manyheads/ in the user's cache folder."""
    folder = os.environ.get("MANYHEADS_CACHE")
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "manyheads"


def entry_folder(kind: str, fingerprint: str) -> Path:
    """Where an entry is stored, or would be."""
    return cache_folder() / FORMAT / kind / fingerprint


class CacheNotWritable(UserError):
    """The entry cannot be written here. Whoever can do without the cache catches this."""

    def __init__(self, folder: Path, error: OSError) -> None:
        super().__init__(
            f"{folder}: the cache cannot be written ({error}). Set MANYHEADS_CACHE to another folder.",
            code="cache-not-writable",
        )


class Entry:
    """An entry that was found complete. Its files are held open, so it stays readable if the cache is deleted."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, RawIOBase] = {}
        try:
            meta = _checked_content(folder / META)
            self.notes: dict[str, Any] = meta["notes"]
            self._columns: dict[str, tuple[str, list[int], int]] = meta["columns"]
            for name, (dtype, shape, checksum) in self._columns.items():
                file = (folder / f"{name}.bin").open("rb", buffering=0)
                self._files[name] = file
                if os.fstat(file.fileno()).st_size != np.dtype(dtype).itemsize * int(np.prod(shape)):
                    raise ValueError(f"{name}.bin does not have the size it was written with")
                if _checksum_of(file) != checksum:
                    raise ValueError(f"{name}.bin does not have the content it was written with")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{folder}: this cache entry is damaged ({error}). Delete that folder and run again.",
                code="cache-damaged",
            ) from None

    def __del__(self) -> None:
        for file in self._files.values():
            file.close()

    def column(self, name: str) -> np.ndarray:
        """A column, mapped anew by each call: what one map has read leaves memory with it."""
        dtype, shape, _ = self._columns[name]
        if 0 in shape:
            return np.empty(shape, dtype)  # an empty file cannot be mapped
        mapped = np.memmap(self._files[name], dtype=dtype, mode="r", shape=tuple(shape))
        return np.asarray(mapped)  # a plain view is quicker to slice

    def ragged(self, name: str) -> Ragged:
        """A column that was written with `append_ragged`."""
        return Ragged(self.column(name), self.column(f"{name}_starts"))

    def remember(self, question: str, compute: Callable[[], str]) -> str:
        """A text that follows from the entry: computed at the first call, then read from a file beside the columns."""
        file = self.folder / f"{hashlib.sha256(question.encode()).hexdigest()[:32]}.json"
        with suppress(OSError, ValueError, KeyError, TypeError):  # not asked yet, or damaged
            return str(_checked_content(file))
        answer = compute()
        unfinished = file.with_suffix(f".{os.getpid()}")
        with suppress(OSError):  # then it is computed again the next time
            unfinished.write_text(_with_checksum(answer))
            unfinished.replace(file)
        return answer


class EntryWriter:
    """Writes the columns of an entry, piece by piece."""

    def __init__(self, folder: Path) -> None:
        self.notes: dict[str, Any] = {}  # anything that JSON can hold
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}
        self._dtypes: dict[str, np.dtype[Any]] = {}
        self._shapes: dict[str, list[int]] = {}
        self._checksums: dict[str, int] = {}

    def append(self, name: str, values: np.ndarray) -> None:
        """More values of a column. The first piece, which may be empty, decides dtype and shape of a row."""
        if name not in self._files:
            self._files[name] = (self._folder / f"{name}.bin").open("wb")
            self._dtypes[name] = values.dtype
            self._shapes[name] = [0, *values.shape[1:]]
            self._checksums[name] = 0
        piece = np.ascontiguousarray(values, dtype=self._dtypes[name])
        piece.tofile(self._files[name])
        self._checksums[name] = zlib.crc32(piece.data, self._checksums[name])
        self._shapes[name][0] += len(values)

    def append_ragged(self, name: str, values: np.ndarray, lengths: np.ndarray) -> None:
        """More rows of different lengths: their values end to end."""
        if name not in self._files:
            self.append(f"{name}_starts", np.zeros(1, dtype=np.int64))
            self.append(name, values[:0])
        before = self._shapes[name][0]
        self.append(name, values)
        self.append(f"{name}_starts", before + np.cumsum(lengths, dtype=np.int64))

    def write_meta(self) -> None:
        columns = {}
        for name, dtype in self._dtypes.items():
            columns[name] = (dtype.str, self._shapes[name], self._checksums[name])
        (self._folder / META).write_text(_with_checksum({"columns": columns, "notes": self.notes}))

    def close(self) -> None:
        for file in self._files.values():
            file.close()


def _with_checksum(content: Any) -> str:
    text = json.dumps(content)
    return json.dumps({"checksum": zlib.crc32(text.encode()), "content": text})


def _checked_content(file: Path) -> Any:
    """What `_with_checksum` was given. A ValueError, KeyError or TypeError where the file is not that any more."""
    stored = json.loads(file.read_text())
    text = stored["content"]
    if stored["checksum"] != zlib.crc32(text.encode()):
        raise ValueError(f"{file.name} does not have the content it was written with")
    return json.loads(text)


def _checksum_of(file: RawIOBase) -> int:
    checksum = 0
    piece = bytearray(PIECE)
    while size := file.readinto(piece):
        checksum = zlib.crc32(memoryview(piece)[:size], checksum)
    return checksum


def open_entry(kind: str, fingerprint: str) -> Entry | None:
    """An entry, or None where there is none. A damaged one is a UserError."""
    folder = entry_folder(kind, fingerprint)
    if not folder.is_dir():
        return None
    with suppress(OSError):
        os.utime(folder)  # for remove_least_recently_used
    return Entry(folder)


@contextmanager
def write_entry(kind: str, fingerprint: str) -> Iterator[EntryWriter]:
    """A writer for an entry that appears at the end of the block, complete, or not at all.

    If another process is quicker with the same entry, its files stay and these are dropped.
    """
    folder = entry_folder(kind, fingerprint)
    unfinished: Path | None = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".writing-"))
        writer = EntryWriter(unfinished)
        try:
            yield writer
            writer.write_meta()
        finally:
            writer.close()
        unfinished.rename(folder)
    except OSError as error:
        if not folder.is_dir():
            raise CacheNotWritable(folder, error) from None
    finally:
        if unfinished is not None:
            shutil.rmtree(unfinished, ignore_errors=True)


def cached(kind: str, fingerprint: str, fill: Callable[[EntryWriter], None]) -> Entry:
    """An entry, written by `fill` where there is none yet."""
    entry = open_entry(kind, fingerprint)
    if entry is not None:
        return entry
    with write_entry(kind, fingerprint) as writer:
        fill(writer)
    return Entry(entry_folder(kind, fingerprint))


def remove_entry(kind: str, fingerprint: str) -> None:
    shutil.rmtree(entry_folder(kind, fingerprint), ignore_errors=True)


def remove_least_recently_used(kind: str, gigabytes: float, keep: str) -> None:
    """Remove entries of a kind, those used longest ago first, until the others fit; never the one named `keep`."""
    folders = [folder for folder in entry_folder(kind, keep).parent.iterdir() if folder.is_dir()]
    sizes = {folder: sum(file.stat().st_size for file in folder.iterdir()) for folder in folders}
    for folder in sorted(folders, key=lambda folder: folder.stat().st_mtime):
        if folder.name != keep and sum(sizes.values()) > gigabytes * 1e9:
            shutil.rmtree(folder, ignore_errors=True)
            del sizes[folder]
