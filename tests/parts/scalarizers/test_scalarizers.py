"""Losses → one loss: each formula by hand or by an independent float64 reference, and against torchjd's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torchjd import scalarization

from manyheads.parts.scalarizers import Scalarizer
from manyheads.registry import Part, find, parts

pytestmark = pytest.mark.numeric
TASKS = ["a", "b", "c"]
LOSSES = {"a": 1.7, "b": 0.4, "c": 0.9}


def build(name: str, tasks: list[str] = TASKS, **options: Any) -> Scalarizer:
    return find("scalarizers", name).factory(tasks, **options)


def tensors(losses: dict[str, float] = LOSSES) -> dict[str, torch.Tensor]:
    return {task: torch.tensor(loss, dtype=torch.float64) for task, loss in losses.items()}


def value(scalarizer: Scalarizer, losses: dict[str, float] = LOSSES) -> float:
    return scalarizer(tensors(losses)).item()


def set_weights(scalarizer: Scalarizer, values: list[float]) -> None:
    for parameter, one in zip(scalarizer.parameters(), values, strict=True):
        parameter.data.fill_(one)


# --- formulas --------------------------------------------------------------------------------------------------


def test_sum_mean_and_fixed_weights_by_hand() -> None:
    assert value(build("sum")) == pytest.approx(3.0)
    assert value(build("mean")) == pytest.approx(1.0)
    assert value(build("mean"), {"a": 3.0, "c": 1.0}) == pytest.approx(2.0), "divided by the tasks present"
    paper_a = build("fixed", weights={"a": 0.1, "b": 2.0, "c": 0.4})
    assert value(paper_a) == pytest.approx(0.17 + 0.8 + 0.36)
    assert paper_a.factors(LOSSES) == pytest.approx({"a": 0.1, "b": 2.0, "c": 0.4})
    assert build("fixed", weights={"b": 0.0}).factors(LOSSES) == {"a": 1.0, "b": 0.0, "c": 1.0}


def test_uncertainty_is_the_papers_form() -> None:
    """Σ exp(−w)·L + w, and its derivative by w, 1 − exp(−w)·L."""
    scalarizer = build("uncertainty")
    assert [one.item() for one in scalarizer.parameters()] == [0, 0, 0], "w starts at 0"
    w = [0.3, -1.0, 0.5]
    set_weights(scalarizer, w)
    expected = sum(np.exp(-one) * loss + one for one, loss in zip(w, LOSSES.values(), strict=True))
    assert value(scalarizer) == pytest.approx(expected, rel=1e-7)
    scalarizer(tensors()).backward()
    for parameter, one, loss in zip(scalarizer.parameters(), w, LOSSES.values(), strict=True):
        assert float(parameter.grad) == pytest.approx(1 - np.exp(-one) * loss, rel=1e-5)


def test_liebel_korner_is_the_papers_form_over_all_tasks_or_a_group() -> None:
    """Σ L/(2w²) + ln(1 + w²); paper B weighs Quora and STS only."""
    scalarizer = build("liebel-korner")
    assert [one.item() for one in scalarizer.parameters()] == [1, 1, 1], "w starts at 1"
    w = [0.5, 2.0, 1.5]
    set_weights(scalarizer, w)
    expected = sum(loss / (2 * one**2) + np.log(1 + one**2) for one, loss in zip(w, LOSSES.values(), strict=True))
    assert value(scalarizer) == pytest.approx(expected, rel=1e-7)
    group = build("liebel-korner", weighted_tasks=["b", "c"])
    assert value(group) == pytest.approx(1.7 + 0.4 / 2 + 0.9 / 2 + 2 * np.log(2), rel=1e-7)
    assert group.factors(LOSSES) == pytest.approx({"a": 1.0, "b": 0.5, "c": 0.5})
    assert len(list(group.parameters())) == 2


def test_geometric_mean_by_hand_and_its_factors() -> None:
    scalarizer = build("geometric-mean")
    mean = (1.7 * 0.4 * 0.9) ** (1 / 3)
    assert value(scalarizer) == pytest.approx(mean, rel=1e-12)
    expected = {task: mean / (3 * loss) for task, loss in LOSSES.items()}
    assert scalarizer.factors(LOSSES) == pytest.approx(expected, rel=1e-12)
    assert all(np.isfinite(list(scalarizer.factors({"a": 0.0, "b": 1.0}).values()))), "also where a loss is 0"


def test_geometric_mean_of_a_negative_loss_is_refused() -> None:
    from manyheads.errors import UserError

    with pytest.raises(UserError, match=r"that are not negative; that of task 'b' is -0\.4"):
        value(build("geometric-mean"), {"a": 1.0, "b": -0.4})


def test_smooth_tchebycheff_by_hand() -> None:
    losses = np.array(list(LOSSES.values()))
    expected = 0.2 * np.log(np.exp(losses / 3 / 0.2).sum())
    assert value(build("smooth-tchebycheff", mu=0.2)) == pytest.approx(expected, rel=1e-12)
    goal = build("smooth-tchebycheff", mu=0.2, weights={"b": 3.0}, goal={"a": 1.0})
    shifted = np.array([(1.7 - 1.0) / 3, 3 * 0.4 / 3, 0.9 / 3])
    assert value(goal) == pytest.approx(0.2 * np.log(np.exp(shifted / 0.2).sum()), rel=1e-12)
    factors = build("smooth-tchebycheff", mu=0.01).factors(LOSSES)
    assert factors["a"] == pytest.approx(1 / 3), "with a small mu all of it goes to the worst task"


def test_dynamic_weights_by_hand_over_four_epochs() -> None:
    """λ = T·softmax(r/τ), r the ratio of the last two epochs' mean losses, 1 until there are two."""
    scalarizer = build("dynamic-weights", temperature=2.0)
    epochs = [
        [{"a": 2.0, "b": 1.0, "c": 1.0}, {"a": 1.0, "b": 1.0, "c": 3.0}],  # means 1.5, 1, 2
        [{"a": 0.75, "b": 1.0, "c": 1.0}],  # 0.75, 1, 1
        [{"a": 0.75, "c": 0.5}],  # 0.75, -, 0.5
    ]
    for losses in epochs[0]:
        assert scalarizer.factors(LOSSES) == pytest.approx({"a": 1, "b": 1, "c": 1})
        scalarizer.observe(losses)
    scalarizer.end_epoch()
    assert scalarizer.factors(LOSSES) == pytest.approx({"a": 1, "b": 1, "c": 1}), "one epoch has no ratio"
    scalarizer.observe(epochs[1][0])
    scalarizer.end_epoch()

    def weights(ratios: list[float]) -> np.ndarray:
        raised = np.exp(np.array(ratios) / 2)
        return len(ratios) * raised / raised.sum()

    assert list(scalarizer.factors(LOSSES).values()) == pytest.approx(weights([0.5, 1.0, 0.5]))
    scalarizer.observe(epochs[2][0])
    scalarizer.end_epoch()
    assert list(scalarizer.factors(LOSSES).values()) == pytest.approx(weights([1.0, 1.0, 0.5])), "b kept its ratio"
    assert list(scalarizer.factors({"a": 1.0, "c": 1.0}).values()) == pytest.approx(weights([1.0, 0.5]))


