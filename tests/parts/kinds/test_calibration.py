"""Temperatures and thresholds: formulas against numbers worked out by hand and a plain search; what never changes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import CLASSES, MULTI, NUMBERS, ORDINAL, TWO, a_task
from manyheads.inference.calibration import calibrate, fit_calibration
from manyheads.parts.kinds.calibration import (
    HIGHEST_TEMPERATURE,
    LOWEST_TEMPERATURE,
    apply_temperature,
    best_threshold,
    fit_temperature,
    fit_thresholds,
)

# --- temperature ---------------------------------------------------------------------------------------------------


def smoothed_loss(probabilities: np.ndarray, labels: np.ndarray, temperature: float) -> float:
    """The formula, example by example: p^(1/T) over its sum, and targets that are smoothed by 1/(n + 1)."""
    examples, classes = probabilities.shape
    smoothing = 1 / (examples + 1)
    total = 0.0
    for row, label in zip(probabilities.tolist(), labels.tolist(), strict=True):
        powers = [probability ** (1 / temperature) for probability in row]
        for index, power in enumerate(powers):
            target = smoothing / classes + (1 - smoothing) * (index == label)
            total -= target * math.log(power / sum(powers))
    return total / examples


def random_predictions(seed: int, examples: int, classes: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Float32 probabilities, and labels that were drawn from softmax(logits): `scale` is then the right temperature."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1.5, (examples, classes))
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([rng.choice(classes, p=row) for row in chances])
    raw = np.exp(scale * logits) / np.exp(scale * logits).sum(axis=1, keepdims=True)
    return raw.astype(np.float32), labels


def test_a_temperature_by_hand() -> None:
    """p = (0.8, 0.2) at T = 2: √0.8/(√0.8 + √0.2) = 2/3; at T = ½: 0.64/(0.64 + 0.04) = 16/17."""
    row = np.array([[0.8, 0.2]])
    assert apply_temperature(row, 2.0)[0].tolist() == pytest.approx([2 / 3, 1 / 3], abs=1e-15)
    assert apply_temperature(row, 0.5)[0].tolist() == pytest.approx([16 / 17, 1 / 17], abs=1e-15)
    assert apply_temperature(row, 1.0) is row, "not a bit changes where nothing was fitted"


def test_a_fitted_temperature_by_hand() -> None:
    """(0.9, 0.1) is right 3 times in 4. ε = 1/5: 0.8·¾ + 0.1 = 0.7 is wanted of the first class, so
    0.9^(1/T)/0.1^(1/T) = 7/3 and T = log 9 / log(7/3)."""
    predictions = np.tile([0.9, 0.1], (4, 1))
    fitted = fit_temperature(predictions, np.array([0, 0, 0, 1]))
    assert fitted == pytest.approx(math.log(9) / math.log(7 / 3), abs=1e-7)


@pytest.mark.parametrize("scale", [3.0, 1.0, 0.4])
@pytest.mark.parametrize("classes", [2, 4])
def test_the_fitted_temperature_is_the_best_of_a_fine_grid(scale: float, classes: int) -> None:
    predictions, labels = random_predictions(1, 60, classes, scale)
    fitted = fit_temperature(predictions, labels)
    at_fitted = smoothed_loss(predictions.astype(np.float64), labels, fitted)
    for temperature in np.geomspace(LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE, 300):
        assert at_fitted <= smoothed_loss(predictions.astype(np.float64), labels, temperature) + 1e-9


def test_the_right_temperature_is_found() -> None:
    """Logits that are 2.5 times too large: T near 2.5, and the calibrated log loss is near that of the truth."""
    predictions, labels = random_predictions(2, 4000, 3, 2.5)
    assert fit_temperature(predictions, labels) == pytest.approx(2.5, rel=0.1)


def test_a_model_that_is_right_on_few_examples_is_not_told_to_be_certain() -> None:
    """8 examples, all right at 0.7: without smoothing T would be at its lowest. ε = 1/9 wants 1 − 1/18 = 17/18."""
    predictions = np.tile([0.7, 0.3], (8, 1))
    labels = np.zeros(8, dtype=np.int64)
    fitted = fit_temperature(predictions, labels)
    assert apply_temperature(predictions, fitted)[0, 0] == pytest.approx(17 / 18, abs=1e-7)


def test_a_temperature_that_does_not_lower_the_loss_is_1() -> None:
    uniform = np.full((6, 3), 1 / 3)
    assert fit_temperature(uniform, np.array([0, 1, 2, 0, 1, 2])) == 1.0
    wrong = np.tile([0.999, 0.001], (50, 1))
    assert fit_temperature(wrong, np.ones(50, dtype=np.int64)) == HIGHEST_TEMPERATURE, "always wrong: as flat as may be"
    near_one = np.tile([1.0, 0.0], (4, 1)).astype(np.float32)  # whose logarithm is not finite
    assert math.isfinite(fit_temperature(near_one, np.array([0, 0, 0, 1])))


@given(st.integers(0, 100_000), st.integers(2, 6), st.floats(LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE))
def test_the_predicted_class_never_changes(seed: int, classes: int, temperature: float) -> None:
    """Also where the two most likely classes are neighbours in float32, and whatever the temperature."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, rng.choice([0.01, 1.0, 30.0]), (20, classes))
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = (probabilities / probabilities.sum(axis=1, keepdims=True)).astype(np.float32)
    for row in probabilities[:10]:
        row[0] = row.max()
        for _ in range(rng.integers(0, 3)):
            row[0] = np.nextafter(row[0], np.float32(0))  # a little less likely than, or as likely as, the largest
    calibrated = apply_temperature(probabilities, temperature)
    assert (calibrated.argmax(axis=1) == probabilities.argmax(axis=1)).all()
    if temperature != 1:  # which leaves probabilities as they are, and the changed rows do not add up to 1
        assert calibrated.sum(axis=1) == pytest.approx(1)


