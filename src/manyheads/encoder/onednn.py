"""Products by oneDNN where no gradient is asked for: MKL, torch's own for float32, leaves half of some CPUs unused.

    y = f(x·Wᵀ + b), f: nothing, or gelu

MKL uses AVX-512 on Intel's CPUs only. On an AMD EPYC oneDNN multiplies 2.1 to 2.3 times as fast, with weights as they
are; on Intel's both take the same time. oneDNN makes a kernel for every number of rows it meets, which takes less than
a millisecond, and keeps the last thousand.

The products are the same in every process and order. MKL's differ from them in the last bits: a cache of what was
computed names its `arithmetic`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

CPU_INFO = Path("/proc/cpuinfo")


def suits(x: Tensor) -> bool:
    """Whether oneDNN is to multiply these states. It knows no gradients, nothing of autocast, and no other runtime."""
    return (
        is_faster()
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and not (torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or torch.compiler.is_compiling())
    )


@cache
def is_faster() -> bool:
    """By the CPU, not by a stopwatch: the same machine always computes the same bits."""
    return (
        torch.backends.mkldnn.is_available()
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and _maker() == "AuthenticAMD"
    )


def arithmetic() -> str:
    """Who computes float32 here: equal names, equal bits."""
    maker = "oneDNN" if is_faster() else "MKL"
    return f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {maker}"


def _maker() -> str:
    try:
        lines = CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return ""
    for line in lines:
        if line.startswith("vendor_id"):
            return line.partition(":")[2].strip()
    return ""


def linear(x: Tensor, weight: Tensor, bias: Tensor, activation: Literal["none", "gelu"] = "none") -> Tensor:
    """f(x·Wᵀ + b), x: [rows, width]."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, activation, [], "none")
    return product
