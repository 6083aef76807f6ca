"""How fast an exported model predicts pairs, beside what else runs the same encoder on a CPU: in turns, same texts.

    python benchmarks/exported.py [--data FOLDER] [--turns N] [--threads 1 2] [--write]

From texts to predictions, tokenising included, each rival in a process of its own. Batch 1: pair by pair; batch 32: as
many at a time, in no order of length; stream: all at once, which everybody may sort. *padded int8* is what people use
today: a padded graph with dynamic int8, pairs sorted by length, 32 at a time. sentence-transformers with its ONNX and
OpenVINO backends asks for other packages than this project has, so it runs in an environment of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apart import Apart
from infer import small_run, texts_of
from inference_rivals import CrossEncoderPredictions, Pair
from manyheads import Predictor
from manyheads.exporting.folder import ExportSettings, export
from serve_peers import NotInstalled, Peer
from side_by_side import machine, write_block
from train import spread

OURS = "manyheads, PyTorch"
SIZES = {"batch 1": 1, "batch 32": 32, "stream": 10**9}
COUNTS = {"batch 1": 48, "batch 32": 256, "stream": 512}
EXPORTS = {
    "exported, float32": ExportSettings(),
    "exported, int8": ExportSettings(precision="int8", most_lost=1.0),
    "exported, int8-steady": ExportSettings(precision="int8-steady", most_lost=1.0),
    "padded float32": ExportSettings(layout="padded"),
    "padded int8": ExportSettings(precision="int8", layout="padded", most_lost=1.0),
}
BACKENDS = ("torch", "onnx", "openvino")
SENTENCE_TRANSFORMERS = Peer("CrossEncoder", "crossencoder", ("sentence-transformers[onnx,openvino]",), "python", ())


class Ours:
    """A model folder or an exported one, as `Predictor` runs it."""

    def __init__(self, folder: Path) -> None:
        self.predictor = Predictor.open(folder)
        (self.task,) = self.predictor.tasks

    def __call__(self, work: tuple[list[Pair], int]) -> float:
        pairs, size = work
        began = time.perf_counter()
        for start in range(0, len(pairs), size):
            self.predictor.predict(self.task, pairs[start : start + size])
        return time.perf_counter() - began


class Padded(Ours):
    """The same in batches of at most 32, of like length where there are more."""

    def __call__(self, work: tuple[list[Pair], int]) -> float:
        pairs, size = work
        if size > 32:
            pairs = sorted(pairs, key=lambda pair: len(pair[0]) + len(pair[1]))
        return super().__call__((pairs, min(size, 32)))


class InTurns(CrossEncoderPredictions):
    """sentence-transformers with PyTorch, in this environment."""

    def __call__(self, work: tuple[list[Pair], int]) -> float:  # type: ignore[override]
        pairs, size = work
        return sum(super(InTurns, self).__call__(pairs[start : start + size]) for start in range(0, len(pairs), size))


class Elsewhere:
    """A rival in another environment: a line of JSON in, its seconds out."""

    def __init__(self, python: str, folder: Path, backend: str, threads: int) -> None:
        script = Path(__file__).with_name("crossencoder_peer.py")
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
        self.process = subprocess.Popen(
            [python, str(script), str(folder), backend, str(threads)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip

    def wait(self) -> None:
        assert self.process.stdout is not None
        while (line := self.process.stdout.readline()).strip() != "ready":
            if not line:
                assert self.process.stderr is not None
                raise NotInstalled(self.process.stderr.read().strip().splitlines()[-1])

    def __call__(self, work: tuple[list[Pair], int]) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(work) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def start_rivals(folder: Path, best: Path, threads: int, with_peers: bool) -> tuple[dict[str, Any], list[str]]:
    """Ready; and of those that could not be had, why."""
    rivals: dict[str, Any] = {OURS: Apart(Ours, best)}
    for name in EXPORTS:
        kind: Callable[..., Any] = Padded if name.startswith("padded") else Ours
        rivals[name] = Apart(kind, folder / name)
    rivals["CrossEncoder, torch"] = Apart(InTurns, best.parent)
    missing: list[str] = []
    for backend in BACKENDS[1:] if with_peers else ():
        name = f"CrossEncoder, {backend}"
        try:
            SENTENCE_TRANSFORMERS.install()
            rival = Elsewhere(SENTENCE_TRANSFORMERS.python, best, backend, threads)
            rival.wait()
        except NotInstalled as fault:
            missing.append(f"{name} is not here: {fault}")
            continue
        rivals[name] = rival
    for rival in rivals.values():
        if isinstance(rival, Apart):
            rival.wait()
    return rivals, missing


def measure(options: argparse.Namespace, folder: Path, threads: int) -> list[str]:
    os.environ["OMP_NUM_THREADS"] = str(threads)
    run = small_run(options.data, str(folder / f"runs{threads}"))
    best = run.folder / "best"
    for name, settings in EXPORTS.items():
        export(run.folder, folder / name, settings)
    rivals, missing = start_rivals(folder, best, threads, not options.no_peers)
    pairs = texts_of(options.data, sum(COUNTS.values()) * (options.turns + 1))
    seconds: dict[str, dict[str, list[float]]] = {size: {name: [] for name in rivals} for size in SIZES}
    for turn in range(options.turns + 1):
        for size, count in COUNTS.items():
            given, pairs = pairs[:count], pairs[count:]
            for name, rival in rivals.items():
                taken = rival((given, SIZES[size]))
                if turn:
                    seconds[size][name].append(taken)
    for rival in rivals.values():
        rival.stop()
    lines = [
        f"| {threads} thread{'s' * (threads > 1)} | {' | '.join(SIZES)} | pairs/s in a stream |",
        "|---|" + "---|" * 4,
    ]
    for name in rivals:
        cells: list[str] = []
        for size in SIZES:
            ratios = [own / other for own, other in zip(seconds[size][OURS], seconds[size][name], strict=True)]
            cells.append(spread(ratios))
        rate = statistics.median(COUNTS["stream"] / taken for taken in seconds["stream"][name])
        lines.append(f"| {name} | {' | '.join(cells)} | {rate:.0f} |")
    return [*lines, "", *missing]


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--data", help="a folder of the course's csv files")
    given.add_argument("--turns", type=int, default=8)
    given.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    given.add_argument("--no-peers", action="store_true", help="without environments of their own")
    given.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md; needs --data")
    options = given.parse_args()
    what = "Quora and STS pairs" if options.data else "generated pairs"
    lines = [f"{machine()}; {what}, {options.turns} turns; how many times as fast as PyTorch.", ""]
    for threads in options.threads:
        with tempfile.TemporaryDirectory() as folder:
            lines += [*measure(options, Path(folder), threads), ""]
    print("\n".join(lines))
    if options.write and options.data:
        write_block("exported", lines[:-1])


if __name__ == "__main__":
    main()
