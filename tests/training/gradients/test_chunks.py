"""Gradient caching: a batch of a search in several encoder passes has the gradient of the batch in one."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from building import SEARCH, a_task, toy_model
from manyheads.config.part import PartConfig
from manyheads.data.dataset import Dataset
from manyheads.data.table import Table
from manyheads.data.text_lists import join_texts
from manyheads.model.multitask import Inputs, ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.samplers import Batch
from manyheads.parts.scalarizers import Sum
from manyheads.seeding import seeded_rng
from manyheads.storage.ragged import Ragged
from manyheads.storage.strings import Strings
from manyheads.training.gradients.backward import Backward
from manyheads.training.gradients.chunks import encode_in_chunks, input_tokens
from manyheads.training.gradients.combination import Combination
from manyheads.training.gradients.pass_losses import PassLosses

pytestmark = pytest.mark.numeric
QUERIES = ["the dog", "a cat", "one film", "two men", "the tea", "a book", "three men sleep", "the dog"]
ANSWERS = ["dog runs", "cat sleeps", "film was dull", "men play", "red tea", "a good book", "men sleep", "a dog"]
NEGATIVES = [["cat runs"], [], ["a book", "tea was good"], [], ["blue tea"], [], [], ["red dog", "blue dog"]]


def search_rows() -> Dataset:
    texts = (Strings.of(QUERIES), Strings.of(ANSWERS))
    table = Table(texts, None, Strings.of(map(str, range(8))), np.arange(8), np.zeros(8, dtype=np.int16), ("file",), [])
    table = replace(table, negatives=Strings.of(map(join_texts, NEGATIVES)))
    return Dataset(table, Ragged.from_rows([[1.0]] * 8, np.float64))


def a_search(toy_encoder: Path, dropout: float, **changes: object) -> tuple[ManyHeads, dict[str, TaskTokens]]:
    task = a_task(labels=SEARCH, **changes)
    model = toy_model(toy_encoder, [task], dropout=dropout, attention_dropout=dropout).double().train()
    return model, {"task": TaskTokens(task, search_rows(), model.tokenizer, cached=False)}


def gradient(model: ManyHeads, data: dict[str, TaskTokens], tokens: int) -> tuple[dict[str, Tensor], float]:
    model.zero_grad(set_to_none=True)
    rounds = [[Batch("task", np.arange(8))]]
    done = Backward(model, data, tokens, nullcontext).step(rounds, Combination(Sum(["task"])), seeds=(3, 5))
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return gradients, done.losses["task"]


def check_equal(gradients: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert gradients.keys() == expected.keys()
    largest = max(float(tensor.abs().max()) for tensor in expected.values())
    assert largest > 0
    for name, tensor in expected.items():
        assert (tensor - gradients[name]).abs().max() < 1e-12 * largest, name


@pytest.mark.parametrize("tokens", [1, 30, 60])
@pytest.mark.parametrize("head", ["none", PartConfig(name="linear", options={"dropout": 0.0})])
def test_passes_of_any_size_have_the_gradient_of_one(toy_encoder: Path, tokens: int, head: object) -> None:
    model, data = a_search(toy_encoder, dropout=0.0, head=head)
    whole, loss = gradient(model, data, 10**9)
    gradients, loss_in_chunks = gradient(model, data, tokens)
    assert loss_in_chunks == pytest.approx(loss, rel=1e-12)
    check_equal(gradients, whole)


@pytest.mark.parametrize("tokens", [1, 40])
def test_with_dropout_it_is_the_plain_gradient_of_the_same_masks(toy_encoder: Path, tokens: int) -> None:
    """The plain gradient: all chunks encoded one after the other, every activation kept, then one backward."""
    head = PartConfig(name="linear", options={"dropout": 0.3})
    model, data = a_search(toy_encoder, dropout=0.3, head=head)
    gradients, loss = gradient(model, data, tokens)

    inputs: Inputs = [data["task"].inputs(model, row) for row in range(8)]
    chunks: list[Inputs] = [[]]
    for example in inputs:  # cut by hand where the next example would exceed the budget
        if chunks[-1] and sum(map(input_tokens, [*chunks[-1], example])) > tokens:
            chunks.append([])
        chunks[-1].append(example)
    assert len(chunks) > 1
    model.zero_grad(set_to_none=True)
    with seeded_rng(3, 5, "step"):
        vectors = torch.cat([model([("task", chunk)])[0] for chunk in chunks])
    numbers, counts = data["task"].text_numbers(list(range(8)), scores=False), torch.tensor(list(map(len, inputs)))
    plain_loss = model.head("task").loss(vectors, numbers, counts).mean()  # type: ignore[call-arg]
    plain_loss.backward()
    plain = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    assert loss == pytest.approx(plain_loss.item(), rel=1e-12)
    check_equal(gradients, plain)
    without, _ = gradient(model.eval(), data, tokens)
    assert any(not torch.allclose(without[name], plain[name]) for name in plain), "dropout matters here"


def test_activations_of_one_chunk_are_held_at_a_time(toy_encoder: Path) -> None:
    """Between forward and backward of the whole batch nothing is kept but vectors: each chunk is encoded twice."""
    model, data = a_search(toy_encoder, dropout=0.1)
    inputs: Inputs = [data["task"].inputs(model, row) for row in range(8)]
    sizes: list[int] = []

    def encode(chunk: Inputs) -> Tensor:
        sizes.append(len(chunk))
        return model([("task", chunk)])[0]

    vectors = encode_in_chunks(encode, inputs, tokens_per_pass=40)
    first = list(sizes)
    assert len(first) > 1
    vectors.sum().backward()
    assert sorted(sizes) == sorted(first * 2)


def test_a_batch_that_fits_is_one_pass(toy_encoder: Path) -> None:
    model, data = a_search(toy_encoder, dropout=0.0)
    losses = PassLosses(model, data, nullcontext)
    losses.tokens_per_pass = 10**9
    inputs: Inputs = [data["task"].inputs(model, row) for row in range(8)]
    assert not losses._is_cut([("task", list(range(8)), inputs)])
    losses.tokens_per_pass = 40
    assert losses._is_cut([("task", list(range(8)), inputs)])
