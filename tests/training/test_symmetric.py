"""Pairs without an order: drawn anew at every visit, predicted alike in both."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from building import NUMBERS, SIDES, TWO, a_task, columns, toy_model
from conftest import made_once, toy_settings, write_toy_data
from manyheads import load_recipe, train
from manyheads.config.part import PartConfig
from manyheads.console import Reporter
from manyheads.errors import UserError
from manyheads.inference.both_orders import mean_over_orders, relative_cost
from manyheads.inference.predict import collect_features, predict_tasks
from manyheads.inference.prepared import TextInput
from manyheads.inference.texts import dataset_of_texts
from manyheads.inference.torch_backend import TorchBackend
from manyheads.model.folder import load_model
from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.parts.samplers import Batch
from manyheads.parts.scalarizers import Sum
from manyheads.registry import find, parts
from manyheads.runs.opening import open_predictor
from manyheads.tasks.load import load_tasks
from manyheads.tasks.task import Task
from manyheads.tokens.tokenizer import SpecialTokens
from manyheads.training.gradients.backward import Backward
from manyheads.training.gradients.combination import Combination
from manyheads.training.gradients.pair_order import drawn_inputs, is_swapped
from manyheads.training.setup import assemble
from resuming import check_resumed
from run_files import log_of

pytestmark = pytest.mark.numeric
ToyRecipe = Callable[..., dict[str, Any]]
PAIRS = list(zip(*SIDES, strict=True))
SPECIAL_TOKENS = SpecialTokens(np.array([1]), np.array([2]), np.array([2]), segment_b=1)


def pair_tokens(model: ManyHeads, name: str, row_group: str | None = None) -> TaskTokens:
    examples = dataset_of_texts(PAIRS, 2, "a test")
    tokens = TaskTokens(model.tasks[name], examples, model.tokenizer, cached=False, row_group=row_group)
    tokens.labels = torch.tensor([0, 1, 1, 0, 1, 1])
    return tokens


# --- the draw --------------------------------------------------------------------------------------------------


def test_the_draw_is_a_fair_coin_of_seed_step_rows_and_row() -> None:
    coins = np.array([[is_swapped((0, step), "near", row) for row in range(200)] for step in range(50)])
    assert abs(coins.mean() - 0.5) < 0.02  # 4 deviations of 10,000 throws
    assert abs(np.corrcoef(coins[0], coins[1])[0, 1]) < 0.3
    assert abs(coins.mean(axis=0) - 0.5).max() < 0.3, "no row is always read one way"
    again = [is_swapped((0, 7), "near", row) for row in range(200)]
    assert again == coins[7].tolist()
    for other in (((1, 7), "near"), ((0, 8), "near"), ((0, 7), "far")):
        assert [is_swapped(*other, row) for row in range(200)] != again


def test_inputs_are_those_of_the_swapped_pair(toy_encoder: Path) -> None:
    model = toy_model(toy_encoder, [a_task(labels=TWO, symmetric=True)])
    tokens = pair_tokens(model, "task")
    first, second = columns(model)
    orders = set()
    for row in range(6):
        for step in range(8):
            swapped = is_swapped((0, step), "task", row)
            texts = (second, first) if swapped else (first, second)
            (drawn,) = drawn_inputs(model, tokens, row, (0, step))
            (expected,) = model.inputs("task", texts, row)
            assert drawn.ids.tolist() == expected.ids.tolist()
            assert drawn.segments.tolist() == expected.segments.tolist()
            orders.add(swapped)
    assert orders == {False, True}


def losses(model: ManyHeads, data: dict[str, TaskTokens], step: int, rows: list[int]) -> dict[str, float]:
    backward = Backward(model, data, 10_000, nullcontext)
    batches = [Batch(name, np.array(rows)) for name in data]
    done = backward.step([batches], Combination(Sum(list(data))), (0, step))
    model.zero_grad()
    return done.losses


def test_a_step_trains_on_the_drawn_order_and_a_swapped_pair_is_one_example(toy_encoder: Path) -> None:
    model = toy_model(toy_encoder, [a_task(labels=TWO, symmetric=True)])
    tokens = pair_tokens(model, "task")
    fixed = tokens.of(replace(tokens.task, symmetric=False))
    swapped = pair_tokens(model, "task").of(fixed.task)
    swapped.texts = tokens.texts[::-1]
    rows = list(range(6))
    for step in range(3):
        expected = 0.0
        for row in rows:
            side = swapped if is_swapped((0, step), "task", row) else fixed
            expected += losses(model, {"task": side}, step, [row])["task"] / 6
        assert losses(model, {"task": tokens}, step, rows)["task"] == pytest.approx(expected, abs=1e-6)
    assert losses(model, {"task": tokens}, 1, rows) == losses(model, {"task": tokens}, 1, rows)


def test_tasks_on_the_same_rows_share_the_order_but_never_impose_it(
    toy_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two symmetric tasks encode a pair once, in dropout too; one with an order reads it as the file has it."""
    a, b, ordered = (a_task(name=name, labels=TWO, symmetric=name != "ordered") for name in ("a", "b", "ordered"))
    model = toy_model(toy_encoder, [a, b, ordered], dropout=0.1)
    data = {name: pair_tokens(model, name, row_group="a+b+ordered") for name in model.tasks}
    step = next(step for step in range(99) if is_swapped((0, step), "a+b+ordered", 0))
    (drawn_a,), (drawn_b,) = (drawn_inputs(model, data[name], 0, (0, step)) for name in "ab")
    (kept,) = drawn_inputs(model, data["ordered"], 0, (0, step))
    assert drawn_a.ids.tolist() == drawn_b.ids.tolist() != kept.ids.tolist()
    for number in range(20):
        drawn = [drawn_inputs(model, data[name], number % 6, (0, number))[0].ids.tolist() for name in "ab"]
        assert drawn[0] == drawn[1]
    assert kept.ids.tolist() == data["ordered"].inputs(model, 0)[0].ids.tolist()
    counts: list[int] = []
    embed = model.encoder.embed
    monkeypatch.setattr(model.encoder, "embed", lambda tokens: (counts.append(len(tokens)), embed(tokens))[1])
    model.train()
    for names in ("a", "ab", ["a", "ordered"]):
        losses(model, {name: data[name] for name in names}, step, [0])
    assert counts == [len(drawn_a.ids), len(drawn_a.ids), 2 * len(drawn_a.ids)]


