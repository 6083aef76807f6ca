"""Parts together: every legal pair of parts trains, is saved and read again; every other is refused with a reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
import torch

from building import KINDS, a_task, fitting_task, labels_of, one_sentence, toy_inputs, toy_model
from command import check_refused, manyheads
from manyheads.model.folder import load_model, save_model
from manyheads.registry import parts
from manyheads.tasks.part_compatibility import incompatible_parts
from manyheads.tasks.task import Task

pytestmark = pytest.mark.slow

FAMILIES = {"encoding": "encodings", "pooling": "pooling", "head": "heads", "loss": "losses"}
SHARES = 8  # tests that the cover is dealt to, so that processes can share the work
Named = tuple[str, ...]


def every_combination() -> list[Named]:
    return list(product(*([part.name for part in parts(family)] for family in FAMILIES.values())))


def made(names: Named) -> dict[str, Any]:
    return dict(zip(FAMILIES, names, strict=True))


def pairs_of(names: Named) -> set[tuple[tuple[str, str], tuple[str, str]]]:
    return set(combinations(zip(FAMILIES, names, strict=True), 2))


@cache  # made by the first test that needs it, not whenever tests are collected
def pairwise_cover() -> list[Named]:
    """Few legal combinations in which every two parts that can stand together do so."""
    legal = {names: pairs_of(names) for names in every_combination() if fitting_task(**made(names)) is not None}
    missing = set().union(*legal.values())
    chosen: list[Named] = []
    while missing:
        best = max(legal, key=lambda names: len(legal[names] & missing))
        chosen.append(best)
        missing -= legal[best]
    return chosen


def test_the_cover_names_every_part() -> None:
    for position, family in enumerate(FAMILIES.values()):
        assert {names[position] for names in pairwise_cover()} == {part.name for part in parts(family)}
    assert len(pairwise_cover()) < 120


@pytest.mark.numeric
@pytest.mark.parametrize("share", range(SHARES))
def test_parts_train_two_steps_and_survive_being_saved(share: int, toy_encoder: Path, tmp_path: Path) -> None:
    for number, names in enumerate(pairwise_cover()[share::SHARES]):
        check_parts_train(names, toy_encoder, tmp_path / str(number))


def check_parts_train(names: Named, toy_encoder: Path, folder: Path) -> None:
    task = fitting_task(**made(names))
    assert task is not None
    model = toy_model(toy_encoder, [task])
    inputs, labels = toy_inputs(model), labels_of(task)
    before = {name: one.clone() for name, one in model.state_dict().items()}
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-2)
    for _ in range(2):
        loss, (outputs,) = model.head("task").loss, model([("task", inputs)])
        loss(outputs, labels, *one_sentence(loss, outputs)).mean().backward()
        assert all(one.grad is None or torch.isfinite(one.grad).all() for one in model.parameters()), names
        optimizer.step()
        optimizer.zero_grad()
    still = {name for name, one in model.head_states().items() if torch.equal(one, before[name])}
    idle = {"heads.task-head.pooling.lstm.bias_hh_l0"}
    if model.head("task").loss.whole_batch:  # which compares examples: what is added to all of them makes no difference
        idle.add("heads.task-head.head.dense.bias")
    assert not still - idle, f"every tensor of the head learns: {names}"
    save_model(folder / "best", model, toy_encoder, {})
    again, _ = load_model(folder / "best")
    assert again.tasks["task"] == task, names
    model.eval()
    with torch.no_grad():
        predictions = []
        for one in (model, again):
            loss, (outputs,) = one.head("task").loss, one([("task", inputs)])
            predictions.append(loss.predict(outputs, *(one_sentence(loss, outputs) if loss.reads_sentences else ())))
    assert torch.equal(*predictions), names


def test_every_illegal_combination_has_a_reason() -> None:
    """Over every encoding × pooling × head × loss × kind of labels: fitting, or refused by key and sentence."""
    refused = 0
    for names in every_combination():
        for labels in KINDS:
            faults = incompatible_parts(a_task(labels=labels, **made(names)))
            refused += bool(faults)
            for key, reason in faults:
                assert key in ("encoding", "text", "pooling", "head", "output", "loss")
                assert reason.endswith(".")
                assert key == "text" or any(f"'{name}'" in reason for name in names), reason
    assert refused > 1000


@pytest.mark.slow
def test_what_is_called_legal_can_be_built(toy_encoder: Path) -> None:
    """Every seventh combination, with every kind of labels."""
    built = 0
    for names in every_combination()[::7]:
        for task in (a_task(labels=labels, **made(names)) for labels in KINDS):
            if not incompatible_parts(task):
                built += 1
                model = toy_model(toy_encoder, [task])
                outputs = model([("task", toy_inputs(model))])[0]
                loss = model.head("task").loss
                assert torch.isfinite(loss(outputs, labels_of(task), *one_sentence(loss, outputs))).all(), names
    assert built > 100


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"encoding": "single"}, "tasks.near.encoding: 'single' takes one text column, this task has two; use 'cross'."),
    ({"encoding": "bi-cosine", "head": "linear"}, "tasks.near.head: 'bi-cosine' gives the prediction itself; use head"),
    ({"head": "none"}, "tasks.near.head: 'none' makes no prediction of features; use 'linear'"),
    ({"output": "similarity"}, "tasks.near.output: 'similarity' does not go with this encoding; use 'raw'"),
    ({"encoding": "bi-cosine", "output": "clamp"}, "tasks.near.output: 'clamp' does not go with encoding 'bi-cosine'"),
    ({"head": "lstm", "pooling": "mean"}, "tasks.near.pooling: head 'lstm' reads the token states itself; leave"),
    ({"loss": "cross-entropy"}, "tasks.near.loss: 'cross-entropy' needs classes, this task is a regression."),
    ({"loss": "cosine-embedding"}, "tasks.near.loss: 'cosine-embedding' needs the cosine of a pair; use it with"),
    ({"loss": "cosent", "batch_size": 1}, "tasks.near.loss: 'cosent' compares the examples of a batch"),
    ({"metrics": ["accuracy"]}, "tasks.near.metrics: 'accuracy' needs one class per example"),
    (
        {"pooling": {"name": "mean", "layer": 9}},
        "tasks.near.pooling: this encoder has 2 layers: 'layer' is from 0",
    ),
    ({"encoding": {"name": "bi-shared", "group": "a b"}}, "tasks.near.encoding: 'group' is a name of letters"),
    ({"head": {"name": "mlp", "layers": 0}}, "tasks.near.head: option 'layers' of 'mlp': Input should be greater"),
    ({"head": {"dropout": 1.0}}, "tasks.near.head: option 'dropout' of 'linear': Input should be less than 1"),
    ({"head": {"dropout": -0.5}}, "option 'dropout' of 'linear': Input should be greater than or equal to 0"),
    ({"head": {"name": "hidden", "units": -1}}, "option 'units' of 'hidden': Input should be greater than or equal"),
    ({"head": {"name": "lstm", "units": 0}}, "tasks.near.head: option 'units' of 'lstm': Input should be greater"),
    ({"encoding": {"name": "bi-scaled-cosine", "start": -3}}, "option 'start' of 'bi-scaled-cosine': Input should"),
    ({"metrics": [{"name": "within", "tolerance": -1}]}, "option 'tolerance' of 'within': Input should be greater"),
    (
        {"encoding": "bi-cosine", "loss": {"name": "cosine-embedding", "threshold": 99}},
        "tasks.near.loss: 'threshold' is between 0 and 5, as labels are, found 99.",
    ),
    ({"metrics": ["mse", "mse"]}, "tasks.near.metrics: a metric is named twice."),
]


@pytest.mark.parametrize(("settings", "message"), REFUSED, ids=[one[1][:40] for one in REFUSED])
def test_misfits_are_refused_before_anything_is_written(
    settings: dict[str, Any], message: str, recipe_file: Callable[..., Path], toy_data: Path
) -> None:
    file = recipe_file(tasks={"near": {"train": "near.tsv", "range": [0, 5], **settings}})
    check_refused(manyheads("train", file), "recipe.yaml:", message)
    assert not (toy_data / "runs").exists()
    checked = manyheads("check", file)
    assert checked.returncode in (1, 2), "the check refuses what training refuses"
    assert message in checked.stdout + checked.stderr
    assert "Traceback" not in checked.stderr


def test_parts_that_cannot_go_together_are_refused_all_at_once_when_the_recipe_is_read(
    recipe_file: Callable[..., Path],
) -> None:
    tasks = {"near": {"train": "absent.tsv", "encoding": "bi-cosine", "head": "mlp", "output": "clamp"}}
    check_refused(
        manyheads("train", recipe_file(tasks=tasks, regularise={"name": "smart", "tasks": []})),
        "3 faults",
        "tasks.near.head: 'bi-cosine' gives the prediction itself; use head 'none'.",
        "tasks.near.output: 'clamp' does not go with encoding 'bi-cosine'; use 'similarity'.",
        "regularise: 'smart': 'tasks' names none; leave the regulariser out instead.",
        "[bad-recipe]",
    )


def test_misfits_of_classes(recipe_file: Callable[..., Path]) -> None:
    moods = {"train": "mood.csv"}
    check_refused(
        manyheads("train", recipe_file(tasks={"mood": {**moods, "loss": "binary-cross-entropy"}})),
        "tasks.mood.loss: 'binary-cross-entropy' needs exactly two classes, this task has 4; use 'cross-entropy'.",
    )
    check_refused(
        manyheads("train", recipe_file(tasks={"mood": {**moods, "output": "sigmoid"}})),
        "tasks.mood.output: output 'sigmoid' needs numbers, this task has classes.",
    )
    check_refused(
        manyheads("train", recipe_file(tasks={"mood": {**moods, "metrics": ["f1-per-class", "accuracy"]}})),
        "tasks.mood.metrics: 'f1-per-class' has a number per class, so it cannot be the first.",
    )
    weights = {"name": "cross-entropy", "class_weights": {"9": 2.0}}
    check_refused(
        manyheads("train", recipe_file(tasks={"mood": {**moods, "loss": weights}})),
        "tasks.mood.loss: 'class_weights': no class '9'. Known: 0, 1, 2, 3.",
    )


def test_whole_batch_losses_are_not_accumulated(recipe_file: Callable[..., Path]) -> None:
    tasks = {"near": {"train": "near.tsv", "range": [0, 5], "loss": "pearson-loss"}}
    check_refused(
        manyheads("train", recipe_file(tasks=tasks), "training.accumulate=2"),
        "tasks.near.loss: 'pearson-loss' compares the examples of a batch, so it cannot be accumulated over batches",
    )
    batches_apart = manyheads(
        "plan", recipe_file(tasks=tasks), "training.accumulate=2", "combine.average=batch", "--no-time"
    )
    assert "losses by sum of batch means" in batches_apart.stdout, batches_apart.stderr


def test_a_saved_task_is_read_back_as_it_was() -> None:
    for labels in KINDS:
        task: Task = a_task(labels=labels, head="lstm", metrics=(), head_of="other")
        assert Task.from_json(json.loads(json.dumps(task.to_json()))) == task
