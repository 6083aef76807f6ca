"""Do all studies still run? Each at its smallest scale, one seed, in one process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import torch

from manyheads.console import Reporter
from manyheads.errors import UserError
from manyheads.studies.config import load_study
from manyheads.studies.runner import run_here
from manyheads.studies.study import OpenStudy, open_study


def try_studies(names: Sequence[str], output: Path, ends: bool, reporter: Reporter) -> list[str]:
    """Train the rows of every study, or only its first and last; returns the studies that failed."""
    torch.set_num_threads(1)  # a toy does not pay for more
    failed = []
    for name in names:
        began = time.monotonic()
        try:
            count = _try(open_smoke(name, output), ends)
            reporter.say(f"{name}: {count} runs in {time.monotonic() - began:.1f} s")
        except UserError as fault:
            failed.append(name)
            reporter.say(f"{name}: failed: {fault}")
    return failed


def open_smoke(name: str, output: Path) -> OpenStudy:
    return open_study(name, "smoke" if "{scale}" in load_study(name).base else None, output, {}, seeds=[0])


def _try(opened: OpenStudy, ends: bool) -> int:
    rows = [row.name for row in [*opened.rows, *opened.baselines]]
    wanted = {rows[0], rows[-1]} if ends else set(rows)
    runs = [(identity, one) for identity, one in opened.runs if one.row in wanted]
    for identity, one in runs:
        try:
            run_here(opened.location, identity, one)
        except UserError as fault:
            raise UserError(f"{one.label}: {fault}") from None
    opened.tables()
    return len(runs)
