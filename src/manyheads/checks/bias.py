"""How far predictions move when a sentence is about somebody else: a bias probe of a model's tasks.

Of a template t and two groups g, h of an axis, p(t, g, k) is the prediction for the sentence about the k-th entry of g.

    moved    TV = ½·Σ_c |p_c(t, g, k) − p_c(t, h, k)|           exclusive classes
             the mean over classes of |p_c − q_c|                 several classes at once
             |x(t, g, k) − x(t, h, k)|                            numbers, in label units
    flipped  whether the two predicted classes, or sets of them, differ
    apart    |s(t, g, k) − s(t, h, k)|
    shift    s(t, g) − mean over groups of s(t, ·)                signed, of each group
             s: a number; Σ_c c·p_c of ordered classes; the second of two classes' probability

Each is the mean over pairs of groups and entries, then over templates. Its 95 % interval is the percentile bootstrap's
over templates, B = 1000: other sentences might have been written. Entries and groups are taken as they are.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from manyheads.checks.bias_file import AxisProbe, BiasProbe, Estimate, TaskProbe
from manyheads.checks.bias_texts import AXES, TEMPLATES, Axis, people_of, sentences_about
from manyheads.inference.bootstrap import draw_counts
from manyheads.inference.intervals import wilson_interval
from manyheads.inference.predictor import Predictor
from manyheads.inference.texts import dataset_of_texts
from manyheads.tasks.task import Task

UNSEEN = "it predicts for each word"
UNASKED = "it chooses among candidates"


def probe_bias(predictor: Predictor) -> BiasProbe:
    """Of every task that predicts once for a text or a pair."""
    probe = BiasProbe(model=dict(predictor.about))
    people = people_of(AXES)
    for text_count, templates in TEMPLATES.items():
        tasks: list[Task] = []
        for task in predictor.tasks.values():
            if len(task.columns.text) != text_count:
                continue
            if task.kind.ragged:
                probe.left_out[task.name] = UNASKED if task.kind.per_candidate else UNSEEN
            else:
                tasks.append(task)
        if not tasks:
            continue
        sentences = sentences_about(templates, people)
        texts = [texts[0] if text_count == 1 else (texts[0], texts[1]) for texts in sentences]
        examples = dataset_of_texts(texts, text_count, "a bias probe")
        predictions = predictor.backend.run(tasks, examples, lambda done: None)
        for task in tasks:
            flat = np.asarray(predictions[task.name], dtype=np.float64)
            by_template = flat.reshape(len(templates), len(people), *flat.shape[1:])
            probe.tasks[task.name] = probe_task(task, by_template, people)
    return probe


def probe_task(task: Task, predictions: np.ndarray, people: list[str]) -> TaskProbe:
    """`predictions` [templates, people] or [templates, people, classes]"""
    if not task.kind.has_classes and task.labels.range is not None:
        predictions = np.clip(predictions, *task.labels.range)  # as they are told
    scores = _scores(task, predictions)
    axes: list[AxisProbe] = []
    for axis in AXES:
        columns = _columns(axis, people)
        axes.append(_probe_axis(task, axis, predictions[:, columns], None if scores is None else scores[:, columns]))
    return TaskProbe(score=_score_name(task), ordered=task.kind.ordered, templates=len(predictions), axes=axes)


def _columns(axis: Axis, people: list[str]) -> np.ndarray:
    """[groups, entries] where the predictions for each of them are."""
    columns = np.empty((len(axis.groups), axis.entries), dtype=int)
    for number, entries in enumerate(axis.groups.values()):
        columns[number] = [people.index(person) for person in entries]
    return columns


def _probe_axis(task: Task, axis: Axis, predictions: np.ndarray, scores: np.ndarray | None) -> AxisProbe:
    """`predictions` [templates, groups, entries, …], `scores` [templates, groups, entries]"""
    templates, groups, entries = predictions.shape[:3]
    moved, flipped, apart = np.zeros(templates), np.zeros(templates), np.zeros(templates)
    pairs = list(combinations(range(groups), 2))
    classes = _classes(task, predictions)
    for first, second in pairs:
        moved += _distances(task, predictions[:, first], predictions[:, second]).mean(axis=1)
        if classes is not None:
            flipped += (classes[:, first] != classes[:, second]).any(axis=-1).mean(axis=1)
        if scores is not None:
            apart += np.abs(scores[:, first] - scores[:, second]).mean(axis=1)
    shifts: dict[str, Estimate] = {}
    if scores is not None:
        by_group = scores.mean(axis=2)  # [templates, groups]
        centred = by_group - by_group.mean(axis=1, keepdims=True)
        for number, group in enumerate(axis.groups):
            shifts[group] = estimate(centred[:, number])
    return AxisProbe(
        name=axis.name,
        comparison=axis.comparison,
        pairs=templates * len(pairs) * entries,
        moved=estimate(moved / len(pairs)),
        flipped=None if classes is None else estimate(flipped / len(pairs), is_share=True),
        apart=None if scores is None else estimate(apart / len(pairs)),
        shifts=shifts,
    )


def _distances(task: Task, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """[templates, entries]"""
    differences = np.abs(first - second)
    if not task.kind.has_classes:
        return differences
    return differences.sum(axis=-1) / 2 if task.kind.exclusive else differences.mean(axis=-1)


def _classes(task: Task, predictions: np.ndarray) -> np.ndarray | None:
    """[templates, groups, entries, 1 or classes] what is predicted; None of numbers."""
    if not task.kind.has_classes:
        return None
    shape = predictions.shape[:3]
    decoded = task.kind.decode(predictions.reshape(-1, predictions.shape[-1]), task)
    return np.asarray(decoded).reshape(*shape, -1)


def _scores(task: Task, predictions: np.ndarray) -> np.ndarray | None:
    """[templates, people] what can be said to rise or fall; None where classes have no order."""
    if not task.kind.has_classes:
        return predictions
    classes = predictions.shape[-1]
    if task.kind.exclusive and (task.kind.ordered or classes == 2):
        scores: np.ndarray = predictions @ np.arange(classes, dtype=np.float64)
        return scores
    return None


def _score_name(task: Task) -> str:
    if not task.kind.has_classes:
        return "the value"
    if not task.kind.exclusive:
        return ""
    if task.kind.ordered:
        return "the expected class, in classes"
    names = task.labels.names
    return f"the probability of '{names[1]}'" if len(names) == 2 else ""


def estimate(values: np.ndarray, is_share: bool = False) -> Estimate:
    """The mean of [templates] and its interval; a share that is 0 or 1 in every template has Wilson's."""
    mean = float(values.mean())
    if is_share and values.min() == values.max() and mean in (0.0, 1.0):
        low, high = wilson_interval(mean, len(values))
        return Estimate(value=mean, low=max(low, 0.0), high=min(high, 1.0))
    means = draw_counts("bias", len(values)).astype(np.float64) @ values / len(values)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(value=mean, low=float(low), high=float(high))
