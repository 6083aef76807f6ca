"""SMART's form `library` against smart-pytorch 0.0.4: its formulas written anew in float64, and itself where it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from building import CLASSES, MULTI, NUMBERS, TWO, a_task
from manyheads.model.multitask import ManyHeads
from manyheads.parts.regularisers import Regulariser, Smart
from manyheads.parts.regularisers.base import ForwardPass
from manyheads.parts.regularisers.library import library_ascent, library_term
from manyheads.parts.samplers import Batch
from manyheads.parts.scalarizers import Sum
from manyheads.registry import find
from manyheads.training.distributed import Processes
from manyheads.training.gradients.backward import Backward
from manyheads.training.gradients.combination import Combination
from three_tasks import NAMES, ROUND, setting

pytestmark = pytest.mark.numeric

Evaluate = Callable[[Tensor], Tensor]


def library_smart(**options: Any) -> Smart:
    smart = Smart(NAMES, form="library", **options)
    smart.name = "smart"
    return smart


def loss_of(name: str, labels: Any) -> Any:
    return find("losses", name).factory(a_task(labels=labels, loss=name))


# --- the two comparisons, by hand ----------------------------------------------------------------------------------


def test_the_symmetric_kl_by_hand() -> None:
    """p = (¾, ¼), q = (½, ½): KL(q‖p) = ½·ln(4/3), KL(p‖q) = ¾·ln(3/2) + ¼·ln(1/2); n = 2 examples in the step.

    With one side held still, the gradient of KL(sg q‖p) over p's logits is p − q, that of the other over q's q − p.
    """
    perturbed = torch.tensor([3.0, 1.0]).double().log()[None].requires_grad_()
    clean = torch.tensor([[0.7, 0.7]], dtype=torch.float64, requires_grad=True)
    classes = loss_of("cross-entropy", TWO)
    forwards, back = 0.14384103622589042, 0.13081203594113694
    assert library_ascent(classes, perturbed, clean).tolist() == pytest.approx([forwards])
    value = library_term(classes, perturbed, clean, 2)
    assert value.tolist() == pytest.approx([2 * (forwards + back)])
    value.sum().backward()
    assert perturbed.grad.tolist()[0] == pytest.approx([2 * 0.25, -2 * 0.25])  # type: ignore[union-attr]
    assert clean.grad.tolist()[0] == pytest.approx([-2 * 0.25, 2 * 0.25])  # type: ignore[union-attr]


def test_one_output_is_two_logits_and_several_labels_are_several_questions() -> None:
    x, y = torch.tensor([[0.3], [-1.0]]).double(), torch.tensor([[-0.2], [2.0]]).double()
    zero = torch.zeros_like(x)
    two = library_term(loss_of("cross-entropy", TWO), torch.cat([zero, x], 1), torch.cat([zero, y], 1), 3)
    assert torch.allclose(library_term(loss_of("binary-cross-entropy", TWO), x, y, 3), two)
    several = library_term(loss_of("binary-cross-entropy", MULTI), x.T, y.T, 3)
    assert several.tolist() == pytest.approx([two.sum().item()])


def test_softmax_is_of_the_logits_whatever_the_loss() -> None:
    """The dual objective of paper E predicts by sigmoids; the library knows logits alone."""
    x, y = torch.tensor([[1.0, 0.0, -1.0]]).double(), torch.tensor([[0.5, 0.2, 0.0]]).double()
    plain, dual = loss_of("cross-entropy", CLASSES), loss_of("dual-cross-entropy", CLASSES)
    assert torch.equal(library_term(plain, x, y, 4), library_term(dual, x, y, 4))


def test_numbers_are_compared_as_torchs_mse() -> None:
    """A mean over the batch, as MSELoss gives: no factor for its size."""
    numbers = loss_of("mse", NUMBERS)
    x, y = torch.tensor([[1.0], [4.0]]), torch.tensor([[3.0], [3.0]])
    assert library_term(numbers, x, y, 2).tolist() == [4.0, 1.0]
    assert library_ascent(numbers, x, y).tolist() == [4.0, 1.0]


# --- whole batches -------------------------------------------------------------------------------------------------


def reference(evaluate: Evaluate, embedded: Tensor, state: Tensor, smart: Smart, numbers: bool) -> Tensor:
    """The library's loop with the losses of its example for classifiers, of one batch."""
    noise = smart.sigma * torch.randn_like(embedded)
    for _ in range(smart.steps):
        noise = noise.detach().requires_grad_()
        moved_state = evaluate(embedded + noise)
        if numbers:
            apart = ((moved_state - state.detach()) ** 2).mean()
        else:
            p, q = two_sided(moved_state), two_sided(state).detach()
            apart = (q * (q / p).log()).sum() / len(state)
        (gradient,) = torch.autograd.grad(apart, noise)
        moved = noise.detach() + smart.eta * gradient
        largest = moved.abs().amax(dim=-1, keepdim=True)
        noise = moved / (largest + smart.epsilon)
    moved_state = evaluate(embedded + noise)
    if numbers:
        return ((moved_state - state) ** 2).mean()
    p, q = two_sided(moved_state), two_sided(state)
    still_p, still_q = p.detach(), q.detach()
    return (still_q * (still_q / p).log()).sum() + (still_p * (still_p / q).log()).sum()


def two_sided(logits: Tensor) -> Tensor:
    """Probabilities; of one logit those of no and yes."""
    if logits.shape[-1] == 1:
        logits = torch.cat([torch.zeros_like(logits), logits], dim=-1)
    exponentials = (logits - logits.amax(dim=-1, keepdim=True)).exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def gradients_of(model: ManyHeads) -> dict[str, Tensor]:
    found = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
    model.zero_grad(set_to_none=True)
    return found


