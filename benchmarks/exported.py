"""How fast an exported model predicts pairs, beside what else runs the same encoder on a CPU: in turns, same texts.

    python benchmarks/exported.py [--data FOLDER] [--run RUN] [--turns N] [--threads 1 2] [--write]

From texts to predictions, tokenising included, each rival in a process of its own. Batch 1: pair by pair; batch 32: as
many at a time, in no order of length; stream: all at once, which everybody may sort. *padded int8* is what people use
today: a padded graph with ONNX Runtime's dynamic int8, pairs sorted by length, 32 at a time. sentence-transformers with
its ONNX and OpenVINO backends asks for other packages than this project has, so it runs in an environment of its own.

--run names a trained run with the task `qqp`: its dev metrics are then compared too, on all of dev.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from apart import Apart
from infer import small_run, texts_of
from inference_rivals import CrossEncoderPredictions, Pair
from manyheads import Predictor, Run
from manyheads.exporting.folder import Exported, ExportSettings, export
from manyheads.inference import onnx_backend
from manyheads.inference.graph_session import Runtime
from serve_peers import NotInstalled, Peer
from side_by_side import machine, write_block
from train import spread

OURS = "manyheads, PyTorch"
SIZES = {"batch 1": 1, "batch 32": 32, "stream": 10**9}
COUNTS = {"batch 1": 32, "batch 32": 128, "stream": 256}
EXPORTS = {
    "float32": ExportSettings(check_rows=100),
    "int8": ExportSettings(precision="int8", most_lost=1.0, check_rows=5_000),
    "padded": ExportSettings(layout="padded", check_rows=100),
}
PADDED_INT8 = "padded-int8"
BACKENDS = ("torch", "onnx", "openvino")
SENTENCE_TRANSFORMERS = Peer("CrossEncoder", "crossencoder", ("sentence-transformers[onnx,openvino]",), "python", ())
AIMS = (
    ("exported, float32", OURS, "batch 1", 2.0),
    ("exported, int8", OURS, "batch 1", 4.0),
    ("exported, int8", "padded int8", "batch 32", 1.8),
)
LARGEST_LOSS = 0.003  # of a primary metric in int8
Seconds = dict[str, dict[str, list[float]]]  # of each size and rival


class Ours:
    """A model folder or an exported one, as `Predictor` runs it."""

    def __init__(self, folder: Path, task: str, runtime: Runtime | None = None) -> None:
        self.predictor = Predictor.open(folder, runtime=runtime)
        self.task = task

    def __call__(self, work: tuple[list[Pair], int]) -> float:
        pairs, size = work
        began = time.perf_counter()
        for start in range(0, len(pairs), size):
            self.predictor.predict(self.task, pairs[start : start + size])
        return time.perf_counter() - began


class Padded(Ours):
    """Batches of at most 32, each padded to its longest, of like length where there are more."""

    def __init__(self, folder: Path, task: str) -> None:
        onnx_backend.MOST_WASTE = 10**12  # in this process: not cut into passes of like length, as ours are
        super().__init__(folder, task)

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


def export_all(run: Run, folder: Path) -> dict[str, Exported]:
    exported = {name: export(run.folder, folder / name, settings) for name, settings in EXPORTS.items()}
    quantise_dynamically(folder / "padded", folder / PADDED_INT8)
    return exported


def quantise_dynamically(source: Path, target: Path) -> None:
    """A padded float32 folder as ONNX Runtime's own tool quantises it, with a scale for each column."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    shutil.copytree(source, target)
    quantize_dynamic(
        source / "model.onnx",
        target / "model.onnx",
        op_types_to_quantize=["MatMul"],
        per_channel=True,
        weight_type=QuantType.QInt8,
        extra_options={"MatMulConstBOnly": True},
    )
    checksums = json.loads((target / "checksums.json").read_text())
    checksums["model.onnx"] = hashlib.sha256((target / "model.onnx").read_bytes()).hexdigest()
    (target / "checksums.json").write_text(json.dumps(checksums))