# --- thresholds ----------------------------------------------------------------------------------------------------


def test_a_threshold_by_hand() -> None:
    """Positives at 0.4 and 0.3, negatives at 0.35 and 0.1. From 0.2 on F1 is 4/5 (tp 2, fp 1), from 0.375 on 2/3."""
    probabilities = np.array([0.4, 0.3, 0.35, 0.1])
    labels = np.array([True, True, False, False])
    assert best_threshold(probabilities, labels) == pytest.approx(0.2)


def test_of_equal_thresholds_the_nearest_to_a_half_is_taken() -> None:
    """0.2, 0.4, 0.6 are negative, negative, positive: 0.5 separates them as well as any, and stays."""
    assert best_threshold(np.array([0.2, 0.4, 0.6]), np.array([False, False, True])) == 0.5
    # 0.8 and 0.9 of which one is positive: F1 of both together is 2/3, of the upper alone 1
    assert best_threshold(np.array([0.8, 0.9]), np.array([False, True])) == pytest.approx(0.85)
    assert best_threshold(np.array([0.8, 0.9]), np.array([False, False])) == 0.5, "nothing is positive"
    # all alike and half of them right: predicting all has F1 2/3, predicting none has 0
    assert best_threshold(np.array([0.1, 0.1]), np.array([True, False])) == pytest.approx(0.05)


def test_a_class_with_few_positives_shares_a_threshold() -> None:
    """Class a: 5 positives at 0.3, the others at 0.1. Class b: 4 positives at 0.25, the others at 0.05.

    a is cut at 0.2. b is too rare for a threshold of its own: of both together 0.1 and 0.25 are parted, at 0.175. With
    a fifth positive of b, at 0.05, its own is 0.15: F1 8/9, against 2/3 from 0.025 on.
    """
    labels = np.zeros((10, 2), dtype=np.int64)
    labels[:5, 0], labels[:4, 1] = 1, 1
    probabilities = np.where(labels, [0.3, 0.25], [0.1, 0.05]).astype(np.float32)
    assert fit_thresholds(probabilities, labels) == pytest.approx([0.2, 0.175])
    labels[9, 1] = 1
    assert fit_thresholds(probabilities, labels) == pytest.approx([0.2, 0.15])
    assert fit_thresholds(probabilities, np.zeros_like(labels)) == [0.5, 0.5]


