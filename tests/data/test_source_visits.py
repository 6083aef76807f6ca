"""Weights of sources: how often a pass visits their rows, counted, whatever draws it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyheads.config.recipe import Recipe
from manyheads.console import Reporter
from manyheads.data.source_visits import SourceVisits
from manyheads.errors import UserError
from manyheads.parts.samplers import Passes, SamplerInput
from manyheads.registry import find
from manyheads.studies.identity import run_identity
from manyheads.tasks.load import load_tasks
from manyheads.tasks.resolve import load_recipe
from manyheads.training.plan import make_plan
from manyheads.training.probe import Prober
from manyheads.training.setup import assemble

ToyRecipe = Callable[..., dict[str, Any]]
SOURCES = np.array([0, 1, 0, 1, 0, 1, 1, 0, 0, 0])  # rows 0, 2, 4, 7, 8, 9 are of the first, 1, 3, 5, 6 of the second


def weighted(*weights: float) -> SourceVisits:
    visits = SourceVisits.of(SOURCES, weights)
    assert visits is not None
    return visits


def sampler_input(visits: SourceVisits, seed: int = 3, **more: Any) -> SamplerInput:
    return SamplerInput({"a": visits.size}, {"a": 4}, seed, visits={"a": visits}, **more)


def test_a_pass_has_as_many_visits_of_a_source_as_its_weight_says() -> None:
    assert SourceVisits.of(SOURCES, [1.0, 1.0]) is None, "as before"
    visits = weighted(2.5, 0.25)
    assert visits.visits == (15, 1)  # 2.5·6, 0.25·4
    assert visits.size == 16
    assert weighted(1.0, 0.01).visits == (6, 1), "at least one"
    assert SourceVisits.of(SOURCES, [1.0, 1.0, 7.0]) is None, "a source without rows"
    for number in range(5):
        rows = visits.rows_of_pass(number, 0, "a")
        assert Counter(SOURCES[rows].tolist()) == {0: 15, 1: 1}


def test_after_every_pass_the_rows_of_a_source_are_at_most_one_visit_apart() -> None:
    """⌊P·m/n⌋ or ⌈P·m/n⌉ visits after P passes: with m/n = 15/6 and 1/4 all alike after 2 and after 4."""
    visits = weighted(2.5, 0.25)
    counts = np.zeros(10, dtype=int)
    for number in range(8):
        np.add.at(counts, visits.rows_of_pass(number, 0, "a"), 1)
        passes = number + 1
        assert set(counts[SOURCES == 0]) == {passes * 15 // 6, -(-passes * 15 // 6)}
        assert set(counts[SOURCES == 1]) == {passes // 4, -(-passes // 4)}
    assert counts.tolist() == [20, 2] * 3 + [2, 20, 20, 20]


def test_which_rows_come_first_depends_on_seed_and_name_alone() -> None:
    visits = weighted(1.0, 0.5)
    first = visits.rows_of_pass(0, 1, "a").tolist()
    assert first == visits.rows_of_pass(0, 1, "a").tolist()
    firsts = {tuple(visits.rows_of_pass(0, seed, "a")) for seed in range(20)}
    assert len(firsts) == 6, "each of the six halves of four rows"
    assert {tuple(visits.rows_of_pass(0, 1, name)) for name in "abcdefgh"} != {tuple(first)}


@pytest.mark.parametrize(
    "name", ["batch-round-robin", "mixture", "sequential", "proportional", "full-data", "balanced"]
)
def test_every_sampler_visits_rows_by_their_weights(name: str) -> None:
    given = sampler_input(weighted(2.0, 0.5), epochs=2)
    options = {"max_passes": None} if name == "mixture" else {}
    sampler = find("samplers", name).factory(given, **options)
    rounds = [sampler.round(index) for index in range(sum(sampler.epochs))]
    rows = np.concatenate([batch.indices for batches in rounds for batch in batches])
    counts = np.bincount(rows, minlength=10)
    assert len(rows) == 2 * (12 + 2)
    if name == "mixture":  # which begins anywhere in a pass, and ends there in the third
        assert set(counts[SOURCES == 0]) <= {3, 4, 5}
    else:
        assert counts.tolist() == [4, 1] * 3 + [1, 4, 4, 4]
    for index in (len(rounds) - 1, 0, len(rounds) // 2):
        resumed = find("samplers", name).factory(given, **options).round(index)
        assert [batch.indices.tolist() for batch in resumed] == [batch.indices.tolist() for batch in rounds[index]]


def test_the_order_within_a_pass_is_the_one_without_weights() -> None:
    """Rows stand where the permutation of as many places puts them; weights of 1 are no weights."""
    visits = weighted(2.0, 0.5)
    plain = Passes(SamplerInput({"a": 14}, {"a": 14}, 3), "a").batch(1).indices
    rows = Passes(SamplerInput({"a": 14}, {"a": 14}, 3, visits={"a": visits}), "a").batch(1).indices
    assert rows.tolist() == visits.rows_of_pass(1, 3, "a")[plain].tolist()
    ones = SourceVisits((np.arange(6), np.arange(6, 10)), (6, 4))
    assert ones.rows_of_pass(2, 0, "a").tolist() == list(range(10))


def test_tasks_that_read_the_same_rows_visit_the_same() -> None:
    visits = weighted(1.0, 0.5)
    groups = {"a": "a+b", "b": "a+b"}
    both = SamplerInput(
        {"a": 8, "b": 8}, {"a": 4, "b": 4}, 0, row_groups=dict(groups), visits={"a": visits, "b": visits}
    )
    for number in range(4):
        assert Passes(both, "a").batch(number).indices.tolist() == Passes(both, "b").batch(number).indices.tolist()


# --- in a recipe -----------------------------------------------------------------------------------------------


def test_the_plan_counts_weighted_visits(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    """40 rows twice and 27 rows a third of the time: 80 + 9 visits are a pass."""
    rows = [f"m{row},more {row},{row % 4}" for row in range(27)]
    (toy_data / "more.csv").write_text("id,sentence,label\n" + "\n".join(rows) + "\n")
    training = {"epochs": 3, "batch_size": 8}

    def recipe(*train: Any) -> Recipe:
        tasks = {"mood": {"train": list(train), "dev": "mood.csv"}}
        return load_recipe(toy_recipe(tasks=tasks, sampler="sequential", training=training))

    given = recipe({"file": "mood.csv", "weight": 2}, {"file": "more.csv", "weight": 0.3333})
    (task,) = make_plan(given, timed=False).tasks
    assert (task.examples, task.passes, task.batches_per_pass, task.batches) == (67, 3.0, 12, 36)
    assert (task.most_seen, task.never_seen) == (6, 0)
    plan = make_plan(recipe("mood.csv", {"file": "more.csv", "weight": 0.1}), timed=False)
    assert plan.tasks[0].never_seen == 27 - 3 * 3
    assert plan.advice == [], "every pass is as long as the weights say"
    assert run_identity(given) != run_identity(recipe("mood.csv", "more.csv"))
    assert run_identity(recipe({"file": "mood.csv", "weight": 1})) == run_identity(recipe("mood.csv"))


def test_the_probe_reads_the_rows_of_a_pass(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    """A source of weight 0.1 gives the heads' start a tenth of its rows."""
    rows = [f"m{row},more {row},{row % 4}" for row in range(30)]
    (toy_data / "more.csv").write_text("id,sentence,label\n" + "\n".join(rows) + "\n")
    train = [{"file": "mood.csv", "weight": 2}, {"file": "more.csv", "weight": 0.1}]
    recipe = load_recipe(toy_recipe(tasks={"mood": {"train": train, "dev": "mood.csv"}}))
    setup = assemble(recipe, Reporter(quiet=True))
    chosen = Prober(recipe, setup.model, setup.datasets, setup.reporter).rows["mood"]
    assert len(np.unique(chosen)) == len(chosen) == 43
    assert Counter(setup.datasets.train["mood"].examples.files[chosen].tolist()) == {0: 40, 1: 3}


