"""Metrics of classes: exactly one is right, or any number of them.

A task with one class per example is taken to predict its most likely class, a multi-label task every class
whose probability reaches its threshold: 0.5, unless one was fitted. tp, fp, fn: true positives, false positives, false
negatives of a class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from manyheads.parts.metrics.base import ANY_CLASSES, CANDIDATES, CLASS_SET, ONE_CLASS, metric
from manyheads.registry import Count

if TYPE_CHECKING:
    from manyheads.tasks.task import Task

NAN = float("nan")


def predicted_classes(predicted: np.ndarray, task: Task) -> np.ndarray:
    """Class indices [examples], or 0 and 1 [examples, classes] of a multi-label task."""
    return task.kind.decode(predicted, task)


@metric("accuracy", label_types=(*ONE_CLASS, *CANDIDATES), best="high", scale="share", paper="all")
def accuracy(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Share of examples whose most likely class, or candidate, is the right one."""
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(labels, predicted_classes(predicted, task)))


@metric("f1", label_types=ONE_CLASS, best="high", scale="share", two_classes=True, paper="D")
def f1(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """F1 of the second of two classes: 2·tp / (2·tp + fp + fn).

    Relations: the harmonic mean of `precision` and `recall`; `macro-f1` is the mean over all classes.
    """
    from sklearn.metrics import f1_score

    return float(f1_score(labels, predicted_classes(predicted, task), zero_division=NAN))


@metric("precision", label_types=ONE_CLASS, best="high", scale="share", two_classes=True, paper="D")
def precision(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Share of the examples predicted to be of the second of two classes that are: tp / (tp + fp).

    Undefined where the class is never predicted.
    """
    from sklearn.metrics import precision_score

    return float(precision_score(labels, predicted_classes(predicted, task), zero_division=NAN))


@metric("recall", label_types=ONE_CLASS, best="high", scale="share", two_classes=True, paper="D")
def recall(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Share of the examples of the second of two classes that are predicted to be: tp / (tp + fn).

    Undefined where no example is of the class.
    """
    from sklearn.metrics import recall_score

    return float(recall_score(labels, predicted_classes(predicted, task), zero_division=NAN))


@metric("macro-f1", label_types=ANY_CLASSES, best="high", scale="share", paper="D")
def macro_f1(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Mean over classes of F1, 2·tp / (2·tp + fp + fn).

    A class that is neither among the labels nor among the predictions is left out of the mean.
    """
    return float(_f1(predicted, labels, task, "macro"))


@metric("micro-f1", label_types=CLASS_SET, best="high", scale="share")
def micro_f1(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """F1 with all classes counted together: 2·Σtp / (2·Σtp + Σfp + Σfn).

    Relations: frequent classes weigh more than in `macro-f1`.
    """
    return float(_f1(predicted, labels, task, "micro"))


@metric("f1-per-class", label_types=ANY_CLASSES, best="high", scale="share", per_class=True, paper="D")
def f1_per_class(predicted: np.ndarray, labels: np.ndarray, task: Task) -> dict[str, float]:
    """F1 of each class against the rest: 2·tp / (2·tp + fp + fn).

    Undefined for a class that is neither among the labels nor among the predictions.
    """
    return dict(zip(task.labels.names, _f1(predicted, labels, task, None).tolist(), strict=True))


def _f1(predicted: np.ndarray, labels: np.ndarray, task: Task, average: str | None) -> Any:
    from sklearn.metrics import f1_score

    every = np.arange(len(task.labels.names))
    classes = predicted_classes(predicted, task)
    if not task.kind.exclusive and len(every) == 1:  # scikit-learn takes one column for classes 0 and 1
        labels, classes = (np.pad(matrix, ((0, 0), (0, 1))) for matrix in (labels, classes))
    # scikit-learn leaves NaN out of its means, so an absent class counts neither as right nor as wrong
    return f1_score(labels, classes, labels=every, average=average, zero_division=NAN)


@metric("auc", label_types=ANY_CLASSES, best="high", scale="share", two_classes=True, paper="D")
def auc(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Chance that an example of the class has a higher probability of it than one that is not; ties count half.

    The area under the ROC curve. Of the second of two classes, or the mean over a multi-label task's classes. Undefined
    where all examples are of the class or none is; the mean leaves out such classes.
    """
    from sklearn.metrics import roc_auc_score

    return _ranked(roc_auc_score, predicted, labels, task)


@metric("average-precision", label_types=ANY_CLASSES, best="high", scale="share", two_classes=True)
def average_precision(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Area under the curve of precision over recall: Σ_k (R_k − R_{k−1})·P_k.

    P_k, R_k: precision and recall where the class is predicted from the k-th highest probability on. Of the second of
    two classes, or the mean over a multi-label task's classes. Undefined as `auc` is.
    Relations: unlike `auc` it falls as the class gets rarer, and looks hardest at the highest probabilities.
    """
    from sklearn.metrics import average_precision_score

    return _ranked(average_precision_score, predicted, labels, task)


def _ranked(measure: Callable[..., float], predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    classes = [(labels, predicted[:, -1])]  # of two classes the second
    if not task.kind.exclusive:
        classes = list(zip(labels.T, predicted.T, strict=True))
    found = [measure(truth, chance) for truth, chance in classes if truth.min() != truth.max()]
    return float(np.mean(found)) if found else NAN


@metric("exact-match", label_types=CLASS_SET, best="high", scale="share")
def exact_match(predicted: np.ndarray, labels: np.ndarray, task: Task) -> float:
    """Share of examples with every class predicted right, those present and those absent."""
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(labels, predicted_classes(predicted, task)))


@metric("calibration-error", label_types=ONE_CLASS, best="low", scale="share")
def calibration_error(predicted: np.ndarray, labels: np.ndarray, task: Task, *, bins: Count = 10) -> float:
    """How far confidence is from the share that is right: Σ_b n_b/n·|accuracy_b − confidence_b|.

    An example's confidence is the probability of its most likely class. Bin b of B (`bins`) holds the
    n_b of n examples with a confidence in (b/B, (b + 1)/B]; accuracy_b and confidence_b are means over them.
    """
    confidence = predicted.max(axis=1)
    right = predicted_classes(predicted, task) == labels
    bin_of = np.digitize(confidence, np.arange(1, bins) / bins, right=True)
    # n_b·(accuracy_b − confidence_b) is the bin's sum of (right − confidence)
    return float(np.abs(np.bincount(bin_of, weights=right - confidence)).sum() / len(labels))
