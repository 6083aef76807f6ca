"""Two real processes under torchrun train what one does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from command import check_refused, manyheads, start_two, wait_for_two
from conftest import made_once, toy_settings, write_toy_data
from manyheads import load_recipe, train
from manyheads.parts.samplers import Batch
from manyheads.training.distributed import Processes

STILL = {"dropout": 0, "attention_dropout": 0}
# AdamW's usual ε lets rounding decide where a weight goes whose gradient is 0 in exact arithmetic (the keys' bias), by
# a whole step. With ε = 1 weights move smoothly with the gradient: sums in another order stay together.
SMOOTH = {"learning_rate": 0.1, "epsilon": 1.0}


TWO_PROCESSES = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2")
# the process group is kept from one run to the next, so that two processes are started once for all of them
TRAIN_ALL = """
import json, sys
from manyheads import load_recipe, train
from manyheads.training.distributed import Processes
Processes.leave = Processes.wait
for recipe in json.load(open(sys.argv[1])):
    train(load_recipe(recipe), quiet=True)
"""


def torchrun(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """As a user starts them: one test sees what torchrun does, others start the same two processes sooner."""
    return subprocess.run(
        [*TWO_PROCESSES, "-m", "manyheads", *map(str, words)],
        capture_output=True, text=True, timeout=300, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained_by_two(tmp_path_factory: pytest.TempPathFactory, toy_encoder: Path) -> Path:
    """The runs 'left', 'taught' and one for each of SURGERY, trained in two processes that are started once."""

    def make(folder: Path) -> None:
        write_toy_data(folder)
        write_conflict(folder)
        recipes = [{**toy_settings(folder, toy_encoder), **stopped_recipe(toy_encoder), "name": "left"}]
        for how in SURGERY:
            recipes.append({**toy_settings(folder, toy_encoder), **conflict_recipe(how, toy_encoder), "name": how})
        recipes.append({**toy_settings(folder, toy_encoder), **stopped_recipe(toy_encoder), "name": "teacher"})
        recipes.append(taught_recipe(folder, toy_encoder))
        (folder / "recipes.json").write_text(json.dumps(recipes))
        result = wait_for_two(start_two(folder / "recipes.json", program=TRAIN_ALL))
        assert result.returncode == 0, result.stderr[-3000:]

    return made_once(tmp_path_factory, "trained-by-two", make)


def log_of(run: Path, event: str) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [one for one in records if one["event"] == event]


def weights(run: Path, file: str = "model.safetensors") -> dict[str, torch.Tensor]:
    return load_file(sorted((run / "checkpoints").glob("step-*"))[-1] / file)


def temperature(run: Path) -> float:
    """Of mood, the first task."""
    return json.loads((run / "best" / "manyheads.json").read_text())["tasks"][0]["temperature"]


def check_tensors(one: Path, two: Path, file: str) -> None:
    """The same after all steps, as far as sums in another order are. The optimizer's moments are means of gradients."""
    expected, found = weights(one, file), weights(two, file)
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        assert torch.allclose(found[name], tensor, rtol=1e-3, atol=2e-6), name


@given(size=st.integers(0, 40), count=st.integers(1, 5))
@settings(derandomize=True, deadline=None)
def test_slices_partition_a_round(size: int, count: int) -> None:
    rows = np.random.default_rng(size).permutation(100)[:size]
    slices = [Processes(rank, count).share([[Batch("a", rows)]]) for rank in range(count)]
    found = [row for one in slices for batches in one for batch in batches for row in batch.indices.tolist()]
    assert sorted(found) == sorted(rows.tolist())
    sizes = [sum(len(batch.indices) for batches in one for batch in batches) for one in slices]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.slow
