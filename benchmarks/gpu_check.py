"""Does manyheads work on this GPU? Parity with the CPU, mixed precision, one epoch; prints what it saw.

    make gpu-check

Every part says passed or failed; the exit code is 1 where any failed. Its output belongs into docs/benchmarks.md, which
says that CUDA is untested until it is there. `--here` runs the same on whatever is found, to try the script itself.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from manyheads import Run, load_recipe, train

STEPS = 20
PLAIN = {  # no dropout: masks of two devices are drawn differently
    "encoder.dropout": 0,
    "encoder.attention_dropout": 0,
    "tasks.*.head": {"name": "linear", "dropout": 0},
    "training.conflicts": 0,
    "training.max_steps": STEPS,
}


def trained(folder: str, **changes: Any) -> Run:
    settings = {key.replace("__", "."): value for key, value in changes.items()}
    return train(load_recipe("demo", {"output": folder, "report": False, **settings}), overwrite=True, quiet=True)


def losses(run: Run) -> list[float]:
    return [loss for one in run.log() if one["event"] == "step" for loss in one["loss"].values()]


def check_parity(folder: str) -> str:
    """The same recipe on the CPU and on the GPU: the same losses, but for rounding that grows with steps."""
    here = losses(trained(folder, name="cpu", training__device="cpu", **PLAIN))
    there = losses(trained(folder, name="gpu", **PLAIN))
    early = max(abs(a - b) for a, b in zip(here[:9], there[:9], strict=True))
    late = max(abs(a - b) for a, b in zip(here, there, strict=True))
    assert early < 1e-3, f"losses of the first three steps differ by {early:.1e}"
    assert late < 5e-2, f"losses differ by {late:.1e} after {STEPS} steps"
    return f"largest difference of a loss: {early:.1e} in the first 3 steps, {late:.1e} in {STEPS}"


def check_repeated(folder: str) -> str:
    """Twice the same run."""
    first, second = (losses(trained(folder, name=name, training__max_steps=STEPS)) for name in ("first", "second"))
    largest = max(abs(a - b) for a, b in zip(first, second, strict=True))
    assert largest < 1e-3, f"two equal runs differ by {largest:.1e}"
    return "two equal runs agree to the bit" if largest == 0 else f"two equal runs differ by up to {largest:.1e}"


def check_bf16(folder: str) -> str:
    run = trained(folder, name="bf16", training__precision="bf16", training__max_steps=STEPS)
    found = losses(run)
    assert all(map(math.isfinite, found)), "a loss is not finite"
    return f"losses from {sum(found[:3]):.3f} to {sum(found[-3:]):.3f} in {STEPS} steps"


def check_surgery(folder: str) -> str:
    run = trained(folder, name="pcgrad", combine="pcgrad", training__max_steps=STEPS)
    return f"overall {run.metrics['dev']['overall']:.3f} after {STEPS} steps with pcgrad"


def check_epoch(folder: str) -> str:
    began = time.perf_counter()
    run = trained(folder, name="epoch", training__epochs=1)
    seconds = time.perf_counter() - began
    metrics = run.metrics
    assert metrics["dev"]["overall"] > 0.6, f"overall {metrics['dev']['overall']:.3f} after an epoch is too low"
    seen = sum(metrics["examples_seen"].values())
    rate = f"{seen / metrics['seconds']:.0f} examples/s in the loop"
    return f"overall {metrics['dev']['overall']:.3f}, {rate}, {seconds:.0f} s with all else"


def check_predictions(folder: str) -> str:
    """A model from the GPU predicts on the CPU as it did where it was trained."""
    run = Run(f"{folder}/epoch")
    found = run.evaluate()
    told = run.metrics["dev"]["overall"]
    assert abs(found.overall - told) < 5e-3, f"overall {found.overall:.4f} here, {told:.4f} there"
    return f"overall {found.overall:.4f} on the CPU, {told:.4f} where it was trained"


CHECKS: dict[str, Callable[[str], str]] = {
    "parity with the CPU": check_parity,
    "repeatable": check_repeated,
    "mixed precision (bf16)": check_bf16,
    "gradient surgery": check_surgery,
    "one epoch of the demo": check_epoch,
    "predictions elsewhere": check_predictions,
}


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--here", action="store_true", help="run even without a GPU")
    options = given.parse_args()
    if not torch.accelerator.is_available() and not options.here:
        print("No GPU was found by torch, so there is nothing to check. `--here` tries the script on the CPU.")
        sys.exit(1)
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no CUDA device"
    print(f"{name}, torch {torch.__version__}\n\n| check | | |\n|---|---|---|")
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for what, check in CHECKS.items():
            try:
                print(f"| {what} | passed | {check(folder)} |", flush=True)
            except Exception as fault:
                failed += 1
                print(f"| {what} | **failed** | {fault} |", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