def step(
    model: ManyHeads, data: Any, regularisers: list[Regulariser], rounds: list[list[Batch]], processes: Any = None
) -> tuple[dict[str, Tensor], Any]:
    model.zero_grad(set_to_none=True)
    backward = Backward(model, data, 10**9, nullcontext, processes)
    done = backward.step(rounds, Combination(Sum(NAMES)), (0, 1), regularisers)
    return gradients_of(model), done


@pytest.mark.parametrize("options", [{}, {"sigma": 1e-3, "eta": 10.0, "steps": 3}], ids=str)
@pytest.mark.parametrize("task", NAMES)
def test_a_step_equals_the_librarys_formulas(
    task: str, options: dict[str, Any], toy_encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Value and gradient of λ·(the library's number) over one batch, dropout off."""
    model, data = setting(toy_encoder)
    (batch,) = [batch for batch in ROUND if batch.task == task]
    packed = model.pack([(task, [data[task].inputs(model, int(row)) for row in batch.indices])], merge=False)
    embedded = model.embed(packed)
    drawn = torch.randn(embedded.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    monkeypatch.setattr(torch, "randn_like", lambda like: drawn)
    smart = library_smart(weight=0.7, **options)

    def evaluate(other: Tensor) -> Tensor:
        return model.read(other, packed)[0]

    value = reference(evaluate, embedded, evaluate(embedded), smart, numbers=task == "c")
    (0.7 * value).backward()
    expected = gradients_of(model)
    plain, _ = step(model, data, [], [[batch]])
    found, done = step(model, data, [smart], [[batch]])
    assert done.terms["smart"] == pytest.approx(0.7 * value.item(), rel=1e-9)
    assert value > 0
    largest = max(float(one.abs().max()) for one in expected.values())
    for name, gradient in found.items():
        added = expected.get(name, torch.zeros_like(gradient))
        assert torch.allclose(gradient - plain[name], added, atol=1e-9 * largest), name


class Slice(Processes):
    """One of several processes, whose sums are left to the test."""

    def any(self, flags: list[bool]) -> list[bool]:
        return flags

    def add(self, tensors: list[Tensor]) -> None:
        pass

    def add_gradients(self, parameters: Any) -> None:
        pass


def test_slices_of_several_processes_add_up_to_the_step(toy_encoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum is over the batch of all processes, also in the ascent's mean."""
    model, data = setting(toy_encoder)
    monkeypatch.setattr(torch, "randn_like", torch.ones_like)
    smart = library_smart(sigma=0.1, eta=10.0)
    whole, done = step(model, data, [smart], [ROUND])
    slices = [step(model, data, [smart], [ROUND], Slice(rank, 2)) for rank in range(2)]
    assert sum(one.terms["smart"] for _, one in slices) == pytest.approx(done.terms["smart"], rel=1e-9)
    for name, gradient in whole.items():
        added = sum(found[name] for found, _ in slices if name in found)
        assert torch.allclose(gradient, added, atol=1e-11), name  # type: ignore[arg-type]


# --- with dropout --------------------------------------------------------------------------------------------------


class Watch(Regulariser):
    """Keeps the pass that it is given."""

    def terms(self, forward_pass: ForwardPass) -> list[Tensor]:
        self.forward_pass = forward_pass
        return [torch.zeros(len(output)) for output in forward_pass.outputs]


def a_pass_with_dropout(task: str, folder: Path) -> tuple[ManyHeads, ForwardPass]:
    model, data = setting(folder, dropout=0.3, attention_dropout=0.2)
    model.train()
    watch = Watch(NAMES, 1.0)
    watch.name = "watch"
    step(model, data, [watch], [[batch for batch in ROUND if batch.task == task]])
    return model, watch.forward_pass


def terms_with_seed(smart: Smart, forward_pass: ForwardPass) -> float:
    """λ is left out; what the task's loss has: the sum over examples, divided by the step's count."""
    torch.manual_seed(3)
    (terms,) = smart.terms(forward_pass)
    return terms.sum().item() / forward_pass.counts[0]


@pytest.mark.parametrize("task", NAMES)
def test_every_pass_draws_masks_where_the_library_does(task: str, toy_encoder: Path) -> None:
    """Noise, then a mask for every pass: the same numbers as the loop of the library from the same seed."""
    model, forward_pass = a_pass_with_dropout(task, toy_encoder)
    smart = library_smart(steps=2)

    def evaluate(embedded: Tensor) -> Tensor:
        return model.read(embedded, forward_pass.packed)[0]

    torch.manual_seed(3)
    with torch.enable_grad():
        expected = reference(evaluate, forward_pass.embedded, forward_pass.outputs[0], smart, numbers=task == "c")
    assert terms_with_seed(smart, forward_pass) == pytest.approx(expected.item(), rel=1e-9)
    shared = terms_with_seed(library_smart(steps=2, masks="shared"), forward_pass)
    assert shared != pytest.approx(expected.item(), rel=1e-3), "masks of its own make the difference"


@pytest.mark.parametrize("task", ["a", "c"])
def test_it_is_the_library_itself(task: str, toy_encoder: Path) -> None:
    library = pytest.importorskip("smart_pytorch", reason="smart-pytorch 0.0.4 is not installed")
    model, forward_pass = a_pass_with_dropout(task, toy_encoder)
    losses = {"a": (library.kl_loss, library.sym_kl_loss), "c": (torch.nn.MSELoss(), None)}[task]
    itself = library.SMARTLoss(lambda embedded: model.read(embedded, forward_pass.packed)[0], *losses, num_steps=2)
    torch.manual_seed(3)
    expected = itself(forward_pass.embedded, forward_pass.outputs[0]).item()
    assert terms_with_seed(library_smart(steps=2), forward_pass) == pytest.approx(expected, rel=1e-9)