def start_rivals(run: Run, task: str, folder: Path, threads: int, with_peers: bool) -> tuple[dict[str, Any], list[str]]:
    """Ready; and of those that could not be had, why."""
    best = run.folder / "best"
    rivals: dict[str, Any] = {
        OURS: Apart(Ours, best, task),
        "exported, float32": Apart(Ours, folder / "float32", task),
        "exported, int8": Apart(Ours, folder / "int8", task),
        "exported, OpenVINO float32": Apart(Ours, folder / "float32", task, "openvino"),
        "exported, OpenVINO bfloat16": Apart(Ours, folder / "float32", task, "openvino-bf16"),
        "padded float32": Apart(Padded, folder / "padded", task),
        "padded int8": Apart(Padded, folder / PADDED_INT8, task),
        "CrossEncoder, torch": Apart(InTurns, run.folder),
    }
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


def time_rivals(rivals: dict[str, Any], pairs: list[Pair], turns: int) -> Seconds:
    """In turns, other pairs in each; a turn before them warms up."""
    seconds: Seconds = {size: {name: [] for name in rivals} for size in SIZES}
    for turn in range(turns + 1):
        for size, count in COUNTS.items():
            given, pairs = pairs[:count], pairs[count:]
            for name, rival in rivals.items():
                taken = rival((given, SIZES[size]))
                if turn:
                    seconds[size][name].append(taken)
    return seconds


def times_as_fast(seconds: Seconds, size: str, name: str, other: str) -> list[float]:
    return [slow / fast for slow, fast in zip(seconds[size][other], seconds[size][name], strict=True)]


def speed_table(seconds: Seconds, threads: int) -> list[str]:
    title = f"{threads} thread{'s' * (threads > 1)}"
    lines = [f"| {title} | {' | '.join(SIZES)} | pairs/s in a stream |", "|---|" + "---|" * 4]
    for name in seconds["stream"]:
        cells = [spread(times_as_fast(seconds, size, name, OURS)) for size in SIZES]
        rate = statistics.median(COUNTS["stream"] / taken for taken in seconds["stream"][name])
        lines.append(f"| {name} | {' | '.join(cells)} | {rate:.0f} |")
    lines += ["", "| aim | at least | measured |", "|---|---|---|"]
    for name, other, size, aim in AIMS:
        lines.append(f"| {name} ÷ {other}, {size} | {aim} | {spread(times_as_fast(seconds, size, name, other))} |")
    return lines


def loss_table(exported: Exported) -> list[str]:
    """What int8 costs on dev."""
    size = f"{exported.size / 1e6:.0f} MB, the original {exported.original_size / 1e6:.0f}"
    lines = [
        f"| dev, int8 ({size}) | metric | float32 | int8 | aim: loses at most | flipped | alone ≠ in a batch | rows |",
        "|---|" + "---|" * 7,
    ]
    for name, measured in exported.measured.items():
        shown = measured.to_line()
        cells = [name, measured.metric, f"{measured.original:.4f}", f"{measured.exported:.4f}", str(LARGEST_LOSS)]
        cells += [str(shown["flipped"]), str(shown["alone ≠ in a batch"]), str(measured.examples)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def measure(options: argparse.Namespace, run: Run, folder: Path, threads: int) -> list[str]:
    os.environ["OMP_NUM_THREADS"] = str(threads)
    task = "qqp" if options.data else "paraphrase"
    rivals, missing = start_rivals(run, task, folder, threads, not options.no_peers)
    pairs = texts_of(options.data, sum(COUNTS.values()) * (options.turns + 1))
    seconds = time_rivals(rivals, pairs, options.turns)
    for rival in rivals.values():
        rival.stop()
    return [*speed_table(seconds, threads), "", *missing]


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--data", help="a folder of the course's csv files")
    given.add_argument("--run", help="a trained run with the task qqp; without it a run of one step")
    given.add_argument("--turns", type=int, default=8)
    given.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    given.add_argument("--no-peers", action="store_true", help="without environments of their own")
    given.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md; needs --data")
    options = given.parse_args()
    what = "Quora and STS pairs" if options.data else "generated pairs"
    lines = [f"{machine()}; {what}, {options.turns} turns; how many times as fast as PyTorch.", ""]
    with tempfile.TemporaryDirectory() as folder:
        run = Run(options.run) if options.run else small_run(options.data, folder)
        exported = export_all(run, Path(folder))
        if options.run:
            lines += [*loss_table(exported["int8"]), ""]
        for threads in options.threads:
            lines += [*measure(options, run, Path(folder), threads), ""]
    print("\n".join(lines))
    if options.write and options.data:
        write_block("exported", lines[:-1])


if __name__ == "__main__":
    main()
