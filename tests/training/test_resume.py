"""A run killed at any moment and resumed ends with the same bits as one that was left alone."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from command import check_refused, manyheads, start
from conftest import toy_settings, write_toy_data

# makes a process kill itself, with the real SIGKILL, when it is about to sync a file to disk for the n-th time
KILL_AT_SYNC = """
import os, signal, manyheads.storage.files
real, left = manyheads.storage.files._sync, [{count}]
def sync(path):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real(path)
manyheads.storage.files._sync = sync
"""

# … or when it is about to rename a folder for the n-th time: some are the second of the two that replace best/
KILL_AT_RENAME = """
import os, pathlib, signal
real, left = pathlib.Path.rename, [{count}]
def rename(path, target):
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(path, target)
pathlib.Path.rename = rename
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, toy_encoder: Path) -> Path:
    """Data and recipe, shared by all tests here: every run reads the same files."""
    data = write_toy_data(tmp_path_factory.mktemp("resume"))
    settings = toy_settings(data, toy_encoder) | {"checkpoint": {"every_steps": 3}}
    settings["training"] |= {"epochs": 3, "batch_size": 4}
    (data / "recipe.yaml").write_text(json.dumps(settings))
    return data


@pytest.fixture(scope="module")
def undisturbed(folder: Path) -> str:
    result = manyheads("train", folder / "recipe.yaml", "name=left", "-q")
    assert result.returncode == 0, result.stderr
    return without_name(fingerprint(folder / "runs" / "left"))


@pytest.fixture
def run(folder: Path) -> Iterator[Path]:
    """Where the run goes that a test disturbs."""
    yield folder / "runs" / "killed"
    shutil.rmtree(folder / "runs" / "killed")


def fingerprint(folder: Path) -> dict[str, Any]:
    """Every weight file's checksum, the last checkpoint's with optimizer included, saved tasks with their calibration,
    and the log without its clock."""
    files = [*folder.glob("best*/*.safetensors"), *sorted(folder.glob("checkpoints/step-*"))[-1].glob("*.safetensors")]
    files.append(folder / "dev.safetensors")
    sums = {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    steps = [{key: value for key, value in one.items() if key not in ("seconds", "took")} for one in log]
    metrics = json.loads((folder / "metrics.json").read_text())
    for key in ("seconds", "peak_gigabytes"):
        del metrics[key]
    predictions = {file.name: file.read_text() for file in (folder / "predictions").iterdir()}
    tasks = {}
    for file in sorted(folder.glob("best*/manyheads.json")):
        tasks[file.parent.name] = json.loads(file.read_text())["tasks"]
    return {"sums": sums, "log": steps, "metrics": metrics, "predictions": predictions, "tasks": tasks}


def without_name(found: dict[str, Any]) -> str:
    return json.dumps(found, sort_keys=True).replace('"killed"', '"left"')


def train_words(folder: Path) -> tuple[str | Path, ...]:
    return ("train", folder / "recipe.yaml", "name=killed")


def kill_in(program: str, folder: Path, count: int) -> None:
    result = manyheads(*train_words(folder), before=program.format(count=count))
    assert result.returncode == -signal.SIGKILL


def finish(run: Path, undisturbed: str) -> None:
    result = manyheads("resume", run)
    assert result.returncode == 0, result.stderr
    assert without_name(fingerprint(run)) == undisturbed
    assert not list(run.rglob(".*")), "nothing half-written is left"


@pytest.mark.slow
def test_killed_at_random_steps(folder: Path, run: Path, undisturbed: str) -> None:
    """Two kills of one run, each at a random step after the last, then left to finish."""
    draw = random.Random(0)
    command = start(*train_words(folder))
    goal = 0
    for _ in range(2):
        goal += draw.randint(4, 12)
        wait_for(run, goal)
        command.kill(signal.SIGKILL)
        assert command.wait().returncode == -signal.SIGKILL, "it was killed, not finished"
        command = start("resume", run, "-q")
    command.kill(signal.SIGKILL)
    command.wait()
    finish(run, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 12, 30])