# --- predictions -----------------------------------------------------------------------------------------------

ENCODINGS: list[str | PartConfig] = ["cross", "bi-features", "bi-concat", "cross-bi"]


@pytest.mark.parametrize("labels", [TWO, NUMBERS], ids=["classes", "numbers"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_predictions_are_the_mean_of_both_orders_and_ignore_them(toy_encoder: Path, encoding: str, labels: Any) -> None:
    task = a_task(labels=labels, encoding=encoding, symmetric=True, both_orders=True, temperature=1.0)
    model = toy_model(toy_encoder, [task]).double()
    with torch.no_grad():
        for parameter in model.heads.parameters():
            parameter *= 10  # untrained, it hardly sees the order
    one_way = replace(task, both_orders=False)

    def predict(pairs: list[tuple[str, str]], of: Task, tokens_per_pass: int = 40) -> np.ndarray:
        tokens = TaskTokens(of, dataset_of_texts(pairs, 2, "a test"), model.tokenizer, cached=False)
        return np.asarray(predict_tasks(model, {"task": tokens}, tokens_per_pass)["task"])

    swapped = [(second, first) for first, second in PAIRS]
    both, other = predict(PAIRS, task), predict(swapped, task)
    assert np.abs(both - other).max() < 1e-6
    expected = (predict(PAIRS, one_way) + predict(swapped, one_way)) / 2
    np.testing.assert_allclose(both, expected, atol=1e-6)
    assert np.abs(predict(PAIRS, one_way) - predict(swapped, one_way)).max() > 1e-5, "or nothing is shown"


def test_what_both_orders_cost(toy_encoder: Path) -> None:
    """Of a bi-encoder nothing more; of 'cross-bi' the joint input twice, single ones once."""
    tasks = [a_task(name=str(name), encoding=name, symmetric=True, both_orders=True) for name in ENCODINGS]
    model = toy_model(toy_encoder, tasks)
    costs = {name: relative_cost(model, pair_tokens(model, name)) for name in model.tasks}
    assert costs["cross"] == 2
    assert costs["bi-features"] == costs["bi-concat"] == 1
    joint, singles = 0, 0
    for row in range(6):
        first, second, third = pair_tokens(model, "cross-bi").inputs(model, row)
        joint, singles = joint + len(first.ids), singles + len(second.ids) + len(third.ids)
    assert costs["cross-bi"] == pytest.approx((2 * joint + singles) / (joint + singles))


def test_features_are_those_of_one_order(toy_encoder: Path) -> None:
    model = toy_model(toy_encoder, [a_task(symmetric=True, both_orders=True)])
    tokens = pair_tokens(model, "task")
    features = collect_features(model, {"task": tokens}, 1000, {"task": np.arange(6)})["task"]
    fixed = tokens.of(replace(tokens.task, both_orders=False))
    assert torch.equal(features, collect_features(model, {"task": fixed}, 1000, {"task": np.arange(6)})["task"])


def test_the_mean_by_hand() -> None:
    task = a_task(symmetric=True, both_orders=True)
    given = np.array([[0.2, 0.8], [0.6, 0.4], [1.0, 0.0], [0.5, 0.5]])
    np.testing.assert_allclose(mean_over_orders(task, given), [[0.4, 0.6], [0.75, 0.25]])
    assert mean_over_orders(a_task(), given) is given


# --- a whole run -----------------------------------------------------------------------------------------------


def settings(folder: Path, encoder: Path) -> dict[str, Any]:
    near = {"train": "near.tsv", "range": [0, 5], "symmetric": True, "both_orders": True}
    alike = {"train": "alike.csv", "symmetric": True, "both_orders": True}
    recipe = toy_settings(folder, encoder)
    return {**recipe, "tasks": {"near": near, "alike": alike}, "training": {"max_steps": 6, "batch_size": 8}}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, toy_encoder: Path) -> Path:
    def make(folder: Path) -> None:
        write_toy_data(folder)
        rows = [
            f"the {'dull' if row % 2 else 'good'} film {row},a {'dull' if row % 3 else 'good'} film,{row % 2}"
            for row in range(40)
        ]
        (folder / "alike.csv").write_text("sentence1,sentence2,label\n" + "\n".join(rows) + "\n")
        train(load_recipe(settings(folder, toy_encoder)), quiet=True)

    return made_once(tmp_path_factory, "symmetric", make)


@pytest.mark.slow
def test_every_way_to_predict_ignores_the_order(trained: Path) -> None:
    """`predict`, the server's requests, and the run's own dev predictions."""
    best = trained / "runs" / "toy" / "best"
    predictor, backend = open_predictor(best), TorchBackend.open(best, 4096)
    pairs = [("a man plays", "the dog sleeps well"), ("good", "a dull film"), ("why ?", "why not ?")]
    swapped = [(second, first) for first, second in pairs]
    for name, task in backend.tasks.items():
        assert task.both_orders
        described = predictor.predict(name, pairs)
        answers = [
            answer[name] for answer in backend.answer(backend.prepare([TextInput(pair, (task,)) for pair in pairs]))
        ]
        others = [
            answer[name] for answer in backend.answer(backend.prepare([TextInput(pair, (task,)) for pair in swapped]))
        ]
        for one, two, three, four in zip(described, predictor.predict(name, swapped), answers, others, strict=True):
            values = [
                np.array(list(each.get("probabilities", {0: each["prediction"]}).values()))
                for each in (one, two, three, four)
            ]
            for value in values[1:]:
                np.testing.assert_allclose(value, values[0], rtol=0, atol=1e-6)
    run = trained / "runs" / "toy"
    notes = log_of(run, "start")[0]["notes"]
    assert "near: predictions are the mean over both orders of a pair, at 2.00 times the tokens" in notes
    assert json.loads((run / "metrics.json").read_text())["notes"] == notes


@pytest.mark.slow
def test_words_are_weighed_in_both_orders(trained: Path) -> None:
    """Σ over tokens of e·∂s/∂e, against a finite difference of the averaged score."""
    model, _ = load_model(trained / "runs" / "toy" / "best")
    model = model.double().eval()
    backend = TorchBackend(model, {}, 4096)
    task = model.tasks["near"]
    [prepared] = backend.prepare([TextInput(("good film", "dull"), (task,))])
    words = backend.explain(prepared)["near"]
    assert [word["side"] for word in words] == [0, 0, 1]
    packed = model.pack([("near", [prepared.encoder_inputs["near"]])], merge=False, all_states=True)
    starts = packed.tokens.starts.tolist()
    scale = task.unit
    step = 1e-6
    # [CLS] good film [SEP] dull [SEP], and [CLS] dull [SEP] good film [SEP]
    for word, places in zip(words, [(1, 3), (2, 4), (4, 1)], strict=True):
        values = []
        for factor in (1 + step, 1 - step):
            with torch.no_grad():
                embedded = model.embed(packed).clone()
                for start, place in zip(starts, places, strict=True):
                    embedded[start + place] *= factor
                [outputs] = model.read(embedded, packed)
                values.append(float(mean_over_orders(task, model.head("near").loss.predict(outputs)).sum()))
        assert word["weight"] == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-4, abs=1e-9), scale


