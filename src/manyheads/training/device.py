"""Does this processor do what it announces? Some virtual machines name AMX and kill a process that uses it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from manyheads.errors import UserError

ANNOUNCED = "amx_bf16"  # the instructions, as /proc/cpuinfo names them
LIMIT = "ONEDNN_MAX_CPU_ISA"  # what keeps torch from them
PROBE = """
import torch
with torch.autocast("cpu", dtype=torch.bfloat16):
    torch.nn.Linear(32, 64)(torch.randn(37, 32))
"""


def check_bfloat16(location: str, probe: str = PROBE) -> None:
    """Try bfloat16 in a process of its own, where AMX is announced: better one message than a run that is killed."""
    processor = Path("/proc/cpuinfo")
    if LIMIT in os.environ or not processor.is_file() or ANNOUNCED not in processor.read_text(encoding="utf-8"):
        return
    if subprocess.run([sys.executable, "-c", probe], capture_output=True).returncode == -signal.SIGILL:
        raise UserError(
            f"{location}: this processor announces instructions for bf16 (AMX) and stops at them. "
            f"Set the environment variable {LIMIT}=AVX512_CORE_FP16, or take float32."
        )
