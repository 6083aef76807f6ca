"""A run is locked while it trains: by a real process, which is really killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from command import check_refused, manyheads, start
from manyheads import UserError, load_recipe, resume, train
from manyheads.runs import lock
from manyheads.runs.lock import LOCK_FILE, find_holder, hold_lock
from run_files import log_of

ELSEWHERE = json.dumps({"host": "another-machine", "process": 77})
LONG_EPOCH = {"name": "proportional", "steps_per_epoch": 100_000}  # so that there is no evaluation, and no model, yet


@pytest.mark.slow
def test_a_live_run_is_neither_resumed_nor_overwritten(recipe_file: Callable[..., Path], toy_data: Path) -> None:
    run = toy_data / "runs" / "toy"
    recipe = recipe_file(sampler=LONG_EPOCH, checkpoint={"every_steps": 1})
    process = start("train", recipe, "--quiet")
    try:
        deadline = time.monotonic() + 60
        while not list(run.glob("checkpoints/step-*")):
            assert time.monotonic() < deadline, "the run never got to its first checkpoint"
            time.sleep(0.02)
        is_training = ("this run is being trained by process", str(process.process), "[run-is-training]")
        check_refused(manyheads("resume", run, "--take-lock"), *is_training)
        check_refused(manyheads("train", recipe, "--overwrite"), *is_training)
        no_model = manyheads("predict", run, "--text", "a film")
        check_refused(no_model, "no model yet. It is being trained by process", "[no-model-yet]")
    finally:
        process.kill(signal.SIGKILL)
        process.wait()
    steps = [record["step"] for record in log_of(run)]
    assert steps == sorted(set(steps)), "a step is logged twice"
    assert find_holder(run) is None, "a killed process gives up its lock"
    assert "manyheads resume" in manyheads("predict", run, "--text", "a film").stderr


@pytest.mark.slow
def test_a_lock_of_another_machine_is_taken_only_where_asked(recipe_file: Callable[..., Path], toy_data: Path) -> None:
    run = toy_data / "runs" / "toy"
    manyheads("train", recipe_file(), "--quiet")
    (run / "metrics.json").unlink()  # as of a run that was cut off
    (run / LOCK_FILE).write_text(ELSEWHERE)
    os.utime(run / LOCK_FILE, (time.time() - 90, time.time() - 90))
    refused = manyheads("resume", run)
    check_refused(refused, "process 77 on another-machine (last sign of life 1:3", " ago)", "--take-lock")
    finished = manyheads("resume", run, "--take-lock", "--quiet")
    assert finished.returncode == 0, finished.stderr
    assert (run / LOCK_FILE).read_text() == "", "given up at the end"


def test_the_lock_lasts_as_long_as_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.01)
    with hold_lock(tmp_path):
        holder = find_holder(tmp_path)
        assert holder is not None
        assert (holder.host, holder.process) == (socket.gethostname(), os.getpid())
        with pytest.raises(UserError) as fault, hold_lock(tmp_path):
            pass
        assert fault.value.code == "run-is-training"
        os.utime(tmp_path / LOCK_FILE, (1, 1))
        deadline = time.monotonic() + 20
        while (tmp_path / LOCK_FILE).stat().st_mtime < 2:
            assert time.monotonic() < deadline, "no heartbeat"
            time.sleep(0.01)
    assert find_holder(tmp_path) is None
    with pytest.raises(KeyError), hold_lock(tmp_path):
        raise KeyError
    assert find_holder(tmp_path) is None, "given up after an exception too"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"host": 3}', "[" * 4000, '{"host": "x"}', "\x00"])
def test_a_damaged_lock_holds_nothing(content: str, tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_text(content)
    assert find_holder(tmp_path) is None
    with hold_lock(tmp_path):
        pass


def test_a_pipe_in_place_of_the_lock_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LOCK_FILE)
    assert find_holder(tmp_path) is None


@pytest.mark.slow
def test_overwriting_empties_the_folder_but_for_its_lock(recipe_file: Callable[..., Path], toy_data: Path) -> None:
    recipe = load_recipe(recipe_file())
    run = train(recipe, quiet=True)
    (run.folder / "stray").mkdir()
    train(recipe, overwrite=True, quiet=True)
    assert not (run.folder / "stray").exists()
    assert resume(run.folder, quiet=True).metrics["steps"] == run.metrics["steps"]
