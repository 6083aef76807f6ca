"""What keeping the states of frozen layers saves: seconds of training of each epoch, from the run's own log.

    python benchmarks/frozen.py --data FOLDER [--write]

Paper B's frozen baseline (only heads learn) on 2,000 SST, 6,000 Quora and 2,000 STS examples, batches of 16, default
encoder; in a cache folder of its own, so that nothing was computed before. Beside it the same with the lower four of
six layers frozen, and without keeping anything.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path

from manyheads import load_recipe, train
from side_by_side import machine, write_block

WAYS = {
    "only heads learn": {"training.trainable": "heads", "training.learning_rate": 1e-3},
    "the top two layers learn": {"training.trainable": "top-2"},
}


def epochs(data: str, changes: dict[str, object], epochs: int) -> tuple[list[float], int]:
    """Seconds of every epoch, evaluations apart, and steps per epoch."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MANYHEADS_CACHE"] = folder
        settings = {"data.root": data, "sampler": "epoch-round-robin", "training.epochs": epochs, "output": folder}
        run = train(load_recipe("scales/small", {**settings, **changes}), quiet=True)
        return _of(run.folder / "log.jsonl")


def _of(log: Path) -> tuple[list[float], int]:
    ends: dict[int, tuple[float, int]] = {}
    for line in log.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["event"] == "step":
            ends[record["epoch"]] = (record["seconds"], record["step"])
    seconds = [seconds for seconds, _ in ends.values()]
    return [after - before for before, after in zip([0.0, *seconds], seconds, strict=False)], ends[1][1]


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--data", required=True, help="a folder of the course's csv files")
    given.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    options = given.parse_args()
    lines = [
        f"{machine()}; medians over the later epochs.",
        "",
        "| | first epoch ÷ later ones | not kept ÷ later ones |",
    ]
    lines.append("|---|---|---|")
    for way, changes in WAYS.items():
        kept, steps = epochs(options.data, changes, 4)
        plain, _ = epochs(options.data, {**changes, "training.frozen_gigabytes": 0}, 1)
        later = sorted(kept[1:])[1]
        print(
            f"{way}: {', '.join(f'{one:.2f}' for one in kept)} s an epoch of {steps} steps, not kept {plain[0]:.2f} s"
        )
        lines.append(f"| {way} | {kept[0] / later:.1f} | {plain[0] / later:.1f} |")
    print("\n".join(lines))
    if options.write:
        write_block("frozen", lines)


if __name__ == "__main__":
    main()
