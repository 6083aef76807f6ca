"""Frozen layers: computed once and read again, with the same training; what must not be kept is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from command import manyheads
from manyheads import Run, train
from manyheads.console import Reporter
from manyheads.encoder.toy import write_toy_encoder
from manyheads.inference.predict import predict_tasks
from manyheads.storage.cache import FORMAT, cache_folder
from manyheads.tasks.resolve import load_recipe
from manyheads.tokens.packing import Sequence, pack
from manyheads.training.frozen_cache import FrozenCache
from manyheads.training.schedule import set_trainable
from manyheads.training.setup import Setup, assemble
from run_files import log_of

ToyRecipe = Callable[..., dict[str, Any]]
TRAINING = {"epochs": 3, "batch_size": 8, "learning_rate": 1e-3}
# What two orders of adding in float32 may differ by. Measured: 8e-7 (states), 1e-7 (losses), 7e-7 (gradients), and
# 1e-5, 4e-7, 1e-5 with every matrix product, norm and softmax made wrong by up to 8 units of its last place.
STATES, LOSS, GRADIENT = 2e-5, 2e-6, 5e-5


def frozen_folder() -> Path:
    return cache_folder() / FORMAT / "frozen"


def first_phase(toy_recipe: ToyRecipe, **changes: Any) -> Setup:
    """A setup that is about to take its first step."""
    setup = assemble(load_recipe(toy_recipe(**changes)), Reporter(quiet=True))
    phase = setup.schedule.phases[0]
    set_trainable(setup.model, phase, setup.recipe.training.frozen_dropout)
    FrozenCache(setup.model, setup.datasets, setup.recipe.training, setup.reporter, setup.processes).open(phase)
    return setup


def computed_and_kept(toy_recipe: ToyRecipe, training: dict[str, Any], **changes: Any) -> tuple[Setup, ...]:
    """The same setup twice: frozen states computed at every step, and kept."""
    computed, read = (
        first_phase(toy_recipe, training={**training, "frozen_gigabytes": size}, **changes) for size in (0.0, 4.0)
    )
    assert all(data.frozen is None for data in computed.datasets.train.values())
    assert any(data.frozen is not None for data in read.datasets.train.values())
    return computed, read


def kept(toy_recipe: ToyRecipe, **changes: Any) -> dict[str, Any]:
    """What is kept in the first phase: task → (layer, whether of all tokens)."""
    setup = first_phase(toy_recipe, **changes)
    return {
        name: (data.frozen.layer, data.frozen.whole)
        for name, data in setup.datasets.train.items()
        if data.frozen is not None
    }


def backward(setup: Setup, step: int) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """The losses and gradients of a step from the present weights."""
    setup.optimizer.zero_grad(set_to_none=True)
    phase = setup.schedule.phase(step)
    seeds = (setup.recipe.seed, step)
    losses = setup.backward.step(setup.rounds(step), phase.combination, seeds, phase.regularisers).losses
    return losses, {name: one.grad for name, one in setup.model.named_parameters() if one.grad is not None}


def check_steps(computed: Setup, read: Setup) -> None:
    """Every step of the one is the same step of the other, from the same weights: rounding is not carried on."""
    for step in range(computed.schedule.steps):
        losses, gradients = backward(computed, step)
        read_losses, read_gradients = backward(read, step)
        assert read_losses == pytest.approx(losses, rel=LOSS)
        assert read_gradients.keys() == gradients.keys()
        largest = max(float(one.norm()) for one in gradients.values())
        for name, gradient in gradients.items():
            # a gradient that is zero in exact arithmetic (the keys' bias) has only noise
            scale = max(float(gradient.norm()), 1e-2 * largest)
            assert float((read_gradients[name] - gradient).norm()) / scale < GRADIENT, f"step {step}: {name}"
        computed.optimizer.step()
        read.model.load_state_dict(computed.model.state_dict())


PAIRS = {"train": "near.tsv", "range": [0, 5], "encoding": "bi-concat", "pooling": "mean"}


NEAR = [{"train": "near.tsv", "range": [0, 5]}, PAIRS]


@pytest.mark.slow
@pytest.mark.numeric
@pytest.mark.parametrize("train_what", ["heads", "top-1"])
@pytest.mark.parametrize("near", NEAR, ids=["cross", "bi"])
def test_kept_states_are_those_of_each_sequence_alone(
    train_what: str, near: dict[str, Any], toy_recipe: ToyRecipe
) -> None:
    """Against the encoder in float64, a sequence at a time."""
    tasks = {"mood": {"train": "mood.csv"}, "near": near}
    computed, read = computed_and_kept(toy_recipe, {**TRAINING, "trainable": train_what}, tasks=tasks)
    encoder = computed.model.encoder.double().eval()
    for data, split in [
        (read.datasets.train, computed.datasets.train),
        (read.datasets.selection, computed.datasets.selection),
    ]:
        for task in tasks:
            frozen = data[task].frozen
            assert frozen is not None
            for row in range(len(split[task])):
                sequences = split[task].inputs(computed.model, row)
                for found, one in zip(frozen.of(row), sequences, strict=True):
                    tokens = pack([Sequence(one.ids, one.segments, "all")])
                    with torch.no_grad():
                        expected = encoder.states(encoder.embed(tokens), tokens, {frozen.layer})[frozen.layer]
                    if not frozen.whole and one.positions_needed != "all":
                        expected = expected[:1] if one.positions_needed == "first" else expected[-1:]
                    states = torch.from_numpy(found.copy()).double()
                    torch.testing.assert_close(states, expected, rtol=0, atol=STATES)


@pytest.mark.slow
@pytest.mark.numeric
@pytest.mark.parametrize("train_what", ["heads", "top-1", [2]], ids=str)
@pytest.mark.parametrize("near", NEAR, ids=["cross", "bi"])
@pytest.mark.parametrize("combine", ["sum", "pcgrad"])
def test_kept_states_train_the_same(train_what: Any, near: dict[str, Any], combine: str, toy_recipe: ToyRecipe) -> None:
    """With dropout in the heads and in the layers that learn."""
    tasks = {"mood": {"train": "mood.csv"}, "near": near}
    check_steps(*computed_and_kept(toy_recipe, {**TRAINING, "trainable": train_what}, tasks=tasks, combine=combine))


@pytest.mark.slow
@pytest.mark.numeric
@pytest.mark.parametrize("train_what", ["heads", "top-1"])
def test_a_run_with_kept_states_ends_like_one_without(train_what: str, toy_recipe: ToyRecipe) -> None:
    """A whole training, measured for conflicts as well. AdamW with ε = 1 moves weights smoothly with the gradient, so
    a difference in rounding stays small; with its usual ε rounding alone decides where to go at a gradient near 0."""
    runs = {}
    for gigabytes in (0.0, 4.0):
        smooth = {**TRAINING, "epsilon": 1.0, "learning_rate": 0.3, "conflicts": 0.5}
        training = {**smooth, "trainable": train_what, "frozen_gigabytes": gigabytes}
        runs[gigabytes] = train(load_recipe(toy_recipe(name=f"with-{gigabytes:g}", training=training)), quiet=True)
    without, with_kept = (log_of(runs[one].folder) for one in (0.0, 4.0))
    for one, other in zip(without, with_kept, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-3)
    assert abs(without[-1]["loss"]["near"] - without[0]["loss"]["near"]) > 0.1, "it has gone somewhere"


@pytest.mark.slow
@pytest.mark.numeric
def test_single_layer_training_leaves_every_other_tensor_as_it_was(toy_recipe: ToyRecipe, toy_encoder: Path) -> None:
    """Paper A, table 5."""
    run = train(load_recipe(toy_recipe(training={**TRAINING, "trainable": [1]})), quiet=True)
    before, after = (load_file(one / "model.safetensors") for one in (toy_encoder, run.folder / "best"))
    for name, tensor in after.items():
        assert torch.equal(tensor, before[name]) == (".layer.0." not in name), name


@pytest.mark.slow
def test_what_is_kept(toy_recipe: ToyRecipe) -> None:
    both = {"mood": (2, False), "near": (2, False)}
    assert kept(toy_recipe, training={**TRAINING, "trainable": "heads"}) == both
    assert kept(toy_recipe, training={**TRAINING, "trainable": "top-1"}) == {"mood": (1, True), "near": (1, True)}
    assert kept(toy_recipe, training={**TRAINING, "trainable": [1]}) == {}, "below layer 1 are only embeddings"
    assert kept(toy_recipe, training={**TRAINING, "trainable": [1, 2]}) == {}
    assert kept(toy_recipe, training={**TRAINING, "trainable": [0]}) == {}
    assert kept(toy_recipe, training=TRAINING) == {}
    assert kept(toy_recipe, training={**TRAINING, "trainable": "heads", "frozen_dropout": True}) == {}
    assert kept(toy_recipe, training={**TRAINING, "trainable": "heads", "frozen_gigabytes": 1e-9}) == {}
    assert kept(toy_recipe, training={**TRAINING, "trainable": "heads", "epochs": 1}) == {}, (
        "seen once: it would not pay"
    )
    assert kept(toy_recipe, training={**TRAINING, "trainable": "heads"}, regularise="smart") == {}
    assert kept(toy_recipe, training={**TRAINING, "trainable": "heads"}, regularise="l2") == both
    low = {"mood": {"train": "mood.csv", "pooling": {"name": "mean", "layer": 1}}}
    assert kept(toy_recipe, tasks=low, training={**TRAINING, "trainable": "heads"}) == {"mood": (1, False)}
    mixed = {**low, "near": {"train": "near.tsv", "range": [0, 5]}}
    assert kept(toy_recipe, tasks=mixed, training={**TRAINING, "trainable": "heads"}) == {
        "mood": (1, True), "near": (1, True)
    }  # fmt: skip


def test_a_regulariser_that_reads_examples_concerns_its_tasks_alone(toy_recipe: ToyRecipe) -> None:
    heads = {**TRAINING, "trainable": "heads"}
    assert kept(toy_recipe, training=heads, regularise={"name": "smart", "tasks": ["near"]}) == {"mood": (2, False)}


@pytest.mark.numeric
def test_dev_is_kept_where_it_is_read_often_enough(toy_recipe: ToyRecipe) -> None:
    """And answered the same. Answers are compared, not metrics: a correlation of three answers that lie 1e-4 apart
    makes 1e-3 of a rounding error."""
    heads = {**TRAINING, "trainable": "heads"}
    computed, read = computed_and_kept(toy_recipe, heads)
    assert all(data.frozen is None for data in computed.datasets.selection.values())
    assert all(data.frozen is not None for data in read.datasets.selection.values())
    expected, found = (predict_tasks(setup.model, setup.datasets.selection, 10**6) for setup in (computed, read))
    for task, predictions in expected.items():
        assert found[task] == pytest.approx(predictions, abs=STATES), task
    small = first_phase(toy_recipe, training=heads, evaluate={"max_examples": 1})
    assert all(data.frozen is None for data in small.datasets.selection.values()), (
        "three times one of four rows does not pay"
    )


@pytest.mark.slow
@pytest.mark.numeric
def test_the_last_evaluation_is_of_the_best_model_whatever_its_encoder_was(toy_recipe: ToyRecipe) -> None:
    """The first phase learns its own dev rows, the second spoils the encoder, the third keeps states of that one."""
    tasks = {
        "mood": {"train": "mood.csv", "dev": "mood.csv"},
        "near": {"train": "near.tsv", "dev": "near.tsv", "range": [0, 5]},
    }
    phases = [
        {"trainable": "all", "epochs": 12, "learning_rate": 3e-3},
        {"trainable": "layers", "epochs": 1, "learning_rate": 0.3},
        {"trainable": "heads", "epochs": 3, "learning_rate": 1e-30},
    ]
    run = train(load_recipe(toy_recipe(tasks=tasks, phases=phases)), quiet=True)
    evaluations = [one["overall"] for one in log_of(run.folder, "evaluate")]
    assert max(evaluations[:12]) > max(evaluations[12:]) + 0.1
    assert Run(run.folder).evaluate().metrics == run.metrics["dev"]["metrics"], (
        "as the best model alone, which keeps nothing"
    )


def test_a_damaged_file_is_written_again_and_a_race_is_no_fault(
    toy_recipe: ToyRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANYHEADS_CACHE", str(tmp_path / "own"))
    heads = {**TRAINING, "trainable": "heads"}
    both = {"mood": (2, False), "near": (2, False)}
    assert kept(toy_recipe, training=heads) == both
    files = list(frozen_folder().rglob("states.bin"))
    sizes = [file.stat().st_size for file in files]
    for file in files:
        file.write_bytes(file.read_bytes()[:-100])
    assert kept(toy_recipe, training=heads) == both
    assert [file.stat().st_size for file in files] == sizes
    for file in files:
        file.unlink()
        file.parent.joinpath("meta.json").unlink()
        file.parent.rmdir()
    real = Path.rename

    def beaten(self: Path, target: Path) -> Path:
        """Another run writes the same folder just before this one."""
        if self.name.startswith(".writing-") and not Path(target).exists():
            import shutil

            shutil.copytree(self, target)
        return real(self, target)

    monkeypatch.setattr(Path, "rename", beaten)
    assert kept(toy_recipe, training=heads) == both


def test_what_was_used_longest_ago_makes_room(
    toy_recipe: ToyRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    from manyheads.training import frozen_cache as frozen

    monkeypatch.setenv("MANYHEADS_CACHE", str(tmp_path / "own"))
    heads = {**TRAINING, "trainable": "heads"}
    kept(toy_recipe, training=heads)
    folders = [one for one in frozen_folder().iterdir() if one.is_dir()]
    for one in folders:
        os.utime(one, (1, 1))
    monkeypatch.setattr(frozen, "ROOM", 0)
    kept(toy_recipe, training={**heads, "trainable": "top-1"})
    assert not any(one.is_dir() for one in folders)


def test_transformers_encoders_keep_states_where_nothing_above_runs(toy_recipe: ToyRecipe, toy_encoder: Path) -> None:
    encoder = {"name": str(toy_encoder), "implementation": "transformers"}
    assert kept(toy_recipe, encoder=encoder, training={**TRAINING, "trainable": "heads"}) == {
        "mood": (2, False), "near": (2, False)
    }  # fmt: skip
    assert kept(toy_recipe, encoder=encoder, training={**TRAINING, "trainable": "top-1"}) == {}


@pytest.mark.slow
def test_the_run_says_so_and_the_next_one_reads_the_same_file(recipe_file: Callable[..., Path], toy_data: Path) -> None:
    file = recipe_file(training={**TRAINING, "trainable": "heads"})
    first = manyheads("train", file)
    assert "frozen layers: the encoder is computed once for mood, near" in first.stderr
    folder = frozen_folder()
    files = {one: one.stat().st_mtime_ns for one in folder.rglob("states.bin")}
    second = manyheads("train", file, "name=second", "seed=3")
    assert "frozen layers" in second.stderr
    assert all(one.stat().st_mtime_ns == before for one, before in files.items())
    half = manyheads("train", file, "name=half", "training.trainable=top-1")
    assert "frozen layers: layers 1–1 are computed once" in half.stderr


def test_other_texts_weights_or_encodings_are_other_states(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    def files() -> set[str]:
        return {one.parent.name for one in frozen_folder().rglob("states.bin")}

    heads = {**TRAINING, "trainable": "heads"}
    kept(toy_recipe, training=heads)
    seen = files()
    other = {"mood": {"train": "mood.csv"}, "near": {**PAIRS, "pooling": "first"}}
    kept(toy_recipe, tasks=other, training=heads)
    assert len(files() - seen) == 2, "of train and dev"
    seen = files()
    (toy_data / "mood.csv").write_text((toy_data / "mood.csv").read_text().replace("dull", "warm"))
    kept(toy_recipe, training=heads)
    assert len(files() - seen) == 1, "of train: no dev row has the word"
    seen = files()
    other_weights = write_toy_encoder(toy_data / "other")
    tensors = load_file(other_weights / "model.safetensors")
    save_file({name: one * 1.01 for name, one in tensors.items()}, other_weights / "model.safetensors")
    kept(toy_recipe, encoder=str(other_weights), training=heads)
    assert len(files() - seen) == 4
    seen = files()
    config = json.loads((other_weights / "config.json").read_text())
    (other_weights / "config.json").write_text(json.dumps({**config, "num_attention_heads": 2}))
    kept(toy_recipe, encoder=str(other_weights), training=heads)
    assert len(files() - seen) == 4, "the same weights, read by other heads"


@pytest.mark.slow
@pytest.mark.numeric
def test_of_two_tasks_on_the_same_texts_one_may_be_kept(toy_recipe: ToyRecipe) -> None:
    """SMART reads the examples of one of them, whose states are computed, without dropout as before; those of the
    other are read again."""
    computed, read = computed_and_kept(
        toy_recipe,
        {**TRAINING, "trainable": "heads"},
        tasks={"one": {"train": "mood.csv"}, "other": {"train": "mood.csv"}},
        regularise={"name": "smart", "tasks": ["other"]},
    )
    assert [name for name, data in read.datasets.train.items() if data.frozen is not None] == ["one"]
    check_steps(computed, read)
