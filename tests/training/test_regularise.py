"""Regularisers in recipes: said, logged, kept, refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from command import check_refused, manyheads
from manyheads import train
from manyheads.errors import UserError
from manyheads.tasks.resolve import load_recipe
from manyheads.training.device import check_bfloat16, describe_bfloat16

ToyRecipe = Callable[..., dict[str, Any]]
RecipeFile = Callable[..., Path]


def steps_of(run: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [one for one in records if one["event"] == "step"]


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(sorted((run / "checkpoints").glob("step-*"))[-1] / "model.safetensors")


@pytest.mark.slow
def test_terms_are_said_and_logged(recipe_file: RecipeFile, toy_data: Path) -> None:
    regularise = [{"name": "smart", "tasks": ["mood"]}, "bregman", {"name": "l2", "on": "heads"}, "anchor"]
    result = manyheads("train", recipe_file(regularise=regularise))
    assert result.returncode == 0, result.stderr
    assert (
        "regularised by smart 0.45 on mood, bregman 1 (a second copy of all weights: 0 MB), l2 0.001, "
        "anchor 1 on mood (a copy of the encoder: 0 MB)" in result.stderr
    )  # `near` joins its texts
    steps = steps_of(toy_data / "runs" / "toy")
    assert all(one["regularise"].keys() == {"smart", "bregman", "l2", "anchor"} for one in steps)
    assert steps[0]["regularise"]["bregman"] == pytest.approx(0, abs=1e-9), "the second model starts as the first"
    assert steps[-1]["regularise"]["bregman"] > 0
    assert all(one["regularise"]["l2"] > 0 for one in steps)
    planned = manyheads("plan", recipe_file(regularise=regularise), "--no-time")
    assert "regularised by smart 0.45 on mood" in planned.stdout


@pytest.mark.slow
def test_the_librarys_form_is_a_word_on_the_command_line(recipe_file: RecipeFile, toy_data: Path) -> None:
    """With dropout its masks differ from pass to pass, so that the term is large from the first step on."""
    result = manyheads("train", recipe_file(), "regularise={name: smart, form: library}")
    assert result.returncode == 0, result.stderr
    (first, *_) = steps_of(toy_data / "runs" / "toy")
    assert first["regularise"]["smart"] > 1e-6
    assert first["regularise"]["smart"] < sum(first["loss"].values())


@pytest.mark.slow
@pytest.mark.numeric
def test_weight_0_is_exactly_plain_training(toy_recipe: ToyRecipe) -> None:
    nothing = [{"name": name, "weight": 0} for name in ("smart", "bregman", "l1", "l2", "anchor")]
    plain = train(load_recipe(toy_recipe(name="plain")), quiet=True)
    zero = train(load_recipe(toy_recipe(name="zero", regularise=nothing)), quiet=True)
    expected = weights(plain.folder)
    for name, tensor in weights(zero.folder).items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.slow
def test_phases_have_their_own_or_go_on(toy_recipe: ToyRecipe) -> None:
    phases = [{"epochs": 1}, {"epochs": 1, "regularise": []}, {"epochs": 1, "regularise": "l1"}, {"epochs": 1}]
    run = train(load_recipe(toy_recipe(phases=phases, regularise="bregman")), quiet=True)
    steps = steps_of(run.folder)
    starts = [number for number, one in enumerate(steps) if "phase" in one]
    assert [list(steps[number].get("regularise", {})) for number in starts] == [["bregman"], [], ["l1"], ["bregman"]]
    assert steps[starts[3]]["regularise"]["bregman"] > 1e-4, "the slow model is still that of the first phase"


@pytest.mark.slow
@pytest.mark.numeric
def test_penalties_shrink_weights(toy_recipe: ToyRecipe) -> None:
    training = {"epochs": 4, "batch_size": 8, "learning_rate": 1e-3, "weight_decay": 0.0}
    sizes = {}
    for name, regularise in (("plain", []), ("strong", [{"name": "l2", "weight": 10.0}])):
        run = train(load_recipe(toy_recipe(name=name, regularise=regularise, training=training)), quiet=True)
        sizes[name] = float(weights(run.folder)["encoder.layers.0.up.weight"].norm())
    assert sizes["strong"] < 0.9 * sizes["plain"]


@pytest.mark.parametrize(
    ("regularise", "messages"),
    [
        ("smrt", ["regularise", "unknown regulariser 'smrt'. Did you mean 'smart'?"]),
        ([{"name": "smart", "form": "cube"}], ["option 'form' of 'smart'"]),
        ([{"name": "smart", "tasks": ["sst"]}], ["regularise.tasks: no task 'sst'"]),
        ([{"name": "bregman", "momentum": 1.0}], ["option 'momentum' of 'bregman': Input should be less than 1"]),
        ([{"name": "l1", "weight": -1}], ["option 'weight' of 'l1': Input should be greater than or equal to 0"]),
    ],
)
def test_refused(regularise: Any, messages: list[str], recipe_file: RecipeFile, toy_data: Path) -> None:
    check_refused(manyheads("train", recipe_file(regularise=regularise)), "recipe.yaml:", *messages)
    assert not (toy_data / "runs").exists()


@pytest.mark.skipif(not Path("/proc/cpuinfo").is_file(), reason="CPUs are described elsewhere")
def test_a_cpu_that_crashes_on_bf16_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    kill = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    check_bfloat16("here", kill)  # the suite keeps away from AMX, so nothing is tried
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA")
    monkeypatch.setattr("manyheads.training.device.BF16_FLAG", "processor")  # a word that every /proc/cpuinfo has
    check_bfloat16("here", "pass")
    with pytest.raises(UserError, match=r"here: .* ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16") as caught:
        check_bfloat16("here", kill)
    assert caught.value.code == "bf16-crashes"


@pytest.mark.slow
def test_bf16_on_a_cpu_says_what_it_gains(recipe_file: RecipeFile) -> None:
    result = manyheads("train", recipe_file(), "training.precision=bf16")
    assert re.search(r"this CPU multiplies \d+\.\d times as (fast|slowly) (as )?in", result.stderr), result.stderr
    assert describe_bfloat16(2.0) == "bf16: this CPU multiplies 2.0 times as fast as in float32"
    assert describe_bfloat16(0.25).startswith("warning: this CPU multiplies 4.0 times as slowly in bf16")