@pytest.mark.numeric
def test_two_processes_train_what_one_does(recipe_file: Callable[..., Path], toy_data: Path, toy_encoder: Path) -> None:
    """Without dropout: the same losses, metrics and weights, also where a slice is empty (36 rows are 5·7 + 1)."""
    file = recipe_file(
        encoder={"name": str(toy_encoder), **STILL},
        tasks={
            "mood": {"train": "mood.csv", "batch_size": 7, "head": {"dropout": 0}},
            "near": {"train": "near.tsv", "range": [0, 5], "batch_size": 5, "head": {"dropout": 0}},
        },
        sampler="proportional",  # rounds with one task, in which the other's head must stay as it is
        training={"epochs": 2, "accumulate": 2, **SMOOTH},
        regularise=[{"name": "l2", "weight": 0.05}, {"name": "bregman", "weight": 0.5}, "anchor"],
        checkpoint={"every_steps": 4},
        evaluate={"train_examples": 10, "calibrate": True},
    )
    alone = manyheads("train", file, "name=alone", "--quiet")
    assert alone.returncode == 0, alone.stderr
    both = torchrun("train", file, "name=both", "training.processes=2")
    assert both.returncode == 0, both.stderr
    assert both.stdout.count("overall") == 1, "one of them speaks"
    one, two = toy_data / "runs" / "alone", toy_data / "runs" / "both"
    for first, second in zip(log_of(one, "step"), log_of(two, "step"), strict=True):
        assert first["loss"] == pytest.approx(second["loss"], rel=1e-5)
        assert first["gradient_norm"] == pytest.approx(second["gradient_norm"], rel=1e-4)
        assert first["regularise"] == pytest.approx(second["regularise"], rel=1e-4, abs=1e-7)
    assert log_of(one, "step")[-1]["regularise"]["bregman"] > 1e-6, "weights have moved"
    for name in ("model.safetensors", "optimizer.safetensors"):
        check_tensors(one, two, name)
    for first, second in zip(log_of(one, "evaluate"), log_of(two, "evaluate"), strict=True):
        assert first["train_losses"] == pytest.approx(second["train_losses"], rel=1e-4)
    assert (two / "predictions" / "mood-dev.csv").is_file()
    assert temperature(two) == pytest.approx(temperature(one), rel=1e-3), "the main process fits and saves it"
    assert temperature(two) != 1.0


def stopped_recipe(encoder: Path) -> dict[str, Any]:
    return {
        "encoder": {"name": str(encoder), **STILL},
        "tasks": {"mood": {"train": "mood.csv", "batch_size": 2, "head": {"dropout": 0}}},
        "training": {"epochs": 3, "learning_rate": 1e-3},
        "checkpoint": {"every_steps": None},
    }


@pytest.mark.slow
def test_two_processes_asked_to_stop_go_on_to_the_same_weights(
    recipe_file: Callable[..., Path], toy_data: Path, toy_encoder: Path, trained_by_two: Path
) -> None:
    """SIGTERM to every process in the middle, then a resume by two others."""
    file = recipe_file(**stopped_recipe(toy_encoder))
    stopped = toy_data / "runs" / "stopped"
    processes = start_two("train", file, "name=stopped")
    until = time.monotonic() + 120
    while time.monotonic() < until and not ((stopped / "log.jsonl").is_file() and len(log_of(stopped, "step")) > 8):
        time.sleep(0.02)
    for process in processes:
        process.kill(signal.SIGTERM)
    ended = wait_for_two(processes)
    assert ended.returncode == 128 + signal.SIGTERM
    assert ended.stderr.count("saved. Go on with") == 1, ended.stderr
    resumed = wait_for_two(start_two("resume", stopped))
    assert resumed.returncode == 0, resumed.stderr
    left = trained_by_two / "runs" / "left"
    expected, found = weights(left), weights(stopped)
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name
    for one, other in zip(log_of(left, "step"), log_of(stopped, "step"), strict=True):
        assert one["loss"] == other["loss"]


@pytest.mark.slow
def test_fewer_processes_than_asked_for_and_coupled_losses_are_refused(
    recipe_file: Callable[..., Path], toy_data: Path
) -> None:
    file = recipe_file(tasks={"near": {"train": "near.tsv", "range": [0, 5], "loss": "cosent"}})
    check_refused(manyheads("train", file, "training.processes=2"), "torchrun", "[wrong-process-count]")
    coupled = wait_for_two(start_two("train", file))
    assert coupled.returncode == 2
    assert "'cosent' compares the examples of a batch, which several processes would cut up" in coupled.stderr
    assert not (toy_data / "runs").exists()


SURGERY = {
    "pcgrad": {"losses": {"name": "uncertainty", "learning_rate": 0.05}, "gradients": "pcgrad"},
    "gradvac": {"losses": {"name": "dynamic-weights", "every": 2}, "gradients": "gradvac", "average": "batch"},
    "geometric mean": {"losses": "geometric-mean", "average": "batch"},
    "random weights": "random-weights",
}


FACTORS = {"layer_factors": {"layers": [2], "chosen": 3.0, "others": 0.5}}  # of a task, as a rate of its own
RATES = {"geometric mean": "updates", "random weights": "own-updates"}


