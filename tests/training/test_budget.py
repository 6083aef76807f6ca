"""`training.budget`: passes, examples, steps or minutes, with samplers that deal out examples and with others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import yaml

from manyheads import load_recipe, train
from manyheads.console import Reporter
from manyheads.errors import UserError
from manyheads.model.task_tokens import TaskTokens
from manyheads.training.measured_budget import MeasuredBudget, Speed, evaluated_tokens, fit_into, with_examples
from manyheads.training.plan import make_plan
from manyheads.training.probe import probe_tokens_read
from manyheads.training.setup import assemble

QUIET = Reporter(quiet=True)
ToyRecipe = Callable[..., dict[str, Any]]  # 36 and 27 rows of train


def plan_of(toy_recipe: ToyRecipe, budget: dict[str, Any] | None, sampler: Any = "mixture", **training: Any) -> Any:
    settings = {"batch_size": 8, **training}
    if budget is not None:
        settings["budget"] = budget
    return make_plan(load_recipe(toy_recipe(training=settings, sampler=sampler)), timed=False)


def examples_of(plan: Any) -> dict[str, int]:
    return {task.task: round(task.passes * task.examples) for task in plan.tasks}


def test_passes_are_dealt_out_by_the_sampler(toy_recipe: ToyRecipe) -> None:
    equal = {"name": "mixture", "alpha": 1, "max_passes": None}
    plan = plan_of(toy_recipe, {"passes": 2}, equal)
    assert examples_of(plan) == {"mood": 72, "near": 54}
    assert (plan.steps, plan.epochs) == (round(126 / 8), 2)
    half = plan_of(toy_recipe, {"passes": 0.5}, equal)
    assert (sum(examples_of(half).values()), half.epochs) == (32, 1)


def test_examples_and_steps(toy_recipe: ToyRecipe) -> None:
    assert sum(examples_of(plan_of(toy_recipe, {"examples": 100})).values()) == 100
    plan = plan_of(toy_recipe, {"steps": 11})
    assert (plan.steps, sum(examples_of(plan).values())) == (11, 88)


def test_a_sampler_that_deals_out_batches_is_cut_where_the_budget_ends(toy_recipe: ToyRecipe) -> None:
    plan = plan_of(toy_recipe, {"examples": 200}, "batch-round-robin")
    drawn = sum(examples_of(plan).values())
    assert 200 <= drawn < 200 + 16
    assert plan_of(toy_recipe, {"steps": 23}, "batch-round-robin").steps == 23


def test_epochs_take_its_place_and_both_are_refused(toy_recipe: ToyRecipe) -> None:
    recipe = load_recipe(toy_recipe(training={"epochs": 2}))
    assert (recipe.training.budget, recipe.training.epochs) == (None, 2)
    with pytest.raises(UserError, match="'epochs' and 'budget' both say how long"):
        load_recipe(toy_recipe(training={"epochs": 2, "budget": {"passes": 2}}))
    with pytest.raises(UserError, match="expected exactly one of 'passes', 'examples', 'steps', 'minutes'"):
        load_recipe(toy_recipe(training={"budget": {"passes": 2, "steps": 3}}))
    with pytest.raises(UserError, match="phases have lengths of their own"):
        load_recipe(toy_recipe(training={"budget": {"passes": 2}}, phases=[{"epochs": 1}]))


def test_a_recipe_that_was_written_out_says_the_same(toy_recipe: ToyRecipe) -> None:
    contents = [toy_recipe(training={"budget": {"passes": 2}}), toy_recipe(phases=[{"epochs": 1}]), toy_recipe()]
    for content in contents:
        content = {**content, "defaults": None}
        recipe = load_recipe(content)
        assert load_recipe(yaml.safe_load(recipe.to_yaml())).training == recipe.training


@pytest.mark.parametrize("probe", [True, False])
def test_minutes_count_the_evaluations_of_averaged_weights(toy_recipe: ToyRecipe, probe: bool) -> None:
    """They are evaluated whenever the raw ones are, and at the end on dev; the probe's baseline is not."""
    predicted = {}
    for averaging in (None, 0.99):
        training = {"probe": probe, "average_weights": averaging}
        recipe = load_recipe(toy_recipe(training=training, evaluate={"select": 0.25}))
        datasets = assemble(recipe, QUIET).datasets
        predicted[averaging] = evaluated_tokens(recipe, datasets, evaluations=3)
    selection, dev = tokens_of(datasets.selection, datasets.selection_rows), tokens_of(datasets.dev)
    baseline = (selection + dev) * probe
    assert predicted[None] == baseline + (3 + probe) * selection + dev
    assert predicted[0.99] == baseline + 2 * ((3 + probe) * selection + dev)


