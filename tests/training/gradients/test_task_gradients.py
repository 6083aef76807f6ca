"""Gradient surgery on a real encoder: against the direct way, which flattens and stacks every gradient."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from building import CLASSES, NUMBERS, TWO, a_task
from manyheads.config.part import PartConfig
from manyheads.model.multitask import ManyHeads
from manyheads.parts.aggregators import Aggregator
from manyheads.parts.samplers import Batch
from manyheads.parts.scalarizers import Sum
from manyheads.registry import Part, find, parts
from manyheads.training.gradients.backward import Backward, Step
from manyheads.training.gradients.combination import Combination
from manyheads.training.gradients.tables import Rows as TouchedRows
from manyheads.training.gradients.task_gradients import TaskGradients, layer_group, shared_parameters
from three_tasks import NAMES, ROUND, setting

pytestmark = pytest.mark.numeric


def combination(gradients: str | None = "pcgrad", losses: str = "sum", **more: Any) -> Combination:
    aggregator = find("aggregators", gradients).factory(NAMES, **more.pop("options", {})) if gradients else None
    scalarizer = find("scalarizers", losses).factory(NAMES, **more.pop("loss_options", {}))
    return Combination(scalarizer, aggregator, **more)


def run(
    model: ManyHeads,
    data: dict[str, Any],
    how: Combination,
    rounds: list[list[Batch]] | None = None,
    tokens: int = 10**9,
    **more: Any,
) -> tuple[dict[str, torch.Tensor], Step]:
    model.zero_grad(set_to_none=True)
    autocast = more.pop("autocast", nullcontext)
    done = Backward(model, data, tokens, autocast, **more).step([ROUND] if rounds is None else rounds, how, (0, 1))
    found = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
    model.zero_grad(set_to_none=True)
    return found, done


def of_each_task(model: ManyHeads, data: dict[str, Any], rounds: list[list[Batch]]) -> dict[str, dict[str, Any]]:
    """Every task's own gradient, by training on it alone."""
    tasks = dict.fromkeys(one.task for some in rounds for one in some)
    own = {task: [[one for one in some if one.task == task] for some in rounds] for task in tasks}
    return {task: run(model, data, Combination(Sum(NAMES)), some)[0] for task, some in own.items()}


def stacked(model: ManyHeads, single: dict[str, dict[str, Any]], names: list[str]) -> torch.Tensor:
    """[tasks, parameters]: the matrix that manyheads never makes."""
    parameters = dict(model.named_parameters())
    return torch.stack(
        [
            torch.cat([one.get(name, torch.zeros_like(parameters[name])).flatten() for name in names])
            for one in single.values()
        ]
    )


def flat(found: dict[str, torch.Tensor], names: list[str]) -> torch.Tensor:
    return torch.cat([found[name].flatten() for name in names])


class InOrder(Aggregator):
    """The papers' PCGrad with tasks in their order, on the Gramian."""

    def forward(self, gramian: torch.Tensor, present: Any) -> torch.Tensor:
        rows = torch.eye(len(gramian), dtype=gramian.dtype)
        for i in range(len(gramian)):
            for j in range(len(gramian)):
                inner = rows[i] @ gramian[j]
                if i != j and inner < 0:
                    rows[i, j] -= inner / gramian[j, j]
        return rows.sum(dim=0)


def loop_in_order(jacobian: torch.Tensor) -> torch.Tensor:
    """The papers' loop on the gradients themselves."""
    total = torch.zeros_like(jacobian[0])
    for i, p in enumerate(jacobian.clone()):
        for j, other in enumerate(jacobian):
            if i != j and p @ other < 0:
                p = p - (p @ other) / (other @ other) * other
        total += p
    return total


# --- the gradient ----------------------------------------------------------------------------------------------


