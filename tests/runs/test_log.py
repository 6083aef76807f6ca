"""log.jsonl: written by one class, read by the same, whatever a kill left of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from manyheads.runs.log import TAIL_BYTES, RunLog


@pytest.fixture
def log(tmp_path: Path) -> RunLog:
    log = RunLog(tmp_path / "log.jsonl")
    log.append({"event": "start", "steps": 4, "step": 0})
    for step in (1, 2, 3, 4):
        log.append({"event": "step", "loss": {"mood": 1 / step}, "step": step})
    return log


def test_what_is_appended_is_read(log: RunLog) -> None:
    assert [record["step"] for record in log.records()] == [0, 1, 2, 3, 4]
    assert log.records()[3] == {"event": "step", "loss": {"mood": 1 / 3}, "step": 3}
    assert log.first() == log.records()[0]
    assert log.last() == log.records()[-1]


def test_no_file_is_no_records(tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log.jsonl")
    assert (log.records(), log.first(), log.last()) == ([], None, None)
    log.cut_after(3)
    assert not log.file.exists(), "nothing is made of nothing"


@pytest.mark.parametrize("cut_off", ['{"event": "step", "lo', '{"event": "step", "step": 5}', "\x00\x00\n", "7\n"])
def test_a_last_line_that_is_cut_off_is_skipped(log: RunLog, cut_off: str) -> None:
    expected = log.records()
    log.file.write_text(log.file.read_text() + cut_off)
    assert log.records() == expected
    assert log.last() == expected[-1]
    log.cut_after(4)
    log.append({"event": "step", "step": 5})
    assert [record["step"] for record in log.records()] == [0, 1, 2, 3, 4, 5], "the line does not run into the next"


def test_a_letter_cut_in_half_is_skipped(log: RunLog) -> None:
    log.file.write_bytes(log.file.read_bytes() + '{"event": "é'.encode()[:-1])
    assert len(log.records()) == 5


def test_steps_that_are_taken_again_are_cut(log: RunLog) -> None:
    log.append({"event": "end", "step": 4})
    log.cut_after(4)
    assert log.last() == {"event": "step", "loss": {"mood": 0.25}, "step": 4}, "the run has not ended yet"
    log.cut_after(2)
    assert [record["step"] for record in log.records()] == [0, 1, 2]
    log.cut_after(-1)
    assert log.records() == []
    assert log.file.read_text() == ""


def test_the_ends_of_a_long_log(log: RunLog) -> None:
    for step in range(5, 1000):
        log.append({"event": "step", "loss": {"mood": 0.5}, "step": step})
    assert log.file.stat().st_size > 2 * TAIL_BYTES
    assert (log.first() or {})["steps"] == 4
    assert (log.last() or {})["step"] == 999


def test_keys_of_older_logs_are_read_by_their_new_names(tmp_path: Path) -> None:
    records = [
        {"event": "step", "rate": 0.1, "rates": {"heads": 1.0}, "step": 1},
        {"event": "rotation", "resting": ["mood"], "step": 1},
        {"event": "other", "rate": 3, "step": 1},
    ]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert RunLog(tmp_path / "log.jsonl").records() == [
        {"event": "step", "learning_rate": 0.1, "learning_rates": {"heads": 1.0}, "step": 1},
        {"event": "rotation", "paused": ["mood"], "step": 1},
        {"event": "other", "rate": 3, "step": 1},
    ]
