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
from manyheads import train
from manyheads.config.load import load_recipe
from manyheads.console import Reporter
from manyheads.encoder.toy import write_toy_encoder
from manyheads.storage.files import cache_folder
from manyheads.training.frozen_cache import FrozenCache
from manyheads.training.schedule import Phase, set_trainable
from manyheads.training.setup import Setup, assemble

ToyRecipe = Callable[..., dict[str, Any]]
TRAINING = {"epochs": 3, "batch_size": 8, "learning_rate": 1e-3}
STILL = {"dropout": 0.0, "attention_dropout": 0.0}


def open_cache(setup: Setup, phase: Phase) -> None:
    FrozenCache(setup.model, setup.datasets, setup.recipe.training, setup.reporter, setup.processes).open(phase)


def kept(toy_recipe: ToyRecipe, **changes: Any) -> dict[str, Any]:
    """What is kept in the first phase: task → (layer, whether of all tokens)."""
    setup = assemble(load_recipe(toy_recipe(**changes)), Reporter(quiet=True))
    phase = setup.schedule.phases[0]
    set_trainable(setup.model, phase, setup.recipe.training.frozen_dropout)
    open_cache(setup, phase)
    frozen = {name: data.frozen for name, data in setup.datasets.train.items() if data.frozen is not None}
    return {name: (states.layer, states.whole) for name, states in frozen.items()}


def steps_of(run: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [one for one in records if one["event"] == "step"]


PAIRS = {"train": "near.tsv", "range": [0, 5], "encoding": "bi-concat", "pooling": "mean"}


@pytest.mark.parametrize("train_what", ["heads", "top-1", [2], [1, 2]], ids=str)
@pytest.mark.parametrize("near", [{"train": "near.tsv", "range": [0, 5]}, PAIRS], ids=["cross", "bi"])
@pytest.mark.parametrize("combine", ["sum", "pcgrad"])
def test_kept_states_train_the_same(train_what: Any, near: dict[str, Any], combine: str, toy_recipe: ToyRecipe) -> None:
    """Within 1e-6, with dropout in the heads and in the layers that learn."""
    tasks = {"mood": {"train": "mood.csv"}, "near": near}
    runs = {}
    for gigabytes in (0.0, 4.0):
        training = {**TRAINING, "trainable": train_what, "frozen_gigabytes": gigabytes, "conflicts": 0.5}
        recipe = toy_recipe(name=f"with-{gigabytes:g}", tasks=tasks, training=training, combine=combine)
        runs[gigabytes] = train(load_recipe(recipe), quiet=True).folder
    for one, other in zip(steps_of(runs[0.0]), steps_of(runs[4.0]), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], abs=2e-6)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-4)
    before, after = (load_file(runs[one] / "best" / "heads.safetensors") for one in (0.0, 4.0))
    for name, tensor in before.items():
        assert torch.allclose(tensor, after[name], atol=1e-5), name


def test_single_layer_training_leaves_every_other_tensor_as_it_was(toy_recipe: ToyRecipe, toy_encoder: Path) -> None:
    """Paper A, table 5."""
    run = train(load_recipe(toy_recipe(training={**TRAINING, "trainable": [1]})), quiet=True)
    before, after = (load_file(one / "model.safetensors") for one in (toy_encoder, run.folder / "best"))
    for name, tensor in after.items():
        assert torch.equal(tensor, before[name]) == (".layer.0." not in name), name


def test_what_is_kept(toy_recipe: ToyRecipe) -> None:
    both = {"mood": (2, False), "near": (2, False)}
    assert kept(toy_recipe, training={**TRAINING, "trainable": "heads"}) == both
    assert kept(toy_recipe, training={**TRAINING, "trainable": "top-1"}) == {"mood": (1, True), "near": (1, True)}
    assert kept(toy_recipe, training={**TRAINING, "trainable": [1]}) == {}, "below layer 1 are only embeddings"
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


