"""Run the command that a user would run, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def manyheads(*words: str | Path, stdin: str = "", env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "manyheads", *map(str, words)],
        input=stdin,
        capture_output=True,
        text=True,
        env={**os.environ, **(env or {})},
        timeout=300,
        check=False,
    )


def check_refused(result: subprocess.CompletedProcess[str], *expected: str) -> None:
    """One clear message, no traceback, exit code 2."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.count("error:") == 1
    for words in expected:
        assert words in result.stderr, f"{words!r} not in:\n{result.stderr}"
