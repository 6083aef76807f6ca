"""Checkpoints: a list of named things, each put back exactly; older ones are read under their old names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from manyheads.errors import UserError
from manyheads.storage.files import write_folder
from manyheads.training.best_models import BestModels
from manyheads.training.state import COMBINER_STATE, NamedOptimizer, Progress, TrainingState, find_checkpoints


def made(seed: int) -> tuple[TrainingState, nn.Linear, nn.Linear, torch.optim.AdamW, Progress, BestModels]:
    torch.manual_seed(seed)
    model, combiner = nn.Linear(3, 2), nn.Linear(1, 1)
    optimizer = torch.optim.AdamW([*model.parameters(), *combiner.parameters()])
    progress, best = Progress(), BestModels()
    named = NamedOptimizer(optimizer, {"": model, COMBINER_STATE: combiner})
    entries = {"progress": progress, "best": best, "model": model, COMBINER_STATE: combiner, "optimizer": named}
    return TrainingState(entries), model, combiner, optimizer, progress, best


def test_saved_and_loaded_and_older_ones_too(tmp_path: Path) -> None:
    state, model, combiner, optimizer, progress, best = made(0)
    (model(torch.ones(1, 3)).sum() + combiner(torch.ones(1, 1)).sum()).backward()
    optimizer.step()
    progress.step, progress.examples, best.evaluations_without_improvement = 7, {"mood": 3}, 2
    for step in (5, 6, 7):
        state.save(tmp_path, step)
    assert [folder.name for folder in find_checkpoints(tmp_path)] == ["step-00000006", "step-00000007"]

    def write_old(folder: Path) -> None:
        new = tmp_path / "step-00000007"
        save_file(load_file(new / "model.safetensors"), folder / "model.safetensors")
        save_file(load_file(new / "combiner_state.safetensors"), folder / "memory.safetensors")
        moments = load_file(new / "optimizer.safetensors")
        renamed = {name.replace("combiner_state.", "memory."): tensor for name, tensor in moments.items()}
        assert renamed.keys() != moments.keys()
        save_file(renamed, folder / "optimizer.safetensors")
        old = {"step": 7, "examples": {"mood": 3}, "stale": 2, "moved": False}
        (folder / "state.json").write_text(json.dumps({"step": 7, "progress": old}))

    write_folder(tmp_path / "old", write_old)
    for folder in ("step-00000007", "old"):
        loaded, model_2, combiner_2, optimizer_2, progress_2, best_2 = made(1)
        assert not torch.equal(model_2.weight, model.weight)
        loaded.load(tmp_path / folder)
        assert (progress_2, best_2) == (progress, best)
        pairs = zip([*model.parameters(), *combiner.parameters()], [*model_2.parameters(), *combiner_2.parameters()],
                    strict=True)  # fmt: skip
        for before, after in pairs:
            assert torch.equal(before, after)
            for moment, value in optimizer.state[before].items():
                assert torch.equal(value, optimizer_2.state[after][moment])


@pytest.mark.parametrize("name", ["progress", "best", "optimizer"])
def test_a_missing_entry_is_named(name: str, tmp_path: Path) -> None:
    state = made(0)[0]
    left_out = {entry: stateful for entry, stateful in state.entries.items() if entry != name}
    TrainingState(left_out).save(tmp_path, 7)
    with pytest.raises(UserError, match=f"step-00000007: it lacks the entry '{name}'") as refusal:
        state.load(tmp_path / "step-00000007")
    assert refusal.value.code == "checkpoint-lacks-entry"
