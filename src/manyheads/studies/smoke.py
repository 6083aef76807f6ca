"""Do all studies still run? Each at its smallest scale, one seed, in one process."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from manyheads.console import Reporter
from manyheads.errors import UserError
from manyheads.studies.load import load_study
from manyheads.studies.runner import train_in_process
from manyheads.studies.study import OpenStudy, open_study
from manyheads.studies.teachers import teachers_first


def try_studies(names: Sequence[str], output: Path, ends: bool, reporter: Reporter) -> list[str]:
    """Train the rows of every study, or only its first and last; returns the studies that failed."""
    torch.set_num_threads(1)  # a toy is too small for more
    failed: list[str] = []
    for name in names:
        began = time.monotonic()
        try:
            count = _try_study(open_smoke(name, output), ends)
            reporter.say(f"{name}: {count} runs in {time.monotonic() - began:.1f} s")
        except UserError as fault:
            failed.append(name)
            reporter.say(f"{name}: failed: {fault}")
    return failed


def open_smoke(name: str, output: Path) -> OpenStudy:
    scale = None
    if "{scale}" in load_study(name).base:
        scale = "smoke"
    return open_study(name, scale, output, {}, seeds=[0])


def _try_study(opened: OpenStudy, ends: bool) -> int:
    names = opened.row_names
    if ends:
        names = [names[0], names[-1]]
    runs = teachers_first(opened.runs_of(names))
    for identity, planned in runs:
        try:
            train_in_process(opened.folder, identity, planned, keep=True)
        except UserError as fault:
            raise UserError(f"{planned.label}: {fault}", code=fault.code) from None
    for identity, _ in runs:
        shutil.rmtree(opened.folder.run(identity), ignore_errors=True)
    opened.tables()
    return len(runs)
