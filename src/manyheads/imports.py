"""A user's own parts: local Python files that a recipe names under `imports`.

A file is code, and importing it runs it: only files that stand on this machine are taken, and every run prints their
paths. A run folder holds the path and a fingerprint of each file, never the code.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from manyheads import registry
from manyheads.errors import UserError

_imported: dict[Path, tuple[str, list[tuple[str, str]]]] = {}  # file → its fingerprint, the parts it registered


def import_parts(file: Path, place: str) -> None:
    """Run a file, so that the parts it registers can be named. A file that has changed since is run anew."""
    if file.suffix != ".py" or not file.is_file():
        raise UserError(f"{place}: no Python file '{file}'. `imports` takes local files only, such as my_parts.py.")
    digest = fingerprint(file)
    known, parts = _imported.get(file, ("", []))
    if known == digest:
        return
    registry.forget(parts)
    before = registry.registered()
    name = f"manyheads_imports.{file.stem}_{digest[:8]}"
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as fault:  # whatever the user's code raises is the user's to read
        registry.forget([one for one in registry.registered() if one not in before])
        sys.modules.pop(name, None)
        frames = [frame for frame in traceback.extract_tb(fault.__traceback__) if frame.filename == str(file)]
        line = (
            getattr(fault, "lineno", None) if isinstance(fault, SyntaxError) else frames[-1].lineno if frames else None
        )
        where = f"{file}:{line}" if line else str(file)
        raise UserError(f"{place}: {where}: {type(fault).__name__}: {fault}") from None
    _imported[file] = digest, [one for one in registry.registered() if one not in before]


def imported_parts(file: Path) -> list[str]:
    """What a file registered: 'losses/huber'."""
    return [f"{family}/{name}" for family, name in _imported[file][1]]


def fingerprint(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
