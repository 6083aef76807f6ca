"""Where the time of a training step, and of inference, goes.

    python benchmarks/where_time_goes.py [--data FOLDER] [--steps N] [--write]

torch's profiler counts the time of every operation without those it calls; operations are put together by what they
are for. --write puts the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile

from infer import small_run, texts_of
from side_by_side import machine, write_block
from train import Ours

FOR = {
    "products of linear layers": ("addmm", "addmm_", "mm"),
    "attention: products, softmax": ("bmm", "baddbmm", "_softmax", "_softmax_backward_data"),
    "attention: rows to blocks and back": ("index_select", "index_fill_", "cat"),
    "activations (GELU)": ("gelu", "gelu_", "gelu_backward"),
    "norms": ("native_layer_norm", "native_layer_norm_backward"),
    "AdamW, and the gradient's norm": ("_fused_adamw_", "linalg_vector_norm", "_foreach_norm", "_foreach_mul_"),
    "copies (biases, mostly), zeros": ("copy_", "fill_", "zero_"),
    "sums, products, comparisons by element": ("mul", "mul_", "add", "add_", "sum", "ge", "where"),
}
REST = "drawing masks, Python, small operations, the profiler itself"


def shares(work: Callable[[], object]) -> dict[str, float]:
    """What an operation is for → its share of the time, in which numpy and Python are seen as what is left."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        began = time.perf_counter()
        work()
        whole = 1e6 * (time.perf_counter() - began)
    purpose = {f"aten::{name}": what for what, names in FOR.items() for name in names}
    purpose["mkldnn::_linear_pointwise"] = purpose["aten::addmm"]  # where oneDNN multiplies
    found = dict.fromkeys(FOR, 0.0)
    for one in seen.key_averages():
        if one.key in purpose:
            found[purpose[one.key]] += one.self_cpu_time_total
    return {what: taken / whole for what, taken in {**found, REST: whole - sum(found.values())}.items()}


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given.add_argument("--data", help="a folder of the course's csv files")
    given.add_argument("--steps", type=int, default=20, help="optimizer steps")
    given.add_argument("--pairs", type=int, default=1000, help="pairs to predict")
    given.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md; needs --data")
    options = given.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(options.data, False, folder)
        ours(range(3))
        training = shares(lambda: ours(range(3, 3 + options.steps)))
    with tempfile.TemporaryDirectory() as folder:
        run = small_run(options.data, folder)
        (task,) = run.model.tasks
        pairs = texts_of(options.data, options.pairs)
        run.predict(task, pairs[:256])
        inference = shares(lambda: run.predict(task, pairs))
    lines = [
        f"{machine()}; {options.steps} steps, {options.pairs} pairs.",
        "",
        "| | training | inference |",
        "|---|---|---|",
    ]
    lines += [f"| {what} | {100 * training[what]:.1f} % | {100 * inference[what]:.1f} % |" for what in training]
    print("\n".join(lines))
    if options.write and options.data:
        write_block("where time goes", lines)


if __name__ == "__main__":
    main()
