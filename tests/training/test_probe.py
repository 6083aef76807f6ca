"""Heads that are solved before training: where they start, what the baseline is, and that nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from manyheads import Run, load_recipe, train
from manyheads.console import Job, Reporter
from manyheads.inference.evaluate import evaluate_model
from manyheads.training.probe import Prober
from manyheads.training.setup import Setup, assemble
from resuming import check_resumed
from run_files import log_of

ToyRecipe = Callable[..., dict[str, Any]]
PROBED = {"epochs": 1, "batch_size": 8, "learning_rate": 1e-5, "probe": True}
MOOD = {"train": "mood.csv", "pooling": "mean"}
NEAR = {"train": "near.tsv", "range": [0, 5], "pooling": "mean"}


def probed_setup(toy_recipe: ToyRecipe, **changes: Any) -> Setup:
    recipe = load_recipe(toy_recipe(training=PROBED, **changes))
    setup = assemble(recipe, Reporter(quiet=True))
    Prober(recipe, setup.model, setup.datasets, setup.reporter).run(set())
    return setup


def train_losses(setup: Setup) -> dict[str, float]:
    evaluation, _ = evaluate_model(setup.model, setup.datasets.train, setup.recipe.evaluate)
    return evaluation.losses


def test_a_linear_head_starts_at_the_minimum_of_its_loss(toy_recipe: ToyRecipe) -> None:
    """Solved on the rows it trains on: far below the loss of the base rates, and the gradient of the head is small."""
    tasks = {"mood": MOOD, "near": NEAR}
    setup = probed_setup(toy_recipe, tasks=tasks)
    losses = train_losses(setup)
    assert losses["mood"] < 0.5 * np.log(4)
    assert losses["near"] < 0.5  # on the standard scale, on which the mean has 1
    random = assemble(load_recipe(toy_recipe(training=PROBED, tasks=tasks)), Reporter(quiet=True))
    for name, parameter in setup.model.encoder.named_parameters():
        assert torch.equal(parameter, dict(random.model.encoder.named_parameters())[name]), "the encoder is untouched"
        assert parameter.requires_grad == dict(random.model.encoder.named_parameters())[name].requires_grad


def test_the_baselines_evaluation_has_a_progress_bar(toy_recipe: ToyRecipe) -> None:
    """On a large dev set it takes as long as the probe itself."""
    jobs: list[tuple[str, int]] = []

    class Recorder(Reporter):
        def job(self, name: str, total: int, completed: int = 0, delay: float = 0.0) -> Job:
            jobs.append((name, total))
            return super().job(name, total, completed, delay)

    recipe = load_recipe(toy_recipe(training=PROBED, evaluate={"select": 0.25}))
    setup = assemble(recipe, Recorder(quiet=True))
    Prober(recipe, setup.model, setup.datasets, setup.reporter).run(set())
    evaluated = [sum(map(len, data.values())) for data in (setup.datasets.selection, setup.datasets.dev)]
    assert [total for name, total in jobs if name == "evaluate"] == evaluated


@pytest.mark.slow
def test_other_heads_learn_on_frozen_states(toy_recipe: ToyRecipe) -> None:
    tasks = {
        "mood": {"train": "mood.csv", "pooling": "lstm", "head": "mlp"},
        "near": {"train": "near.tsv", "range": [0, 5], "pooling": "mean", "encoding": "bi-shared"},
        "again": {"train": "near.tsv", "range": [0, 5], "head_of": "near"},
    }
    setup = probed_setup(toy_recipe, tasks=tasks)
    losses = train_losses(setup)
    assert losses["mood"] < 0.7 * np.log(4)
    assert losses["near"] < 0.7
    assert all(tokens.frozen is None for tokens in setup.datasets.train.values()), "states are not left behind"
    assert all(parameter.grad is None for parameter in setup.model.parameters())


def test_a_shared_head_is_solved_on_the_rows_of_all_its_tasks(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    """The second task's labels are those of the first, mirrored: only a head that saw both predicts the middle."""
    lines = (toy_data / "near.tsv").read_text().splitlines()
    mirrored = []
    for line in lines[1:]:
        *texts, score = line.split("\t")
        mirrored.append("\t".join([*texts, f"{5 - float(score):.1f}"]))
    (toy_data / "mirrored.tsv").write_text("\n".join([lines[0], *mirrored]) + "\n")
    tasks = {"near": {**NEAR, "scale": "raw"}, "far": {"train": "mirrored.tsv", "range": [0, 5], "head_of": "near"}}
    setup = probed_setup(toy_recipe, tasks=tasks)
    _, predictions = evaluate_model(setup.model, setup.datasets.train, setup.recipe.evaluate)
    assert abs(np.mean(predictions["near"]) - 2.5) < 0.2
    assert np.std(predictions["near"]) < 0.4


@pytest.mark.slow
def test_a_run_prints_keeps_and_may_choose_its_start(toy_recipe: ToyRecipe, capsys: pytest.CaptureFixture[str]) -> None:
    run = train(load_recipe(toy_recipe(training={**PROBED, "learning_rate": 1e-9}, tasks={"mood": MOOD, "near": NEAR})))
    assert "frozen encoder + linear model" in capsys.readouterr().err
    metrics = json.loads((run.folder / "metrics.json").read_text())
    assert metrics["frozen"].keys() >= {"metrics", "overall", "examples", "losses"}
    assert metrics["frozen"]["metrics"].keys() == {"mood", "near"}
    events = [json.loads(line)["event"] for line in (run.folder / "log.jsonl").read_text().splitlines()]
    assert events[:4] == ["start", "probe", "start weights", "evaluate"]
    assert metrics["model"]["step"] == 0, "nothing beat the start"
    assert Run(run.folder).predict("mood", ["the film was great"])


def test_without_it_heads_are_random_and_the_start_is_no_candidate(toy_recipe: ToyRecipe) -> None:
    run = train(load_recipe(toy_recipe(training={**PROBED, "probe": False})), quiet=True)
    assert "frozen" not in run.metrics
    assert run.metrics["model"]["step"] > 0
    assert not log_of(run.folder, "probe")


@pytest.mark.slow
def test_heads_of_another_run_are_kept(toy_recipe: ToyRecipe) -> None:
    first = train(load_recipe(toy_recipe(training=PROBED, tasks={"mood": MOOD})), quiet=True)
    recipe = load_recipe(
        toy_recipe(name="second", init=str(first.folder), training=PROBED, tasks={"mood": MOOD, "near": NEAR})
    )
    setup = assemble(recipe, Reporter(quiet=True))
    before = {name: tensor.clone() for name, tensor in setup.model.head_states().items()}
    probe = Prober(recipe, setup.model, setup.datasets, setup.reporter).run(setup.heads_taken_over)
    after = setup.model.head_states()
    assert list(probe.solved) == ["near"]
    for name, tensor in before.items():
        assert torch.equal(tensor, after[name]) == name.startswith("heads.mood"), name


@pytest.mark.slow
def test_resumed_is_as_if_never_stopped(toy_recipe: ToyRecipe, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = {"mood": MOOD, "near": NEAR}
    check_resumed(toy_recipe, monkeypatch, training={**PROBED, "epochs": 2}, tasks=tasks, sampler="mixture")
