"""Combinations from the command line: trained, logged, refused, resumed; and how tasks' conflicts are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from command import check_refused, manyheads
from manyheads import train
from manyheads.tasks.resolve import load_recipe
from run_files import last_checkpoint, log_of

pytestmark = pytest.mark.slow

ToyRecipe = Callable[..., dict[str, Any]]
RecipeFile = Callable[..., Path]


# --- trained ---------------------------------------------------------------------------------------------------


@pytest.mark.numeric
def test_weights_are_learnt_logged_and_kept(toy_recipe: ToyRecipe) -> None:
    combine = {"losses": {"name": "uncertainty", "learning_rate": 0.05}, "gradients": "pcgrad"}
    run = train(load_recipe(toy_recipe(combine=combine)), quiet=True)
    steps = log_of(run.folder)
    curves = {task: [record["weights"][task] for record in steps if "weights" in record] for task in ("mood", "near")}
    assert curves["mood"][-1] < 0.9, "a loss above 1 gets less weight"
    assert all(record["surgery"].keys() == {"mood", "near"} for record in steps)
    kept = last_checkpoint(run.folder, "combiner_state.safetensors")
    w = kept["combine-1.scalarizer.w.mood-weight"]
    assert torch.exp(-w).item() == pytest.approx(curves["mood"][-1], abs=0.05)
    moments = last_checkpoint(run.folder, "optimizer.safetensors")
    assert "combiner_state.combine-1.scalarizer.w.mood-weight|exp_avg" in moments


@pytest.mark.numeric
def test_own_rate_of_the_weights_warms_up_and_falls_with_the_schedule(toy_recipe: ToyRecipe) -> None:
    """AdamW's first step moves w by its rate: 0.5 times the warm-up's factor."""
    training = {"epochs": 1, "max_steps": 1, "batch_size": 8, "learning_rate": 1e-9, "warmup": 0.0}
    combine = {"name": "uncertainty", "learning_rate": 0.5}
    run = train(load_recipe(toy_recipe(combine=combine, training=training)), quiet=True)
    check_first_step(run.folder, 0.5)


@pytest.mark.numeric
def test_weights_learn_at_the_trainings_rate_where_asked_to(toy_recipe: ToyRecipe) -> None:
    training = {"epochs": 1, "max_steps": 1, "batch_size": 8, "learning_rate": 2e-3, "warmup": 0.0}
    combine = {"name": "uncertainty", "learning_rate": None}
    run = train(load_recipe(toy_recipe(combine=combine, training=training)), quiet=True)
    check_first_step(run.folder, 2e-3)


def check_first_step(run: Path, rate: float) -> None:
    """w goes up for a loss above 1, down for one below, by the rate."""
    kept = last_checkpoint(run, "combiner_state.safetensors")
    for task, loss in log_of(run)[0]["loss"].items():
        w = kept[f"combine-1.scalarizer.w.{task}-weight"].item()
        assert w == pytest.approx(rate if loss > 1 else -rate, rel=1e-3)


@pytest.mark.numeric
def test_a_combination_goes_on_through_phases_and_a_phase_may_have_its_own(toy_recipe: ToyRecipe) -> None:
    phases = [
        {"epochs": 1},
        {"epochs": 1, "combine": {"losses": "liebel-korner", "gradients": "mgda"}},
        {"epochs": 1},
    ]
    combine = {"name": "uncertainty", "learning_rate": 0.05}
    run = train(load_recipe(toy_recipe(combine=combine, phases=phases)), quiet=True)
    kept = last_checkpoint(run.folder, "combiner_state.safetensors")
    assert {key.split(".")[0] for key in kept} == {"combine-1", "combine-2"}, (
        "the third phase goes on with the first one's weights"
    )
    steps = log_of(run.folder)
    starts = [number for number, record in enumerate(steps) if "phase" in record]
    assert [steps[number].get("surgery") is not None for number in starts] == [False, True, False]
    assert steps[starts[1]]["weights"] == pytest.approx({"mood": 0.5, "near": 0.5})
    before, after = (steps[number]["weights"]["mood"] for number in (starts[1] - 1, starts[2]))
    assert after == pytest.approx(before, abs=0.05)
    assert after != 1


@pytest.mark.numeric
def test_weights_with_a_memory_move_in_a_real_run(toy_recipe: ToyRecipe) -> None:
    """The loop tells them losses and epochs: the third epoch, or window, has weights of its own."""
    for combine in ({"name": "dynamic-weights"}, {"name": "dynamic-weights", "every": 3}):
        training = {"epochs": 3, "batch_size": 8, "learning_rate": 1e-3}
        name = f"memory-{len(combine)}"
        run = train(load_recipe(toy_recipe(name=name, combine=combine, training=training)), quiet=True)
        weights = [record["weights"]["mood"] for record in log_of(run.folder)]
        first = 6 if "every" in combine else 10  # two windows, or two epochs of five steps
        assert all(one == pytest.approx(1) for one in weights[:first])
        assert all(one != pytest.approx(1, abs=1e-4) for one in weights[first:])


OWN = """
import torch
from manyheads.parts.aggregators import Aggregator
from manyheads.parts.scalarizers import Scalarizer
from manyheads.registry import register