def test_a_plans_time_holds_the_probe_and_every_evaluation(
    toy_recipe: ToyRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a token that is predicted takes a second, and a step none."""
    monkeypatch.setattr("manyheads.training.plan.time_prediction", lambda *_: 1.0)
    monkeypatch.setattr("manyheads.training.plan._time_steps", lambda *_: 0.0)
    for probe in (False, True):
        recipe = load_recipe(
            toy_recipe(training={"epochs": 2, "probe": probe}, evaluate={"select": 0.25, "train_examples": 5})
        )
        setup = assemble(recipe, QUIET)
        datasets = setup.datasets
        selection, dev = tokens_of(datasets.selection, datasets.selection_rows), tokens_of(datasets.dev)
        evaluated = selection + tokens_of(datasets.train, datasets.train_rows)
        seconds = 2 * evaluated + dev
        if probe:  # its pass, what it begins with, and the baseline
            seconds += 1.25 * probe_tokens_read(setup.model, datasets, 200_000) + evaluated + (selection + dev)
        assert make_plan(recipe).seconds == pytest.approx(seconds), probe


def tokens_of(data: dict[str, TaskTokens], rows: dict[str, np.ndarray] | None = None) -> int:
    total = 0
    for name, split in data.items():
        for column in split.texts:
            lengths = column.lengths if rows is None else column.lengths[rows[name]]
            total += int(lengths.sum())
    return total


def test_what_fits_into_minutes(toy_recipe: ToyRecipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """n·t + m·f + 1.25·p·f = 0.95·T; the probe is halved until it takes at most 40 % of what is left."""
    recipe = load_recipe(
        toy_recipe(training={"probe": True, "batch_size": 8, "budget": {"minutes": 10}}, evaluate={"select": 0.25})
    )
    setup = assemble(with_examples(recipe, 8), QUIET)
    model, datasets = setup.model, setup.datasets
    all_tokens = tokens_of(datasets.train)
    evaluated = evaluated_tokens(recipe, datasets, evaluations=1)
    one_pass = sum(map(len, datasets.train.values()))

    def fit(example: float, token: float) -> MeasuredBudget:
        return fit_into(recipe, model, datasets, Speed(example, token))

    whole = fit(example=570 / (4 * one_pass), token=0.0)  # predicting takes no time: four passes fit into 9.5 minutes
    assert (whole.examples, whole.probe_tokens) == (4 * one_pass, 200_000)
    read = probe_tokens_read(model, datasets, 200_000)
    assert read >= all_tokens, "each task once, and again where its head reads a pair as one text"
    slow = fit(example=570 / one_pass, token=0.1 * 570 / (1.25 * read + evaluated))
    assert slow.examples == round(0.9 * one_pass), "a tenth of the time is for probe and evaluations"
    assert slow.other_seconds == pytest.approx(57)
    monkeypatch.setattr("manyheads.training.measured_budget.LEAST_PROBE_TOKENS", 1)
    # the whole probe would take all of the time that evaluations leave
    slower = fit(example=100, token=570 / (1.25 * read + evaluated))
    assert probe_tokens_read(model, datasets, slower.probe_tokens) <= 0.4 * read
    assert probe_tokens_read(model, datasets, 2 * slower.probe_tokens + 1) > 0.4 * read
    assert slower.examples == 8, "at least one round"
    assert slower.describe(10).startswith("budget: 10 minutes are about 8 examples on this machine, and ")
    slowest = fit(example=100, token=600 / evaluated)
    assert slowest.probe_tokens == 1
    assert slowest.describe(10).startswith("warning: budget: 10 minutes are too few on this machine: it takes 10:")
    assert "tasks.near.max_dev" in slowest.describe(10), "whose dev has the most tokens"


@pytest.mark.slow
def test_minutes_become_examples_in_the_runs_recipe(toy_recipe: ToyRecipe, capsys: pytest.CaptureFixture[str]) -> None:
    uncapped = {"name": "mixture", "max_passes": None}
    recipe = load_recipe(toy_recipe(training={"batch_size": 8, "budget": {"minutes": 0.01}}, sampler=uncapped))
    run = train(recipe)
    assert "budget: 0.01 minutes are about" in capsys.readouterr().err
    budget = run.recipe.training.budget
    assert budget is not None
    assert budget.minutes is None
    assert budget.examples is not None
    assert sum(run.metrics["examples_seen"].values()) == pytest.approx(budget.examples, abs=2)
