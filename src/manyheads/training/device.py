"""The device a run works on, through accelerate. CPUs that advertise AMX but crash on it are detected first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch

from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.errors import UserError
from manyheads.runs.trackers import check_trackers, tracker_settings

BF16_FLAG = "amx_bf16"  # the instructions, as /proc/cpuinfo names them
LIMIT = "ONEDNN_MAX_CPU_ISA"  # what keeps torch from them
PRODUCTS = 5
PROBE = """
import torch
with torch.autocast("cpu", dtype=torch.bfloat16):
    torch.nn.Linear(32, 64)(torch.randn(37, 32))
"""


def start_accelerator(recipe: Recipe, reporter: Reporter) -> Any:
    """accelerate, with the recipe's device and precision."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState
    from accelerate.utils import InitProcessGroupKwargs

    check_trackers(recipe)
    precision = "no" if recipe.training.precision == "float32" else recipe.training.precision
    AcceleratorState._reset_state()  # accelerate keeps the first run's precision for the life of the process
    on_cpu = recipe.training.device == "cpu" or not torch.accelerator.is_available()
    patient = InitProcessGroupKwargs(timeout=timedelta(hours=12))  # the first process evaluates alone
    trackers = tracker_settings(recipe, recipe.folder)
    accelerator = Accelerator(cpu=on_cpu, mixed_precision=precision, kwargs_handlers=[patient], **trackers)
    if precision == "bf16" and accelerator.device.type == "cpu" and accelerator.is_main_process:
        check_bfloat16(recipe.location("training", "precision"))
        reporter.say(describe_bfloat16(bfloat16_speedup()))
    return accelerator


def bfloat16_speedup() -> float:
    """How many times as fast as in float32 this CPU multiplies in bfloat16: the best of a few products of each."""
    seconds = {}
    for dtype in (torch.float32, torch.bfloat16):
        x, weight = torch.ones(1024, 384, dtype=dtype), torch.ones(1536, 384, dtype=dtype)
        torch.nn.functional.linear(x, weight)  # makes the kernel
        times = []
        for _ in range(PRODUCTS):
            began = time.perf_counter()
            torch.nn.functional.linear(x, weight)
            times.append(time.perf_counter() - began)
        seconds[dtype] = min(times)
    return seconds[torch.float32] / seconds[torch.bfloat16]


def describe_bfloat16(speedup: float) -> str:
    if speedup >= 1:
        return f"bf16: this CPU multiplies {speedup:.1f} times as fast as in float32"
    return (
        f"warning: this CPU multiplies {1 / speedup:.1f} times as slowly in bf16 as in float32; "
        "training.precision=float32 would be faster"
    )


def check_bfloat16(location: str, probe: str = PROBE) -> None:
    """Try bfloat16 in a process of its own, where AMX is advertised: better one message than a run that is killed."""
    cpu_info = Path("/proc/cpuinfo")
    if LIMIT in os.environ or not cpu_info.is_file() or BF16_FLAG not in cpu_info.read_text(encoding="utf-8"):
        return
    if subprocess.run([sys.executable, "-c", probe], capture_output=True).returncode == -signal.SIGILL:
        raise UserError(
            f"{location}: this CPU advertises instructions for bf16 (AMX) and crashes on them. "
            f"Set the environment variable {LIMIT}=AVX512_CORE_FP16, or take float32.",
            "bf16-crashes",
        )
