"""λ·gold + (1 − λ)·teacher: the share of gold, averages, classes by name, temperature, rows without labels."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from building import CLASSES, MULTI, NUMBERS, SINGLE, a_task
from manyheads.config.distill import DistillSettings
from manyheads.data.labels import LabelReader
from manyheads.inference.texts import dataset_of_texts
from manyheads.model.task_tokens import TaskTokens
from manyheads.tasks.task import Task
from manyheads.tokens.tokenizer import Tokenizer
from manyheads.training.teaching.predictions import Prediction, TeacherPredictions
from manyheads.training.teaching.teachers import Teacher
from manyheads.training.teaching.teaching import Teaching, gold_share

pytestmark = pytest.mark.numeric
OTHER_ORDER = LabelReader("classification", ("c", "a", "b"), {"c": 0, "a": 1, "b": 2})


def single(labels: LabelReader, **given: Any) -> Task:
    return a_task(labels=labels, encoding="single", columns=SINGLE, **given)


def teaching(
    encoder: Path, task: Task, labels: list[Any], told: list[tuple[Task, list[Any]]], **settings: Any
) -> Teaching:
    """A teaching of a few rows, by what each teacher predicts of them."""
    examples = dataset_of_texts(["a good book"] * len(labels), 1, "a test")
    examples.labels = np.array(labels)
    train = TaskTokens(task, examples, Tokenizer(encoder), cached=False)
    predictions, answers = [], []
    for teacher_task, values in told:
        teacher = Teacher(Path("teacher"), teacher_task, None)
        predictions.append(Prediction(teacher, train, np.arange(len(labels)), 100))
        answers.append(TeacherPredictions(teacher, np.array(values, dtype=np.float32), 0.0))
    made = Teaching(DistillSettings(**settings), {task.name: predictions}, {task.name: train})
    made.answers, made.steps = {task.name: answers}, 5
    return made


def losses(made: Teaching, task: Task, outputs: list[list[float]], step: int) -> list[float]:
    rows = list(range(len(outputs)))
    train = made.train[task.name]
    assert train.labels is not None
    loss = task.loss.build("losses", task)
    values = made.losses(loss, task.name, rows, torch.tensor(outputs, dtype=torch.float64), train.labels[rows], step)
    return [float(value) for value in values]


def test_the_share_of_gold_rises_from_0_to_1() -> None:
    assert [gold_share("annealed", step, 5) for step in range(5)] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert [gold_share(0.3, step, 5) for step in (0, 4)] == [0.3, 0.3]
    assert gold_share("annealed", 0, 1) == 1.0, "a single step is the last"


def test_targets_are_the_mean_of_the_teachers_by_the_names_of_their_classes(toy_encoder: Path) -> None:
    task = single(CLASSES)
    told = [(single(CLASSES), [[0.5, 0.25, 0.25]]), (single(OTHER_ORDER), [[0.75, 0.125, 0.125]])]
    made = teaching(toy_encoder, task, [0], told)
    assert made.targets("task", [0]).tolist() == [[0.3125, 0.1875, 0.5]]


def test_rows_that_a_teacher_was_not_asked_about_are_those_of_the_others(toy_encoder: Path) -> None:
    task, nan = single(NUMBERS, offset=2.0, unit=4.0), math.nan
    other = replace(task, offset=1.0, unit=0.5)  # their scales differ; values are in the labels' units
    made = teaching(toy_encoder, task, [1.0, 1.0, 1.0], [(task, [4.0, nan, 2.0]), (other, [nan, 0.0, 4.0])])
    assert made.targets("task", [0, 1, 2]).tolist() == [0.5, -0.5, 0.25], "(4 − 2)/4, (0 − 2)/4, (3 − 2)/4"


def test_annealed_losses_by_hand(toy_encoder: Path) -> None:
    """p = 1/8, 2/8, 5/8; gold is the last class, the teacher's probabilities ½, ¼, ¼."""
    task = single(CLASSES)
    made = teaching(toy_encoder, task, [2], [(task, [[0.5, 0.25, 0.25]])])
    outputs = [[0.0, math.log(2), math.log(5)]]
    gold, taught = math.log(8 / 5), 1.5037952684
    assert losses(made, task, outputs, step=0) == pytest.approx([taught], abs=1e-9)
    assert losses(made, task, outputs, step=1) == pytest.approx([0.25 * gold + 0.75 * taught], abs=1e-9)
    assert losses(made, task, outputs, step=4) == pytest.approx([gold], abs=1e-12)