def plain_f1(labels: np.ndarray, predicted: np.ndarray) -> float:
    hits, misses = (labels & predicted).sum(), (labels & ~predicted).sum()
    added = (~labels & predicted).sum()
    return float(2 * hits / (2 * hits + added + misses))


@given(st.integers(0, 10_000), st.integers(1, 40), st.sampled_from([2, 5, 1000]))
def test_no_other_threshold_has_a_higher_f1(seed: int, examples: int, levels: int) -> None:
    """At every tenth of a percent; few levels make ties."""
    rng = np.random.default_rng(seed)
    probabilities = (rng.integers(0, levels + 1, examples) / levels).astype(np.float32)
    labels = rng.random(examples) < 0.4
    threshold = best_threshold(probabilities.astype(np.float64), labels)
    assert 0 < threshold < 1
    if not labels.any():
        assert threshold == 0.5
        return
    reached = plain_f1(labels, probabilities >= np.float64(threshold))
    for other in np.linspace(0.0005, 0.9995, 100):
        assert reached >= plain_f1(labels, probabilities >= other)


# --- kinds ---------------------------------------------------------------------------------------------------------


def test_each_kind_fits_what_is_its_own() -> None:
    predictions, labels = random_predictions(3, 40, 3, 2.0)
    for reader in (CLASSES, ORDINAL):
        task = a_task(labels=reader)
        assert fit_calibration(task, predictions, labels) == {"temperature": fit_temperature(predictions, labels)}
    sets = np.eye(3, dtype=np.int64)[labels]
    assert fit_calibration(a_task(labels=MULTI), predictions, sets) == {"thresholds": fit_thresholds(predictions, sets)}
    numbers = predictions[:, 0]
    assert fit_calibration(a_task(labels=NUMBERS), numbers, labels.astype(float)) == {}
    assert calibrate(a_task(labels=NUMBERS), numbers) is numbers
    assert fit_calibration(a_task(labels=TWO), predictions[:0, :2], labels[:0]) == {}, "nothing to fit it to"
    assert fit_calibration(a_task(labels=CLASSES), np.full((2, 3), np.nan), labels[:2]) == {}


def test_a_threshold_is_compared_as_it_was_fitted() -> None:
    """In float32 the number just below 0.3 would be 0.3, and the class predicted."""
    task = a_task(labels=MULTI).with_calibration({"thresholds": [0.3, 0.5, 0.5]})
    below = np.array([[np.float32(0.3), 0.6, 0.4]], dtype=np.float32)  # 0.30000001192 in float32
    assert task.kind.decode(below, task).tolist() == [[1, 1, 0]]
    lower = np.array([[np.nextafter(np.float32(0.3), np.float32(0)), 0.6, 0.4]], dtype=np.float32)
    assert task.kind.decode(lower, task).tolist() == [[0, 1, 0]]
    (described,) = task.kind.describe(lower, task)
    assert described["prediction"] == ["b"]


def test_a_constant_prediction_by_hand() -> None:
    classes, several, numbers = a_task(labels=CLASSES), a_task(labels=MULTI), a_task(labels=NUMBERS)
    assert classes.kind.constant_prediction(np.array([0, 0, 1, 0]), classes).tolist() == [0.75, 0.25, 0.0]
    rates = several.kind.constant_prediction(np.array([[1, 0, 0], [1, 1, 0]]), several)
    assert rates.tolist() == [1.0, 0.5, 0.0]
    assert numbers.kind.constant_prediction(np.array([1.0, 4.0]), numbers) == 2.5


def test_a_task_keeps_its_calibration_as_json() -> None:
    task = a_task(labels=MULTI).with_calibration({"thresholds": [0.25, 0.5, 0.125]})
    assert type(task).from_json(task.to_json()) == task
    old = {key: value for key, value in task.to_json().items() if key not in ("temperature", "thresholds")}
    assert (type(task).from_json(old).temperature, type(task).from_json(old).thresholds) == (1.0, ())
