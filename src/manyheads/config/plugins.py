"""A user's own parts: local Python files that a recipe names under `imports`.

A file is code, and importing it runs it: only files that stand on this machine are taken, and every run prints their
paths. A run folder holds the path and a fingerprint of each file, never the code.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType

from manyheads import registry
from manyheads.errors import UserError

_imported: dict[Path, str] = {}  # file → the module that it was run as; the name changes with the file's content


class _UncachedLoader(SourceFileLoader):
    """Reads the source itself: Python takes bytecode of the same second and size for it, and leaves files behind."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def import_parts(file: Path, location: str) -> None:
    """Run a file, so that the parts it registers can be named. A file that has changed since is run anew."""
    if file.suffix != ".py" or not file.is_file():
        raise UserError(
            f"{location}: no Python file '{file}'. `imports` takes local files only, such as my_parts.py.",
            code="no-such-import",
        )
    name = f"manyheads_imports.{file.stem}_{fingerprint(file)[:16]}"
    if _imported.get(file) == name:
        return
    registry.forget_module(_imported.pop(file, ""))
    spec = spec_from_file_location(name, file, loader=_UncachedLoader(name, str(file)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as fault:  # whatever the user's code raises is the user's to read
        registry.forget_module(name)
        del sys.modules[name]
        line = fault.lineno if isinstance(fault, SyntaxError) else _line(fault, file)
        where = f"{file}:{line}" if line else str(file)
        raise UserError(f"{location}: {where}: {type(fault).__name__}: {fault}", code="import-failed") from None
    _imported[file] = name


def explain_fault(fault: Exception) -> UserError | None:
    """A fault that an imported file raised later, while it was at work; None where it is not such a file's."""
    for file in _imported:
        line = _line(fault, file)
        if line:
            return UserError(f"{file}:{line}: {type(fault).__name__}: {fault}", code="plugin-failed")
    return None


def _line(fault: BaseException, file: Path) -> int | None:
    lines = [frame.lineno for frame in traceback.extract_tb(fault.__traceback__) if frame.filename == str(file)]
    return lines[-1] if lines else None


def imported_parts(file: Path) -> list[str]:
    """What a file registered: 'losses/huber'."""
    return [f"{part.family}/{part.name}" for part in registry.parts_of_module(_imported[file])]


def file_of_part(part: registry.Part) -> Path | None:
    """The imported file that registered a part; None of a part that comes with manyheads."""
    for file, module in _imported.items():
        if part.factory.__module__ == module:
            return file
    return None


def fingerprint(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
