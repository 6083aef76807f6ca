"""One task is plain training: a run equals the loop that anyone would write with transformers, padding and all.

Both have AdamW with ε = 1, which moves weights smoothly with the gradient, so that two ways of rounding stay together;
with its usual ε rounding alone decides where a weight goes whose gradient is 0 in exact arithmetic (the keys' bias).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from manyheads import load_recipe
from manyheads.console import Reporter
from manyheads.training.loop import train
from manyheads.training.optim import rate_factor
from manyheads.training.setup import assemble

pytestmark = pytest.mark.numeric


RATE = 0.1


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["cross", "bi-cosine"])
def test_one_task_is_the_plain_padded_loop(toy_recipe: Callable[..., dict[str, Any]], encoding: str) -> None:
    from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

    settings = toy_recipe(
        tasks={"near": {"train": "near.tsv", "range": [0, 5], "encoding": encoding, "scale": "unit", "head": None}},
        encoder={"name": toy_recipe()["encoder"], "dropout": 0, "attention_dropout": 0},
        training={"epochs": 2, "batch_size": 8, "learning_rate": RATE, "epsilon": 1.0, "max_grad_norm": None},
    )
    if encoding == "cross":
        settings["tasks"]["near"]["head"] = {"name": "linear", "dropout": 0}
    recipe = load_recipe(settings)
    setup = assemble(recipe, Reporter(quiet=True))
    run = train(recipe, quiet=True)
    logged = [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]
    losses = [one["loss"]["near"] for one in logged if one["event"] == "step"]

    encoder = AutoModel.from_pretrained(settings["encoder"]["name"]).eval()
    tokenizer = AutoTokenizer.from_pretrained(settings["encoder"]["name"], tokenizer_class=PreTrainedTokenizerFast)
    tokenizer.pad_token = "[PAD]"
    head = setup.model.head("near")
    pool, out = (head.pooling.dense, head.head.dense) if encoding == "cross" else (None, None)
    parameters = [one for name, one in encoder.named_parameters() if not name.startswith("pooler")]
    parameters += [one for part in (pool, out) if part is not None for one in part.parameters()]
    groups = [
        {"params": [one for one in parameters if one.ndim >= 2], "weight_decay": 0.01},
        {"params": [one for one in parameters if one.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.999), eps=1.0)
    examples = setup.datasets.train["near"].examples
    sides = [column.to_pylist() for column in examples.texts]
    labels = torch.tensor(examples.labels / 5, dtype=torch.float32)

    def loss_of(step: int) -> torch.Tensor:
        rows = setup.rounds(step)[0][0].indices
        first, second = ([side[row] for row in rows] for side in sides)
        if encoding == "cross":
            batch = tokenizer(first, second, padding=True, return_tensors="pt")
            predicted = out(torch.tanh(pool(encoder(**batch).last_hidden_state[:, 0])))[:, 0]
        else:
            vectors = []
            for side in (first, second):
                batch = tokenizer(side, padding=True, return_tensors="pt")
                mask = batch["attention_mask"][..., None]
                vectors.append((encoder(**batch).last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1))
            predicted = (nn.functional.cosine_similarity(*vectors) + 1) / 2
        return ((predicted - labels[rows]) ** 2).mean()

    with torch.no_grad():
        before = sum(loss_of(step).item() for step in range(setup.schedule.steps))
    expected = []
    for step in range(setup.schedule.steps):
        loss = loss_of(step)
        expected.append(loss.item())
        for group in optimizer.param_groups:
            group["lr"] = RATE * rate_factor(step, setup.schedule.steps, 0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[0] == pytest.approx(expected[0], rel=1e-5)
    assert losses == pytest.approx(expected, rel=1e-4)
    with torch.no_grad():
        assert sum(loss_of(step).item() for step in range(setup.schedule.steps)) < 0.5 * before, "it learns"