def write_conflict(folder: Path) -> None:
    """Three tasks of the same sentences that want a class each."""
    for number in range(3):
        rows = [f"the {'film book meal hotel'.split()[i % 4]} was {i},{number}" for i in range(21)]  # noqa: SIM905
        (folder / f"want{number}.csv").write_text("sentence,label\n" + "\n".join(rows) + "\n")
    (folder / "mixed.csv").write_text("sentence,label\n" + "".join(f"the cat runs {i},{i % 3}\n" for i in range(9)))


def conflict_recipe(how: str, encoder: Path) -> dict[str, Any]:
    same = {"labels": ["0", "1", "2"], "dev": "mixed.csv", "batch_size": 5}
    training = {"epochs": 1, "accumulate": 2, **SMOOTH, "conflicts": 1.0, "tokens_per_pass": 30}
    return {
        "encoder": {"name": str(encoder), **STILL},
        "tasks": {
            "first": {"train": "want0.csv", "head": {"dropout": 0}, **same},
            "second": {"train": "want1.csv", "head_of": "first", **same, **(FACTORS if how in RATES else {})},
            "third": {"train": "want2.csv", "head_of": "first", **same},
        },
        "combine": SURGERY[how],
        "training": {**training, "layer_factors_on": RATES.get(how, "gradients")},
    }


@pytest.mark.slow
@pytest.mark.parametrize("how", SURGERY)
def test_a_three_way_conflict_is_settled_alike_in_two_processes(
    how: str, recipe_file: Callable[..., Path], toy_data: Path, toy_encoder: Path, trained_by_two: Path
) -> None:
    """Three tasks with one head see the same sentences and want a class each: every pair of gradients conflicts."""
    write_conflict(toy_data)
    alone = manyheads("train", recipe_file(**conflict_recipe(how, toy_encoder)), "name=alone", "--quiet")
    assert alone.returncode == 0, alone.stderr
    one, two = toy_data / "runs" / "alone", trained_by_two / "runs" / how
    measured = log_of(one, "conflicts")
    assert all(cosine < 0 for cosine in measured[0]["cosines"]["shared heads"]), "all three pairs conflict"
    for first, second in zip(log_of(one, "step"), log_of(two, "step"), strict=True):
        assert first["loss"] == pytest.approx(second["loss"], rel=1e-5)
        for key in ("weights", "surgery"):
            assert first.get(key, {}) == pytest.approx(second.get(key, {}), rel=1e-4)
    for first, second in zip(measured, log_of(two, "conflicts"), strict=True):
        for group, norms in first["norms"].items():
            assert norms == pytest.approx(second["norms"][group], rel=1e-4)
    for name in ("model.safetensors", "combiner_state.safetensors", "optimizer.safetensors"):
        check_tensors(one, two, name)


def taught_recipe(folder: Path, encoder: Path) -> dict[str, Any]:
    """Two tasks, of which one has a teacher, who also knows the labels of texts without any."""
    (folder / "more.csv").write_text("sentence\nthe film was great\nthe meal was poor\nthe hotel was dull\n")
    mood = {"train": "mood.csv", "batch_size": 7, "head": {"dropout": 0}, "unlabelled": "more.csv"}
    near = {"train": "near.tsv", "range": [0, 5], "batch_size": 5, "head": {"dropout": 0}}
    return {
        **toy_settings(folder, encoder),
        "name": "taught",
        "encoder": {"name": str(encoder), **STILL},
        "tasks": {"mood": mood, "near": near},
        "sampler": "proportional",
        "combine": "pcgrad",
        "training": {"epochs": 1, "accumulate": 2, **SMOOTH},
        "teachers": {"mood": str(folder / "runs" / "teacher")},
        "distill": {"temperature": 2.0},
    }


@pytest.mark.slow
@pytest.mark.numeric
def test_two_processes_learn_from_teachers_what_one_does(
    toy_encoder: Path, trained_by_two: Path, tmp_path: Path
) -> None:
    recipe = {**taught_recipe(trained_by_two, toy_encoder), "output": str(tmp_path)}
    alone = train(load_recipe(recipe), quiet=True).folder
    both = trained_by_two / "runs" / "taught"
    for first, second in zip(log_of(alone, "step"), log_of(both, "step"), strict=True):
        assert first["gold_share"] == second["gold_share"]
        assert first["loss"] == pytest.approx(second["loss"], rel=1e-5)
    for name in ("model.safetensors", "optimizer.safetensors"):
        check_tensors(alone, both, name)