@register("scalarizers", "forgetful")
class Forgetful(Scalarizer):
    \"\"\"Σ L², which does not say that it is not affine.\"\"\"
    def forward(self, losses):
        return sum(loss**2 for loss in losses.values())

@register("scalarizers", "first-only")
class FirstOnly(Scalarizer):
    \"\"\"The first task alone.\"\"\"
    def forward(self, losses):
        return 2 * losses["mood"] + 0

@register("scalarizers", "no-tensor")
class NoTensor(Scalarizer):
    \"\"\"A number that is none of torch's.\"\"\"
    def forward(self, losses):
        return 3.0

@register("aggregators", "too-long")
class TooLong(Aggregator):
    \"\"\"One weight too many.\"\"\"
    def forward(self, gramian, present):
        return torch.ones(len(present) + 1)

@register("aggregators", "not-numbers")
class NotNumbers(Aggregator):
    \"\"\"Weights that are not numbers.\"\"\"
    def forward(self, gramian, present):
        return torch.full((len(present),), float("nan"))
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("forgetful", "'forgetful' weighs tasks by their losses; its class must say affine = False"),
        ("no-tensor", "NoTensor gave 3.0; expected one number in a tensor"),
        ("too-long", "TooLong gave a tensor of shape [3]; expected a weight for each of mood, near"),
        ("not-numbers", "NotNumbers gave weights that are not finite: [nan, nan]"),
    ],
)
def test_faults_of_own_parts_are_named(name: str, message: str, recipe_file: RecipeFile, toy_data: Path) -> None:
    (toy_data / "own.py").write_text(OWN)
    check_refused(manyheads("train", recipe_file(imports=["own.py"], combine=name)), message)


def test_a_loss_may_be_left_out(recipe_file: RecipeFile, toy_data: Path) -> None:
    (toy_data / "own.py").write_text(OWN)
    assert manyheads("train", recipe_file(imports=["own.py"], combine="first-only"), "-q").returncode == 0
    assert all(record["weights"] == {"mood": 2.0, "near": 0.0} for record in log_of(toy_data / "runs" / "toy"))


def test_losses_that_depend_on_each_other_with_layer_factors_and_one_task_a_step(toy_recipe: ToyRecipe) -> None:
    tasks = {
        "mood": {"train": "mood.csv", "layer_factors": {"layers": [2], "chosen": 2}},
        "near": {"train": "near.tsv", "range": [0, 5]},
    }
    run = train(load_recipe(toy_recipe(tasks=tasks, combine="geometric-mean", sampler="proportional")), quiet=True)
    assert all(list(one["weights"].values()) == pytest.approx([1.0]) for one in log_of(run.folder))


@pytest.mark.numeric
def test_layer_factors_of_a_task(toy_recipe: ToyRecipe) -> None:
    """Paper A's reading: nothing that the one task sends reaches layer 1, so with it alone the layer only decays."""
    tasks = {"mood": {"train": "mood.csv", "layer_factors": {"layers": [2], "others": 0.0}}}
    training = {"epochs": 1, "batch_size": 8, "learning_rate": 1e-3, "weight_decay": 0.0}
    run = train(load_recipe(toy_recipe(tasks=tasks, training=training)), quiet=True)
    start = load_file(Path(run.recipe.encoder.name) / "model.safetensors")
    end = load_file(run.folder / "best" / "model.safetensors")
    for name, tensor in end.items():
        if ".layer.0." in name:
            assert torch.equal(tensor, start[name]), name
    assert not torch.equal(end["encoder.layer.1.output.dense.weight"], start["encoder.layer.1.output.dense.weight"])


