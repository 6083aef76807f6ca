"""How far tasks' gradients agree: measured without changing anything, and told in words that follow the figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from command import check_refused, manyheads
from manyheads import train
from manyheads.reports.conflicts import Agreement, Conflicts, conflict_table, describe_conflicts, read_conflicts
from manyheads.runs.run import Run
from manyheads.tasks.resolve import load_recipe
from run_files import last_checkpoint, log_of

ToyRecipe = Callable[..., dict[str, Any]]
RecipeFile = Callable[..., Path]


@pytest.mark.slow
def test_measuring_changes_nothing_and_keeps_its_share(toy_recipe: ToyRecipe) -> None:
    settings = {"epochs": 6, "batch_size": 4, "learning_rate": 1e-3}
    runs = {
        share: train(
            load_recipe(toy_recipe(name=f"share-{share}", training={**settings, "conflicts": share})), quiet=True
        )
        for share in (0.0, 0.1, 1.0)
    }
    expected = last_checkpoint(runs[0.0].folder, "model.safetensors")
    for share, run in runs.items():
        for name, tensor in last_checkpoint(run.folder, "model.safetensors").items():
            assert torch.equal(tensor, expected[name]), f"{share} {name}"
    steps = len(log_of(runs[0.0].folder))
    assert not log_of(runs[0.0].folder, "conflicts")
    assert len(log_of(runs[1.0].folder, "conflicts")) == steps
    assert steps * 0.1 - 1.5 < len(log_of(runs[0.1].folder, "conflicts")) <= steps * 0.1
    state = json.loads((sorted((runs[0.1].folder / "checkpoints").iterdir())[-1] / "state.json").read_text())
    assert state["conflicts"]["measured_examples"] <= 0.1 * sum(state["progress"]["examples"].values())


def test_an_aggregators_gradients_are_measured_for_nothing(toy_recipe: ToyRecipe) -> None:
    training = {"epochs": 1, "batch_size": 8, "conflicts": 1.0}
    run = train(load_recipe(toy_recipe(combine="pcgrad", training=training)), quiet=True)
    records = log_of(run.folder, "conflicts")
    assert records
    assert all(one["took"] == 0 for one in records)
    assert set(records[0]["norms"]) == {"embeddings", "layer 1", "layer 2"}
    told = describe_conflicts(read_conflicts(Run(run.folder)))
    assert "at a cost of no extra time" in told[0]
    assert "The run's own surgery turned the shared step in" in told[-1]


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["proportional", "sequential"])
def test_rounds_with_one_task_are_measured_with_batches_of_the_others(sampler: str, toy_recipe: ToyRecipe) -> None:
    training = {"epochs": 1, "batch_size": 8, "conflicts": 1.0}
    for combine in ("sum", "pcgrad"):
        recipe = toy_recipe(name=f"{sampler}-{combine}", sampler=sampler, combine=combine, training=training)
        run = train(load_recipe(recipe), quiet=True)
        steps, records = log_of(run.folder), log_of(run.folder, "conflicts")
        assert all(len(one["loss"]) == 1 for one in steps)
        assert len(steps) * 0.4 < len(records) < len(steps), "two tasks cost more than the step's one"
        assert all(sorted(one["tasks"]) == ["mood", "near"] for one in records)


@pytest.mark.slow
def test_the_command_says_what_was_measured(recipe_file: RecipeFile, toy_data: Path) -> None:
    file = recipe_file(training={"epochs": 4, "batch_size": 8, "conflicts": 0.5})
    assert manyheads("train", file, "-q").returncode == 0
    result = manyheads("conflicts", toy_data / "runs" / "toy")
    assert result.returncode == 0, result.stderr
    for expected in (
        "mood – near",
        "all shared",
        "embeddings",
        "against",
        "steps measured",
        "of the training",
        "PCGrad would",
    ):
        assert expected in result.stdout
    found = json.loads(manyheads("conflicts", toy_data / "runs" / "toy", "--json").stdout)
    assert found["pairs"]["mood – near"]["layer 1"].keys() == {"steps", "cosine", "error", "against"}
    # from the log, by hand
    records = log_of(toy_data / "runs" / "toy", "conflicts")
    cosines = [one["cosines"]["layer 1"][0] for one in records]
    assert found["pairs"]["mood – near"]["layer 1"]["cosine"] == pytest.approx(sum(cosines) / len(cosines))
    assert found["steps"] == [one["step"] for one in records]


@pytest.mark.slow
def test_where_nothing_was_measured_the_command_says_why(recipe_file: RecipeFile, toy_data: Path) -> None:
    run = toy_data / "runs" / "toy"
    assert manyheads("train", recipe_file(), "-q").returncode == 0
    check_refused(manyheads("conflicts", run), "its 10 steps are too few to spend 2% of them on it")
    assert manyheads("train", recipe_file(), "-q", "--overwrite", "training.conflicts=0").returncode == 0
    check_refused(manyheads("conflicts", run), "training.conflicts is 0; train with")
    alone = recipe_file(tasks={"mood": {"train": "mood.csv"}})
    assert manyheads("train", alone, "-q", "--overwrite").returncode == 0
    check_refused(manyheads("conflicts", run), "no conflicts were measured: it has one task.")
    check_refused(manyheads("conflicts", toy_data), "not a run folder")


def conflicts(cosine: float, error: float | None, steps: int = 20, **more: Any) -> Conflicts:
    groups = {
        "all shared": Agreement(steps, cosine, error, 0.8),
        "layer 1": Agreement(steps, cosine - 0.1, 0.01, 0.9),
    }
    settings: dict[str, Any] = {
        "steps": list(range(25, 25 + steps)),
        "took": 2.0,
        "training": 100.0,
        "together": steps,
        "did": [],
        "would": [0.0, 0.02],
        "pairs": {"a – b": groups},
        "lengths": {"a": 1.0, "b": 1.0},
    }
    return Conflicts(**{**settings, **more})


def test_words_follow_the_figures() -> None:
    told = describe_conflicts(conflicts(-0.2, 0.05))
    assert "at a cost of 2 s, 2.0% of the training" in told[0]
    assert told[1] == "a and b pull against each other (cosine -0.20, in 80% of the steps), most in layer 1 (-0.30)."
    assert describe_conflicts(conflicts(0.3, 0.05))[1] == (
        "a and b help each other (cosine +0.30), most in layer 1 (+0.20)."
    )
    unsure = describe_conflicts(conflicts(-0.08, 0.05))[1]
    assert unsure == (
        "a and b show no clear agreement or conflict (cosine -0.08), though they pull against each other in layer 1."
    )
    few = describe_conflicts(conflicts(-0.5, 0.01, steps=9))
    assert "too few to say" in few[1]
    assert not any("pull against" in one for one in few)
    assert not any("Lengths" in one for one in describe_conflicts(conflicts(0.3, 0.05, lengths={"a": 1.0, "b": 2.9})))
    assert "in 50% of the steps, by 1.0% of its length" in describe_conflicts(conflicts(-0.2, 0.05))[-1]
    assert "little to expect" in describe_conflicts(conflicts(-0.2, 0.05))[-1]
    assert "worth a trial" in describe_conflicts(conflicts(-0.2, 0.05, would=[0.2]))[-1]
    assert "one task each, so surgery has nothing to do" in describe_conflicts(conflicts(0, 0.1, together=0))[-1]
    assert (
        "own surgery turned the shared step in 100% of the 1 measured"
        in describe_conflicts(conflicts(0, 0.1, did=[0.1]))[-1]
    )


def test_lengths_are_one_line_with_one_set_of_weights() -> None:
    """8, 1 and 1: their geometric mean is 2, and 2/8, 2/1, 2/1 bring all of them to it."""
    lengths = {"a": 1.0, "b": 8.0, "c": 1.0}
    [line] = [one for one in describe_conflicts(conflicts(0.3, 0.05, lengths=lengths)) if one.startswith("Lengths")]
    assert "as times the shortest: b 8.0, a 1.0, c 1.0." in line
    assert "combine.losses={name: fixed, weights: {b: 0.25, a: 2, c: 2}}" in line
    few = describe_conflicts(conflicts(0.3, 0.05, steps=9, lengths=lengths))
    assert not any(one.startswith("Lengths") for one in few), "they too are noise"


def test_many_pairs_are_rows_and_few_sentences() -> None:
    pairs: dict[str, dict[str, Agreement]] = {}
    for number, cosine in enumerate((0.0, -0.3, 0.01)):
        pairs[f"a – {number}"] = {
            "all shared": Agreement(20, cosine, 0.02, 0.5),
            "layer 1": Agreement(20, cosine, 1, 0.5),
        }
    many = conflicts(0, 0, pairs=pairs)
    assert [row["tasks"] for row in conflict_table(many)] == ["a – 1", "a – 0", "a – 2"], "the hardest first"
    assert conflict_table(many)[0] == {"tasks": "a – 1", "all shared": "-0.30 ± 0.02", "against": "50%", "1": "-0.30"}
    told = describe_conflicts(many)
    assert told[1].startswith("a and 1 pull against each other")
    assert told[2] == "The other pairs (2) show no clear agreement or conflict."
    assert describe_conflicts(conflicts(0.01, 0.01, pairs={"a – 0": pairs["a – 0"]}))[1] == (
        "No two tasks show a clear agreement or conflict."
    )


@pytest.mark.slow
def test_verdicts_are_rarely_wrong_where_there_is_nothing() -> None:
    """Pure noise over twelve steps, three pairs, seven layer groups: some verdict in about one table of twenty."""
    random = np.random.default_rng(0)
    wrong = 0
    for _ in range(400):
        cells = random.normal(scale=0.1, size=(21, 12))
        found = [Agreement(12, one.mean(), one.std(ddof=1) / 12**0.5, 0.5) for one in cells]
        wrong += any(one.direction(21) for one in found)
    assert wrong < 0.09 * 400


def record(**changes: Any) -> dict[str, Any]:
    """Two gradients of length 1 and 2 with cosine −½."""
    return {
        "event": "conflicts",
        "tasks": ["mood", "near"],
        "trained": ["mood", "near"],
        "norms": {"layer 1": [1.0, 2.0], "layer 2": [0.0, 0.0]},
        "cosines": {"layer 1": [-0.5], "layer 2": [None]},
        "took": 0.5,
        "step": 3,
        "epoch": 1,
        "seconds": 1.0,
        **changes,
    }


@pytest.fixture
def log_with(toy_recipe: ToyRecipe) -> Callable[..., Conflicts]:
    run = train(load_recipe(toy_recipe()), quiet=True)
    before = (run.folder / "log.jsonl").read_text()

    def read(*records: dict[str, Any]) -> Conflicts:
        lines = "".join(json.dumps(one) + "\n" for one in records)
        (run.folder / "log.jsonl").write_text(before + lines + '{"event": "st')  # a line that is being written
        return read_conflicts(Run(run.folder))

    return read


def test_what_surgery_would_have_changed_is_worked_out_from_the_log(log_with: Callable[..., Conflicts]) -> None:
    """p₁ = g₁ + ¼·g₂, p₂ = g₂ + 1·g₁; Σp − Σg = g₁ + ¼·g₂."""
    found = log_with(record())
    moved, whole = 1 + 4 / 16 - 2 * 0.25, 1 + 4 - 2
    assert found.would == pytest.approx([(moved / whole) ** 0.5])
    assert (found.together, found.did, found.steps, found.took) == (1, [], [3], 0.5)
    assert found.pairs["mood – near"]["all shared"] == Agreement(1, -0.5, None, 1.0)
    assert found.lengths == pytest.approx({"mood": 1.0, "near": 2.0})
    assert "layer 2" not in found.pairs["mood – near"], "no gradient, no cosine"


@pytest.mark.slow
def test_a_step_with_one_task_leaves_surgery_nothing_to_do(log_with: Callable[..., Conflicts]) -> None:
    found = log_with(record(trained=["near"], surgery={"near": 1.0}, operated=["layer 1"]))
    assert (found.together, found.would, found.did) == (0, [], [])


def test_what_the_runs_own_surgery_did_is_worked_out_where_it_acted(log_with: Callable[..., Conflicts]) -> None:
    """The angle between Σ w·g and Σ g: with w = (1, 0), g₁ against g₁ + g₂, cos = (1 − 1)/(1·√3) = 0."""
    used = {"surgery": {"mood": 1.0, "near": 0.0}}
    assert log_with(record(**used, operated=["layer 1"])).did == pytest.approx([2**0.5])
    assert log_with(record(**used, operated=["layer 2"])).did == pytest.approx([0.0]), "other layers were added up"
    half = {"surgery": {"mood": 0.5, "near": 0.5}, "operated": ["layer 1"]}
    assert log_with(record(**half)).did == pytest.approx([0.0], abs=1e-7), (
        "the same direction, a mean in place of a sum"
    )
