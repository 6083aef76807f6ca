"""How good predictions are, per kind of task; scikit-learn and scipy do the arithmetic."""

from __future__ import annotations

import warnings

import numpy as np

from manyheads.data.labels import Kind

PRIMARY: dict[Kind, str] = {"classification": "accuracy", "regression": "pearson"}


def score(kind: Kind, predicted: np.ndarray, labels: np.ndarray) -> dict[str, float | None]:
    """Metrics by name, the primary one first. None where one is undefined (a correlation with a constant).

    `predicted` is [examples, classes] probabilities or [examples] values. F1 is that of class 1 where there are
    two classes, else the mean over classes.
    """
    if kind == "classification":
        from sklearn.metrics import accuracy_score, f1_score

        guess = predicted.argmax(axis=1)
        average = "binary" if predicted.shape[1] == 2 else "macro"
        return {
            "accuracy": float(accuracy_score(labels, guess)),
            "f1": float(f1_score(labels, guess, average=average, zero_division=0)),
        }
    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        found = {
            "pearson": float(stats.pearsonr(predicted, labels)[0]) if len(labels) > 1 else float("nan"),
            "spearman": float(stats.spearmanr(predicted, labels)[0]) if len(labels) > 1 else float("nan"),
        }
    return {name: None if np.isnan(value) else value for name, value in found.items()}


def overall(scores: dict[str, dict[str, float | None]], kinds: dict[str, Kind]) -> float:
    """The papers' arithmetic overall: the mean over tasks of accuracy, or of (1 + r)/2 for a correlation r."""
    shares = []
    for task, kind in kinds.items():
        value = scores[task][PRIMARY[kind]] or 0.0
        shares.append((1 + value) / 2 if kind == "regression" else value)
    return sum(shares) / len(shares)
