"""Parameter groups and the learning rate at each step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from building import a_task, toy_model
from command import check_refused, manyheads
from manyheads import train
from manyheads.config.recipe import EncoderSettings
from manyheads.config.training import Training, trainable_layers
from manyheads.encoder import load_encoder
from manyheads.model.multitask import ManyHeads
from manyheads.registry import find
from manyheads.tasks.resolve import load_recipe
from manyheads.training.optim import build_optimizer, clip_gradients, parameter_groups, rate_factor, set_rates
from resuming import check_resumed

pytestmark = pytest.mark.numeric


def one_rate(**settings: Any) -> Training:
    """Training in which heads have no learning rate of their own, unless it is given."""
    return Training(**{"head_learning_rate": None, "learning_rate": 5e-5, **settings})


def test_rate_rises_then_falls_linearly_and_is_never_zero_in_use() -> None:
    found = [rate_factor(step, steps=10, warmup=0.3) for step in range(10)]
    assert found == pytest.approx([1 / 4, 2 / 4, 3 / 4, 1, 6 / 7, 5 / 7, 4 / 7, 3 / 7, 2 / 7, 1 / 7])
    assert [rate_factor(step, 4, 0.0) for step in range(4)] == [1, 0.75, 0.5, 0.25]
    assert all(0 < rate_factor(step, 5, 1.0) < 1 for step in range(5))


def test_biases_and_norms_do_not_decay_and_frozen_tensors_are_left_out() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Embedding(5, 4), nn.Linear(4, 2))
    model[3].requires_grad_(False)
    decayed, plain = parameter_groups(model, one_rate(weight_decay=0.02))
    assert [tuple(one.shape) for one in decayed["params"]] == [(4, 3), (5, 4)]
    assert [tuple(one.shape) for one in plain["params"]] == [(4,), (4,), (4,)]
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.02, 0.0)


def test_task_weights_have_their_own_rate_and_no_decay() -> None:
    learnt = find("scalarizers", "uncertainty").factory(["a", "b"], learning_rate=0.03)
    *_, group = parameter_groups(nn.Linear(2, 2), one_rate(weight_decay=0.5), [learnt])
    assert (group["name"], group["weight_decay"], group["lr"], len(group["params"])) == ("task weights", 0.0, 0.03, 2)
    optimizer = build_optimizer(nn.Linear(2, 2), one_rate(), [learnt])
    set_rates(optimizer, peak=1e-4, factor=0.5)
    assert [one["lr"] for one in optimizer.param_groups] == pytest.approx([5e-5, 5e-5, 0.015])


@pytest.mark.parametrize("name", ["uncertainty", "liebel-korner", "imtl-l"])
def test_task_weights_may_have_the_trainings_rate(name: str) -> None:
    """`learning_rate: null`: the one rate of the training, and that of a phase which has its own."""
    learnt = find("scalarizers", name).factory(["a", "b"], learning_rate=None)
    *_, group = parameter_groups(nn.Linear(2, 2), one_rate(learning_rate=2e-5, weight_decay=0.5), [learnt])
    assert (group["name"], group["weight_decay"], group["lr"]) == ("task weights", 0.0, 2e-5)
    optimizer = build_optimizer(nn.Linear(2, 2), one_rate(learning_rate=2e-5), [learnt])
    set_rates(optimizer, peak=1e-4, factor=0.5)
    assert [one["lr"] for one in optimizer.param_groups] == pytest.approx([5e-5, 5e-5, 5e-5])


@pytest.mark.parametrize("largest", [None, 0.1, 1e3])
def test_clipping_is_torchs_and_leaves_task_weights_alone(largest: float | None) -> None:
    drawn = torch.Generator().manual_seed(0)
    models = [nn.Linear(3, 4) for _ in range(2)]
    for parameters in zip(*(one.parameters() for one in models), strict=True):
        gradient = torch.randn(parameters[0].shape, generator=drawn)
        for one in parameters:
            one.grad = gradient.clone()
    learnt = find("scalarizers", "uncertainty").factory(["a"])
    next(learnt.parameters()).grad = torch.tensor(7.0)
    expected = torch.nn.utils.clip_grad_norm_(models[0].parameters(), largest or float("inf")).item()
    assert clip_gradients(build_optimizer(models[1], one_rate(), [learnt]), largest) == pytest.approx(expected)
    for one, other in zip(*(one.parameters() for one in models), strict=True):
        assert torch.allclose(one.grad, other.grad, rtol=1e-6)  # type: ignore[arg-type]
    assert next(learnt.parameters()).grad == 7


def test_one_step_of_adamw_by_hand() -> None:
    """m̂ = g, v̂ = g² at the first step: w ← w·(1 − lr·decay) − lr·g/(|g| + ε)."""
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(2.0)
    training = one_rate(learning_rate=0.1, weight_decay=0.5, epsilon=1e-6)
    optimizer = build_optimizer(model, training)
    model.weight.grad = torch.full_like(model.weight, 3.0)
    optimizer.step()
    assert model.weight.item() == pytest.approx(2.0 * (1 - 0.1 * 0.5) - 0.1 * 3 / (3 + 1e-6), abs=1e-6)


def test_betas_and_epsilon_of_the_second_step_by_hand() -> None:
    """m = β₁·m + (1 − β₁)·g, v likewise of g²; both corrected for their start; lr·m̂/(√v̂ + ε)."""
    model = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        model.weight.fill_(0.0)
    optimizer = build_optimizer(model, one_rate(learning_rate=0.1, weight_decay=0, betas=(0.5, 0.8), epsilon=0.7))
    w, m, v = 0.0, 0.0, 0.0
    for step, g in enumerate((3.0, -1.0), 1):
        model.weight.grad = torch.full_like(model.weight, g)
        optimizer.step()
        m, v = 0.5 * m + 0.5 * g, 0.8 * v + 0.2 * g * g
        w -= 0.1 * (m / (1 - 0.5**step)) / ((v / (1 - 0.8**step)) ** 0.5 + 0.7)
        assert model.weight.item() == pytest.approx(w, abs=1e-6)


OPTIMIZERS: list[tuple[dict[str, Any], list[float]]] = [
    # decay 0.5, rate 0.1, w = 2, gradients 3 and then −1
    ({"optimizer": "sgd"}, [2 - 0.1 * (3 + 1), 1.6 - 0.1 * (-1 + 0.8)]),
    ({"optimizer": "sgd", "momentum": 0.9}, [1.6, 1.6 - 0.1 * (0.9 * 4 - 0.2)]),
    ({"optimizer": "adam"}, [2 - 0.1 * 4 / (4 + 1), 1.92 - 0.1 * (0.98 / 0.75) / ((2.56032 / 0.36) ** 0.5 + 1)]),
]


@pytest.mark.parametrize(("settings", "expected"), OPTIMIZERS, ids=["sgd", "momentum", "adam"])
def test_two_steps_of_other_optimizers_by_hand(settings: dict[str, Any], expected: list[float]) -> None:
    """Decay is added to the gradient: 3 + 0.5·2 = 4. Adam with β = (0.5, 0.8) has m = 2, v = 3.2, corrected 4 and 16;
    then g = −1 + 0.5·1.92 = −0.04, m = 1 − 0.02 = 0.98, v = 2.56 + 0.00032, corrected by 0.75 and 0.36."""
    model = nn.Linear(1, 1, bias=False).double()
    with torch.no_grad():
        model.weight.fill_(2.0)
    training = one_rate(learning_rate=0.1, weight_decay=0.5, betas=(0.5, 0.8), epsilon=1.0, **settings)
    optimizer = build_optimizer(model, training)
    for gradient, value in zip((3.0, -1.0), expected, strict=True):
        model.weight.grad = torch.full_like(model.weight, gradient)
        optimizer.step()
        assert model.weight.item() == pytest.approx(value, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"optimizer": "adam"}, {"optimizer": "sgd", "momentum": 0.9}], ids=str)
def test_a_run_with_another_optimizer_resumes_to_the_same_bits(
    settings: dict[str, Any], toy_recipe: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    training = {"epochs": 1, "batch_size": 8, "learning_rate": 1e-3, **settings}
    check_resumed(toy_recipe, monkeypatch, training=training, combine={"name": "uncertainty"})


def test_momentum_of_adam_is_refused(recipe_file: Callable[..., Path]) -> None:
    refused = manyheads("train", recipe_file(), "training.momentum=0.9")
    check_refused(refused, "training.momentum: 'adamw' has moments of its own; 'momentum' goes with optimizer 'sgd'")


# --- layer by layer ------------------------------------------------------------------------------------------------


def rates(model: ManyHeads, training: Training) -> dict[str, float]:
    """The peak rate of every parameter, by where it stands."""
    optimizer = build_optimizer(model, training)
    set_rates(optimizer, training.learning_rate, 1.0)
    of = {id(one): group["lr"] for group in optimizer.param_groups for one in group["params"]}
    found: dict[str, set[float]] = {}
    for name, one in model.named_parameters():
        if one.requires_grad:
            location = f"layer {model.encoder.layer_of(name[8:])}" if name.startswith("encoder.") else "head"
            found.setdefault(location, set()).add(of[id(one)])
    assert all(len(some) == 1 for some in found.values())
    return {location: some.pop() for location, some in found.items()}


@pytest.fixture
def model(toy_encoder: Path) -> ManyHeads:
    return toy_model(toy_encoder, [a_task()])


def test_layer_decay_by_hand(model: ManyHeads) -> None:
    """lr of layer k − 1 = ξ·lr of layer k; the embeddings are layer 0."""
    found = rates(model, one_rate(learning_rate=1e-3, layer_decay=0.5))
    assert found == pytest.approx({"layer 0": 2.5e-4, "layer 1": 5e-4, "layer 2": 1e-3, "head": 1e-3})


def test_layer_decay_1_is_one_group(model: ManyHeads) -> None:
    plain, decayed = (parameter_groups(model, one_rate(layer_decay=one)) for one in (1.0, 0.9))
    assert [(one["name"], one["weight_decay"]) for one in plain] == [
        ("embeddings, layers 1–2, heads", 0.01),
        ("embeddings, layers 1–2, heads", 0.0),
    ]
    assert [one["name"] for one in decayed if one["weight_decay"]] == ["embeddings", "layer 1", "layer 2, heads"]


def test_the_pooler_goes_with_the_last_layer(model: ManyHeads) -> None:
    assert model.encoder.layer_of("pooler.weight") == model.encoder.depth == 2


def test_selected_layers_and_a_rate_for_heads(model: ManyHeads) -> None:
    """Paper A: lr·β for the chosen layers, lr·α for the others."""
    chosen = {"layers": [1], "chosen": 3.0, "others": 0.5}
    found = rates(model, one_rate(learning_rate=1e-3, layer_learning_rates=chosen, head_learning_rate=0.02))  # type: ignore[arg-type]
    assert found == pytest.approx({"layer 0": 1e-3, "layer 1": 3e-3, "layer 2": 5e-4, "head": 0.02})
    both = one_rate(learning_rate=1e-3, layer_learning_rates=chosen, layer_decay=0.5)  # type: ignore[arg-type]
    assert rates(model, both) == pytest.approx({"layer 0": 2.5e-4, "layer 1": 1.5e-3, "layer 2": 5e-4, "head": 1e-3})


def test_the_real_rate_is_stored_in_each_group(model: ManyHeads) -> None:
    optimizer = build_optimizer(model, one_rate(layer_decay=0.5, head_learning_rate=0.02))
    set_rates(optimizer, peak=1e-2, factor=0.1)
    found = {group["name"]: group["lr"] for group in optimizer.param_groups}
    assert found == pytest.approx({"embeddings": 2.5e-4, "layer 1": 5e-4, "layer 2": 1e-3, "heads": 2e-3})


def test_schedules_by_hand() -> None:
    cosine = [rate_factor(step, 6, 1 / 3, "cosine") for step in range(6)]
    half = 0.5**0.5
    assert cosine == pytest.approx([1 / 3, 2 / 3, 1, (1 + half) / 2, 0.5, (1 - half) / 2])
    assert [rate_factor(step, 4, 0.5, "constant") for step in range(4)] == pytest.approx([1 / 3, 2 / 3, 1, 1])


@pytest.mark.parametrize(
    ("named", "layers"),
    [
        ("all", [0, 1, 2, 3]),
        ("heads", []),
        ("layers", [1, 2, 3]),
        ("top-2", [2, 3]),
        ("top-9", [1, 2, 3]),
        ([0, 2], [0, 2]),
    ],
)
def test_what_learns(named: str | list[int], layers: list[int]) -> None:
    assert trainable_layers(named, 3) == layers


def test_a_rate_of_0_leaves_layers_as_they_were(toy_recipe: Callable[..., dict[str, Any]], toy_encoder: Path) -> None:
    """Paper A's (α, β) = (0, 1)."""
    chosen = {"layers": [2], "chosen": 1.0, "others": 0.0}
    training = {"epochs": 1, "batch_size": 8, "learning_rate": 1e-3, "layer_learning_rates": chosen}
    run = train(load_recipe(toy_recipe(training=training)), quiet=True)
    before, after = (load_file(one / "model.safetensors") for one in (toy_encoder, run.folder / "best"))
    for name, tensor in after.items():
        if ".layer.0." in name:
            assert torch.equal(tensor, before[name]), name
    assert not torch.equal(after["encoder.layer.1.output.dense.weight"], before["encoder.layer.1.output.dense.weight"])
    assert not torch.equal(after["embeddings.word_embeddings.weight"], before["embeddings.word_embeddings.weight"])


