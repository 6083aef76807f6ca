"""Each loss against numbers worked out by hand or in float64 from its formula."""

from __future__ import annotations

import math

import pytest
import torch

from building import CLASSES, MULTI, NUMBERS, TWO, a_task
from manyheads.config.part import PartConfig
from manyheads.parts.losses import (
    BinaryCrossEntropy,
    CoSent,
    CosineEmbedding,
    CrossEntropy,
    DualCrossEntropy,
    MeanSquaredError,
    OrdinalLogLoss,
    PearsonLoss,
)
from manyheads.registry import find

pytestmark = pytest.mark.numeric
THREE, PAIRS, SCORES = a_task(labels=CLASSES), a_task(labels=TWO), a_task(labels=NUMBERS)


def test_cross_entropy_is_minus_the_log_of_the_right_class_probability() -> None:
    outputs = torch.tensor([[math.log(1), math.log(2), math.log(5)]] * 2)  # probabilities 1/8, 2/8, 5/8
    losses = CrossEntropy(THREE)(outputs, torch.tensor([0, 2]))
    assert losses.tolist() == pytest.approx([math.log(8), math.log(8 / 5)], abs=1e-6)
    assert CrossEntropy(THREE).predict(outputs)[0].tolist() == pytest.approx([0.125, 0.25, 0.625])
    assert CrossEntropy(THREE).outputs == 3


def test_binary_cross_entropy_by_hand() -> None:
    outputs = torch.tensor([[math.log(3)], [math.log(3)]])  # σ = 3/4
    losses = BinaryCrossEntropy(PAIRS)(outputs, torch.tensor([1, 0]))
    assert losses.tolist() == pytest.approx([math.log(4 / 3), math.log(4)], abs=1e-6)
    assert BinaryCrossEntropy(PAIRS).predict(outputs)[0].tolist() == pytest.approx([0.25, 0.75])
    assert BinaryCrossEntropy(PAIRS).outputs == 1