def test_dynamic_weights_over_windows_of_steps() -> None:
    scalarizer = build("dynamic-weights", ["a", "b"], every=2)
    for loss in (4.0, 2.0, 1.0, 2.0):  # means 3 and 1.5
        scalarizer.observe({"a": loss, "b": 1.0})
        scalarizer.end_epoch()  # says nothing here
    raised = np.exp(np.array([0.5, 1.0]) / 2)
    assert list(scalarizer.factors({"a": 1.0, "b": 1.0}).values()) == pytest.approx(2 * raised / raised.sum())


def test_random_weights_are_a_softmax_of_normal_draws() -> None:
    scalarizer = build("random-weights")
    with torch.random.fork_rng():
        torch.manual_seed(3)
        found = list(scalarizer.factors(LOSSES).values())
        torch.manual_seed(3)
        drawn = torch.randn(3, dtype=torch.float64).exp()
        again = list(scalarizer.factors(LOSSES).values())
    assert found == pytest.approx((drawn / drawn.sum()).tolist())
    assert found != again


@pytest.mark.parametrize(
    ("name", "options", "other"),
    [
        ("sum", {}, scalarization.Sum()),
        ("mean", {}, scalarization.Mean()),
        ("geometric-mean", {}, scalarization.GeometricMean()),
        ("smooth-tchebycheff", {"mu": 0.3}, scalarization.STCH(0.3)),
        ("imtl-l", {}, scalarization.IMTLL(3)),
        ("uncertainty", {}, scalarization.UW(3)),  # half of ours
        ("fixed", {"weights": {"a": 0.5}}, scalarization.Constant(torch.tensor([0.5, 1.0, 1.0]))),
    ],
)
def test_torchjd_has_the_same(name: str, options: dict[str, Any], other: Any) -> None:
    ours = build(name, **options)
    factor = 2 if name == "uncertainty" else 1
    for values in ([0.0, 0.0, 0.0], [0.5, -0.3, 1.0]):
        if list(ours.parameters()):
            set_weights(ours, values)
            next(iter(other.parameters())).data.copy_(torch.tensor(values))
        theirs = factor * other(torch.tensor(list(LOSSES.values()), dtype=torch.float64).float())
        assert value(ours) == pytest.approx(theirs.item(), rel=1e-5)