@pytest.mark.slow
def test_resuming_draws_the_same_orders_and_visits(toy_recipe: ToyRecipe, monkeypatch: pytest.MonkeyPatch) -> None:
    near = {"train": [{"file": "near.tsv", "weight": 1.5}], "range": [0, 5], "symmetric": True}
    check_resumed(toy_recipe, monkeypatch, tasks={"near": near}, training={"max_steps": 5, "batch_size": 8})


@pytest.mark.slow
def test_frozen_states_are_not_kept_of_symmetric_pairs(
    toy_recipe: ToyRecipe, capsys: pytest.CaptureFixture[str]
) -> None:
    from manyheads.training.frozen_cache import FrozenCache

    tasks = {"mood": {"train": "mood.csv"}, "near": {"train": "near.tsv", "range": [0, 5], "symmetric": True}}
    training = {"epochs": 3, "batch_size": 8, "trainable": "heads"}
    setup = assemble(load_recipe(toy_recipe(tasks=tasks, training=training)), Reporter())
    cache = FrozenCache(setup.model, setup.datasets, setup.recipe.training, setup.reporter, setup.processes)
    assert {entry.task for entry in cache.entries(setup.schedule.phases[0])} == {"mood"}
    assert "near draws the order of its pairs; computed anew each time" in capsys.readouterr().err