def test_binary_cross_entropy_equals_cross_entropy_with_outputs_zero_and_x() -> None:
    x = torch.randn(20, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(20) % 2
    two = torch.cat([torch.zeros_like(x), x], dim=1)
    assert torch.allclose(BinaryCrossEntropy(PAIRS)(x, labels), CrossEntropy(THREE)(two, labels), atol=1e-12)


def test_mse_by_hand() -> None:
    losses = MeanSquaredError(SCORES)(torch.tensor([[1.0], [4.5]]), torch.tensor([3.0, 5.0], dtype=torch.float64))
    assert losses.tolist() == [4.0, 0.25]
    assert MeanSquaredError(SCORES).predict(torch.tensor([[2.5]])).tolist() == [2.5]


def test_ordinal_log_loss_by_hand() -> None:
    outputs = torch.tensor([[math.log(1), math.log(2), math.log(5)]], dtype=torch.float64)  # 1/8, 2/8, 5/8
    value = OrdinalLogLoss(THREE, alpha=2)(outputs, torch.tensor([0])).item()
    assert value == pytest.approx(-math.log(1 - 2 / 8) * 1 - math.log(1 - 5 / 8) * 4)
    plain = OrdinalLogLoss(THREE)(outputs, torch.tensor([2])).item()
    assert plain == pytest.approx(-math.log(1 - 1 / 8) * 2**1.5 - math.log(1 - 2 / 8))


def test_ordinal_log_loss_of_two_classes_is_cross_entropy() -> None:
    outputs = torch.randn(20, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(20) % 2
    assert torch.allclose(OrdinalLogLoss(THREE)(outputs, labels), CrossEntropy(THREE)(outputs, labels), atol=1e-12)


def test_ordinal_log_loss_stays_finite_where_a_wrong_class_is_certain() -> None:
    outputs = torch.tensor([[200.0, 0.0, 0.0]], requires_grad=True)
    value = OrdinalLogLoss(THREE)(outputs, torch.tensor([2]))
    assert value.item() == pytest.approx(200 * 2**1.5, rel=0.01)  # log(1 − p₀) ≈ −200, where 1 − p₀ rounds to 0
    value.backward()
    assert outputs.grad is not None
    assert torch.isfinite(outputs.grad).all()


def test_dual_cross_entropy_by_hand() -> None:
    outputs = torch.tensor([[math.log(3), 0.0, -math.log(3)]])  # σ = 3/4, 1/2, 1/4
    value = DualCrossEntropy(THREE)(outputs, torch.tensor([0])).item()
    assert value == pytest.approx(math.log(4 / 3) + math.log(2) + math.log(4 / 3), abs=1e-6)
    assert DualCrossEntropy(THREE).predict(outputs)[0].tolist() == pytest.approx([0.5, 1 / 3, 1 / 6])


# --- weights and smoothing -------------------------------------------------------------------------------------


def test_label_smoothing_by_hand() -> None:
    """0.8 of the target on the right class, 0.2 spread over all three: p = 1/8, 2/8, 5/8."""
    outputs = torch.tensor([[math.log(1), math.log(2), math.log(5)]], dtype=torch.float64)
    value = CrossEntropy(THREE, label_smoothing=0.2)(outputs, torch.tensor([2])).item()
    assert value == pytest.approx(0.8 * math.log(8 / 5) + 0.2 / 3 * (math.log(8) + math.log(4) + math.log(8 / 5)))


def test_class_weights_by_hand() -> None:
    outputs = torch.tensor([[math.log(1), math.log(2), math.log(5)]] * 2, dtype=torch.float64)
    labels = torch.tensor([0, 2])
    plain = CrossEntropy(THREE)(outputs, labels)
    for weights in ([3.0, 1.0, 0.5], {"a": 3.0, "c": 0.5}):
        found = CrossEntropy(THREE, class_weights=weights)(outputs, labels)
        assert found.tolist() == pytest.approx([3 * plain[0].item(), 0.5 * plain[1].item()])


def test_balanced_weights_give_every_class_the_same_weight_in_all() -> None:
    task = a_task(labels=CLASSES, train_examples=10, counts=(6, 3, 1))
    loss = CrossEntropy(task, class_weights="balanced")
    assert loss.weights is not None
    assert loss.weights.tolist() == pytest.approx([10 / 18, 10 / 9, 10 / 3])
    assert sum(n * w for n, w in zip(task.counts, loss.weights.tolist(), strict=True)) == pytest.approx(10)
    two = BinaryCrossEntropy(a_task(labels=TWO, train_examples=10, counts=(8, 2)), class_weights="balanced")
    values = two(torch.tensor([[math.log(3)]] * 2), torch.tensor([1, 0]))  # σ = 3/4
    assert values.tolist() == pytest.approx([10 / 4 * math.log(4 / 3), 10 / 16 * math.log(4)])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], "2 weights for 3 classes"),
        ({"d": 1.0}, "no class 'd'. Known: a, b, c"),
        ([1.0, -1.0, 1.0], "positive numbers"),
        ("balanced", "needs train rows of class 'b'"),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CrossEntropy(a_task(labels=CLASSES, counts=(3, 0, 3)), class_weights=weights)  # type: ignore[arg-type]


def test_multi_label_cross_entropy_is_the_mean_over_classes() -> None:
    outputs = torch.tensor([[math.log(3), 0.0, -math.log(3)]])  # σ = 3/4, 1/2, 1/4
    labels = torch.tensor([[1, 1, 0]])
    task = a_task(labels=MULTI, train_examples=8, counts=(2, 4, 1))
    value = BinaryCrossEntropy(task)(outputs, labels).item()
    assert value == pytest.approx((math.log(4 / 3) + math.log(2) + math.log(4 / 3)) / 3)
    balanced = BinaryCrossEntropy(task, class_weights="balanced")(
        outputs, labels
    ).item()  # weights 3, 1, 7 where present
    assert balanced == pytest.approx((3 * math.log(4 / 3) + math.log(2) + math.log(4 / 3)) / 3)
    assert BinaryCrossEntropy(task).predict(outputs)[0].tolist() == pytest.approx([0.75, 0.5, 0.25])
    assert BinaryCrossEntropy(task).outputs == 3


# --- similarities ----------------------------------------------------------------------------------------------