def test_torchjd_has_the_same_dynamic_weights() -> None:
    ours, theirs = build("dynamic-weights"), scalarization.DWA()
    random = np.random.default_rng(0)
    for _ in range(4):
        for _ in range(3):
            losses = random.uniform(0.1, 2, 3)
            named = dict(zip(TASKS, losses.tolist(), strict=True))
            assert value(ours, named) == pytest.approx(float(theirs(torch.tensor(losses))), rel=1e-9)
            ours.observe(named)
        ours.end_epoch()
        theirs.step()


# --- what every scalarizer promises ----------------------------------------------------------------------------


@pytest.mark.parametrize("part", parts("scalarizers"), ids=lambda part: part.name)
def test_contract(part: Part) -> None:
    scalarizer: Scalarizer = part.factory(TASKS)

    def factors(losses: dict[str, float]) -> dict[str, float]:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return scalarizer.factors(losses)

    found = factors(LOSSES)
    assert all(one > 0 for one in found.values()), "every task is trained"
    assert list(found) == TASKS
    turned = factors(dict(reversed(LOSSES.items())))
    if part.name != "random-weights":
        assert turned == pytest.approx(found), "tasks are known by name, not by place"
    other = factors({**LOSSES, "a": 0.2})
    assert scalarizer.affine == (other == pytest.approx(found, rel=1e-9)), "it says whether losses decide its factors"
    assert set(factors({"b": 0.5})) == {"b"}, "a step may have one task"
    scalarizer.observe({"b": 0.5})
    scalarizer.end_epoch()
    has_weights = bool(list(scalarizer.parameters()))
    assert has_weights == (scalarizer.learning_rate is not None), "what is learnt has a rate"
    if has_weights:
        scalarizer(tensors({"b": 0.5})).backward()
        moved = [name for name, one in scalarizer.named_parameters() if one.grad is not None]
        assert moved == ["w.b-weight"], "an absent task's weight, and its regulariser, have no part in the step"
    again: Scalarizer = part.factory(TASKS)
    again.load_state_dict(scalarizer.state_dict())
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert again.factors(LOSSES) == factors(LOSSES), "its memory is in its state"
