"""What a start and a step cost by the number of rows: time, and memory at its peak.

    python benchmarks/scale.py [--rows 10000 100000 1000000 5000000] [--folder FOLDER] [--write]

A task is made on the spot: a csv file with id, a text of 5 to 25 words out of 20,000, and one of five labels. Two
processes of their own start a run on it, the first with an empty cache, and make batches without training on them.
--write puts the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from side_by_side import machine, memory, write_block

BATCHES = 300
LABELS = ("awful", "poor", "fair", "good", "great")


def make_data(file: Path, rows: int) -> None:
    """Texts of two random halves each: random enough, and made in seconds."""
    from manyheads.encoder.loading import locate
    from manyheads.tokens.tokenizer import Tokenizer

    draw = random.Random(rows)
    known = sorted(w for w in Tokenizer(locate("all-MiniLM-L6-v2").folder).backend.get_vocab() if w.isalpha())
    words = draw.sample(known, 16_000)
    words += [draw.choice(words) + draw.choice(words) for _ in range(4_000)]  # these become several tokens
    first = [" ".join(draw.choices(words, k=draw.randint(2, 12))) for _ in range(50_000)]
    second = [" ".join(draw.choices(words, k=draw.randint(3, 13))) for _ in range(50_000)]
    with file.open("w", encoding="utf-8") as out:
        out.write("id,text,label\n")
        for start in range(0, rows, 10_000):
            count = min(10_000, rows - start)
            parts = zip(*(draw.choices(some, k=count) for some in (first, second, LABELS)), strict=True)
            out.writelines(f"r{row},{a} {b},{label}\n" for row, (a, b, label) in enumerate(parts, start))


def measure(file: Path) -> dict[str, float]:
    """Start a run on the file in this process and make batches; seconds and megabytes."""
    from manyheads.console import Reporter
    from manyheads.model import multitask as model
    from manyheads.tasks.resolve import load_recipe
    from manyheads.tokens import tokenizer as tokens
    from manyheads.training import setup as job
    from manyheads.training.gradients.passes import split_passes

    imported = memory("VmRSS") / 1000
    most = _watch_memory()
    seconds = {"load": 0.0, "tokenise": 0.0}
    _clock(job, "load_tasks", lambda began: _add(seconds, "load", began))
    _clock(model, "tokenise", lambda began: _add(seconds, "tokenise", began))
    calls: list[tuple[float, float]] = []  # when the Rust tokenizer was at work
    encode = tokens.Tokenizer.encode

    class Clocked:
        def __init__(self, backend: Any) -> None:
            self.backend = backend

        def encode_batch_fast(self, *given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return self.backend.encode_batch_fast(*given, **named)
            finally:
                calls.append((began, time.perf_counter()))

    def clocked_encode(self: Any, texts: list[str]) -> list[list[int]]:
        return encode(type("", (), {"backend": Clocked(self.backend)})(), texts)  # type: ignore[arg-type]

    tokens.Tokenizer.encode = clocked_encode  # type: ignore[method-assign]
    settings = {
        "name": "scale",
        "data": {"root": str(file.parent)},
        "tasks": {"scale": {"train": file.name}},
        "training": {"epochs": 1, "batch_size": 16},
    }
    began = time.perf_counter()
    made = job.assemble(load_recipe(settings), Reporter(quiet=True))
    _ = made.datasets.fingerprint()
    start = time.perf_counter() - began
    taken: list[float] = []
    for step in range(min(BATCHES, made.schedule.steps)):
        began = time.perf_counter()
        for batches in made.rounds(step):
            for one in split_passes(made.model, made.datasets.train, batches, made.recipe.training.tokens_per_pass):
                made.model.pack([(task, inputs) for task, _, inputs in one])
        taken.append(time.perf_counter() - began)
    return {
        "load": seconds["load"],
        "tokenise": seconds["tokenise"],
        "in_rust": _together(calls),
        "start": start,
        "batch": statistics.median(taken) * 1000,
        "order": taken[0],
        "imported": imported,
        "peak": memory("VmHWM") / 1000,
        "anonymous": most[0],
    }


def _clock(module: Any, name: str, note: Callable[[float], None]) -> None:
    original = getattr(module, name)

    def clocked(*given: Any, **named: Any) -> Any:
        began = time.perf_counter()
        try:
            return original(*given, **named)
        finally:
            note(began)

    setattr(module, name, clocked)


def _add(seconds: dict[str, float], what: str, began: float) -> None:
    seconds[what] += time.perf_counter() - began


def _together(calls: list[tuple[float, float]]) -> float:
    """Seconds in which at least one call was under way."""
    total, end = 0.0, 0.0
    for begin, stop in sorted(calls):
        total += max(0.0, stop - max(begin, end))
        end = max(end, stop)
    return total


def _watch_memory() -> list[float]:
    """The most memory that is not a mapped file so far, looked at ten times a second."""
    most = [0.0]

    def watch() -> None:
        while True:
            most[0] = max(most[0], memory("RssAnon") / 1000)
            time.sleep(0.1)

    threading.Thread(target=watch, daemon=True).start()
    return most


def _in_process(file: Path, cache: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", str(file)]
    environment = {**os.environ, "MANYHEADS_CACHE": str(cache)}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def row_of(rows: int, folder: Path) -> str:
    """A line of the table."""
    file = folder / f"{rows}.csv"
    make_data(file, rows)
    first, second = (_in_process(file, folder / "cache") for _ in range(2))
    print(json.dumps({"rows": rows, "first": first, "second": second}), file=sys.stderr, flush=True)
    file.unlink()
    return shown(rows, first, second)


def shown(rows: int, first: dict[str, float], second: dict[str, float]) -> str:
    cells = [
        f"{rows:,}",
        f"{first['load']:.1f}",
        f"{first['tokenise']:.1f} ({rows / first['tokenise']:,.0f}/s)",
        f"{first['in_rust'] / first['tokenise']:.0%}",
        f"{second['start']:.1f}",
        f"{second['batch']:.2f}",
        f"{first['peak']:,.0f} ({first['anonymous']:,.0f})",
        f"{second['peak']:,.0f} ({second['anonymous']:,.0f})",
        f"{first['peak'] - first['imported']:,.0f}, {second['peak'] - second['imported']:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, 5_000_000])
    parser.add_argument("--folder", type=Path, help="where data and cache are made, by default a temporary folder")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure)))
        return
    lines = heading()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        lines += [row_of(rows, Path(folder)) for rows in given.rows]
    print("\n".join(lines))
    if given.write:
        write_block("scale", lines)


def heading() -> list[str]:
    return [
        f"{machine()}; one task, default encoder, batch 16. Peak memory in MB, in brackets without mapped files.",
        "",
        "| rows | first load (s) | tokenise (s) | of it in the tokenizer | second start (s) | a batch (ms) "
        "| memory, first | memory, second | of it after imports |",
        "|" + "---|" * 9,
    ]


if __name__ == "__main__":
    main()
