"""Does training go the same way as with transformers' own BertModel? Losses step by step, without dropout.

    python benchmarks/same_losses.py [--data FOLDER] [--steps N] [--write]

The same recipe, seed and batches, once with the packed encoder and once with transformers' implementation, padded. The
two runs differ in rounding alone. With dropout the same question is a study: benchmarks/same_learning.yaml.
"""

from __future__ import annotations

import argparse
import tempfile

from manyheads import load_recipe, train
from side_by_side import machine, write_block

Losses = list[dict[str, float]]  # step → task → loss


def losses(data: str | None, steps: int, implementation: str) -> Losses:
    source, root = ("best", {"data.root": data}) if data else ("demo", {})
    with tempfile.TemporaryDirectory() as folder:
        changes = {
            **root,
            "output": folder,
            "encoder.implementation": implementation,
            "encoder.dropout": 0,
            "encoder.attention_dropout": 0,
            "tasks.*.head": {"name": "linear", "dropout": 0},
            "tasks.*.max_train": 2000,
            "tasks.*.max_dev": 32,
            "sampler": "batch-round-robin",
            "training.max_steps": steps,
            "training.conflicts": 0,
            "report": False,
        }
        run = train(load_recipe(source, changes), quiet=True)
        return [one["loss"] for one in run.log() if one["event"] == "step"]


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--data", help="a folder of the course's csv files")
    given.add_argument("--steps", type=int, default=30)
    given.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md; needs --data")
    options = given.parse_args()
    ours, theirs = (losses(options.data, options.steps, one) for one in ("default", "transformers"))
    what = "SST-5, Quora, STS" if options.data else "generated tasks"
    lines = [f"{machine()}; {what}, {options.steps} steps of batch 16 each, no dropout.", ""]
    lines += ["| task | first loss | last loss | largest difference of a step |", "|---|---|---|---|"]
    for task in ours[0]:
        mine, other = ([one[task] for one in some if task in one] for some in (ours, theirs))
        largest = max(abs(a - b) for a, b in zip(mine, other, strict=True))
        lines.append(f"| {task} | {mine[0]:.4f} | {mine[-1]:.4f} | {largest:.1e} |")
    print("\n".join(lines))
    if options.write and options.data:
        write_block("same losses", lines)


if __name__ == "__main__":
    main()
