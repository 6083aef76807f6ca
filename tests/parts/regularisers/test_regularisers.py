"""Regularisers against slow, independent float64 references on a real encoder."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from building import CLASSES, MULTI, NUMBERS, TWO, a_task
from manyheads.model.multitask import ManyHeads
from manyheads.parts.regularisers import divergence
from manyheads.parts.regularisers.base import ForwardPass
from manyheads.parts.samplers import Batch
from manyheads.parts.scalarizers import Sum
from manyheads.registry import find
from manyheads.training.gradients.backward import Backward
from manyheads.training.gradients.combination import Combination
from regularised_step import build, disturb, run
from three_tasks import NAMES, ROUND, Rows, setting

pytestmark = pytest.mark.numeric


# --- divergence --------------------------------------------------------------------------------------------------


def test_divergence_is_symmetric_kl_by_hand() -> None:
    loss = find("losses", "cross-entropy").factory(a_task(labels=CLASSES))
    one, other = torch.tensor([[1.0, 0.0, -1.0]]).double(), torch.tensor([[0.5, 0.2, 0.0]]).double()
    p, q = (np.exp(x.numpy()[0]) / np.exp(x.numpy()[0]).sum() for x in (one, other))
    expected = (p * np.log(p / q)).sum() + (q * np.log(q / p)).sum()
    assert divergence(loss, one, other).tolist() == pytest.approx([expected])
    assert divergence(loss, other, one).tolist() == pytest.approx([expected])
    assert divergence(loss, one, one).tolist() == [0.0]


def test_divergence_of_two_classes_several_and_numbers() -> None:
    x, y = torch.tensor([[0.7, -2.0, 0.1]]).double(), torch.tensor([[0.2, 0.3, 0.1]]).double()
    p, q = 1 / (1 + np.exp(-x.numpy())), 1 / (1 + np.exp(-y.numpy()))
    bernoulli = (p - q) * (np.log(p / (1 - p)) - np.log(q / (1 - q)))
    two = find("losses", "binary-cross-entropy").factory(a_task(labels=TWO))
    assert divergence(two, x[:, :1], y[:, :1]).tolist() == pytest.approx([bernoulli[0, 0]])
    several = find("losses", "binary-cross-entropy").factory(a_task(labels=MULTI))
    assert divergence(several, x, y).tolist() == pytest.approx([bernoulli.sum()])
    numbers = find("losses", "mse").factory(a_task(labels=NUMBERS))
    assert divergence(numbers, x[:, :1], y[:, :1]).tolist() == pytest.approx([0.25])


def test_divergence_is_finite_where_the_model_is_very_sure() -> None:
    loss = find("losses", "cross-entropy").factory(a_task(labels=CLASSES))
    sure = torch.tensor([[200.0, 0.0, -200.0]], requires_grad=True)
    value = divergence(loss, sure, torch.tensor([[-200.0, 0.0, 200.0]])).sum()
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(sure.grad).all()  # type: ignore[arg-type]


# --- SMART -------------------------------------------------------------------------------------------------------


def one_by_one(model: ManyHeads, data: dict[str, Rows], noise: torch.Tensor, smart: Any) -> tuple[Any, Any]:
    """SMART as the papers write it, an example at a time: returns Σ of the terms' means, and their gradient.

    `noise` are the embeddings' perturbations in the order in which the packed batch has its tokens.
    """
    backward = Backward(model, data, 10**9, nullcontext)  # type: ignore[arg-type]
    ((passing, _),) = backward._passes([ROUND], None)[""]
    packed = model.pack([(task, inputs) for task, _, inputs in passing], merge=False)
    total = torch.zeros((), dtype=torch.float64)
    for (task, rows, inputs), where in zip(passing, packed.where, strict=True):
        for example, location in zip(inputs, where.tolist(), strict=True):
            start, length = int(packed.tokens.starts[location]), int(packed.tokens.lengths[location])
            alone = model.pack([(task, [example])])
            embedded = model.encoder.embed(alone.tokens)
            clean = model.read(embedded, alone)[0]
            delta = smart.sigma * noise[start : start + length]
            for _ in range(smart.steps):
                delta = delta.detach().requires_grad_()
                apart = kl(model, task, model.read(embedded.detach() + delta, alone)[0], clean.detach())
                (gradient,) = torch.autograd.grad(apart / len(rows), delta)
                delta = ascend(delta.detach(), gradient, smart)
            total = total + kl(model, task, model.read(embedded + delta, alone)[0], clean) / len(rows)
    model.zero_grad(set_to_none=True)
    total.backward()
    found = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
    model.zero_grad(set_to_none=True)
    return total.item(), found


def kl(model: ManyHeads, task: str, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    if model.tasks[task].kind.name == "regression":
        return ((one - other) ** 2).sum()
    if one.shape[-1] == 1:
        one, other = (torch.cat([torch.zeros_like(x), x], dim=-1) for x in (one, other))
    p, q = torch.softmax(one, -1), torch.softmax(other, -1)
    return (p * (p / q).log()).sum() + (q * (q / p).log()).sum()


def ascend(delta: torch.Tensor, gradient: torch.Tensor, smart: Any) -> torch.Tensor:
    moved = []
    for d, g in zip(delta, gradient, strict=True):  # a token at a time
        size = (lambda x: x.abs().max()) if smart.norm == "inf" else (lambda x: (x * x).sum().sqrt())
        if smart.form == "normalise":
            stepped = d + smart.eta * g
            moved.append(stepped / (size(stepped) + smart.epsilon))
        else:
            stepped = d + smart.eta * g / size(g) if size(g) > 0 else d
            if smart.norm == "inf":
                stepped = torch.maximum(
                    torch.minimum(stepped, torch.tensor(smart.epsilon)), -torch.tensor(smart.epsilon)
                )
            elif size(stepped) > smart.epsilon:
                stepped = smart.epsilon * stepped / size(stepped)
            moved.append(stepped)
    return torch.stack(moved)


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["inf", "l2"])
@pytest.mark.parametrize(
    "options",
    [
        {"form": "normalise"},
        {"form": "normalise", "sigma": 1e-3, "eta": 10.0, "steps": 3},
        {"form": "ball", "sigma": 0.02, "epsilon": 0.05, "eta": 0.04},
        {"form": "ball", "sigma": 0.02, "epsilon": 0.05, "eta": 0.04, "steps": 2},
    ],
    ids=str,
)
def test_smart_equals_a_slow_reference(
    options: dict[str, Any], norm: str, toy_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = setting(toy_encoder)
    smart = build("smart", weight=0.7, norm=norm, **options)
    plain, _ = run(model, data, [])
    size = sum(
        len(one.ids) for batch in ROUND for row in batch.indices for one in data[batch.task].inputs(model, int(row))
    )
    noise = torch.randn(size, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    monkeypatch.setattr(torch, "randn_like", lambda like: noise)
    expected, gradient = one_by_one(model, data, noise, smart)
    found, done = run(model, data, [smart])
    assert done.terms["smart"] == pytest.approx(0.7 * expected, rel=1e-9)
    largest = max(float(one.abs().max()) for one in gradient.values())
    for name, one in found.items():
        added = one - plain[name]
        assert torch.allclose(added, 0.7 * gradient.get(name, torch.zeros_like(one)), atol=1e-9 * largest), name
    assert expected > 0


def test_smart_with_weight_0_is_plain_training(toy_encoder: Path) -> None:
    from manyheads.config.part import PartConfig
    from manyheads.parts.regularisers import build_regularisers

    assert build_regularisers([PartConfig(name="smart", options={"weight": 0.0})], NAMES) == ()


def test_smart_is_on_for_the_tasks_named(toy_encoder: Path) -> None:
    """Papers C and E regularise some tasks only: the others' losses are as they were."""
    model, data = setting(toy_encoder)
    _, plain = run(model, data, [])
    _, done = run(model, data, [build("smart", tasks=["a", "c"], sigma=0.1)])
    assert done.losses["b"] == pytest.approx(plain.losses["b"], rel=1e-12)
    assert done.losses["a"] > plain.losses["a"]
    assert done.losses["c"] > plain.losses["c"]
    added = sum(done.losses[task] - plain.losses[task] for task in NAMES)
    assert done.terms["smart"] == pytest.approx(added, rel=1e-9), "a task's loss is with its terms"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("smart", {"sigma": 0.1}),
        ("smart", {"sigma": 0.1, "eta": 10.0, "form": "library"}),
        ("bregman", {}),
    ],
    ids=["smart", "smart-library", "bregman"],
)
def test_terms_do_not_depend_on_how_a_step_is_cut(
    name: str, options: dict[str, Any], toy_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Accumulated, under a token budget, task by task: the same gradient (with noise of the same kind for all)."""
    model, data = setting(toy_encoder)
    monkeypatch.setattr(torch, "randn_like", torch.ones_like)
    one = build(name, **options)
    one.begin(model)
    disturb(model)
    whole, done = run(model, data, [one])
    halves = [[Batch(b.task, b.indices[:1]) for b in ROUND], [Batch(b.task, b.indices[1:]) for b in ROUND]]
    pcgrad = Combination(Sum(NAMES), Add(NAMES))
    for more in ({"rounds": halves}, {"tokens": 20}, {"how": pcgrad}):
        found, again = run(model, data, [one], **more)
        assert again.losses == pytest.approx(done.losses, rel=1e-9)
        for key, gradient in whole.items():
            assert torch.allclose(found[key], gradient, atol=1e-11), key


class Add(find("aggregators", "gradvac").factory.__base__):  # type: ignore[misc]
    """Surgery that changes nothing."""

    def forward(self, gramian: torch.Tensor, present: Any) -> torch.Tensor:
        return torch.ones(len(gramian), dtype=gramian.dtype)


def test_clean_and_perturbed_passes_share_their_dropout_masks(toy_encoder: Path) -> None:
    """With no noise at all, equal masks make the term vanish; independent ones measure dropout."""
    model, data = setting(toy_encoder, dropout=0.3, attention_dropout=0.2)
    model.train()
    _, shared = run(model, data, [build("smart", form="ball", sigma=1e-12, epsilon=1e-12, eta=1e-12)])
    _, apart = run(
        model, data, [build("smart", form="ball", sigma=1e-12, epsilon=1e-12, eta=1e-12, masks="independent")]
    )
    assert shared.terms["smart"] < 1e-15
    assert apart.terms["smart"] > 1e-9
    plain = run(model, data, [])[1]
    assert plain.losses == pytest.approx(shared.losses, rel=1e-9), "the clean pass draws what plain training draws"


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({}, True),
        ({"masks": "shared"}, True),
        ({"masks": "independent"}, False),
        ({"form": "library"}, False),
        ({"form": "library", "masks": "shared"}, True),
    ],
    ids=str,
)
def test_every_pass_has_the_masks_asked_for(
    options: dict[str, Any], same: bool, toy_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ascents too: they would else climb another hill."""
    model, data = setting(toy_encoder, dropout=0.3, attention_dropout=0.2)
    model.train()
    states: list[torch.Tensor] = []
    real = ForwardPass.read

    def watched(forward_pass: ForwardPass, embedded: torch.Tensor, same_masks: bool) -> Any:
        found = real(forward_pass, embedded, same_masks)
        again = real(forward_pass, embedded, True)
        states.append(torch.stack([(one - other).abs().max() for one, other in zip(found, again, strict=True)]).max())
        return found

    monkeypatch.setattr(ForwardPass, "read", watched)
    run(model, data, [build("smart", steps=2, **options)])
    assert len(states) == 3
    assert all(bool(one == 0) == same for one in states)


def test_the_ascent_computes_no_gradient_of_weights(toy_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = setting(toy_encoder)
    during: list[bool] = []
    real = torch.autograd.grad

    def watched(outputs: Any, inputs: Any, *given: Any, **more: Any) -> Any:
        seen: list[int] = []
        hook = model.encoder.layers[0].up.weight.register_hook(lambda gradient: seen.append(1))
        found = real(outputs, inputs, *given, **more)
        hook.remove()
        during.append(bool(seen))
        return found

    monkeypatch.setattr(torch.autograd, "grad", watched)
    run(model, data, [build("smart")], how=Combination(Sum(NAMES)))
    assert during
    assert not any(during)


# --- Bregman -----------------------------------------------------------------------------------------------------


def test_bregman_by_an_independent_reference(toy_encoder: Path) -> None:
    """θ̃ is β·θ̃ + (1 − β)·θ, and the term is the divergence of the two models' outputs."""
    import copy

    model, data = setting(toy_encoder)
    bregman = build("bregman", weight=2.0, momentum=0.75)
    bregman.begin(model)
    start = copy.deepcopy(model)
    disturb(model)
    bregman.after_step(model)
    shadow = copy.deepcopy(start)
    with torch.no_grad():
        for slow, fast in zip(shadow.parameters(), model.parameters(), strict=True):
            slow.mul_(0.75).add_(0.25 * fast)
    plain, before = run(model, data, [])
    found, done = run(model, data, [bregman])
    total = torch.zeros((), dtype=torch.float64)
    for batch in ROUND:
        inputs = [(batch.task, [data[batch.task].inputs(model, int(row)) for row in batch.indices])]
        one, other = model(inputs)[0], shadow(inputs)[0].detach()
        for x, y in zip(one, other, strict=True):
            total = total + kl(model, batch.task, x[None], y[None]) / len(batch.indices)
    assert done.terms["bregman"] == pytest.approx(2 * total.item(), rel=1e-9)
    total.backward()
    for name, parameter in model.named_parameters():
        if name in found:
            expected = 2 * parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
            assert torch.allclose(found[name] - plain[name], expected, atol=1e-11), name
    assert sum(done.losses.values()) > sum(before.losses.values())


# --- norms -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["l1", "l2"])
@pytest.mark.parametrize("on", ["all", "encoder", "heads"])
@pytest.mark.parametrize("parameters", ["weights", "all"])
def test_norms_by_torchs_own_derivative(name: str, on: str, parameters: str, toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    plain, _ = run(model, data, [])
    found, done = run(model, data, [build(name, weight=0.01, on=on, parameters=parameters)])
    chosen = []
    for key, one in model.named_parameters():
        there = on == "all" or key.startswith("encoder.") == (on == "encoder")
        if key in plain and there and (parameters == "all" or one.ndim >= 2):
            chosen.append((key, one))
    total = sum((one.abs() if name == "l1" else one**2).sum() for _, one in chosen)
    total.backward()  # type: ignore[union-attr]
    assert done.terms[name] == pytest.approx(0.01 * float(total.detach()))  # type: ignore[union-attr]
    slopes = {key: one.grad for key, one in chosen}
    for key, gradient in found.items():
        expected = plain[key] + (0.01 * slopes[key] if key in slopes else 0.0)
        assert torch.allclose(gradient, expected, atol=1e-14), key


@pytest.mark.parametrize(
    ("name", "parameters", "penalty", "slopes"),
    [
        ("l1", "weights", 0.1 * (3 + 4), [[0.1, -0.1], [0.0, 0.0]]),
        ("l1", "all", 0.1 * (3 + 4 + 2 + 5), [[0.1, -0.1], [-0.1, 0.1]]),
        ("l2", "weights", 0.1 * (9 + 16), [[0.6, -0.8], [0.0, 0.0]]),
        ("l2", "all", 0.1 * (9 + 16 + 4 + 25), [[0.6, -0.8], [-0.4, 1.0]]),
    ],
)
def test_norms_by_hand(name: str, parameters: str, penalty: float, slopes: list[list[float]]) -> None:
    """A layer with weights (3, −4) and biases (−2, 5), gradients 0 before, λ = .1."""
    model = torch.nn.Linear(1, 2)
    model.weight.data, model.bias.data = torch.tensor([[3.0], [-4.0]]), torch.tensor([-2.0, 5.0])
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    norm = build(name, weight=0.1, parameters=parameters)
    assert norm.penalise(model) == pytest.approx(penalty)  # type: ignore[arg-type]
    for parameter, slope in zip((model.weight, model.bias), slopes, strict=True):
        assert parameter.grad.flatten().tolist() == pytest.approx(slope)  # type: ignore[union-attr]


def test_the_penalty_leaves_an_absent_tasks_head_alone(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    found, _ = run(model, data, [build("l2")], rounds=[ROUND[:2]])
    assert not any(name.startswith("heads.c") for name in found)


def test_norms_on_chosen_layers(toy_encoder: Path) -> None:
    """`on: [0, 2]`: the embeddings and the second layer, nothing else."""
    model, data = setting(toy_encoder)
    plain, _ = run(model, data, [])
    found, _ = run(model, data, [build("l2", weight=0.5, on=[0, 2])])
    changed = set()
    for name, one in model.named_parameters():
        if name in found and not torch.equal(found[name], plain[name]):
            assert torch.allclose(found[name] - plain[name], 2 * 0.5 * one.detach(), atol=1e-12), name
            assert one.ndim >= 2, "biases and norms are left alone"
            changed.add(model.encoder.layer_of(name[8:]) if name.startswith("encoder.") else "head")
    assert changed == {0, 2}
