"""A task's sections in the report of a run: its metrics and figures, and its errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyheads.console import or_dash
from manyheads.reports.error_analysis import (
    PredictionError,
    Slice,
    slices,
    suspicious_labels,
    word_pieces,
    worst_errors,
)
from manyheads.reports.facts import RunFacts
from manyheads.reports.figures import predictions as draw_predictions
from manyheads.reports.pages.page import Section, example_texts
from manyheads.reports.task_predictions import TaskPredictions

# figure → title for screen readers, caption
CLASS_FIGURES = {
    "confusion": (
        "confusion matrix",
        "Examples by true class (rows) and predicted class (columns), and their share of the true class.",
    ),
    "curves": (
        "ROC and precision-recall curves",
        "Each class against all others; for two classes the second, for many the six largest.",
    ),
    "calibration": ("calibration", "On the dotted line, predictions are right as often as they are confident."),
    "error-sizes": ("size of errors", "How many classes predictions are off."),
}
SCATTER_CAPTION = "Predicted against true: each point is a dev example."
DISTRIBUTION_CAPTION = "Prediction errors, and the distributions of true and predicted values."
CONFUSIONS_LISTED = 20


def task_section(facts: RunFacts, task_name: str) -> Section:
    """All metrics of a task, and figures of its predictions."""
    predictions = facts.predictions[task_name]
    section = Section(f"task-{task_name}", f"Task {task_name}")
    metrics_table(section, facts, task_name)
    if predictions.is_regression:
        _add_number_figures(section, task_name, predictions)
        return section
    _add_class_figures(section, task_name, predictions)
    section.table(_class_rows(predictions), f"classes-{task_name}")
    if not predictions.is_multi_label and len(predictions.class_names) > draw_predictions.MAX_CLASSES_WRITTEN:
        section.heading("Classes most often confused")
        section.table(_confusion_rows(predictions), f"confused-{task_name}")
    return section


def metrics_table(section: Section, facts: RunFacts, task_name: str) -> None:
    """All metrics beside those of the baselines, and what calibration changed."""
    metrics = facts.metrics["dev"]["metrics"][task_name]
    lines: list[dict[str, object]] = [{"metric": metric, "dev": value} for metric, value in metrics.items()]
    test_metrics = facts.metrics.get("test", {}).get("metrics", {}).get(task_name)
    if test_metrics is not None:
        for line, value in zip(lines, test_metrics.values(), strict=True):
            line["test"] = value
    for title, baseline in facts.baselines(task_name).items():
        for line in lines:
            line[title] = or_dash(baseline.get(str(line["metric"])))
    section.table(lines, f"metrics-{task_name}")
    calibration = facts.metrics.get("calibration", {}).get(task_name)
    if calibration is not None:
        section.text(_describe_calibration(calibration), "soft")


def _describe_calibration(calibration: dict[str, Any]) -> str:
    """'Calibrated by a temperature of 1.32. On dev: loss 0.612 → 0.587, calibration-error 0.083 → 0.031.'"""
    fitted = "thresholds of its own for each class"
    if "temperature" in calibration:
        fitted = f"a temperature of {calibration['temperature']:.3g}"
    changes = []
    for metric, before in calibration["before"].items():
        after = calibration["after"][metric]
        if before is not None and after is not None:
            changes.append(f"{metric} {before:.3f} → {after:.3f}")
    return f"Calibrated by {fitted}. On dev: {', '.join(changes)}."


def error_section(facts: RunFacts, task_name: str) -> Section:
    """The worst errors, labels to look at, and slices of dev."""
    predictions = facts.predictions[task_name]
    section = Section(f"errors-{task_name}", f"Where {task_name} is wrong")
    for error_type, errors in worst_errors(predictions).items():
        section.heading(error_type)
        section.table([error_row(predictions, error) for error in errors])
    seeds = facts.predictions_of_seeds(task_name)
    suspicious = suspicious_labels(predictions, seeds)
    if suspicious:
        contradiction = "the model contradicts"
        if len(seeds) > 1:
            contradiction = f"the models of {len(seeds)} seeds contradict"
        section.heading(f"Labels to look at: {contradiction} them with confidence")
        section.table([error_row(predictions, error) for error in suspicious], f"suspicious-{task_name}")
    pieces = None
    if facts.tokenizer is not None:
        pieces = word_pieces(predictions.texts, facts.tokenizer)
    dev_slices = slices(predictions, pieces)
    if dev_slices:
        section.heading("Slices of dev")
        section.table(_slice_rows(predictions, dev_slices), f"slices-{task_name}")
    return section


def error_row(predictions: TaskPredictions, error: PredictionError) -> dict[str, object]:
    strength = "confidence"
    if predictions.is_regression:
        strength = "off by"
    return {
        **example_texts(error.texts),
        "true": error.true,
        "predicted": error.predicted,
        strength: error.strength,
    }


def _add_number_figures(section: Section, task_name: str, predictions: TaskPredictions) -> None:
    scatter = draw_predictions.predicted_against_true(predictions)
    section.figure(scatter, f"scatter-{task_name}", f"{task_name}: predicted against true", SCATTER_CAPTION)
    distributions = draw_predictions.error_distributions(predictions)
    title = f"{task_name}: errors and distributions"
    section.figure(distributions, f"distributions-{task_name}", title, DISTRIBUTION_CAPTION)


def _add_class_figures(section: Section, task_name: str, predictions: TaskPredictions) -> None:
    figures = {
        "curves": draw_predictions.curves(predictions),
        "calibration": draw_predictions.calibration(predictions),
    }
    if not predictions.is_multi_label:
        figures["confusion"] = draw_predictions.confusion(predictions)
    if predictions.is_ordinal:
        figures["error-sizes"] = draw_predictions.ordinal_errors(predictions)
    for key, (title, caption) in CLASS_FIGURES.items():
        section.figure(figures.get(key), f"{key}-{task_name}", f"{task_name}: {title}", caption)


def _class_rows(predictions: TaskPredictions) -> list[dict[str, object]]:
    """Precision and recall of every class."""
    rows: list[dict[str, object]] = []
    for class_index, class_name in enumerate(predictions.class_names):
        is_true, is_predicted = predictions.has_class(class_index), predictions.predicts_class(class_index)
        hits = (is_true & is_predicted).sum()
        row: dict[str, object] = {
            "class": class_name,
            "precision": _share(hits, is_predicted.sum()),
            "recall": _share(hits, is_true.sum()),
            "examples": int(is_true.sum()),
        }
        if predictions.task.thresholds:
            row["threshold"] = predictions.task.thresholds[class_index]
        rows.append(row)
    return rows


def _share(part: int, total: int) -> float | None:
    """None where there is nothing to divide by."""
    if not total:
        return None
    return float(part / total)


def _confusion_rows(predictions: TaskPredictions) -> list[dict[str, object]]:
    """The most frequent confusions: a large confusion matrix has no room for numbers."""
    counts = draw_predictions.confusion_counts(predictions)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    confusions = []
    for true, predicted in np.ndindex(*counts.shape):
        if true != predicted and counts[true, predicted]:
            confusions.append((int(counts[true, predicted]), true, predicted))
    rows: list[dict[str, object]] = []
    for count, true, predicted in sorted(confusions, reverse=True)[:CONFUSIONS_LISTED]:
        rows.append(
            {
                "true": predictions.class_names[true],
                "predicted": predictions.class_names[predicted],
                "examples": count,
                "share of the true class": float(shares[true, predicted]),
            }
        )
    return rows


def _slice_rows(predictions: TaskPredictions, dev_slices: list[Slice]) -> list[dict[str, object]]:
    metric = "accuracy"
    if predictions.is_regression:
        metric = "mean error"
    if predictions.is_multi_label:
        metric = "all classes right"
    rows: list[dict[str, object]] = []
    for dev_slice in dev_slices:
        value = f"{dev_slice.value:.3f}"
        if dev_slice.examples > 1:
            value += f" ({dev_slice.low:.3f} to {dev_slice.high:.3f})"
        rows.append({"slice": dev_slice.name, "examples": dev_slice.examples, metric: value})
    return rows
