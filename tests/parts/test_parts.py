"""Contracts: every registered part of a family is held to its family's promises."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from building import (
    CLASSES,
    KINDS,
    PAIR,
    SEARCH,
    SINGLE,
    a_task,
    fitting_task,
    labels_of,
    one_sentence,
    one_word_each,
    small_bert,
    toy_inputs,
    toy_model,
)
from manyheads.config.part import PartConfig
from manyheads.parts.encodings import Encoding
from manyheads.parts.losses import Loss
from manyheads.parts.pooling import Pooling
from manyheads.registry import FAMILIES, Part, find, parts
from manyheads.tasks.task import Task
from manyheads.tokens.packing import Sequence, Words, pack
from manyheads.tokens.tokenizer import Tokenizer

pytestmark = pytest.mark.numeric
KEYS = {"encodings": "encoding", "pooling": "pooling", "heads": "head", "outputs": "output", "losses": "loss"}
# those with a value per row of several outputs: kinds/test_multiple_choice.py, kinds/test_answer_span.py; those of
# searches, which compare texts: losses/test_vectors.py
OF_OTHER_OUTPUTS = {"candidate", "answer", "match"}
LOSSES = [part for part in parts("losses") if not OF_OTHER_OUTPUTS.issuperset(part.factory.label_types)]
OF_SEARCHES = {"bi-vectors", "multiple-negatives", "margin-mse"}  # see losses/test_vectors.py
LEARNING = [part for family in KEYS for part in parts(family) if part.name not in OF_SEARCHES]


def ids(part: Part) -> str:
    return f"{part.family}/{part.name}"


def a_task_with(part: Part) -> Task:
    """A task that has the part; without dropout, and with an encoding that gives what it needs."""
    options = {"dropout": 0.0} if "dropout" in part.options.model_fields else {}
    given: dict[str, Any] = {KEYS[part.family]: PartConfig(name=part.name, options=options)}
    tries = [{**more, **given} for more in ({}, {"encoding": "bi-cosine"})]
    return next(task for task in (fitting_task(**one) for one in tries) if task is not None)


@pytest.mark.parametrize("part", parts(), ids=ids)
def test_every_part_says_what_it_is(part: Part) -> None:
    assert part.summary.endswith(".") or part.summary.endswith(":"), "one whole sentence in the first line"
    assert set(part.paper) <= set("ABCDEal, "), "papers by their letters"
    part.options()  # every option has a default


def test_every_family_has_parts() -> None:
    assert {part.family for part in parts()} == set(FAMILIES)


@pytest.mark.parametrize("part", parts("encodings"), ids=ids)
def test_encodings_frame_truncate_and_refuse(part: Part, toy_encoder: Path) -> None:
    encoding: Encoding = part.factory(16)
    special_tokens = Tokenizer(toy_encoder).special_tokens
    fitting = 0
    for texts_in in (PAIR, SINGLE):
        labels = SEARCH if encoding.gives == "vectors" else CLASSES
        task = a_task(encoding=part.name, columns=texts_in, labels=labels)
        refusal = encoding.why_incompatible(task)
        if refusal:
            assert "use '" in refusal, "a refusal says what to use"
            continue
        fitting += 1
        texts = tuple(np.arange(10, 10 + n) for n in (9, 4)[: len(task.columns.text)])
        lengths = tuple(np.array([len(text)]) for text in texts)
        whole = encoding.inputs(texts, special_tokens, 64)
        assert max(len(tokens) for tokens, _ in whole) == encoding.untruncated_length(lengths, special_tokens)[0]
        for tokens, segments in encoding.inputs(texts, special_tokens, 8):
            assert len(tokens) == len(segments) <= 8
        pooled = torch.randn(len(whole) * 3, 16)
        found = encoding(pooled)
        if encoding.gives == "vectors":
            assert torch.equal(found, pooled), "each text as it is"
            continue
        assert found.shape == (3, encoding.features)
        if encoding.gives != "features":
            assert encoding.features == 1
            assert ((found >= 0) & (found <= 1)).all(), "a similarity is from 0 to 1"
    assert fitting == 1


@pytest.mark.parametrize("part", LOSSES, ids=ids)
def test_losses_give_one_value_per_example_and_a_prediction(part: Part) -> None:
    task = a_task_with(part)
    loss: Loss = part.factory(task)
    outputs = torch.randn(6, loss.outputs, requires_grad=True, generator=torch.Generator().manual_seed(0))
    labels = labels_of(task)
    values = loss(outputs, labels, *one_word_each(loss, outputs))
    assert values.shape == (6,)
    assert (values >= 0).all()
    rows = [slice(number, number + 1) for number in range(6)]
    alone = torch.cat([loss(outputs[i], labels[i], *one_word_each(loss, outputs[i])) for i in rows])
    assert torch.isfinite(alone).all(), "also a batch of one, as the last of an epoch may be"
    assert torch.allclose(values, alone) != loss.whole_batch, "it says whether a loss depends on its batch"
    values.sum().backward()
    assert outputs.grad is not None
    assert outputs.grad.abs().sum() > 0
    predictions = loss.predict(outputs.detach(), *one_word_each(loss, outputs))
    classes = len(task.labels.names)
    assert predictions.shape == ((6, classes) if classes else (6,))
    if classes and task.kind.name != "multi-label":
        assert torch.allclose(predictions.sum(dim=1), torch.ones(6))
    refusals = [loss.why_incompatible(a_task(labels=one, loss=part.name, encoding=task.encoding)) for one in KINDS]
    assert all(f"'{part.name}' needs" in reason for reason in refusals if reason)
    assert any(refusals), "no loss serves every kind of task"


@pytest.mark.parametrize("part", LOSSES, ids=ids)
def test_losses_and_gradients_are_finite_where_the_model_is_very_sure(part: Part) -> None:
    task = a_task_with(part)
    loss: Loss = part.factory(task)
    for value in (-80.0, 0.0, 80.0):
        outputs = torch.full((6, loss.outputs), value, requires_grad=True)
        loss(outputs, labels_of(task), *one_word_each(loss, outputs)).sum().backward()
        assert outputs.grad is not None
        assert torch.isfinite(outputs.grad).all()


@pytest.mark.parametrize("part", [part for part in parts("pooling") if not part.factory.reads_words], ids=ids)
def test_pooling_gives_one_vector_per_input(part: Part) -> None:
    pooling: Pooling = part.factory(small_bert())
    states = torch.randn(12, 16)
    starts, lengths = torch.tensor([0, 5, 7]), torch.tensor([5, 2, 5])
    pooled = pooling(states, starts, lengths)
    assert pooled.shape == (3, pooling.width)
    alone = pooling(states[5:7], torch.tensor([0]), lengths[1:2])
    assert torch.allclose(pooled[1:2], alone, atol=1e-6), "an input's vector does not depend on the others"
    if pooling.positions_needed != "all":
        row = starts if pooling.positions_needed == "first" else starts + lengths - 1
        kept = pooling(states[row], torch.arange(3), torch.ones(3, dtype=torch.long))
        assert torch.equal(kept, pooled), "it reads the row that it says it reads, whether others are kept or not"
    with pytest.raises(ValueError, match="this encoder has 1 layers: 'layer' is from 0 to 1, or negative, found 2"):
        part.factory(small_bert(), layer=2)


@pytest.mark.slow
@pytest.mark.parametrize("part", LEARNING, ids=ids)
def test_every_part_learns_a_fixed_batch(part: Part, toy_encoder: Path) -> None:
    """Loss falls to under two thirds within 30 steps: gradients reach what they should."""
    task = a_task_with(part)
    model = toy_model(toy_encoder, [task])
    labels = labels_of(task)
    inputs = toy_inputs(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        task_loss, (outputs,) = model.head("task").loss, model([("task", inputs)])
        loss = task_loss(outputs, labels, *one_sentence(task_loss, outputs)).mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < losses[0] * 2 / 3, losses


def test_words_have_the_state_of_their_first_token() -> None:
    """Two examples: one of an input of 5 tokens, one of two windows of 2 and 5."""
    pooling: Pooling = find("pooling", "words").factory(small_bert())
    states = torch.randn(12, 16)
    inputs = [[np.array([1, 3])], [np.array([1]), np.array([2, 2])]]
    nothing = np.empty(0)
    words = Words.of([[Sequence(nothing, nothing, words=own) for own in example] for example in inputs], "cpu")
    assert words is not None
    pooled = pooling(states, torch.tensor([0, 5, 7]), torch.tensor([5, 2, 5]), words)
    assert torch.equal(pooled, states[[1, 3, 6, 9, 9]])
    assert words.mean(torch.tensor([1.0, 3.0, 1.0, 2.0, 6.0])).tolist() == [2.0, 3.0]
    assert words.sum(torch.tensor([1.0, 3.0, 1.0, 2.0, 6.0])).tolist() == [4.0, 9.0]


def test_head_pooler_is_tanh_of_a_dense_layer_on_the_first_token() -> None:
    pooling = find("pooling", "head-pooler").factory(small_bert(2))
    with torch.no_grad():
        pooling.dense.weight.copy_(torch.tensor([[1.0, 2.0], [0.0, -1.0]]))
        pooling.dense.bias.copy_(torch.tensor([0.5, 0.0]))
    states = torch.tensor([[9.0, 9.0], [0.1, 0.2], [7.0, 7.0]])
    expected = torch.tanh(torch.tensor([[0.1 + 0.4 + 0.5, -0.2]]))
    assert torch.allclose(pooling(states, torch.tensor([1]), torch.tensor([2])), expected)


def test_head_pooler_reads_first_last_or_mean_by_hand() -> None:
    """Inputs of 3 and 2 tokens; W swaps the two values and doubles the second, b is (.5, 0)."""
    states = torch.tensor([[1.0, 2.0], [3.0, 4.0], [0.0, 0.0], [3.0, 3.0], [6.0, 9.0]]) / 10
    where = (torch.tensor([2, 0]), torch.tensor([3, 2]))
    expected = {  # W·r + b of the first input, then of the second
        "first": [[0.5, 0.0], [0.7, 0.2]],  # r: (0, 0), (.1, .2)
        "last": [[1.4, 1.2], [0.9, 0.6]],  # r: (.6, .9), (.3, .4)
        "mean": [[0.9, 0.6], [0.8, 0.4]],  # r: (.3, .4), (.2, .3)
    }
    needed = {"first": "first", "last": "last", "mean": "all"}
    for reads, values in expected.items():
        pooling = find("pooling", "head-pooler").factory(small_bert(2), reads=reads)
        with torch.no_grad():
            pooling.dense.weight.copy_(torch.tensor([[0.0, 1.0], [2.0, 0.0]]))
            pooling.dense.bias.copy_(torch.tensor([0.5, 0.0]))
        assert torch.allclose(pooling(states, *where), torch.tanh(torch.tensor(values)), atol=1e-6), reads
        assert pooling.positions_needed == needed[reads]
        assert list(pooling.state_dict()) == ["dense.weight", "dense.bias"], "models saved before still fit"


@pytest.mark.parametrize("reads", ["first", "last", "mean"])
def test_head_pooler_reads_the_same_tokens_of_a_merged_pass(reads: str, toy_encoder: Path) -> None:
    """Beside a task that reads other tokens of the same inputs, of whose states more are kept."""
    options = {"reads": reads}
    tasks = [a_task(pooling=PartConfig(name="head-pooler", options=options)), a_task(name="other", pooling="lstm")]
    model = toy_model(toy_encoder, tasks).eval()
    inputs = toy_inputs(model)
    alone = model([("task", inputs)])[0]
    beside, _ = model([("task", inputs), ("other", toy_inputs(model, "other"))])
    assert torch.allclose(alone, beside, atol=1e-6)
    states = model.encoder(pack([replace(inputs[0][0], positions_needed="all")]))
    read = {"first": states[0], "last": states[-1], "mean": states.mean(dim=0)}[reads]
    head = model.head("task")
    expected = head.head(torch.tanh(head.pooling.dense(read[None])))
    assert torch.allclose(alone[:1], expected, atol=1e-5)


def test_head_pooler_starts_from_the_encoders_own(toy_encoder: Path) -> None:
    """Each head has a copy of its own, and what else is drawn does not change."""
    moved, new = (
        toy_model(
            toy_encoder, [a_task(name=name, pooling=PartConfig(name="head-pooler", options=options)) for name in "ab"]
        )
        for options in ({"start": "encoder"}, {})
    )
    pooler = moved.encoder.pooler
    for name in "ab":
        dense = moved.head(name).pooling.dense
        assert torch.equal(dense.weight, pooler.weight)
        assert torch.equal(dense.bias, pooler.bias)
        assert not torch.equal(new.head(name).pooling.dense.weight, pooler.weight)
        assert torch.equal(moved.head(name).head.dense.weight, new.head(name).head.dense.weight)
    with torch.no_grad():
        moved.head("a").pooling.dense.weight.add_(1)
    assert torch.equal(moved.head("b").pooling.dense.weight, pooler.weight)
    assert not pooler.weight.requires_grad, "no task reads the encoder's own"


def test_head_pooler_does_not_start_from_a_pooler_that_is_not_there() -> None:
    encoder = small_bert()
    for without in ("weights", "pooler"):
        if without == "weights":
            encoder.has_pooler_weights = False
        else:
            encoder.pooler = None  # as transformers' encoders
        with pytest.raises(ValueError, match="this encoder came without one; use 'start: random'"):
            find("pooling", "head-pooler").factory(encoder, start="encoder")
        find("pooling", "head-pooler").factory(encoder)


def test_first_last_and_mean_by_hand() -> None:
    """Two inputs of 2 and 3 tokens."""
    made = {part.name: part.factory(small_bert(2)) for part in parts("pooling")}
    states = torch.tensor([[1.0, 2.0], [3.0, 4.0], [0.0, 0.0], [3.0, 3.0], [6.0, 9.0]])
    where = (torch.tensor([2, 0]), torch.tensor([3, 2]))
    assert made["mean"](states, *where).tolist() == [[3.0, 4.0], [2.0, 3.0]]
    assert made["first"](states, *where).tolist() == [[0.0, 0.0], [1.0, 2.0]]
    assert made["last"](states, *where).tolist() == [[6.0, 9.0], [3.0, 4.0]]


def test_lstm_pooling_is_the_lstm_of_each_input_alone() -> None:
    """Against torch's own LSTM on one unpadded sequence at a time, in float64."""
    pooling = find("pooling", "lstm").factory(small_bert(), units=5).double()
    states = torch.randn(9, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = pooling(states, torch.tensor([3, 0]), torch.tensor([6, 3]))
    for row, piece in zip(found, (states[3:9], states[0:3]), strict=True):
        both, _ = pooling.lstm(piece[:, None])
        expected = torch.cat([both[-1, 0, :5], both[0, 0, 5:]])  # last state forwards, first of the one backwards
        assert torch.allclose(row, expected, atol=1e-12)
    one_way = find("pooling", "lstm").factory(small_bert(), units=5, bidirectional=False)
    assert one_way(states.float(), torch.tensor([0]), torch.tensor([3])).shape == (1, 5)


def test_head_lstm_is_pooling_lstm_with_a_linear_head(toy_encoder: Path) -> None:
    one = a_task(head=PartConfig(name="lstm", options={"units": 7, "dropout": 0.0}))
    assert one.pooling == PartConfig(name="lstm", options={"units": 7})
    other = a_task(pooling=PartConfig(name="lstm", options={"units": 7}))
    outputs = []
    for task in (one, other):
        model = toy_model(toy_encoder, [task])
        outputs.append(model([("task", toy_inputs(model))])[0])
    assert torch.equal(*outputs)


def test_shared_pooler_is_the_encoders_own_and_is_saved_once() -> None:
    encoder = small_bert()
    encoder.pooler.requires_grad_(False)
    pooling = find("pooling", "shared-pooler").factory(encoder)
    assert all(one.requires_grad for one in encoder.pooler.parameters())
    assert list(pooling.state_dict()) == []
    states = torch.randn(3, 16)
    expected = torch.tanh(states[[2]] @ encoder.pooler.weight.T + encoder.pooler.bias)
    assert torch.allclose(pooling(states, torch.tensor([2]), torch.tensor([1])), expected, atol=1e-6)


def test_linear_head_by_hand() -> None:
    head = find("heads", "linear").factory(2, 1, dropout=0.5)
    with torch.no_grad():
        head.dense.weight.copy_(torch.tensor([[2.0, -1.0]]))
        head.dense.bias.fill_(0.25)
    assert head.eval()(torch.tensor([[1.0, 3.0]])).item() == -0.75


def test_hidden_head_by_hand() -> None:
    head = find("heads", "hidden").factory(2, 1, units=2, dropout=0.5).eval()
    with torch.no_grad():
        head.hidden.weight.copy_(torch.tensor([[1.0, 1.0], [-1.0, 0.0]]))
        head.hidden.bias.copy_(torch.tensor([0.5, 0.0]))
        head.out.weight.copy_(torch.tensor([[2.0, 7.0]]))
        head.out.bias.fill_(-1.0)
    assert head(torch.tensor([[1.0, 3.0]])).item() == 2 * 4.5 - 1  # the second unit is −1, which relu makes 0


@pytest.mark.parametrize(
    ("options", "outer"), [({}, 0.5), ({"hidden_dropout": 0}, 0.0), ({"hidden_dropout": 0.25}, 0.25)]
)
def test_hidden_head_drops_features_and_by_default_hidden_units(options: dict[str, Any], outer: float) -> None:
    """y = W₂·drop(relu(W₁·drop(x))) with W₁ = 1 and W₂ = 1ᵀ: x is 0 or 1/(1 − .5), each unit 0 or x/(1 − outer)."""
    head = find("heads", "hidden").factory(1, 1, units=4, dropout=0.5, **options).train()
    with torch.no_grad():
        for layer in (head.hidden, head.out):
            layer.weight.fill_(1.0)
            layer.bias.zero_()
    torch.manual_seed(0)
    found = {round(value, 4) for value in head(torch.ones(400, 1))[:, 0].tolist()}
    unit = 2 / (1 - outer)
    assert found == ({0.0, 8.0} if outer == 0 else {round(count * unit, 4) for count in range(5)})
    assert head.eval()(torch.ones(1, 1)).item() == 4.0


def test_mlp_with_one_layer_is_hidden() -> None:
    made = {part.name: part.factory for part in parts("heads")}
    one, other = made["mlp"](4, 3, layers=1, units=5).eval(), made["hidden"](4, 3, units=5).eval()
    other.hidden.load_state_dict(one.hidden[0].state_dict())
    other.out.load_state_dict(one.out.state_dict())
    x = torch.randn(6, 4)
    assert torch.equal(one(x), other(x))
    assert len(made["mlp"](4, 3, layers=3).hidden) == 3


def test_dropout_is_per_task(toy_encoder: Path) -> None:
    rates = {"never": 0.0, "often": 0.5}
    tasks = [
        a_task(name=name, head=PartConfig(name="linear", options={"dropout": rate})) for name, rate in rates.items()
    ]
    model = toy_model(toy_encoder, tasks).train()
    inputs = toy_inputs(model, "never")
    first, second = (model([("never", inputs), ("often", inputs)]) for _ in range(2))
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[1], second[1])


PAPERS = {
    "encodings": "single bi-concat bi-siamese bi-cosine bi-cosine-feature bi-shared bi-scaled-cosine cross cross-nosep",
    "pooling": "shared-pooler head-pooler first last mean",
    "heads": "linear hidden mlp lstm none",
    "outputs": "raw clamp sigmoid",
    "losses": "cross-entropy binary-cross-entropy mse ordinal-log-loss dual-cross-entropy cosine-embedding",
    "samplers": "sequential epoch-round-robin batch-round-robin proportional annealed uniform balanced full-data "
    "capped sampled-round-robin max-size-cycle staggered",
    "scalarizers": "sum mean fixed uncertainty liebel-korner",
    "aggregators": "pcgrad",
    "regularisers": "l1 l2 smart bregman",
}


@pytest.mark.parametrize("family", PAPERS)
def test_every_strategy_of_the_papers_has_its_name(family: str) -> None:
    assert set(PAPERS[family].split()) <= {part.name for part in parts(family)}