def test_a_regression_is_annealed_the_same_way(toy_encoder: Path) -> None:
    task = single(NUMBERS, offset=2.0, unit=2.0)
    made = teaching(toy_encoder, task, [4.0], [(task, [3.0])], gold=0.25, temperature=3.0)
    expected = 0.25 * (0.2 - 1.0) ** 2 + 0.75 * (0.2 - 0.5) ** 2  # numbers have no temperature
    assert losses(made, task, [[0.2]], step=0) == pytest.approx([expected], abs=1e-9)


def test_temperature_by_hand(toy_encoder: Path) -> None:
    """T = 2 makes 16/21, 4/21, 1/21 of the teacher 4/7, 2/7, 1/7, and outputs 0, ln 4, ln 25 those of 1/8, 2/8, 5/8."""
    task = single(CLASSES)
    made = teaching(toy_encoder, task, [2], [(task, [[16 / 21, 4 / 21, 1 / 21]])], gold=0.25, temperature=2.0)
    outputs = [[0.0, math.log(4), math.log(25)]]
    taught = 4 * (4 / 7 * math.log(8) + 2 / 7 * math.log(4) + 1 / 7 * math.log(8 / 5))
    assert taught == pytest.approx(6.6059191536)
    assert losses(made, task, outputs, step=0) == pytest.approx([0.25 * math.log(30 / 25) + 0.75 * taught], abs=1e-6)


def test_each_class_of_several_is_softened_on_its_own(toy_encoder: Path) -> None:
    """T = 2 makes 9/10 of the teacher 3/4, and 1/2 stays: the odds' square root."""
    task = single(MULTI)
    made = teaching(toy_encoder, task, [[1, 0, 1]], [(task, [[0.9, 0.5, 0.1]])], gold=0.0, temperature=2.0)
    assert made.targets("task", [0]).tolist()[0] == pytest.approx([0.75, 0.5, 0.25], abs=1e-7)
    taught = 4 * (0.75 * math.log(4 / 3) + 0.25 * math.log(4) + math.log(2) + 0.25 * math.log(4 / 3)) / 3
    taught += 4 * 0.75 * math.log(4) / 3  # outputs 2 ln 3, 0, 2 ln 3 at T = 2: σ is 3/4, 1/2, 3/4
    assert losses(made, task, [[math.log(9), 0.0, math.log(9)]], step=0) == pytest.approx([taught], abs=1e-6)


@pytest.mark.parametrize(
    ("labels", "values", "predictions"),
    [
        (CLASSES, [2, -1], [[0.5, 0.25, 0.25]] * 2),
        (MULTI, [[0, 1, 0], [-1, -1, -1]], [[0.5, 0.25, 0.25]] * 2),
        (NUMBERS, [1.0, math.nan], [2.0, 2.0]),
    ],
)
def test_a_row_without_a_label_learns_from_the_teachers_alone(
    toy_encoder: Path, labels: LabelReader, values: list[Any], predictions: list[Any]
) -> None:
    task = single(labels)
    made = teaching(toy_encoder, task, values, [(task, predictions)])
    width = task.loss.build("losses", task).outputs
    outputs = [[0.1, 0.7, -0.4][:width]] * 2
    at_start, halfway, at_end = (losses(made, task, outputs, step) for step in (0, 2, 4))
    assert at_start[1] == halfway[1] == pytest.approx(at_end[1])
    assert halfway[0] == pytest.approx((at_start[0] + at_end[0]) / 2)
    assert halfway[0] != pytest.approx(halfway[1])


def test_no_gradient_is_lost_to_labels_that_are_not_there(toy_encoder: Path) -> None:
    task = single(NUMBERS)
    made = teaching(toy_encoder, task, [1.0, math.nan], [(task, [2.0, 2.0])], gold=0.5)
    outputs = torch.tensor([[0.1], [0.2]], dtype=torch.float64, requires_grad=True)
    train = made.predictions["task"][0].train
    assert train.labels is not None
    made.losses(task.loss.build("losses", task), "task", [0, 1], outputs, train.labels[[0, 1]], 0).sum().backward()
    assert outputs.grad is not None
    assert torch.isfinite(outputs.grad).all()