def test_plan_prints_the_groups(recipe_file: Callable[..., Path]) -> None:
    training = {"epochs": 1, "batch_size": 8, "learning_rate": 1e-3, "layer_decay": 0.5, "head_learning_rate": 0.02}
    result = manyheads("plan", recipe_file(training=training), "--no-time")
    for line in (
        "parameters: layer 1: 8,192 at rate 0.0005, decay 0.01",
        "parameters: layer 1: 352 at rate 0.0005, decay 0",
        "at rate 0.00025, decay 0.01",
        "parameters: heads:",
    ):
        assert line in result.stdout, result.stdout


def test_plan_prints_what_learns_in_each_phase_and_what_does_not(recipe_file: Callable[..., Path]) -> None:
    phases = [{"trainable": "heads", "learning_rate": 1e-2, "epochs": 4}, {"schedule": "cosine", "warmup": 0}]
    result = manyheads("plan", recipe_file(phases=phases), "--no-time")
    for line in (
        "rate 0.01 (linear after a warm-up of 10%)",
        "rate 0.001 (cosine)",
        "parameters of phase 1: heads: 2,208 at rate 0.01",
        "parameters of phase 1: frozen: ",
        "parameters of phase 2: embeddings, layers 1–2, heads:",
        "frozen layers: the encoder is computed once for mood, near and their dev examples",
    ):
        assert line in result.stdout, result.stdout
    assert "phase 2: frozen: 1,056" in result.stdout, "the pooler that no task reads"


def test_dropout_per_place(toy_encoder: Path) -> None:
    settings = EncoderSettings(name=str(toy_encoder), dropout=0.2, embedding_dropout=0.4, attention_dropout=0.3)
    encoder = load_encoder(settings).encoder
    assert (encoder.dropout.rate, encoder.layers[0].dropout.rate, encoder.layers[0].attention_dropout) == (
        0.4,
        0.2,
        0.3,
    )
    theirs = load_encoder(settings.model_copy(update={"implementation": "transformers"})).encoder
    rates = {name: one.p for name, one in theirs.named_modules() if isinstance(one, nn.Dropout)}
    assert rates["model.embeddings.dropout"] == 0.4
    assert rates["model.encoder.layer.0.output.dropout"] == 0.2