def test_dev_is_kept_where_it_is_read_often_enough(toy_recipe: ToyRecipe) -> None:
    """And evaluated to the same figures; the last evaluation is of the best model, whatever its encoder was."""
    runs = {}
    for gigabytes in (0.0, 4.0):
        training = {**TRAINING, "trainable": "heads", "frozen_gigabytes": gigabytes}
        phases = [{"trainable": "all", "epochs": 1}, {"trainable": "heads", "epochs": 3}]
        run = train(load_recipe(toy_recipe(name=f"dev-{gigabytes:g}", training=training, phases=phases)), quiet=True)
        runs[gigabytes] = (
            [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines() if '"evaluate"' in line],
            run.metrics["dev"],
        )
    for one, other in zip(runs[0.0][0], runs[4.0][0], strict=True):
        for task, found in one["metrics"].items():
            assert found == pytest.approx(other["metrics"][task], abs=1e-4), task
    assert runs[0.0][1]["overall"] == pytest.approx(runs[4.0][1]["overall"], abs=1e-4)
    setup = assemble(load_recipe(toy_recipe(training={**TRAINING, "trainable": "heads"})), Reporter(quiet=True))
    open_cache(setup, setup.schedule.phases[0])
    assert all(data.frozen is not None for data in setup.datasets.selection.values())
    small = toy_recipe(training={**TRAINING, "trainable": "heads"}, evaluate={"max_examples": 1})
    setup = assemble(load_recipe(small), Reporter(quiet=True))
    open_cache(setup, setup.schedule.phases[0])
    assert all(data.frozen is None for data in setup.datasets.selection.values()), "three times one of four: no gain"


def test_a_damaged_file_is_written_again_and_a_race_is_no_fault(
    toy_recipe: ToyRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MANYHEADS_CACHE", str(tmp_path / "own"))
    heads = {**TRAINING, "trainable": "heads"}
    both = {"mood": (2, False), "near": (2, False)}
    assert kept(toy_recipe, training=heads) == both
    files = list((cache_folder() / "frozen").rglob("states.bin"))
    sizes = [file.stat().st_size for file in files]
    for file in files:
        file.write_bytes(file.read_bytes()[:-100])
    assert kept(toy_recipe, training=heads) == both
    assert [file.stat().st_size for file in files] == sizes
    for file in files:
        file.unlink()
        file.parent.joinpath("meta.json").unlink()
        file.parent.rmdir()
    real = Path.replace

    def beaten(self: Path, target: Path) -> Path:
        """Another run writes the same folder just before this one."""
        if self.name.startswith(f".{Path(target).name}.") and not Path(target).exists():
            import shutil

            shutil.copytree(self, target)
        return real(self, target)

    monkeypatch.setattr(Path, "replace", beaten)
    assert kept(toy_recipe, training=heads) == both


def test_what_was_used_longest_ago_makes_room(
    toy_recipe: ToyRecipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    from manyheads.training import frozen_cache as frozen

    monkeypatch.setenv("MANYHEADS_CACHE", str(tmp_path / "own"))
    heads = {**TRAINING, "trainable": "heads"}
    kept(toy_recipe, training=heads)
    folders = [one for one in (cache_folder() / "frozen").iterdir() if one.is_dir()]
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


def test_the_run_says_so_and_the_next_one_reads_the_same_file(recipe_file: Callable[..., Path], toy_data: Path) -> None:
    file = recipe_file(training={**TRAINING, "trainable": "heads"})
    first = manyheads("train", file)
    assert "frozen layers: the encoder is computed once for mood, near" in first.stderr
    folder = cache_folder() / "frozen"
    files = {one: one.stat().st_mtime_ns for one in folder.rglob("states.bin")}
    second = manyheads("train", file, "name=second", "seed=3")
    assert "frozen layers" in second.stderr
    assert all(one.stat().st_mtime_ns == before for one, before in files.items())
    half = manyheads("train", file, "name=half", "training.trainable=top-1")
    assert "frozen layers: layers 1–1 are computed once" in half.stderr


def test_other_texts_weights_or_encodings_are_other_states(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    def files() -> set[str]:
        return {one.parent.name for one in (cache_folder() / "frozen").rglob("states.bin")}

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


def test_of_two_tasks_on_the_same_texts_one_may_be_kept(toy_recipe: ToyRecipe) -> None:
    """SMART reads the examples of one of them, whose states are computed, without dropout as before; those of the
    other are read again."""
    runs = {}
    for gigabytes in (0.0, 4.0):
        recipe = toy_recipe(
            name=f"one-{gigabytes:g}",
            tasks={"one": {"train": "mood.csv"}, "other": {"train": "mood.csv"}},
            training={**TRAINING, "trainable": "heads", "frozen_gigabytes": gigabytes},
            regularise={"name": "smart", "tasks": ["other"]},
        )
        run = train(load_recipe(recipe), quiet=True)
        runs[gigabytes] = load_file(run.folder / "best" / "heads.safetensors")
    for name in runs[0.0]:
        assert torch.allclose(runs[0.0][name], runs[4.0][name], atol=1e-5), name