# --- refused -----------------------------------------------------------------------------------------------------


REFUSED: list[tuple[dict[str, Any], list[str]]] = [
    ({"combine": "pcgard"}, ["combine: unknown scalarizer or aggregator 'pcgard'. Did you mean 'pcgrad'?"]),
    ({"combine": {"losses": "pcgrad"}}, ["combine.losses: unknown scalarizer 'pcgrad'"]),
    (
        {"combine": {"losses": "geometric-mean", "gradients": "mgda"}},
        ["combine: 'geometric-mean' weighs tasks by the size of their losses, 'mgda' by their gradients; they cannot"],
    ),
    (
        {"combine": {"name": "fixed", "weights": {"moood": 2}}},
        ["combine.losses.weights.moood: no task 'moood'. Did you mean 'mood'? Known: mood, near."],
    ),
    (
        {"combine": {"name": "liebel-korner", "weighted_tasks": ["sst"]}},
        ["combine.losses.weighted_tasks: no task 'sst'"],
    ),
    (
        {"combine": {"name": "uncertainty", "learning_rate": 0}},
        ["option 'learning_rate' of 'uncertainty'"],
    ),
    ({"combine": {"name": "pcgrad", "reduction": "max"}}, ["combine.gradients: option 'reduction' of 'pcgrad'"]),
    ({"combine": {"layers": [1]}}, ["combine: 'layers' is about changed gradients; name in 'gradients' what"]),
    ({"combine": {"copies": "bf16"}}, ["combine: 'copies' is about changed gradients; name in 'gradients' what"]),
    ({"combine": None}, ["combine: expected a name, or a mapping with 'losses' and 'gradients', found None"]),
    (
        {"combine": {"name": "pcgrad", "layers": [9]}},
        ["combine.layers: layers are 1 to 2 here", "found [9]"],
    ),
    ({"combine": {"name": "pcgrad", "gradients": "mgda"}}, ["'pcgrad' stands for 'gradients', which is given as well"]),
    ({"combine": {"losses": "sum", "gradient": "mgda"}}, ["combine.gradient: unknown key. Did you mean 'gradients'?"]),
    (
        {"phases": [{"combine": {"name": "fixed", "weights": {"x": 1}}}]},
        ["phases.1.combine.losses.weights.x: no task 'x'"],
    ),
    (
        {"tasks": {"mood": {"train": "mood.csv", "layer_factors": {"layers": [3]}}}},
        ["tasks.mood.layer_factors.layers: layers are 1 to 2 here", "found [3]", "[no-such-layer]"],
    ),
]


@pytest.mark.parametrize(("changes", "messages"), REFUSED, ids=[one[1][0][:50] for one in REFUSED])
def test_refused_before_anything_is_written(
    changes: dict[str, Any], messages: list[str], recipe_file: RecipeFile, toy_data: Path
) -> None:
    check_refused(manyheads("train", recipe_file(**changes)), "recipe.yaml:", *messages)
    assert not (toy_data / "runs").exists()


def test_short_forms_and_overrides(recipe_file: RecipeFile) -> None:
    plain = load_recipe(
        recipe_file(combine="pcgrad"), {"combine.losses": "uncertainty", "combine.losses.learning_rate": 0.1}
    )
    assert plain.combine.gradients is not None
    assert plain.combine.gradients.name == "pcgrad"
    assert plain.combine.losses.model_dump() == {"name": "uncertainty", "options": {"learning_rate": 0.1}}
    long = load_recipe(
        recipe_file(), {"combine": {"name": "pcgrad", "reduction": "mean", "layers": [1], "copies": "bf16"}}
    )
    assert long.combine.gradients is not None
    assert long.combine.gradients.options == {"reduction": "mean"}
    assert (long.combine.layers, long.combine.copies) == ([1], "bf16")
    assert load_recipe(yaml.safe_load(long.to_yaml())).combine == long.combine, "as a run folder keeps it"