def test_killed_while_files_are_written(folder: Path, run: Path, undisturbed: str, count: int) -> None:
    kill_in(KILL_AT_SYNC, folder, count)
    finish(run, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("count", [4, 9, 10, 11])
def test_killed_between_renames(folder: Path, run: Path, undisturbed: str, count: int) -> None:
    kill_in(KILL_AT_RENAME, folder, count)
    finish(run, undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_finishes_the_step_and_says_how_to_go_on(
    folder: Path, run: Path, undisturbed: str, number: signal.Signals
) -> None:
    command = start(*train_words(folder))
    wait_for(run, 4)
    command.kill(number)
    result = command.wait()
    assert result.returncode == 128 + number
    assert f"Go on with: manyheads resume {run}" in result.stderr
    assert "Traceback" not in result.stderr
    assert int(sorted((run / "checkpoints").iterdir())[-1].name.removeprefix("step-")) == steps(run)
    finish(run, undisturbed)


def wait_for(run: Path, goal: int) -> None:
    deadline = time.monotonic() + 120
    while steps(run) < goal:
        assert time.monotonic() < deadline, "the run does not get on"
        time.sleep(0.001)


def steps(run: Path) -> int:
    """How many steps the log has."""
    log = run / "log.jsonl"
    return log.read_text().count('"step", "loss"') if log.is_file() else 0


@pytest.mark.slow
def test_damaged_checkpoint_is_refused_and_the_one_before_it_serves(folder: Path, run: Path, undisturbed: str) -> None:
    kill_in(KILL_AT_SYNC, folder, 40)
    older, newest = sorted((run / "checkpoints").glob("step-*"))
    file = newest / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    check_refused(manyheads("resume", run), str(file), "damaged", "Delete that folder")
    shutil.rmtree(newest)
    assert older.is_dir()
    finish(run, undisturbed)


@pytest.mark.slow
def test_resuming_with_other_threads_warns(folder: Path, run: Path) -> None:
    kill_in(KILL_AT_SYNC, folder, 40)
    more = int(os.environ["OMP_NUM_THREADS"]) + 1
    result = manyheads("resume", run, env={"OMP_NUM_THREADS": str(more)})
    assert result.returncode == 0, result.stderr
    assert "results may differ" in result.stderr


def test_resuming_a_finished_run_changes_nothing(folder: Path, undisturbed: str) -> None:
    left = folder / "runs" / "left"
    before = {file: file.stat().st_mtime_ns for file in left.rglob("*")}
    result = manyheads("resume", left)
    assert result.returncode == 0
    assert "overall" in result.stdout
    assert {file: file.stat().st_mtime_ns for file in left.rglob("*")} == before
    assert without_name(fingerprint(left)) == undisturbed


PHASES = "[{trainable: heads, epochs: 1}, {sampler: annealed, epochs: 2}]"
SAMPLERS = ("blocks", "round robin", "weighted", "sized", "capped", "staggered", "phases")
ORDERS = {
    "blocks": "sampler=epoch-round-robin",
    "round robin": "sampler={name: sampled-round-robin, step: batch}",
    "weighted": "sampler=annealed",
    "sized": "sampler=full-data",
    "capped": "sampler={name: capped, repeats: 2}",
    "staggered": "sampler=staggered",
    "phases": f"phases={PHASES}",
    "learnt weights and surgery": "combine={name: pcgrad, losses: {name: uncertainty, learning_rate: 0.05}}",
    "weights and surgery with a memory": "combine={name: gradvac, losses: {name: dynamic-weights, every: 3}}",
    "random weights, in phases": (
        "phases=[{combine: {name: random-weights}, epochs: 1}, "
        "{combine: {name: liebel-korner, learning_rate: 0.1}, epochs: 2}]"
    ),
    "weights that depend on losses": "combine=geometric-mean",
    "weights by epochs": "combine=dynamic-weights",
    "a second model, noise and second masks": (
        "regularise=[{name: bregman, momentum: 0.9}, {name: smart, sigma: 0.1}, {name: r-drop, tasks: [mood]}, l2]"
    ),
    "frozen layers that are kept": "phases=[{trainable: heads, epochs: 1}, {trainable: top-1, epochs: 2}]",
}


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_killed_in_the_middle_of_an_epoch_of_every_order_and_combination(order: str, folder: Path, run: Path) -> None:
    more = ["training.tokens_per_pass=30", "training.conflicts=0.3"]  # several passes a step
    if order in SAMPLERS:
        more.append("tasks.mood.patience=2")  # a task rests; what combines tasks needs two of them
    words = (ORDERS[order], "evaluate.every_steps=5", *more)
    left = folder / "runs" / "left-alone"
    assert manyheads("train", folder / "recipe.yaml", "name=left-alone", "--overwrite", "-q", *words).returncode == 0
    command = start(*train_words(folder), *words)
    wait_for(run, 13)  # past the first epoch or phase, and no checkpoint of its own
    command.kill(signal.SIGKILL)
    assert command.wait().returncode == -signal.SIGKILL
    assert manyheads("resume", run, "-q").returncode == 0
    found, expected = (without_name(fingerprint(one)).replace('"left-alone"', '"left"') for one in (run, left))
    assert found == expected
