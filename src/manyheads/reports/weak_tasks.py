"""Tasks whose predictions cannot be good, whatever their metric says, or are no better than a baseline's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from manyheads.console import BASELINES
from manyheads.inference.intervals import Z
from manyheads.parts.metrics import better, worse_by
from manyheads.parts.metrics.base import find
from manyheads.reports.facts import RunFacts
from manyheads.reports.finding import Finding
from manyheads.reports.headlines import Headline
from manyheads.reports.task_predictions import TaskPredictions
from manyheads.tasks.part_compatibility import factory_of
from manyheads.tasks.task import Task

NEARLY_ALWAYS = 0.95  # share of dev predictions that are the same
CLEARLY_LESS = 0.05  # as much less often, at least, is any label the same
SPREAD = 0.05  # predicted numbers that spread less than this share of the labels' spread are nearly the same
EMPTY = 0.2  # so much more often than labels are predictions of no class worth a word

SAME_ADVICE = (
    "It has learnt nothing yet: train longer or with a higher rate, and check that texts and labels belong together"
)
EMPTY_ADVICE = (
    "Train longer, weigh rare classes (`class_weights: balanced`), or let `evaluate.calibrate` fit thresholds"
)
PROBE_ADVICE = (
    "Training lost what the encoder knew: try a lower `training.learning_rate`, more steps, or fewer trainable layers"
)
JOINED_ADVICE = (
    "It reads a pair as one text, as which the encoder may never have seen pairs: give it a larger `training.budget`, "
    "or try `encoding: bi-features`, with which it starts at the probe"
)
MAJORITY_ADVICE = "Train longer or with a higher rate, and check that texts and labels belong together"


def constant_tasks(facts: RunFacts) -> list[Finding]:
    """Tasks that predict the same, always or nearly."""
    findings = []
    for task_name, predictions in facts.predictions.items():
        reason = _why_constant(predictions)
        if reason is not None:
            findings.append(_finding(task_name, f"{task_name} {reason}. {SAME_ADVICE}."))
    return findings


def _finding(task_name: str, text: str) -> Finding:
    return Finding(text, f"task-{task_name}")


def _why_constant(predictions: TaskPredictions) -> str | None:
    """None where predictions vary, as far as labels do."""
    if predictions.is_regression:
        return _why_constant_number(predictions)
    predicted, share = _most_frequent(predictions.predicted_labels)
    _, label_share = _most_frequent(predictions.labels)
    if predictions.is_multi_label and not predicted.any():  # of empty sets there is another finding
        return None
    return _why_same(predictions.label_text(predicted), share, label_share, "examples")


def _why_same(name: str, share: float, label_share: float, what: str) -> str | None:
    if label_share == 1:
        return None
    if share == 1:
        return f"always predicts {name}; at most {label_share:.0%} of dev labels are the same"
    if share >= NEARLY_ALWAYS and label_share <= share - CLEARLY_LESS:
        return f"predicts {name} for {share:.0%} of dev {what}; at most {label_share:.0%} of labels are the same"
    return None


def _most_frequent(labels: np.ndarray) -> tuple[np.ndarray, float]:
    """The most frequent class, or set of classes, and its share of all."""
    distinct, counts = np.unique(labels, axis=0, return_counts=True)
    return distinct[counts.argmax()], float(counts.max() / len(labels))


def _why_constant_number(predictions: TaskPredictions) -> str | None:
    spread, label_spread = float(predictions.predictions.std()), float(predictions.labels.std())
    if spread > SPREAD * label_spread or not label_spread:
        return None
    mean = float(predictions.predictions.mean())
    numbers = f"{mean:.3g} ± {spread:.2g}, while dev labels spread by {label_spread:.2g}"
    return f"predicts always nearly the same number: {numbers}"


def constant_tags(facts: RunFacts) -> list[Finding]:
    """Tasks that give all words, or nearly all, the same tag."""
    findings = []
    for task_name, tagged in facts.tagged_words.items():
        tag, share = _most_frequent(tagged.predictions.values.argmax(axis=1))
        _, label_share = _most_frequent(tagged.labels.values)
        reason = _why_same(tagged.task.labels.names[int(tag)], share, label_share, "words")
        if reason is not None:
            findings.append(_finding(task_name, f"{task_name} {reason}. {SAME_ADVICE}."))
    return findings


def empty_predictions(facts: RunFacts) -> list[Finding]:
    """Multi-label tasks that often predict no class at all."""
    findings = []
    for task_name, predictions in facts.predictions.items():
        if not predictions.is_multi_label:
            continue
        predicted = (~predictions.predicted_labels.any(axis=1)).mean()
        labelled = (~predictions.labels.any(axis=1)).mean()
        if predicted >= labelled + EMPTY:
            numbers = f"no class for {predicted:.0%} of dev examples, and {labelled:.0%} have none"
            findings.append(_finding(task_name, f"{task_name} predicts {numbers}. {EMPTY_ADVICE}."))
    return findings


def below_probe(facts: RunFacts, task_headlines: Sequence[Headline]) -> list[Finding]:
    """Tasks that are worse than a linear model on the encoder as it was, by more than a standard error."""
    findings = []
    for headline in task_headlines:
        task, probe = facts.tasks[headline.task], headline.baselines.get(BASELINES["frozen"])
        if probe is None or headline.value is None:
            continue
        if worse_by(task, headline.value, probe) > _half_width(headline) / Z:
            numbers = f"{_measured(headline)}, a linear model on the untrained encoder's states has {probe:.3f}"
            advice = JOINED_ADVICE if factory_of("encodings", task.encoding).joins_texts else PROBE_ADVICE
            text = f"{headline.task} is below its frozen probe: {numbers}. {advice}."
            findings.append(_finding(headline.task, text))
    return findings


def majority_level(facts: RunFacts, task_headlines: Sequence[Headline]) -> list[Finding]:
    """Tasks whose metric cannot be told from the best constant prediction's, or is below it."""
    findings = []
    for headline in task_headlines:
        task = facts.tasks[headline.task]
        majority = _chance(task, headline)
        if majority is None or headline.value is None:
            continue
        is_better = better(task, headline.value, majority)
        if not is_better or worse_by(task, majority, headline.value) <= _half_width(headline):
            numbers = f"{_measured(headline)}, the best constant prediction has {majority:.3f}"
            text = f"{headline.task} is at majority level: {numbers}. {MAJORITY_ADVICE}."
            findings.append(_finding(headline.task, text))
    return findings


def _chance(task: Task, headline: Headline) -> float | None:
    """What the best constant prediction has; a correlation with it is not defined, and 0 says as much."""
    title = BASELINES["majority"]
    if title not in headline.baselines:
        return None
    majority = headline.baselines[title]
    if majority is None and find(task.metrics[0].name).scale == "correlation":
        return 0.0
    return majority


def _half_width(headline: Headline) -> float:
    return headline.interval.half_width if headline.interval else 0.0


def _measured(headline: Headline) -> str:
    """'accuracy 0.612 (0.584 to 0.639)'."""
    interval = f" ({headline.interval})" if headline.interval else ""
    return f"{headline.metric} {headline.value:.3f}{interval}"
