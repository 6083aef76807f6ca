"""Progress as people see it: a bar on a terminal, lines elsewhere, nothing of a job that is soon over."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from manyheads.console import WIDTH_OF_FILES, Job, Reporter, print_table


def shown_by_job(seconds: float, delay: float, terminal: bool) -> str:
    """What a job of two halves shows."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=100)
    with Job(console, "predict", 200, 0, delay) as job:
        job.update(100)
        time.sleep(seconds)
        job.update(200)
    return output.getvalue()


def test_a_job_that_is_over_within_its_delay_shows_nothing() -> None:
    for terminal in (True, False):
        assert shown_by_job(0.0, delay=60.0, terminal=terminal) == ""
        assert "200" in shown_by_job(0.0, delay=0.0, terminal=terminal)


def test_a_long_job_shows_itself_after_its_delay() -> None:
    assert "200/200" in shown_by_job(0.05, delay=0.03, terminal=True)
    assert "predict 200/200" in shown_by_job(0.05, delay=0.03, terminal=False)


def test_a_reporters_job_keeps_its_delay() -> None:
    assert Reporter(quiet=True).job("predict", 3, delay=2.0).delay == 2.0
    assert Reporter(quiet=True).job("train", 3).delay == 0.0


def test_a_wide_table_is_whole_in_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    titles = [f"a-long-title-{number}" for number in range(20)]
    print_table([dict.fromkeys(titles, 0.5)], as_json=False)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == titles
    assert len(printed) == 2
    print_table([{"text": "word " * 100}], as_json=False)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= WIDTH_OF_FILES, "prose is still broken into lines"