# --- where it does not fit -------------------------------------------------------------------------------------


def refusal(toy_recipe: ToyRecipe, **task: Any) -> tuple[str, str]:
    with pytest.raises(UserError) as caught:
        load_tasks(load_recipe(toy_recipe(tasks={"a": task})))
    return caught.value.code, str(caught.value)


def test_what_has_no_order_to_draw_is_refused(toy_recipe: ToyRecipe) -> None:
    code, message = refusal(toy_recipe, train="mood.csv", symmetric=True)
    assert code == "symmetric-not-pairs"
    assert "tasks.a.symmetric: this task has one text column" in message
    code, message = refusal(toy_recipe, train="near.tsv", both_orders=True)
    assert code == "both-orders-not-symmetric"
    assert "tasks.a.both_orders: only pairs without an order are predicted in both" in message


@pytest.mark.parametrize("name", [part.name for part in parts("encodings") if part.factory.texts == 2])
def test_encodings_say_whether_the_order_changes_anything(name: str) -> None:
    """Vectors of two sentences, and of both in one input where there is such: in another order that is another one."""
    torch.manual_seed(0)
    encoding = find("encodings", name).factory(8)
    first, second, joint, other_joint = torch.randn(4, 8)
    inputs = {1: ([joint], [other_joint]), 2: ([first, second], [second, first])}
    inputs[3] = ([joint, first, second], [other_joint, second, first])
    marks = (np.array([5, 6]), np.array([7]))
    count = len(encoding.inputs(marks, SPECIAL_TOKENS, 20))
    given, swapped = (encoding(torch.stack(vectors)) for vectors in inputs[count])
    assert torch.allclose(given, swapped) == encoding.symmetric


@pytest.mark.parametrize("encoding", ["bi-cosine", "bi-scaled-cosine"])
def test_an_encoding_without_order_needs_no_draw(toy_recipe: ToyRecipe, encoding: str) -> None:
    near = {"train": "near.tsv", "range": [0, 5], "encoding": encoding, "symmetric": True, "both_orders": True}
    data = load_tasks(load_recipe(toy_recipe(tasks={"near": near})))["near"]
    assert (data.task.symmetric, data.task.both_orders) == (False, False)
    assert f"near: `symmetric` changes nothing, for '{encoding}' gives the same in both orders" in data.notes
