"""How the command line's own process asks the system for memory."""

from __future__ import annotations

import ctypes

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
LARGEST = 1 << 30  # bytes


def keep_freed_memory() -> None:
    """Let malloc keep what is freed, up to 1 GB, for what is asked for next.

    glibc gives large blocks back to the system at once, and every pass asks for the same ones again: the system then
    clears thousands of pages per step, which is 2 % of training and 6 % of answering (docs/benchmarks.md). It is a
    setting of the whole process, so it is made where the process is ours, and not for programs that import manyheads.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another system's C library
        return
    set_option(M_MMAP_THRESHOLD, LARGEST)
    set_option(M_TRIM_THRESHOLD, LARGEST)
