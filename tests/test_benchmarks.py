"""Rivals in the benchmarks do the same work: where the arithmetic is the same, so is the gradient."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from manyheads.console import Reporter
from manyheads.tasks.resolve import load_recipe
from manyheads.training.schedule import set_trainable
from manyheads.training.setup import assemble

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.mark.slow
@pytest.mark.numeric
def test_all_ways_of_pcgrad_give_the_same_gradient(
    toy_recipe: Callable[..., dict[str, Any]], toy_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks, so that the random order of projections does not matter."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from combine import Ways

    still = {"name": str(toy_encoder), "dropout": 0, "attention_dropout": 0}
    tasks = {
        "mood": {"train": "mood.csv", "head": {"dropout": 0}},
        "near": {"train": "near.tsv", "range": [0, 5], "head": {"dropout": 0}},
    }
    setup = assemble(load_recipe(toy_recipe(encoder=still, tasks=tasks)), Reporter(quiet=True))
    set_trainable(setup.model, setup.schedule.phases[0])
    found: dict[str, dict[str, torch.Tensor]] = {}

    class Kept(Ways):
        def _finish(self) -> None:
            gradients = {name: one.grad for name, one in setup.model.named_parameters() if one.grad is not None}
            found[now[0]] = {name: one.clone() for name, one in gradients.items()}
            setup.optimizer.zero_grad(set_to_none=True)

    now = [""]
    conflicting = 0
    for step in range(setup.schedule.steps):
        for way, run in Kept(setup).all().items():
            now[0] = way
            run(step)
        conflicting += not torch.allclose(found["sum"]["encoder.layers.0.up.weight"],
                                          found["pcgrad"]["encoder.layers.0.up.weight"], rtol=1e-3)  # fmt: skip
        for group in (["sum", "sum, task by task"], [way for way in found if "pcgrad" in way and "bf16" not in way]):
            for way in group[1:]:
                for name, gradient in found[group[0]].items():
                    assert torch.allclose(found[way][name], gradient, atol=1e-5), f"{way}: {name}"
    assert conflicting, "surgery is seen to act"


@pytest.mark.slow
def test_rivals_in_training_read_the_same_word_pieces_and_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from train import Ours
    from training_rivals import StarterLoop

    ours = Ours(None, pairs_only=False, folder=str(tmp_path))
    rival = StarterLoop(ours.plan())
    for step, batches in enumerate(ours.examples(range(2))):
        drawn = [batch for one in ours.setup.rounds(step) for batch in one]
        for batch, examples in zip(drawn, batches, strict=True):
            padded = rival._padded(examples)
            data = ours.setup.datasets.train[batch.task]
            assert data.labels is not None
            for number, row in enumerate(batch.indices.tolist()):
                (inputs,) = data.inputs(ours.setup.model, row)
                assert padded["input_ids"][number][padded["attention_mask"][number] == 1].tolist() == list(inputs.ids)
            assert padded["labels"].tolist() == pytest.approx(data.labels[batch.indices].tolist())
