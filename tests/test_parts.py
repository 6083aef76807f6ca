"""Contracts: every registered part of a family is held to its family's promises."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from manyheads.data.examples import Columns
from manyheads.data.labels import LabelReader
from manyheads.encoder import load_encoder
from manyheads.encoder.bert import Bert, BertConfig, random_bert
from manyheads.encodings import Encoding, Pooling
from manyheads.losses import Loss
from manyheads.model import ManyHeads, TaskHead
from manyheads.recipe import Choice, EncoderSettings
from manyheads.registry import FAMILIES, Part, parts
from manyheads.tasks import Task
from manyheads.tokens import Tokenizer, tokenise_once

CLASSES = LabelReader("classification", ("a", "b", "c"), {"a": 0, "b": 1, "c": 2})
TWO = LabelReader("classification", ("no", "yes"), {"no": 0, "yes": 1})
NUMBERS = LabelReader("regression")


def a_task(**changes: object) -> Task:
    settings: dict[str, object] = {
        "name": "task",
        "columns": Columns(("sentence1", "sentence2"), "label", None),
        "labels": CLASSES,
        "encoding": Choice(name="cross"),
        "pooling": Choice(name="head-pooler"),
        "head": Choice(name="linear", options={"dropout": 0.0}),
        "loss": Choice(name="cross-entropy"),
    }
    return Task(**{**settings, **changes})  # type: ignore[arg-type]


def fitting_task(loss: str) -> Task:
    """A task of a kind that the loss takes."""
    kinds = [a_task(labels=labels, loss=Choice(name=loss)) for labels in (CLASSES, TWO, NUMBERS)]
    return next(task for task in kinds if task.loss.build("losses").unfit(task) is None)


def small_bert(width: int = 16) -> Bert:
    return random_bert(BertConfig(20, width, 1, 2, 4, 16), seed=0)


def takes_pairs(part: Part) -> bool:
    return part.family != "encodings" or part.factory().unfit(a_task()) is None


LEARNING = [
    part for family in ("encodings", "heads", "pooling", "losses") for part in parts(family) if takes_pairs(part)
]


def ids(part: Part) -> str:
    return f"{part.family}/{part.name}"


@pytest.mark.parametrize("part", parts(), ids=ids)
def test_every_part_says_what_it_is(part: Part) -> None:
    assert part.summary.endswith(".") or part.summary.endswith(":"), "one whole sentence in the first line"
    assert set(part.paper) <= set("ABCDEal, "), "papers by their letters"
    part.options()  # every option has a default


def test_every_family_has_parts() -> None:
    assert {part.family for part in parts()} == set(FAMILIES)


@pytest.mark.parametrize("part", parts("encodings"), ids=ids)
def test_encodings_frame_truncate_and_refuse(part: Part, toy_encoder: Path) -> None:
    encoding: Encoding = part.factory()
    frame = Tokenizer(toy_encoder).frame
    single = a_task(columns=Columns(("text",), "label", None))
    fits = [task for task in (a_task(), single) if encoding.unfit(task) is None]
    assert fits, "it serves some task"
    for task in (a_task(), single):
        if task not in fits:
            assert "use '" in str(encoding.unfit(task)), "a refusal says what to use"
            continue
        texts = tuple(np.arange(10, 10 + n) for n in (9, 4)[: len(task.columns.text)])
        lengths = tuple(np.array([len(text)]) for text in texts)
        whole = encoding.inputs(texts, frame, 64)
        assert max(len(tokens) for tokens, _ in whole) == encoding.untruncated_length(lengths, frame)[0]
        for tokens, segments in encoding.inputs(texts, frame, 8):
            assert len(tokens) == len(segments) <= 8
        pooled = torch.randn(len(whole) * 3, 16)
        assert encoding(pooled).shape == (3, encoding.features(16))


@pytest.mark.parametrize("part", parts("losses"), ids=ids)
def test_losses_give_one_value_per_example_and_a_prediction(part: Part) -> None:
    loss: Loss = part.factory()
    task = fitting_task(part.name)
    classes = len(task.labels.names)
    outputs = torch.randn(6, loss.outputs(classes), requires_grad=True)
    labels = torch.arange(6) % classes if classes else torch.linspace(0, 5, 6, dtype=torch.float64)
    values = loss(outputs, labels)
    assert values.shape == (6,)
    assert (values >= 0).all()
    alone = torch.cat([loss(outputs[i : i + 1], labels[i : i + 1]) for i in range(6)])
    assert torch.allclose(values, alone), "an example's loss does not depend on its batch"
    values.sum().backward()
    assert outputs.grad is not None
    assert outputs.grad.abs().sum() > 0
    answers = loss.predict(outputs.detach())
    assert answers.shape == ((6, classes) if classes else (6,))
    if classes:
        assert torch.allclose(answers.sum(dim=1), torch.ones(6))
    refused = [one for one in (CLASSES, TWO, NUMBERS) if loss.unfit(a_task(labels=one))]
    assert all("needs" in str(loss.unfit(a_task(labels=one))) for one in refused)


@pytest.mark.parametrize("part", parts("pooling"), ids=ids)
def test_pooling_gives_one_vector_per_input(part: Part) -> None:
    pooling: Pooling = part.factory(small_bert())
    lengths = torch.tensor([5, 2, 5]) if pooling.keep == "all" else torch.tensor([1, 1, 1])
    states = torch.randn(12, 16)
    pooled = pooling(states, torch.tensor([0, 5, 7]), lengths)
    assert pooled.shape == (3, 16)
    alone = pooling(states[5:7], torch.tensor([0]), lengths[1:2])
    assert torch.allclose(pooled[1:2], alone, atol=1e-6), "an input's vector does not depend on the others"


def test_head_pooler_is_tanh_of_a_dense_layer_on_the_first_token() -> None:
    pooling = next(part for part in parts("pooling") if part.name == "head-pooler").factory(small_bert(2))
    with torch.no_grad():
        pooling.dense.weight.copy_(torch.tensor([[1.0, 2.0], [0.0, -1.0]]))
        pooling.dense.bias.copy_(torch.tensor([0.5, 0.0]))
    states = torch.tensor([[9.0, 9.0], [0.1, 0.2], [7.0, 7.0]])
    expected = torch.tanh(torch.tensor([[0.1 + 0.4 + 0.5, -0.2]]))
    assert torch.allclose(pooling(states, torch.tensor([1]), torch.tensor([2])), expected)


@pytest.mark.parametrize("part", LEARNING, ids=ids)
def test_every_part_learns_a_fixed_batch(part: Part, toy_encoder: Path) -> None:
    """Loss falls to under two thirds within 30 steps: gradients reach what they should."""
    task = fitting_task(part.name) if part.family == "losses" else a_task()
    field = {"encodings": "encoding", "heads": "head", "pooling": "pooling", "losses": "loss"}[part.family]
    options = {"dropout": 0.0} if "dropout" in part.options.model_fields else {}
    task = Task(**{**task.__dict__, field: Choice(name=part.name, options=options)})
    encoder = load_encoder(EncoderSettings(name=str(toy_encoder), dropout=0, attention_dropout=0)).encoder
    model = ManyHeads(encoder, {"task": task}, Tokenizer(toy_encoder), None, seed=0)
    import pyarrow as pa

    sides = (["the film was dull", "a good book", "one dog runs"] * 2, ["not very good", "a cat sleeps", "red tea"] * 2)
    texts = tuple(tokenise_once(pa.chunked_array([side]), model.tokenizer) for side in sides)
    classes = len(task.labels.names)
    labels = torch.tensor([0, 1, 2, 0, 1, 2]) % classes if classes else torch.tensor([0.5, 2.5, 4.5] * 2)
    inputs = [model.inputs("task", texts, row) for row in range(6)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        loss = model.head("task").loss(model([("task", inputs)])[0], labels).mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < losses[0] * 2 / 3, losses


def test_linear_head_by_hand() -> None:
    head = next(part for part in parts("heads") if part.name == "linear").factory(2, 1, dropout=0.5)
    with torch.no_grad():
        head.dense.weight.copy_(torch.tensor([[2.0, -1.0]]))
        head.dense.bias.fill_(0.25)
    assert head.eval()(torch.tensor([[1.0, 3.0]])).item() == -0.75
    assert isinstance(TaskHead(a_task(), small_bert()).head, type(head))


def test_first_last_and_mean_by_hand() -> None:
    """Two inputs of 2 and 3 tokens; first and last see only the row that was kept of each."""
    made = {part.name: part.factory(small_bert(2)) for part in parts("pooling")}
    states = torch.tensor([[1.0, 2.0], [3.0, 4.0], [0.0, 0.0], [3.0, 3.0], [6.0, 9.0]])
    means = made["mean"](states, torch.tensor([2, 0]), torch.tensor([3, 2]))
    assert means.tolist() == [[3.0, 4.0], [2.0, 3.0]]
    kept = torch.tensor([[1.0, 2.0], [6.0, 9.0]])
    for name in ("first", "last"):
        assert made[name](kept, torch.tensor([1, 0]), torch.tensor([1, 1])).tolist() == [[6.0, 9.0], [1.0, 2.0]]


def test_shared_pooler_is_the_encoders_own_and_is_saved_once() -> None:
    encoder = small_bert()
    encoder.pooler.requires_grad_(False)
    pooling = next(part for part in parts("pooling") if part.name == "shared-pooler").factory(encoder)
    assert all(one.requires_grad for one in encoder.pooler.parameters())
    assert list(pooling.state_dict()) == []
    states = torch.randn(3, 16)
    expected = torch.tanh(states[[2]] @ encoder.pooler.weight.T + encoder.pooler.bias)
    assert torch.allclose(pooling(states, torch.tensor([2]), torch.tensor([1])), expected, atol=1e-6)


def test_hidden_head_by_hand() -> None:
    head = next(part for part in parts("heads") if part.name == "hidden").factory(2, 1, units=2, dropout=0.5).eval()
    with torch.no_grad():
        head.hidden.weight.copy_(torch.tensor([[1.0, 1.0], [-1.0, 0.0]]))
        head.hidden.bias.copy_(torch.tensor([0.5, 0.0]))
        head.out.weight.copy_(torch.tensor([[2.0, 7.0]]))
        head.out.bias.fill_(-1.0)
    assert head(torch.tensor([[1.0, 3.0]])).item() == 2 * 4.5 - 1  # the second unit is −1, which relu makes 0


def test_mlp_with_one_layer_is_hidden() -> None:
    made = {part.name: part.factory for part in parts("heads")}
    one, other = made["mlp"](4, 3, layers=1, units=5).eval(), made["hidden"](4, 3, units=5).eval()
    other.hidden.load_state_dict(one.hidden[0].state_dict())
    other.out.load_state_dict(one.out.state_dict())
    x = torch.randn(6, 4)
    assert torch.equal(one(x), other(x))
    assert len(made["mlp"](4, 3, layers=3).hidden) == 3
