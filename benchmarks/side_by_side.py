"""What benchmarks share: rivals timed in turns, so that a noisy machine slows all of them alike; and tables."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import torch

PACKAGES = ("torch", "torchjd", "transformers", "sentence-transformers")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"


def time_in_turns(rivals: Mapping[str, Callable[[int], None]], turns: int, warm_up: int = 3) -> dict[str, list[float]]:
    """Seconds of every rival in every turn; a turn runs each of them once on the same step's batches."""
    taken: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(-warm_up, turns):
        for name, run in rivals.items():
            began = time.perf_counter()
            run(turn + warm_up)
            if turn >= 0:
                taken[name].append(time.perf_counter() - began)
    return taken


def ratio(taken: dict[str, list[float]], one: str, other: str) -> str:
    """Median over turns of how many times as long `one` takes, with the quartiles."""
    ratios = [a / b for a, b in zip(taken[one], taken[other], strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def peak_memory(run: Callable[[int], None], steps: int = 2) -> float:
    """By how many megabytes a step raises this process's memory at its peak, over what it holds between steps."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = memory("VmRSS")
    for step in range(steps):
        run(step)
    return (memory("VmHWM") - before) / 1000


def memory(key: str) -> float:
    """What /proc says of this process, in kilobytes."""
    found = re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return float(found[1]) * 1.024


def machine() -> str:
    """What is measured on, with what, and when."""
    there = [name for name in PACKAGES if find_spec(name.replace("-", "_"))]
    packages = ", ".join(f"{name} {version(name)}" for name in there)
    model = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    kind = model[1] if model else platform.machine()
    cores = f"{os.cpu_count()} cores ({kind}), {torch.get_num_threads()} threads"
    return f"{date.today():%B %Y}: {cores}, {packages}, float32"


def write_block(name: str, lines: list[str]) -> None:
    """Put lines between <!-- name --> and <!-- end name --> of docs/benchmarks.md."""
    text = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.S)
    assert pattern.search(text), f"docs/benchmarks.md has no block {name}"
    PAGE.write_text(pattern.sub(lambda found: found[1] + "\n".join(lines) + "\n" + found[2], text), encoding="utf-8")