def test_texts_without_labels_come_once_in_every_pass(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    (toy_data / "texts.csv").write_text("id,sentence\n" + "".join(f"u{row},text {row}\n" for row in range(7)))
    task = {"train": {"file": "mood.csv", "weight": 2}, "unlabelled": "texts.csv", "dev": "mood.csv"}
    data = load_tasks(load_recipe(toy_recipe(tasks={"mood": task})))["mood"]
    assert data.unlabelled_rows == 7
    assert data.pass_size == 2 * (len(data.train) - 7) + 7


@pytest.mark.parametrize("source", [{"weight": 0}, {"weight": 101}, {"limit": 0}, {"leave_out": ["train"]}])
def test_impossible_values_are_refused(toy_recipe: ToyRecipe, source: dict[str, Any]) -> None:
    tasks = {"mood": {"train": {"file": "mood.csv", **source}}}
    with pytest.raises(UserError) as caught:
        load_recipe(toy_recipe(tasks=tasks))
    assert caught.value.code == "bad-recipe"


@pytest.mark.parametrize("split", ["dev", "unlabelled"])
@pytest.mark.parametrize("key", ["weight", "limit", "leave_out"])
def test_only_train_has_weights_and_limits(toy_recipe: ToyRecipe, key: str, split: str) -> None:
    value: Any = ["test"] if key == "leave_out" else 3
    tasks = {"mood": {"train": "mood.csv", split: {"file": "mood.csv", key: value}}}
    with pytest.raises(UserError, match=rf"tasks.mood.{split}: {key}: only for sources of train") as caught:
        load_recipe(toy_recipe(tasks=tasks))
    assert caught.value.code == "bad-recipe"


def test_a_limit_is_a_random_part_that_no_seed_changes(toy_recipe: ToyRecipe) -> None:
    tasks = {"mood": {"train": {"file": "mood.csv", "limit": 10}, "dev": "mood.csv"}}
    first, second = (load_tasks(load_recipe(toy_recipe(tasks=tasks, seed=seed)))["mood"] for seed in (0, 1))
    numbers = list(map(int, first.train.ids))
    assert numbers == list(map(int, second.train.ids))
    assert len(numbers) == 10
    assert numbers == sorted(numbers)
    assert numbers != list(range(10))
    assert "mood: mood.csv: 10 of 40 rows are trained on (limit)" in first.notes
    tasks["mood"]["train"] = {"file": "mood.csv", "limit": 40}
    all_rows = load_tasks(load_recipe(toy_recipe(tasks=tasks)))["mood"]
    assert len(all_rows.train) == 40
    assert not any("limit" in note for note in all_rows.notes)


def test_tasks_of_the_same_rows_share_them_only_with_the_same_weights(toy_recipe: ToyRecipe) -> None:
    source = {"file": "mood.csv", "weight": 2, "limit": 20}
    for other, row_group in ((source, "a+b"), ({**source, "weight": 1}, None), ({**source, "limit": 19}, None)):
        tasks = {"a": {"train": source}, "b": {"train": other}}
        loaded = load_tasks(load_recipe(toy_recipe(tasks=tasks)))
        assert loaded["a"].row_group == loaded["b"].row_group == row_group
        if row_group is not None:
            assert loaded["a"].train.ids.to_pylist() == loaded["b"].train.ids.to_pylist()
            assert loaded["a"].pass_size == loaded["b"].pass_size == 40
