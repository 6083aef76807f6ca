"""What tasks share: sentences encoded once, rows drawn together, layers, heads; and layers that need not be run."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from building import NUMBERS, TWO, a_task, columns, labels_of, toy_inputs, toy_model
from command import check_refused, manyheads
from manyheads import Run, load_recipe
from manyheads.config.part import PartConfig
from manyheads.console import Reporter
from manyheads.encoder.bert import Bert
from manyheads.inference.predict import predict_tasks
from manyheads.model.multitask import ManyHeads
from manyheads.parts.scalarizers import Sum
from manyheads.tasks.load import load_tasks
from manyheads.tokens.packing import PackedTokens, Sequence, merge_equal
from manyheads.training.gradients.backward import Backward
from manyheads.training.gradients.combination import Combination
from manyheads.training.setup import assemble
from manyheads.training.summary import describe_run

pytestmark = pytest.mark.numeric


class Tokens:
    """Counts the tokens that go through an encoder."""

    def __init__(self, model: ManyHeads, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed: list[int] = []
        embed = model.encoder.embed

        def counted(tokens: PackedTokens) -> torch.Tensor:
            self.passed.append(len(tokens))
            return embed(tokens)

        monkeypatch.setattr(model.encoder, "embed", counted)


# --- sentences that occur twice --------------------------------------------------------------------------------


def test_merging_keeps_what_either_wants() -> None:
    def one(ids: list[int], positions_needed: str = "first", origin: tuple[str, int, int] | None = None) -> Sequence:
        return Sequence(np.array(ids), np.zeros(len(ids), dtype=np.int64), positions_needed, origin)  # type: ignore[arg-type]

    given = [one([1, 2]), one([3]), one([1, 2], "all"), one([1, 2], "first", ("rows", 0, 0))]
    distinct, places = merge_equal(given, everywhere=True)
    assert (len(distinct), places, distinct[0].positions_needed) == (2, [0, 1, 0, 0], "all")
    distinct, places = merge_equal(given, everywhere=False)
    assert places == [0, 1, 2, 3], "with dropout equal sentences are drawn anew"
    row = ("rows", 0, 0)
    together = [one([1, 2], "first", row), one([1, 2], "last", row), one([1, 2], "first", ("rows", 0, 1))]
    distinct, places = merge_equal(together, everywhere=False)
    assert (places, distinct[0].positions_needed) == ([0, 0, 1], "all"), "one row's two sides stay two"


@pytest.mark.parametrize("pooling", ["mean", "first", "last", "head-pooler", "lstm"])
def test_a_sentence_that_occurs_twice_is_encoded_once_with_the_same_result(
    pooling: str, toy_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outputs and gradients equal those of the sentences encoded one by one."""
    model = toy_model(toy_encoder, [a_task(labels=NUMBERS, encoding="bi-siamese", pooling=pooling)]).double()
    tokens = columns(model)
    inputs = [model.inputs("task", (tokens[0], tokens[0]), row) for row in range(6)]  # each text with itself, twice
    counted = Tokens(model, monkeypatch)
    grads = []
    for merged in (True, False):
        model.zero_grad()
        asked = [inputs] if merged else [[one] for one in inputs]
        outputs = torch.cat([model([("task", some)])[0] for some in asked])
        model.head("task").loss(outputs, labels_of(model.tasks["task"])).sum().backward()
        grads.append([one.grad.clone() for one in model.parameters() if one.grad is not None])
    assert counted.passed[0] == sum(counted.passed[1:4]), "three different sentences of twelve"
    for one, other in zip(*grads, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_with_dropout_equal_sentences_of_a_batch_keep_their_own_masks(
    toy_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = toy_model(toy_encoder, [a_task(labels=NUMBERS, encoding="bi-cosine")], dropout=0.3).train()
    counted = Tokens(model, monkeypatch)
    tokens = columns(model)
    inputs = [model.inputs("task", (tokens[0], tokens[0]), 0)]
    assert model([("task", inputs)])[0].item() < model.tasks["task"].scaled_bounds[1] - 1e-3, "the sides differ"
    model.eval()
    assert model([("task", inputs)])[0].item() == pytest.approx(model.tasks["task"].scaled_bounds[1])
    assert counted.passed == [2 * counted.passed[1], counted.passed[1]]


# --- layers ----------------------------------------------------------------------------------------------------


def test_a_chosen_layer_is_what_transformers_calls_it(toy_encoder: Path) -> None:
    from transformers import AutoModel

    reference = AutoModel.from_pretrained(toy_encoder).eval()
    for layer in (0, 1, 2, -1, -2):
        task = a_task(pooling=PartConfig(name="first", options={"layer": layer}))
        model = toy_model(toy_encoder, [task]).eval()
        example = toy_inputs(model)[0]
        ids, segments = (torch.tensor(one[None].astype(np.int64)) for one in (example[0].ids, example[0].segments))
        states = reference(input_ids=ids, token_type_ids=segments, output_hidden_states=True).hidden_states
        found = model.head("task").head(states[layer][:, 0])
        assert torch.allclose(model([("task", [example])])[0], found, atol=1e-5)


def test_tasks_may_read_different_layers_in_one_pass(toy_encoder: Path) -> None:
    tasks = [
        a_task(name=f"at-{layer}", pooling=PartConfig(name=name, options={"layer": layer}))
        for layer, name in ((0, "mean"), (1, "first"), (2, "last"))
    ]
    model = toy_model(toy_encoder, tasks)
    batches = [(task.name, toy_inputs(model, task.name)) for task in tasks]
    for together, batch in zip(model(batches), batches, strict=True):
        assert torch.allclose(together, model([batch])[0], atol=1e-6)


def test_layers_that_no_task_reads_are_not_run(toy_encoder: Path) -> None:
    model = toy_model(toy_encoder, [a_task(pooling=PartConfig(name="mean", options={"layer": 1}))])
    assert isinstance(model.encoder, Bert)
    model([("task", toy_inputs(model))])[0].sum().backward()
    ran = [any(one.grad is not None for one in layer.parameters()) for layer in model.encoder.layers]
    assert ran == [True, False]


def test_any_transformers_encoder_gives_its_layers_too(toy_encoder: Path) -> None:
    outputs = []
    for implementation in ("default", "transformers"):
        task = a_task(pooling=PartConfig(name="mean", options={"layer": 1}))
        model = toy_model(toy_encoder, [task], implementation=implementation).eval()
        outputs.append(model([("task", toy_inputs(model))])[0])
    assert torch.allclose(*outputs, atol=1e-5)


# --- groups and heads ------------------------------------------------------------------------------------------


def test_a_group_of_tasks_shares_one_layer(toy_encoder: Path, tmp_path: Path) -> None:
    from manyheads.model.folder import load_model, save_model

    shared = PartConfig(name="bi-shared", options={"units": 8})
    tasks = [
        a_task(name="sts", labels=NUMBERS, encoding=shared),
        a_task(name="qqp", labels=TWO, encoding=shared),
        a_task(name="nli", encoding=PartConfig(name="bi-shared", options={"units": 8, "group": "other"})),
    ]
    model = toy_model(toy_encoder, tasks)
    layers = [model.head(name).encoding.layer for name in ("sts", "qqp", "nli")]
    assert layers[0] is layers[1]
    assert layers[0] is not layers[2]
    assert {name.split(".")[1] for name in model.head_states() if name.startswith("groups.")} == {
        "pairs-group",
        "other-group",
    }
    model([("qqp", toy_inputs(model, "qqp"))])[0].sum().backward()
    assert layers[0].weight.grad is not None, "what one task learns there, the other has"
    with torch.no_grad():
        layers[0].bias.fill_(0.25)
    save_model(tmp_path / "best", model.eval(), toy_encoder, {})
    again, _ = load_model(tmp_path / "best")
    for name in ("sts", "qqp", "nli"):
        inputs = toy_inputs(model, name)
        assert torch.equal(model([(name, inputs)])[0], again([(name, inputs)])[0])


def test_a_group_whose_layers_differ_is_refused(recipe_file: Callable[..., Path]) -> None:
    def task(units: int) -> dict[str, Any]:
        return {"train": "near.tsv", "range": [0, 5], "encoding": {"name": "bi-shared", "units": units}}

    check_refused(
        manyheads("train", recipe_file(tasks={"one": task(8), "two": task(9)})),
        "tasks.two.encoding: the tasks of group 'pairs' share one layer, so their 'units'",
    )


def write_reviews(folder: Path) -> None:
    rows = [f"the {'film' if i % 3 else 'book'} was {'good' if i % 2 else 'bad'} {i},{i % 2}" for i in range(24)]
    (folder / "films.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    (folder / "meals.csv").write_text("text,label\n" + "\n".join(rows[::-1]).replace("film", "meal") + "\n")


@pytest.mark.slow
def test_two_tasks_share_one_head(recipe_file: Callable[..., Path], toy_data: Path) -> None:
    """Paper D: the auxiliary sentiment sets share a head, the main one keeps its own."""
    write_reviews(toy_data)
    file = recipe_file(
        tasks={
            "meals": {"train": "meals.csv", "head_of": "films"},  # before its owner
            "films": {"train": "films.csv", "head": {"name": "hidden", "units": 6}},
            "mood": {"train": "mood.csv"},
        }
    )
    result = manyheads("train", file, "training.epochs=1")
    assert result.returncode == 0, result.stderr
    assert "task meals: 22 train, 2 dev, batch 8 (the head of films)" in result.stderr
    run = Run(toy_data / "runs" / "toy")
    assert list(run.model.tasks) == ["meals", "films", "mood"]
    assert run.model.head("meals") is run.model.head("films")
    assert {name.split(".")[1] for name in run.model.head_states()} == {"films-head", "mood-head"}
    texts = ["the film was good", "a bad book"]
    assert run.predict("meals", texts) == run.predict("films", texts)
    again = manyheads("train", toy_data / "runs" / "toy" / "recipe.yaml", "name=again", "--json")
    assert json.loads(again.stdout)["dev"] == run.metrics["dev"], "the resolved recipe trains to the same result"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head_of": "filmz"}, "tasks.meals.head_of: no task 'filmz'. Did you mean 'films'?"),
        ({"head_of": "meals"}, "tasks.meals.head_of: task 'meals' has no head of its own to share."),
        (
            {"head_of": "mood"},
            "have the same classes in one order; here 0, 1, in 'mood' 0, 1, 2, 3",
        ),
        (
            {"head_of": "films", "head": "mlp"},
            "tasks.meals.head: this task uses the head of 'films', and with it",
        ),
    ],
)
def test_heads_that_cannot_be_shared(
    changes: dict[str, Any], message: str, recipe_file: Callable[..., Path], toy_data: Path
) -> None:
    write_reviews(toy_data)
    tasks = {"films": {"train": "films.csv"}, "mood": {"train": "mood.csv"}, "meals": {"train": "meals.csv", **changes}}
    check_refused(manyheads("train", recipe_file(tasks=tasks)), message)


# --- rows that several tasks read ------------------------------------------------------------------------------


def write_stars(folder: Path) -> Path:
    """30 reviews with stars for all, polarity blank for three stars, a topic for some."""
    rows = []
    for i in range(30):
        stars = i % 5 + 1
        polarity = "" if stars == 3 else str(int(stars > 3))
        mood, topic = ["bad", "poor", "dull", "good", "great"][i % 5], "tea" if i % 2 else ""
        rows.append(f"{i},the meal was {mood} {i},{stars},{polarity},{topic}")
    rows.append("30,nothing known,,,")
    file = folder / "stars.csv"
    file.write_text("id,text,stars,polarity,topic\n" + "\n".join(rows) + "\n")
    return file


def star_tasks(**changes: Any) -> dict[str, Any]:
    return {
        "stars": {"train": "stars.csv", "text": "text", "label": "stars", "kind": "ordinal", **changes},
        "polarity": {"train": "stars.csv", "text": "text", "label": "polarity"},
    }


def test_tasks_on_one_file_draw_the_same_rows_and_skip_blanks(
    toy_recipe: Callable[..., dict[str, Any]], toy_data: Path
) -> None:
    write_stars(toy_data)
    recipe = load_recipe(toy_recipe(tasks=star_tasks()))
    loaded = load_tasks(recipe)
    stars, polarity = loaded["stars"], loaded["polarity"]
    assert stars.row_group == polarity.row_group == "stars+polarity"
    assert stars.train.ids.to_pylist() == polarity.train.ids.to_pylist()
    held_out = [one.dev.ids.to_pylist() for one in (stars, polarity)]
    assert held_out[0] == held_out[1], "none trains on what the other is measured on"
    assert polarity.task.labels.names == ("0", "1")
    for note in ("polarity: 7 of 31 train rows have no label for it", "stars: 1 of 31 train rows have no label for it"):
        assert note in [*polarity.notes, *stars.notes]
    setup = assemble(recipe, Reporter(quiet=True))
    seen: dict[str, list[int]] = {"stars": [], "polarity": []}
    for step in range(setup.schedule.epoch_ends[0]):
        (batches,) = setup.rounds(step)
        by_task = {batch.task: set(batch.indices.tolist()) for batch in batches}
        assert by_task["polarity"] <= by_task["stars"]
        for task, rows in by_task.items():
            seen[task] += rows
    for task, rows in seen.items():
        labelled = setup.datasets.train[task].examples.labelled
        assert sorted(rows) == np.flatnonzero(labelled).tolist(), "every labelled row exactly once in a pass"


@pytest.mark.parametrize("named", [True, False], ids=["columns named", "columns recognised"])
def test_a_task_alone_has_the_splits_that_it_has_beside_those_that_were_left_out(
    toy_recipe: Callable[..., dict[str, Any]], toy_data: Path, named: bool
) -> None:
    write_stars(toy_data)
    tasks = star_tasks()
    if not named:
        del tasks["stars"]["text"]
        del tasks["polarity"]["text"]
    together = load_tasks(load_recipe(toy_recipe(tasks=tasks, evaluate={"select": 0.3})))
    alone = load_recipe(toy_recipe(tasks=tasks, evaluate={"select": 0.3}), {"tasks": ["polarity"]})
    assert alone.tasks["polarity"].row_group == "stars+polarity", "which the run's recipe keeps"
    polarity, polarity_together = load_tasks(alone)["polarity"], together["polarity"]
    for split in ("train", "select", "dev"):
        rows, rows_together = getattr(polarity, split), getattr(polarity_together, split)
        assert rows.ids.to_pylist() == rows_together.ids.to_pylist(), split
    setup = assemble(alone, Reporter(quiet=True))
    lines = describe_run(alone, toy_data, setup.model, setup.datasets, setup.schedule)
    assert not any("same rows" in line for line in lines)
    both = load_recipe(toy_recipe(tasks=tasks), {"tasks": ["polarity", "stars"]})
    assert both.tasks["polarity"].row_group is None, "nothing was left out"


def test_rows_drawn_together_are_encoded_once(
    toy_recipe: Callable[..., dict[str, Any]], toy_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In training with dropout on, and in prediction."""
    write_stars(toy_data)
    setup = assemble(load_recipe(toy_recipe(tasks=star_tasks())), Reporter(quiet=True))
    counted = Tokens(setup.model, monkeypatch)
    assert setup.model.encoder.uses_dropout
    rounds = setup.rounds(0)
    Backward(setup.model, setup.datasets.train, 10**6, nullcontext).step(
        rounds, Combination(Sum(list(setup.model.tasks)))
    )
    rows = {row for batch in rounds[0] for row in batch.indices.tolist()}
    assert counted.passed == [sum(len(setup.datasets.train["stars"].inputs(setup.model, row)[0].ids) for row in rows)]
    counted.passed.clear()
    together = predict_tasks(setup.model, setup.datasets.dev, 10**6)
    stars = setup.datasets.dev["stars"]
    assert counted.passed == [sum(len(stars.inputs(setup.model, row)[0].ids) for row in range(len(stars)))]
    for name, split in setup.datasets.dev.items():
        alone = predict_tasks(setup.model, {name: split}, 10**6)[name]
        assert np.allclose(together[name], alone, atol=1e-6)


def test_drawing_together_can_be_switched_off(toy_recipe: Callable[..., dict[str, Any]], toy_data: Path) -> None:
    write_stars(toy_data)
    settings = toy_recipe(tasks=star_tasks())
    settings["data"]["together"] = False
    settings["data"]["bad_rows"] = "skip"
    loaded = load_tasks(load_recipe(settings))
    assert [one.row_group for one in loaded.values()] == [None, None]
    assert len(loaded["polarity"].train) + len(loaded["polarity"].dev) == 24


@pytest.mark.slow
def test_a_file_of_several_tasks_from_the_command_line(recipe_file: Callable[..., Path], toy_data: Path) -> None:
    write_stars(toy_data)
    file = recipe_file(tasks=star_tasks(metrics=["kappa", "off-by-two"]))
    result = manyheads("train", file, "training.epochs=1", "evaluate.weights.polarity=2")
    assert result.returncode == 0, result.stderr
    assert "tasks stars, polarity read the same rows: drawn together and encoded once" in result.stderr
    assert "ordinal, 5 classes: 1 2" in result.stderr
    run = toy_data / "runs" / "toy"
    metrics = json.loads((run / "metrics.json").read_text())["dev"]
    assert list(metrics["metrics"]["stars"]) == ["kappa", "off-by-two"]
    kappa, accuracy = metrics["metrics"]["stars"]["kappa"] or 0, metrics["metrics"]["polarity"]["accuracy"]
    assert metrics["overall"] == pytest.approx(((1 + kappa) / 2 + 2 * accuracy) / 3)
    found = manyheads("predict", run, toy_data / "stars.csv", "--all")
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert lines[0] == "id\tstars\tpolarity"
    assert len(lines) == 32
    told = json.loads(manyheads("predict", run, "--all", "--json", "--text", "the meal was great").stdout)
    assert set(told[0]) == {"id", "stars", "polarity"}
    assert set(told[0]["polarity"]["probabilities"]) == {"0", "1"}
    check_refused(manyheads("predict", run, "--all", "--task", "stars", "--text", "x"), "--task or --all, not both")


def test_rows_are_the_same_however_file_and_columns_are_written(
    toy_recipe: Callable[..., dict[str, Any]], toy_data: Path
) -> None:
    write_stars(toy_data)
    tasks = star_tasks()
    tasks["polarity"] = {"train": "./stars.csv", "label": "polarity"}  # its text column is recognised
    assert {one.row_group for one in load_tasks(load_recipe(toy_recipe(tasks=tasks))).values()} == {"stars+polarity"}


def test_tasks_of_which_one_holds_out_rows_are_not_together_and_say_so(
    toy_recipe: Callable[..., dict[str, Any]], toy_data: Path
) -> None:
    write_stars(toy_data)
    settings = toy_recipe(tasks=star_tasks(dev="stars.csv"))
    settings["data"]["bad_rows"] = "skip"
    loaded = load_tasks(load_recipe(settings))
    assert [one.row_group for one in loaded.values()] == [None, None]
    assert "so it trains on texts that are held out there as dev" in loaded["stars"].notes[-1]
    assert not any("held out there" in note for note in loaded["polarity"].notes)


@pytest.mark.parametrize("tokens", [1, 30, 45])
def test_rows_drawn_together_are_encoded_once_also_in_several_passes(
    toy_recipe: Callable[..., dict[str, Any]], toy_data: Path, monkeypatch: pytest.MonkeyPatch, tokens: int
) -> None:
    write_stars(toy_data)
    setup = assemble(load_recipe(toy_recipe(tasks=star_tasks())), Reporter(quiet=True))
    counted = Tokens(setup.model, monkeypatch)
    rounds = setup.rounds(0)
    Backward(setup.model, setup.datasets.train, tokens, nullcontext).step(
        rounds, Combination(Sum(list(setup.model.tasks)))
    )
    rows = {row for batch in rounds[0] for row in batch.indices.tolist()}
    assert len(counted.passed) > 1
    assert sum(counted.passed) == sum(
        len(setup.datasets.train["stars"].inputs(setup.model, row)[0].ids) for row in rows
    )


def test_a_sparse_task_is_evaluated_on_rows_that_have_its_label(
    toy_recipe: Callable[..., dict[str, Any]], toy_data: Path
) -> None:
    rows = "".join(f"text {i},{i % 2},{i % 3 if i % 10 == 0 else ''}\n" for i in range(60))
    (toy_data / "sparse.csv").write_text("text,often,seldom\n" + rows)
    shared = {"train": "sparse.csv", "dev": "sparse.csv", "text": "text"}
    tasks = {name: {**shared, "label": name} for name in ("often", "seldom")}
    recipe = load_recipe(toy_recipe(tasks=tasks, evaluate={"max_examples": 5}))
    setup = assemble(recipe, Reporter(quiet=True))
    assert {name: len(chosen) for name, chosen in setup.datasets.selection_rows.items()} == {"often": 5, "seldom": 5}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"range": [0, 500]}, "tasks.far.range: this task uses the head of 'near', and with it its range ((0.0, 5.0))"),
        ({"scale": "raw"}, "tasks.far.scale: this task uses the head of 'near', and with it its scale (standard)"),
        ({"train": "score.csv"}, "tasks.far.head_of: the head of 'near' reads two text columns, this task has 1."),
    ],
)
def test_a_shared_head_has_one_range_and_one_kind_of_input(
    changes: dict[str, Any], message: str, recipe_file: Callable[..., Path], toy_data: Path
) -> None:
    (toy_data / "score.csv").write_text("text,score\n" + "".join(f"text {i},{i % 5 + 0.5}\n" for i in range(20)))
    tasks = {
        "near": {"train": "near.tsv", "range": [0, 5]},
        "far": {"train": "near.tsv", "head_of": "near", **changes},
    }
    check_refused(manyheads("train", recipe_file(tasks=tasks)), message)
