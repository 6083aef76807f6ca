"""Calibration by labelled examples: a temperature where one class is right, a threshold per class where several may be.

**Temperature** T (Guo et al. 2017). With p the model's probabilities of an example:

    q_c = p_c^(1/T) / Σ_k p_k^(1/T) = softmax(log p / T)_c

T > 1 makes an over-confident model modest. Order is kept, so the predicted class never changes. T minimises

    −1/n Σ_i Σ_c t_ic·log q_ic        t_ic = (1 − ε)·[c = y_i] + ε/C        ε = 1/(n + 1)

over n examples of C classes with labels y, which is convex in 1/T. ε is Platt's (1999) guard: without it a model that
is right on all of a few examples would be told to be certain. Where T does not lower the plain loss (ε = 0), it is 1.

**Thresholds**: a class is predicted from t_c on. t_c maximises the class's F1, 2·tp / (2·tp + fp + fn), over 0.5 and
the midpoints between neighbouring probabilities (and 0); of equal ones the nearest to 0.5 is taken. A class with few
positive examples takes the threshold that maximises F1 with all classes counted together.
"""

from __future__ import annotations

import numpy as np

LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE = 0.05, 20.0
THRESHOLD = 0.5  # where none was fitted
FEWEST_POSITIVES = 5  # a class with fewer has no threshold of its own
SMALLEST_PROBABILITY = 1e-12  # so that its logarithm is finite


def apply_temperature(probabilities: np.ndarray, temperature: float, present: np.ndarray | None = None) -> np.ndarray:
    """softmax(log p / T), in float64: in float32 two classes could become equal, and the first be predicted.

    `present` [examples, classes]: which classes an example has, where that differs; the others get 0.
    """
    if temperature == 1.0:
        return probabilities
    return _softmax(_logarithms(probabilities) / temperature, present)


def fit_temperature(probabilities: np.ndarray, labels: np.ndarray, present: np.ndarray | None = None) -> float:
    """T of probabilities [examples, classes] and class indices [examples]; `present` as in `apply_temperature`."""
    from scipy.optimize import brentq

    logs = _logarithms(probabilities)
    smoothing = 1 / (len(labels) + 1)
    right = logs[np.arange(len(labels)), labels]
    target = (1 - smoothing) * right + smoothing * np.mean(logs, axis=1, where=_all_or(present))  # Σ_c t_c·log p_c

    def slope(inverse: float) -> float:
        """The loss's derivative by 1/T: the mean of Σ_c (q_c − t_c)·log p_c. It rises with 1/T."""
        return float(((_softmax(inverse * logs, present) * logs).sum(axis=1) - target).mean())

    lowest, highest = 1 / HIGHEST_TEMPERATURE, 1 / LOWEST_TEMPERATURE
    if slope(lowest) >= 0:
        temperature = HIGHEST_TEMPERATURE
    elif slope(highest) <= 0:
        temperature = LOWEST_TEMPERATURE
    else:
        temperature = 1 / float(brentq(slope, lowest, highest, xtol=1e-9))
    if _mean_loss(logs, labels, temperature, present) < _mean_loss(logs, labels, 1.0, present):
        return temperature
    return 1.0


def _logarithms(probabilities: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(probabilities.astype(np.float64), SMALLEST_PROBABILITY))


def _all_or(present: np.ndarray | None) -> np.ndarray:
    return np.array(True) if present is None else present


def _softmax(logs: np.ndarray, present: np.ndarray | None = None) -> np.ndarray:
    exponentials = np.exp(logs - logs.max(axis=1, keepdims=True, where=_all_or(present), initial=-np.inf))
    if present is not None:
        exponentials = np.where(present, exponentials, 0.0)
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def _mean_loss(logs: np.ndarray, labels: np.ndarray, temperature: float, present: np.ndarray | None) -> float:
    """The mean of −log q of the right class."""
    return float(-np.log(_softmax(logs / temperature, present)[np.arange(len(labels)), labels]).mean())


def fit_thresholds(probabilities: np.ndarray, labels: np.ndarray) -> list[float]:
    """t of each class, from probabilities and labels of 0 and 1, both [examples, classes]."""
    probabilities, labels = probabilities.astype(np.float64), labels.astype(bool)
    shared: float | None = None  # of classes with few positive examples
    thresholds = []
    for class_probabilities, class_labels in zip(probabilities.T, labels.T, strict=True):
        if class_labels.sum() >= FEWEST_POSITIVES:
            thresholds.append(best_threshold(class_probabilities, class_labels))
            continue
        if shared is None:
            shared = best_threshold(probabilities.ravel(), labels.ravel())
        thresholds.append(shared)
    return thresholds


def best_threshold(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """The threshold with the highest F1, of probabilities and labels [examples]; 0.5 where nothing is positive."""
    if not labels.any():
        return THRESHOLD
    distinct = np.unique(probabilities)
    midpoints = (np.concatenate([[0.0], distinct[:-1]]) + distinct) / 2
    candidates = np.append(midpoints[midpoints > 0], THRESHOLD)
    predicted = _at_least(probabilities, candidates)
    hits = _at_least(probabilities[labels], candidates)
    f1 = 2 * hits / (predicted + labels.sum())  # 2·tp + fp + fn is what is predicted and what is positive
    best = np.lexsort((candidates, np.abs(candidates - THRESHOLD), -f1))[0]
    return float(candidates[best])


def _at_least(values: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """How many values are at least as large as each candidate."""
    return len(values) - np.searchsorted(np.sort(values), candidates, side="left")
