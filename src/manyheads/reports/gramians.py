"""Inner products of tasks' gradients, as the log has them, and how far surgery moves a step."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np


def read_gramians(record: dict[str, Any]) -> dict[str, np.ndarray]:
    """G_ij = cos_ij·‖g_i‖·‖g_j‖ of every layer group."""
    task_count = len(record["tasks"])
    gramians = {}
    for group, norms in record["norms"].items():
        cosines = np.eye(task_count)
        for (i, j), cosine in zip(combinations(range(task_count), 2), record["cosines"][group], strict=True):
            cosines[i, j] = cosines[j, i] = cosine or 0.0
        gramians[group] = cosines * np.outer(norms, norms)
    return gramians


def pcgrad_change(gramian: np.ndarray) -> float:
    """‖Σp − Σg‖/‖Σg‖, with p the projected gradients, tasks in their order."""
    task_count = len(gramian)
    weights = np.eye(task_count)
    for i in range(task_count):
        for j in range(task_count):
            inner = weights[i] @ gramian[j]
            if i != j and inner < 0:
                weights[i, j] -= inner / gramian[j, j]
    return _length(gramian, weights.sum(axis=0) - 1) / max(_length(gramian, np.ones(task_count)), 1e-30)


def surgery_change(gramians: dict[str, np.ndarray], trained: list[int], record: dict[str, Any]) -> float:
    """How far the shared step is from that of the sum, both scaled to length 1: weights may be means or sums."""
    surgery_weights = np.array([record["surgery"][record["tasks"][i]] for i in trained])
    plain_weights = np.ones(len(trained))
    squared_after = squared_before = product = 0.0  # ‖a‖², ‖b‖², a·b of the two steps, summed over layer groups
    for group, gramian in gramians.items():
        trained_gramian = gramian[np.ix_(trained, trained)]
        weights = plain_weights
        if group in record["operated"]:
            weights = surgery_weights
        squared_after += weights @ trained_gramian @ weights
        squared_before += plain_weights @ trained_gramian @ plain_weights
        product += weights @ trained_gramian @ plain_weights
    if min(squared_after, squared_before) <= 0:
        return 0.0
    return math.sqrt(max(0.0, 2 - 2 * product / math.sqrt(squared_after * squared_before)))


def _length(gramian: np.ndarray, weights: np.ndarray) -> float:
    return math.sqrt(max(0.0, weights @ gramian @ weights))
