"""What a teacher's prediction costs, by hand and beside the loss of a label."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from building import CLASSES, KINDS, MULTI, NUMBERS, ORDINAL, TAGS, TWO, a_task, labels_of
from manyheads.config.part import PartConfig
from manyheads.data.labels import LabelReader
from manyheads.parts.losses import Loss
from manyheads.registry import parts
from manyheads.tasks.part_compatibility import incompatible_parts
from manyheads.tasks.task import Task
from manyheads.tasks.teacher_faults import taught_faults

pytestmark = pytest.mark.numeric
LOG = torch.tensor([1.0, 2.0, 3.0, 5.0], dtype=torch.float64).log().tolist()  # 0, ln 2, ln 3, ln 5
TEACHABLE = [part for part in parts("losses") if part.factory.reads_soft_targets]


def build(name: str, labels: LabelReader, **options: Any) -> Loss:
    task = a_task(labels=labels, loss=PartConfig(name=name, options=options))
    loss: Loss = task.loss.build("losses", task)
    return loss


# softmax(0, ln 2, ln 5) is 1/8, 2/8, 5/8; σ(ln 3, 0, −ln 3) is 3/4, 1/2, 1/4
SOFTMAX = [LOG[0], LOG[1], LOG[3]]
SIGMOID = [LOG[2], 0.0, -LOG[2]]
BY_HAND = [
    # ½ ln 8 + ¼ ln 4 + ¼ ln 8/5
    ("cross-entropy", CLASSES, {}, SOFTMAX, [0.5, 0.25, 0.25], 1.5037952684),
    # 2·½ ln 8 + ¼ ln 4 + ¼ ln 8/5
    ("cross-entropy", CLASSES, {"class_weights": [2, 1, 1]}, SOFTMAX, [0.5, 0.25, 0.25], 2.5435160393),
    ("tag-cross-entropy", TAGS, {}, SOFTMAX, [0.5, 0.25, 0.25], 1.5037952684),  # of a word
    # soft already: no smoothing of its own
    ("cross-entropy", CLASSES, {"label_smoothing": 0.3}, SOFTMAX, [0.5, 0.25, 0.25], 1.5037952684),
    # −0.6 ln ¾ − 0.4 ln ¼
    ("binary-cross-entropy", TWO, {}, [LOG[2]], [0.4, 0.6], 0.7271269879),
    # −2·0.6 ln ¾ − 0.4 ln ¼
    ("binary-cross-entropy", TWO, {"class_weights": [1, 2]}, [LOG[2]], [0.4, 0.6], 0.8997362313),
    # −⅓ [ln ¾ + ln ½ + 0.2 ln ¼ + 0.8 ln ¾]
    ("binary-cross-entropy", MULTI, {}, SIGMOID, [1.0, 0.5, 0.2], 0.4960779277),
    # −½ ln ¾ − ½ ln ¼ − ln ½ − ¼ ln ¼ − ¾ ln ¾
    ("dual-cross-entropy", CLASSES, {}, SIGMOID, [0.5, 0.25, 0.25], 2.0924705420),
    # −0.75 ln 7/8 − 0.75 ln 6/8 − 1.25 ln 3/8: expected distances from classes 0, 1, 2
    ("ordinal-log-loss", ORDINAL, {"alpha": 1.0}, SOFTMAX, [0.5, 0.25, 0.25], 1.5419466651),
    ("mse", NUMBERS, {}, [0.5], 2.0, 2.25),
]


@pytest.mark.parametrize(("name", "labels", "options", "outputs", "target", "expected"), BY_HAND)
def test_by_hand(
    name: str, labels: LabelReader, options: Any, outputs: list[float], target: Any, expected: float
) -> None:
    loss = build(name, labels, **options)
    value = loss.soft(torch.tensor([outputs], dtype=torch.float64), torch.tensor([target], dtype=torch.float64))
    assert value.tolist() == pytest.approx([expected], abs=1e-9)


def test_every_teachable_loss_stands_in_the_table_above() -> None:
    assert {part.name for part in TEACHABLE} == {case[0] for case in BY_HAND}


def fitting_tasks() -> list[Task]:
    tasks = []
    for part in TEACHABLE:
        for labels in KINDS:
            task = a_task(labels=labels, loss=part.name)
            if not incompatible_parts(task):
                tasks.append(task)
    return tasks


@pytest.mark.parametrize("task", fitting_tasks(), ids=lambda task: f"{task.loss.name} of {task.labels.kind}")
def test_a_teacher_who_is_certain_is_a_label(task: Task) -> None:
    loss: Loss = task.loss.build("losses", task)
    outputs = torch.randn(6, loss.outputs, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values = labels_of(task)
    target = values.double()
    if task.kind.exclusive and task.kind.has_classes:
        target = torch.nn.functional.one_hot(values, len(task.labels.names)).double()
    assert loss.soft(outputs, target).tolist() == pytest.approx(loss(outputs, values).tolist(), abs=1e-12)


def test_losses_that_cannot_be_taught_are_refused_by_name() -> None:
    tasks = [
        a_task(name="order", labels=NUMBERS, loss="cosent"),
        a_task(name="line", labels=NUMBERS, loss="pearson-loss"),
        a_task(name="near", labels=TWO, encoding="bi-cosine", loss="cosine-embedding"),
        a_task(name="fine", labels=CLASSES),
    ]
    faults = list(taught_faults(tasks))
    assert [fault.path[1] for fault in faults] == ["order", "line", "near"]
    assert {fault.code for fault in faults} == {"cannot-be-taught"}
    assert "'cosent' compares the examples of a batch" in faults[0].reason
    assert "take 'mse'" in faults[0].reason
    assert "take 'binary-cross-entropy'" in faults[2].reason
