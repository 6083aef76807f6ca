"""Gramian → weights: each method against an independent float64 implementation on the gradients themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, nnls
from torchjd import aggregation
from torchjd.linalg import QuadprogProjector

from manyheads.parts.aggregators import Aggregator
from manyheads.registry import Part, find, parts

pytestmark = pytest.mark.numeric
TASKS = ["a", "b", "c"]
Vector = np.ndarray[Any, np.dtype[np.float64]]


def build(name: str, tasks: list[str] = TASKS, **options: Any) -> Aggregator:
    return find("aggregators", name).factory(tasks, **options)


def gradients(seed: int, tasks: int = 3, size: int = 7) -> Vector:
    """Task gradients [tasks, size] that point against each other, and differ in length."""
    random = np.random.default_rng(seed)
    drawn = random.normal(size=(tasks, size))
    return (drawn - 0.9 * drawn.mean(axis=0)) * random.uniform(0.3, 3, size=(tasks, 1))


def weights(aggregator: Aggregator, jacobian: Vector, present: list[str] | None = None) -> Vector:
    gramian = torch.from_numpy(jacobian @ jacobian.T)
    return aggregator(gramian, present or TASKS[: len(jacobian)]).numpy()


def shared_gradient(aggregator: Aggregator, jacobian: Vector) -> Vector:
    return weights(aggregator, jacobian) @ jacobian


class FixedOrder:
    """torch.randperm, always in these orders."""

    def __init__(self, *orders: list[int]) -> None:
        self.orders = list(orders)

    def __call__(self, size: int, **_: Any) -> torch.Tensor:
        return torch.tensor(self.orders.pop(0))


# --- independent references, on the gradients themselves ---------------------------------------------------------


def papers_pcgrad(jacobian: Vector, orders: list[list[int]]) -> Vector:
    """The loop that papers C and D print, for fixed orders of the other tasks; returns every projected gradient."""
    projected = []
    for i, order in enumerate(orders):
        p = jacobian[i].copy()
        for j in order:
            if j != i and p @ jacobian[j] < 0:
                p = p - (p @ jacobian[j]) / (jacobian[j] @ jacobian[j]) * jacobian[j]
        projected.append(p)
    return np.array(projected)


def papers_gradvac(jacobian: Vector, orders: list[list[int]], targets: Vector, beta: float) -> Vector:
    projected = []
    for i, order in enumerate(orders):
        p = jacobian[i].copy()
        for j in order:
            if j == i:
                continue
            cosine = p @ jacobian[j] / (np.linalg.norm(p) * np.linalg.norm(jacobian[j]))
            target = targets[i, j]
            if cosine < target:
                top = np.linalg.norm(p) * (target * np.sqrt(1 - cosine**2) - cosine * np.sqrt(1 - target**2))
                p = p + top / (np.linalg.norm(jacobian[j]) * np.sqrt(1 - target**2)) * jacobian[j]
            targets[i, j] = (1 - beta) * target + beta * cosine
        projected.append(p)
    return np.array(projected)


def into_dual_cone(jacobian: Vector, vector: Vector) -> Vector:
    """The nearest x with x·g_j ≥ 0 for all j: vector + Σ λ_j·g_j, λ ≥ 0 (Moreau), by non-negative least squares."""
    return vector + nnls(jacobian.T, -vector)[0] @ jacobian


def smallest_convex(jacobian: Vector) -> Vector:
    size = len(jacobian)
    found = minimize(
        lambda w: (w @ jacobian) @ (w @ jacobian),
        np.full(size, 1 / size),
        bounds=[(0, 1)] * size,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    return found.x @ jacobian


def papers_cagrad(jacobian: Vector, c: float) -> Vector:
    size, mean = len(jacobian), jacobian.mean(axis=0)
    radius = c * np.linalg.norm(mean)
    found = minimize(
        lambda w: (w @ jacobian) @ mean + radius * np.linalg.norm(w @ jacobian),
        np.full(size, 1 / size),
        bounds=[(0, 1)] * size,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    direction = found.x @ jacobian
    return mean + radius * direction / np.linalg.norm(direction)


def aligned(jacobian: Vector) -> Vector:
    """The orthogonal matrix nearest to the gradients, as long as their smallest singular value; then the mean."""
    u, s, v = np.linalg.svd(jacobian, full_matrices=False)
    return (s.min() * u @ v).mean(axis=0)


# --- each method -----------------------------------------------------------------------------------------------


ORDERS = [[[1, 0, 2], [2, 1, 0], [0, 1, 2]], [[2, 1, 0], [0, 2, 1], [1, 0, 2]]]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("orders", ORDERS)
def test_pcgrad_is_the_papers_loop(seed: int, orders: list[list[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    jacobian = gradients(seed)
    projected = papers_pcgrad(jacobian, orders)
    assert not np.allclose(projected, jacobian), "the gradients do conflict"
    for reduction, expected in (("sum", projected.sum(axis=0)), ("mean", projected.mean(axis=0))):
        with monkeypatch.context() as patch:
            patch.setattr(torch, "randperm", FixedOrder(*orders))
            found = shared_gradient(build("pcgrad", reduction=reduction), jacobian)
        assert np.allclose(found, expected, atol=1e-12), f"{reduction} can be reached"


@pytest.mark.parametrize("seed", range(3))
def test_gradvac_is_the_papers_loop_over_several_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = build("gradvac", beta=0.3), aggregation.GradVacWeighting(beta=0.3, eps=0.0)
    targets = np.zeros((3, 3))
    for step in range(4):
        jacobian = gradients(10 * seed + step) + 0.4  # they agree in part, so that there is something to aim at
        orders = ORDERS[step % 2]
        expected = papers_gradvac(jacobian, orders, targets, beta=0.3).sum(axis=0)
        with monkeypatch.context() as patch:
            patch.setattr(torch, "randperm", FixedOrder(*orders))
            assert np.allclose(shared_gradient(ours, jacobian), expected, atol=1e-9)
        assert np.allclose(ours.targets.numpy(), targets, atol=1e-12)  # type: ignore[union-attr, operator]
        others = [[[j for j in range(3) if j != i].index(j) for j in order if j != i] for i, order in enumerate(orders)]
        with monkeypatch.context() as patch:
            patch.setattr(torch, "randperm", FixedOrder(*others))
            gramian = torch.from_numpy(jacobian @ jacobian.T)
            assert np.allclose(theirs(gramian).numpy() @ jacobian, expected, atol=1e-9), "torchjd's own"


def test_gradvac_starts_as_pcgrad_and_keeps_the_memory_of_an_absent_task(monkeypatch: pytest.MonkeyPatch) -> None:
    jacobian = gradients(0)
    vaccine = build("gradvac")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        first = weights(vaccine, jacobian)
    vaccine.targets.zero_()  # type: ignore[union-attr, operator]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert np.allclose(first, weights(build("pcgrad"), jacobian)), "with nothing seen before"
    weights(vaccine, jacobian)
    before = vaccine.targets.clone()  # type: ignore[union-attr, operator]
    weights(vaccine, jacobian[:2] + 1, ["c", "a"])
    changed = (vaccine.targets != before).nonzero().tolist()
    assert changed == [[0, 2], [2, 0]], "only the pair that was there"


@pytest.mark.parametrize("seed", range(5))
def test_mgda_is_the_shortest_convex_combination(seed: int) -> None:
    jacobian = gradients(seed)
    found = shared_gradient(build("mgda", tolerance=1e-9, iterations=200_000), jacobian)
    assert np.allclose(found, smallest_convex(jacobian), atol=2e-3)
    assert (jacobian @ found >= -1e-2).all(), "against no task"


@pytest.mark.parametrize("seed", range(5))
def test_upgrad_projects_each_gradient_into_the_dual_cone(seed: int) -> None:
    jacobian = gradients(seed)
    expected = np.mean([into_dual_cone(jacobian, one) for one in jacobian], axis=0)
    found = shared_gradient(build("upgrad"), jacobian)
    assert np.allclose(found, expected, atol=1e-4)
    assert (jacobian @ found >= -1e-3).all()


@pytest.mark.parametrize("seed", range(5))
def test_dualproj_projects_the_mean_into_the_dual_cone(seed: int) -> None:
    jacobian = gradients(seed)
    expected = into_dual_cone(jacobian, jacobian.mean(axis=0))
    assert np.allclose(shared_gradient(build("dualproj"), jacobian), expected, atol=1e-4)


@pytest.mark.parametrize("c", [0.2, 0.5, 0.9])
def test_cagrad_solves_its_dual(c: float) -> None:
    for seed in range(4):
        jacobian = gradients(seed) + 0.2
        expected = papers_cagrad(jacobian, c)
        assert np.allclose(shared_gradient(build("cagrad", c=c), jacobian), expected, atol=2e-3)


def test_cagrad_with_c_0_is_the_mean() -> None:
    jacobian = gradients(1)
    assert np.allclose(shared_gradient(build("cagrad", c=0.0), jacobian), jacobian.mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_imtl_g_projects_equally_on_every_direction(seed: int) -> None:
    jacobian = gradients(seed) + 0.3
    found = weights(build("imtl-g"), jacobian)
    assert found.sum() == pytest.approx(1)
    along = (jacobian @ (found @ jacobian)) / np.linalg.norm(jacobian, axis=1)
    assert np.allclose(along, along[0], atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_aligned_mtl_is_the_nearest_orthogonal_matrix(seed: int) -> None:
    jacobian = gradients(seed) + 0.3
    assert np.allclose(shared_gradient(build("aligned-mtl"), jacobian), aligned(jacobian), atol=1e-9)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
def test_fairgrad_solves_its_equation(alpha: float) -> None:
    for seed in range(4):
        for size in (1.0, 1e-4, 1e3):  # torchjd's own solver stops short of it where gradients are small
            jacobian = size * (gradients(seed) + 0.3)
            found = weights(build("fairgrad", alpha=alpha), jacobian)
            assert (found > 0).all()
            assert np.allclose(jacobian @ jacobian.T @ found, found ** (-1 / alpha), rtol=1e-4)


THEIRS: dict[str, Callable[[], Any]] = {
    "pcgrad": aggregation.PCGrad,
    "mgda": aggregation.MGDA,
    "upgrad": lambda: aggregation.UPGrad(projector=QuadprogProjector(reg_eps=1e-6)),
    "dualproj": lambda: aggregation.DualProj(projector=QuadprogProjector(reg_eps=1e-6)),
    "cagrad": lambda: aggregation.CAGrad(c=0.5),
    "imtl-g": aggregation.IMTLG,
    "aligned-mtl": aggregation.AlignedMTL,
    "fairgrad": lambda: aggregation.FairGrad(alpha=1.0),
    "gradvac": aggregation.GradVac,
}


@pytest.mark.parametrize("name", THEIRS)
def test_torchjds_own_aggregator_on_the_gradients_gives_the_same(name: str) -> None:
    for seed in range(3):
        jacobian = gradients(seed)[:2] if name == "gradvac" else gradients(seed)  # whose orders are drawn otherwise
        tasks = TASKS[: len(jacobian)]
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            ours = weights(build(name, tasks), jacobian, tasks) @ jacobian
            torch.manual_seed(seed)
            theirs = THEIRS[name]()(torch.from_numpy(jacobian)).numpy()
        assert np.allclose(ours, theirs, atol=1e-5)


def test_every_aggregator_is_compared_with_torchjds() -> None:
    assert set(THEIRS) == {part.name for part in parts("aggregators")}


def test_cagrad_stays_near_the_mean_where_a_task_has_hardly_a_gradient() -> None:
    for small in (0.0, 1e-3, 1e-6):
        jacobian = np.array([[3.0, 0.0, 1.0], [-0.01 * small, small, 0.0]])
        found = weights(build("cagrad", ["a", "b"]), jacobian, ["a", "b"]) @ jacobian
        mean = jacobian.mean(axis=0)
        assert np.linalg.norm(found - mean) <= 0.5 * np.linalg.norm(mean) * 1.001, "as its formula says"


def test_gradvac_does_not_aim_at_perfect_agreement() -> None:
    vaccine = build("gradvac", ["a", "b"])
    same = np.array([[1.0, 0.0], [1.0, 0.0]])
    for _ in range(80):
        weights(vaccine, same, ["a", "b"])
    found = weights(vaccine, np.array([[1.0, 0.0], [0.5, 0.75**0.5]]), ["a", "b"])
    assert np.abs(found).max() < 20


# --- what every aggregator promises ----------------------------------------------------------------------------


@pytest.mark.parametrize("part", parts("aggregators"), ids=lambda part: part.name)
def test_contract(part: Part) -> None:
    aggregator: Aggregator = part.factory(TASKS)
    jacobian = gradients(4)

    def drawn(*given: Any) -> Vector:
        with torch.random.fork_rng():
            torch.manual_seed(1)
            return weights(*given)

    before = {name: one.clone() for name, one in aggregator.state_dict().items()}
    found = drawn(aggregator, jacobian)
    assert found.shape == (3,)
    assert np.isfinite(found).all()
    other: Aggregator = part.factory(TASKS)
    other.load_state_dict(before)
    assert (drawn(other, jacobian) == found).all(), "the same draws and memory give the same weights"
    assert drawn(aggregator, jacobian[:2], ["c", "a"]).shape == (2,), "a task may be missing"
    alone = drawn(aggregator, jacobian[:1], ["b"])
    assert alone > 0, "one task is trained along its own gradient"
    if part.name not in ("cagrad", "fairgrad"):  # which by their formulas also choose a length
        assert alone == pytest.approx(1)
    if part.name != "fairgrad":
        assert np.allclose(drawn(part.factory(TASKS), 1e-5 * jacobian), found, atol=1e-6), "however short they are"
    still = drawn(aggregator, np.vstack([jacobian[:2], 0 * jacobian[2:]]))
    assert np.isfinite(still[:2]).all(), "a task may have no gradient"


def test_a_missing_solver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(**_: Any) -> None:
        raise ImportError("no cvxpy")

    monkeypatch.setattr(aggregation, "CAGradWeighting", missing)
    with pytest.raises(ValueError, match=r"needs a solver that is not installed: pip install 'manyheads\[surgery\]'"):
        build("cagrad")


def test_a_solver_that_fails_is_said() -> None:
    from manyheads.errors import UserError

    with pytest.raises(UserError, match="CAGrad found no weights for the task gradients of a, b"):
        build("cagrad")(torch.tensor([[1.0, float("nan")], [float("nan"), 1.0]]).double(), ["a", "b"])
