"""The instructions that `make test-portable` asks for are those in use: else it would test the same thing twice."""

from __future__ import annotations

import os

import pytest
import torch

pytestmark = pytest.mark.numeric


def test_torch_uses_the_instructions_asked_for() -> None:
    asked = os.environ.get("ATEN_CPU_CAPABILITY")
    if asked is None:
        pytest.skip("torch chooses by itself")
    assert torch.backends.cpu.get_cpu_capability() == asked.upper()


def test_torch_uses_as_many_threads_as_asked_for() -> None:
    assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"])
