"""Freed memory stays with the command's process: the system need not clear the same pages again and again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import torch
torch.set_num_threads(1)
if sys.argv[1] == "keep":
    from manyheads.memory import keep_freed_memory
    keep_freed_memory()

def work():
    values = torch.ones(1000, 1000)
    for _ in range(4):
        wide = torch.cat([values + 1] * 4, dim=1) * 3  # 16 MB
        torch.zeros(12_000_000)  # 48 MB, as the gradient of word vectors
        values = wide[:, :1000].clone()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

for _ in range(5):
    work()
before = faults()
for _ in range(10):
    work()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_freed_blocks_are_used_again() -> None:
    def faults(how: str) -> int:
        done = subprocess.run([sys.executable, "-c", SCRIPT, how], capture_output=True, text=True, check=True)
        return int(done.stdout)

    left = faults("leave")
    assert left > 100_000, "else there is nothing to mend"
    assert faults("keep") < left / 10