def test_pcgrad_equals_the_papers_loop_on_stacked_gradients(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    single = of_each_task(model, data, [ROUND])
    names = list(shared_parameters(model))
    jacobian = stacked(model, single, names)
    found, done = run(model, data, Combination(Sum(NAMES), InOrder(NAMES)))
    expected = loop_in_order(jacobian)
    assert (jacobian @ jacobian.T < 0).any(), "two of the tasks conflict"
    assert torch.allclose(flat(found, names), expected, atol=1e-12 * expected.abs().max())
    assert not torch.allclose(expected, jacobian.sum(dim=0)), "surgery does something"
    gramian = torch.stack(list(done.gramians.values())).sum(dim=0)
    assert torch.allclose(gramian, jacobian @ jacobian.T, rtol=1e-10)


def test_surgery_after_a_summed_backward_would_do_nothing(toy_encoder: Path) -> None:
    """The fault of a peer: projecting the one gradient that is left after a sum. Here tasks want different classes."""
    tasks = [a_task(name="a", labels=CLASSES), *(a_task(name=one, labels=CLASSES, head_of="a") for one in "bc")]
    model, data = setting(toy_encoder, tasks)
    for number, task in enumerate(NAMES):
        data[task].labels[:] = number
    names = list(shared_parameters(model))
    summed = flat(run(model, data, combination(None))[0], names)
    assert torch.equal(loop_in_order(summed[None]), summed)
    ours = flat(run(model, data, combination("pcgrad"))[0], names)
    assert (ours - summed).norm() > 0.1 * summed.norm()


def test_heads_of_one_task_keep_their_own_gradient(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    single = of_each_task(model, data, [ROUND])
    found, _ = run(model, data, combination("mgda"))
    own = [name for name in found if name.startswith("heads.")]
    assert own
    for name in own:
        task = name.removeprefix("heads.")[0]
        assert torch.allclose(found[name], single[task][name], atol=1e-14), name


def test_a_head_that_tasks_share_is_operated_on_too(toy_encoder: Path) -> None:
    tasks = [
        a_task(name="a", labels=CLASSES),
        a_task(name="b", labels=CLASSES, head_of="a"),
        a_task(name="c", labels=NUMBERS),
    ]
    model, data = setting(toy_encoder, tasks)
    names = list(shared_parameters(model))
    common = [name for name in names if not name.startswith("encoder.")]
    assert common
    assert all(name.startswith("heads.a-head") for name in common)
    assert {layer_group(model, name) for name in common} == {"shared heads"}
    single = of_each_task(model, data, [ROUND])
    found, _ = run(model, data, Combination(Sum(NAMES), InOrder(NAMES)))
    expected = loop_in_order(stacked(model, single, names))
    assert torch.allclose(flat(found, names), expected, atol=1e-12 * expected.abs().max())


def test_a_layer_that_a_group_shares_is_operated_on_too(toy_encoder: Path) -> None:
    together = PartConfig(name="bi-shared", options={"group": "pairs"})
    tasks = [
        a_task(name="a", labels=CLASSES, encoding=together),
        a_task(name="b", labels=TWO, encoding=together),
        a_task(name="c", labels=NUMBERS),
    ]
    model, data = setting(toy_encoder, tasks)
    names = list(shared_parameters(model))
    assert any(name.startswith("groups.pairs-group.") for name in names)
    single = of_each_task(model, data, [ROUND])
    found, _ = run(model, data, Combination(Sum(NAMES), InOrder(NAMES)))
    used = [name for name in names if name in found]
    expected = loop_in_order(stacked(model, single, used))
    assert torch.allclose(flat(found, used), expected, atol=1e-12 * expected.abs().max())


def test_of_word_embeddings_only_touched_rows_are_held(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    held: list[tuple[int, int]] = []
    real = TaskGradients.take

    class Watched(Aggregator):
        def forward(self, gramian: torch.Tensor, present: Any) -> torch.Tensor:
            return torch.ones(len(gramian), dtype=gramian.dtype)

    def take(self: TaskGradients, task: str) -> None:
        real(self, task)
        words = self.taken[task]["encoder.word.weight"]
        batch = next(one for one in ROUND if one.task == task)
        inputs = [one.ids for row in batch.indices.tolist() for one in data[task].inputs(model, row)]
        assert isinstance(words, TouchedRows)
        held.append((len(words.rows), len(set(np.concatenate(inputs).tolist()))))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TaskGradients, "take", take)
        run(model, data, Combination(Sum(NAMES), Watched(NAMES)))
    assert len(held) == 3
    assert all(rows == pieces < len(model.encoder.words) / 2 for rows, pieces in held)


@pytest.mark.slow
@pytest.mark.parametrize("gradients", ["pcgrad", "mgda", "imtl-g", "gradvac"])
@pytest.mark.parametrize("losses", ["sum", "mean", "fixed", "uncertainty"])
def test_the_gradient_is_the_weighted_sum_of_weighted_tasks(gradients: str, losses: str, toy_encoder: Path) -> None:
    """Σ w_i·c_i·g_i on what is shared, c_i·g_i on a task's own."""
    model, data = setting(toy_encoder)
    options = {"loss_options": {"weights": {"a": 0.1, "b": 2.0}}} if losses == "fixed" else {}
    how = combination(gradients, losses, **options)
    found, done = run(model, data, how)
    single = of_each_task(model, data, [ROUND])
    shared = shared_parameters(model)
    for name, gradient in found.items():
        expected = sum(
            (done.weights[task] if name in shared else 1.0) * done.factors[task] * one[name]
            for task, one in single.items()
            if name in one
        )
        assert torch.allclose(gradient, expected, atol=1e-13), name
    c = torch.tensor(list(done.factors.values()))
    jacobian = c[:, None].double() * stacked(model, single, list(shared))
    gramian = torch.stack(list(done.gramians.values())).sum(dim=0)
    assert torch.allclose(gramian, jacobian @ jacobian.T, rtol=1e-6), "weights are chosen for the weighted gradients"


def test_accumulation_and_token_budgets_change_nothing(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    whole, _ = run(model, data, combination("pcgrad"))
    halves = [[Batch(one.task, one.indices[:1]) for one in ROUND], [Batch(one.task, one.indices[1:]) for one in ROUND]]
    for rounds, tokens in ((halves, 10**9), ([ROUND], 12), (halves, 1)):
        found, _ = run(model, data, combination("pcgrad"), rounds, tokens)
        for name, gradient in whole.items():
            assert torch.allclose(found[name], gradient, atol=1e-13), name


@pytest.mark.parametrize("losses", ["geometric-mean", "smooth-tchebycheff", "uncertainty", "dynamic-weights"])
def test_scalarizers_are_exact_over_several_passes_and_rounds(losses: str, toy_encoder: Path) -> None:
    """Against torch's own derivative of the formula with all losses in one graph."""
    model, data = setting(toy_encoder)
    how = combination(None, losses)
    model.zero_grad(set_to_none=True)
    values = {}
    for batch in ROUND:
        inputs = [data[batch.task].inputs(model, row) for row in batch.indices.tolist()]
        outputs = model([(batch.task, inputs)])[0]
        values[batch.task] = model.head(batch.task).loss(outputs, data[batch.task].labels[batch.indices]).mean()
    how.scalarizer(values).backward()
    expected = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
    weights = {name: one.grad.clone() for name, one in how.named_parameters() if one.grad is not None}
    halves = [[Batch(one.task, one.indices[:1]) for one in ROUND], [Batch(one.task, one.indices[1:]) for one in ROUND]]
    for rounds, tokens in (([ROUND], 10**9), ([ROUND], 12), (halves, 10**9)):
        how.zero_grad()
        found, done = run(model, data, how, rounds, tokens)
        assert done.losses == pytest.approx({task: loss.item() for task, loss in values.items()}, rel=1e-12)
        for name, gradient in expected.items():
            assert torch.allclose(found[name], gradient, atol=1e-13, rtol=1e-6), name
        for name, parameter in how.named_parameters():
            assert torch.allclose(parameter.grad, weights[name], rtol=1e-6)


def test_a_step_with_several_passes_looks_ahead_with_the_masks_of_the_gradient(toy_encoder: Path) -> None:
    """With dropout: the factors are those of the losses that the step reports."""
    model, data = setting(toy_encoder, dropout=0.3, attention_dropout=0.2)
    model.train()
    how = combination(None, "geometric-mean")
    _, done = run(model, data, how, tokens=12)
    assert done.factors == pytest.approx(how.scalarizer.factors(done.losses), rel=1e-12)


def test_only_chosen_layers_are_operated_on(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    plain, _ = run(model, data, combination(None))
    single = of_each_task(model, data, [ROUND])
    found, done = run(model, data, Combination(Sum(NAMES), InOrder(NAMES), layers=[2]))
    assert list(done.gramians) == ["layer 2"]
    names = [name for name in plain if name.startswith("encoder.layers.1.")]
    expected = loop_in_order(stacked(model, single, names))
    assert torch.allclose(flat(found, names), expected, atol=1e-12 * expected.abs().max())
    for name in plain.keys() - set(names):
        assert torch.allclose(found[name], plain[name], atol=1e-13), name


def test_copies_in_bfloat16_are_near(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder, double=False)
    names = list(shared_parameters(model))
    exact = flat(run(model, data, Combination(Sum(NAMES), InOrder(NAMES)))[0], names)
    found, _ = run(model, data, Combination(Sum(NAMES), InOrder(NAMES), copies=torch.bfloat16))
    assert all(one.dtype == torch.float32 for one in found.values()), "the optimizer sees no half precision"
    near = flat(found, names)
    assert 0 < (near - exact).norm() < 0.01 * exact.norm()


def test_bfloat16_autocast_with_layer_norms(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder, double=False)
    names = list(shared_parameters(model))
    exact = flat(run(model, data, Combination(Sum(NAMES), InOrder(NAMES)))[0], names)
    found, done = run(
        model,
        data,
        Combination(Sum(NAMES), InOrder(NAMES)),
        autocast=lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    )
    near = flat(found, names)
    assert near.dtype == torch.float32
    assert 0 < (near - exact).norm() < 0.2 * exact.norm()
    assert set(done.gramians) == {"embeddings", "layer 1", "layer 2"}


@pytest.mark.slow
@pytest.mark.parametrize("part", [*parts("scalarizers"), *parts("aggregators")], ids=lambda part: part.name)
def test_every_combination_learns_a_fixed_batch(part: Part, toy_encoder: Path) -> None:
    """Each of the three losses falls: what is put into .grad goes down for all of them."""
    model, data = setting(toy_encoder, double=False)
    how = combination(None, part.name) if part.family == "scalarizers" else combination(part.name)
    optimizer = torch.optim.AdamW([*model.parameters(), *how.parameters()], lr=3e-3)
    backward = Backward(model, data, 10**9, nullcontext)
    losses = []
    for step in range(20):
        optimizer.zero_grad()
        losses.append(backward.step([ROUND], how, (0, step)).losses)
        how.scalarizer.observe(losses[-1])
        optimizer.step()
    for task in NAMES:
        assert losses[-1][task] < 0.7 * losses[0][task], f"{task}: {losses[0][task]:.3f} → {losses[-1][task]:.3f}"


# --- tasks that are missing, frozen, alone ---------------------------------------------------------------------


@pytest.mark.parametrize("gradients", ["pcgrad", "mgda", "gradvac", "imtl-g", "aligned-mtl", "upgrad", "dualproj"])
def test_a_round_with_one_task_is_plain_training(gradients: str, toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    plain, _ = run(model, data, combination(None), [ROUND[1:2]])
    found, done = run(model, data, combination(gradients), [ROUND[1:2]])
    assert done.weights == pytest.approx({"b": 1.0})
    assert found.keys() == plain.keys()
    for name, gradient in plain.items():
        assert torch.allclose(found[name], gradient, atol=1e-9 * gradient.abs().max().item()), name


def test_a_missing_task_contributes_nothing(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    how = combination("pcgrad", "uncertainty")
    found, done = run(model, data, how, [ROUND[:2]])
    assert list(done.weights) == list(done.factors) == ["a", "b"]
    assert not any(name.startswith("heads.c") for name in found)
    assert [name for name, one in how.named_parameters() if one.grad is None] == ["scalarizer.w.c-weight"]


def test_frozen_parts_are_left_out(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    plain, _ = run(model, data, combination(None))
    model.encoder.requires_grad_(False)
    found, done = run(model, data, combination("pcgrad"))
    assert found
    assert all(name.startswith("heads.") for name in found)
    assert done.gramians == {}
    for name, gradient in found.items():
        assert torch.allclose(gradient, plain[name], atol=1e-13)


# --- per-task layer factors (paper A) --------------------------------------------------------------------------


@pytest.mark.parametrize("gradients", [None, "mgda"])
def test_layer_factors_scale_what_one_task_sends_to_a_layer(gradients: str | None, toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    single = of_each_task(model, data, [ROUND])
    factors = {"a": {1: 0.0, 2: 3.0}, "c": {0: 0.5}}
    found, done = run(model, data, combination(gradients), layer_factors=factors)
    for name, gradient in found.items():
        layer = model.encoder.layer_of(name.removeprefix("encoder.")) if name.startswith("encoder.") else None
        expected = sum(
            (done.weights.get(task, 1.0) if layer is not None else 1.0)
            * factors.get(task, {}).get(layer, 1.0)  # type: ignore[arg-type]
            * one[name]
            for task, one in single.items()
            if name in one
        )
        assert torch.allclose(gradient, expected, atol=1e-13), name


# --- memory ----------------------------------------------------------------------------------------------------


class Counting(Aggregator):
    """How many bytes of tensors that are not parameters are alive when weights are chosen."""

    bytes = 0

    def forward(self, gramian: torch.Tensor, present: Any) -> torch.Tensor:
        Counting.bytes = live_bytes()
        return torch.ones(len(gramian), dtype=gramian.dtype)


def live_bytes() -> int:
    alive: dict[int, int] = {}
    for one in gc.get_objects():
        if type(one) is torch.Tensor and one.layout == torch.strided:
            alive[one.untyped_storage().data_ptr()] = one.untyped_storage().nbytes()
    return sum(alive.values())


@pytest.mark.slow
@pytest.mark.parametrize(("copies", "share"), [(None, 1.0), (torch.bfloat16, 0.5)])
def test_no_more_copies_than_tasks(copies: Any, share: float, tmp_path: Path) -> None:
    """A wide encoder, so that gradients are nearly all there is."""
    from conftest import write_toy_encoder

    folder = write_toy_encoder(tmp_path / "wide", hidden_size=256, intermediate_size=1024, num_attention_heads=4)
    model, data = setting(folder, double=False)
    gc.collect()
    before = live_bytes()
    size = sum(4 * one.numel() for one in shared_parameters(model).values())
    run(model, data, Combination(Sum(NAMES), Counting(NAMES), copies=copies))
    held = (Counting.bytes - before) / size
    assert held < 3 * share + 0.35, "three tasks, and the gradients of their heads"
    assert held > 2.5 * share, "the count sees the copies"


@pytest.mark.slow
def test_no_graph_is_kept(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    kept: list[Any] = []

    class Looking(Aggregator):
        def forward(self, gramian: torch.Tensor, present: Any) -> torch.Tensor:
            gc.collect()
            kept.extend(one for one in gc.get_objects() if type(one) is torch.Tensor and one.grad_fn is not None)
            return torch.ones(len(gramian), dtype=gramian.dtype)

    run(model, data, Combination(Sum(NAMES), Looking(NAMES)))
    assert not kept


# --- measuring -------------------------------------------------------------------------------------------------


def test_measuring_gives_the_gramians_and_touches_nothing(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder)
    backward = Backward(model, data, 10**9, nullcontext)
    before = torch.random.get_rng_state()
    model.encoder.word.weight.grad = kept = torch.ones_like(model.encoder.word.weight)
    how = combination(None, "fixed", loss_options={"weights": {"a": 2.0}})
    found = backward.measure([ROUND], how, (0, 1))
    assert model.encoder.word.weight.grad is kept
    assert all(one.grad is None for name, one in model.named_parameters() if name != "encoder.word.weight")
    assert not any(one.sparse for one in model.modules() if isinstance(one, torch.nn.Embedding))
    assert torch.equal(before, torch.random.get_rng_state())
    model.zero_grad(set_to_none=True)
    single = of_each_task(model, data, [ROUND])
    for group, gramian in found.items():
        names = [name for name in shared_parameters(model) if layer_group(model, name) == group]
        jacobian = torch.tensor([[2.0], [1.0], [1.0]]).double() * stacked(model, single, names)
        assert torch.allclose(gramian, jacobian @ jacobian.T, rtol=1e-9, atol=1e-16), group


def test_measuring_with_losses_that_depend_on_each_other(toy_encoder: Path) -> None:
    """The gradients as the geometric mean weighs them."""
    model, data = setting(toy_encoder)
    how = combination(None, "geometric-mean")
    _, done = run(model, data, how)
    plain = Backward(model, data, 10**9, nullcontext).measure([ROUND], combination(None), (0, 1))
    found = Backward(model, data, 10**9, nullcontext).measure([ROUND], how, (0, 1))
    c = torch.tensor(list(done.factors.values())).double()
    assert torch.allclose(found["layer 1"], c[:, None] * plain["layer 1"] * c, rtol=1e-9)


# --- other encoders --------------------------------------------------------------------------------------------


def test_an_encoder_of_transformers(toy_encoder: Path) -> None:
    model, data = setting(toy_encoder, implementation="transformers")
    single = of_each_task(model, data, [ROUND])
    found, done = run(model, data, Combination(Sum(NAMES), InOrder(NAMES)))
    used = [name for name in shared_parameters(model) if name in found]
    expected = loop_in_order(stacked(model, single, used))
    assert torch.allclose(flat(found, used), expected, atol=1e-12 * expected.abs().max())
    assert set(done.gramians) == {"embeddings", "layer 1", "layer 2"}