COSINES = torch.tensor([0.9, -0.2, 0.3, 0.1], dtype=torch.float64)
GRADES = torch.tensor([5.0, 2.5, 2.4, 0.0], dtype=torch.float64)


def cosine_task(loss: str, **more: object) -> tuple[object, torch.Tensor, torch.Tensor]:
    """A loss on a cosine encoding, and outputs and labels as it sees them: on the task's scale."""
    task = a_task(labels=NUMBERS, encoding="bi-cosine", loss=PartConfig(name=loss, options=more))
    outputs = find("outputs", "similarity").factory(task)((COSINES[:, None] + 1) / 2)
    return task.loss.build("losses", task), outputs, (GRADES - task.offset) / task.unit


def test_cosine_embedding_by_hand() -> None:
    """Grades of 2.5 and more are similar: 1 − c; the others cost max(0, c)."""
    loss, outputs, labels = cosine_task("cosine-embedding")
    assert loss(outputs, labels).tolist() == pytest.approx([0.1, 1.2, 0.3, 0.1])  # type: ignore[operator]
    reference = torch.nn.functional.cosine_embedding_loss(
        torch.stack([COSINES, (1 - COSINES**2).sqrt()], dim=1),
        torch.tensor([[1.0, 0.0]] * 4, dtype=torch.float64),
        torch.where(GRADES >= 2.5, 1, -1),
        reduction="none",
    )
    assert loss(outputs, labels).tolist() == pytest.approx(reference.tolist())  # type: ignore[operator]
    loss, outputs, labels = cosine_task("cosine-embedding", threshold=1.0, margin=0.05)
    assert loss(outputs, labels).tolist() == pytest.approx([0.1, 1.2, 0.7, 0.05])  # type: ignore[operator]


def test_cosine_embedding_of_two_classes() -> None:
    task = a_task(labels=TWO, encoding="bi-cosine", loss="cosine-embedding")
    outputs = find("outputs", "similarity").factory(task)((COSINES[:, None] + 1) / 2)
    assert CosineEmbedding(task)(outputs, torch.tensor([1, 0, 0, 1])).tolist() == pytest.approx([0.1, 0.0, 0.3, 0.9])
    assert CosineEmbedding(task).predict(outputs)[0].tolist() == pytest.approx([0.05, 0.95])


def test_cosent_by_hand() -> None:
    """All pairs (i, j) whose grade is higher for i, in a plain double loop."""
    loss, outputs, labels = cosine_task("cosent")
    terms = [math.exp(20 * (COSINES[j] - COSINES[i])) for i in range(4) for j in range(4) if GRADES[i] > GRADES[j]]
    assert len(terms) == 6
    assert loss(outputs, labels).tolist() == pytest.approx([math.log(1 + sum(terms))] * 4)  # type: ignore[operator]
    head = CoSent(SCORES)
    found = head(COSINES[:, None], GRADES)
    assert found[0].item() == pytest.approx(math.log(1 + sum(term ** (1 / 20) for term in terms)))
    assert CoSent(SCORES, scale=20)(COSINES[:, None], GRADES)[0].item() == pytest.approx(math.log(1 + sum(terms)))


def test_cosent_is_blind_to_shifts_and_zero_without_order() -> None:
    loss = CoSent(SCORES)
    assert torch.allclose(loss(COSINES[:, None], GRADES), loss(COSINES[:, None] + 3, GRADES))
    assert loss(COSINES[:, None], torch.ones(4)).tolist() == [0.0] * 4


def test_pearson_loss_is_one_minus_scipys_correlation() -> None:
    from scipy.stats import pearsonr

    expected = 1 - pearsonr(COSINES.numpy(), GRADES.numpy())[0]
    loss = PearsonLoss(SCORES)
    assert loss(COSINES[:, None], GRADES).tolist() == pytest.approx([expected] * 4)
    assert torch.allclose(loss(COSINES[:, None] * 7 - 2, GRADES), loss(COSINES[:, None], GRADES)), "any straight line"
    constant = torch.ones(4, 1, requires_grad=True)
    loss(constant, GRADES).sum().backward()
    assert constant.grad is not None
    assert torch.isfinite(constant.grad).all()
    assert loss(COSINES[:, None], torch.ones(4)).tolist() == [1.0] * 4
