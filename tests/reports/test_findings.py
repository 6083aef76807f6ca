"""What a report flags: runs are written by hand, so that each has one fault, and one has none."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from building import CLASSES, MULTI, NUMBERS, SINGLE, TWO, a_task
from manyheads import load_recipe
from manyheads.console import print_metrics
from manyheads.data.labels import LabelReader
from manyheads.parts.metrics import default_metrics, score
from manyheads.reports.facts import RunFacts
from manyheads.reports.findings import find_problems, nothing_found
from manyheads.reports.headlines import headlines
from manyheads.reports.pages.run import run_report
from manyheads.reports.weak_tasks import constant_tasks, empty_predictions
from manyheads.storage.ragged import Column, Ragged
from manyheads.tasks.task import Task

EXAMPLES = 200
LABELS = np.arange(EXAMPLES) % 3
RIGHT = np.eye(3)[LABELS] * 0.7 + 0.1  # 0.8 on the right class


def write_run(
    folder: Path,
    reader: LabelReader,
    predictions: Column,
    labels: Column,
    losses: tuple[float, ...] = (1.0, 0.9, 0.89, 0.885),
    baselines: dict[str, dict[str, float | None]] | None = None,
    examples_seen: int = 100,
    **task_fields: Any,
) -> RunFacts:
    """A finished run of one task 't' of 100 train examples, with an evaluation every 10 steps."""
    task = a_task(name="t", **{"labels": reader, "encoding": "single", "train_examples": 100, **task_fields})
    task = Task.from_json({**task.to_json(), "metrics": [metric.name for metric in default_metrics(task)]})
    folder.mkdir(parents=True, exist_ok=True)
    recipe = load_recipe({"name": "run", "encoder": "toy", "tasks": {"t": {"train": "x.csv", "text": "text"}}})
    (folder / "recipe.yaml").write_text(recipe.to_yaml())
    (folder / "tasks.json").write_text(json.dumps([task.to_json()]))
    arrays: dict[str, np.ndarray] = {}
    for name, column in (("t.predictions", predictions), ("t.labels", labels)):
        if isinstance(column, Ragged):
            arrays |= {name: column.values, f"{name}-lengths": column.lengths}
        else:
            arrays[name] = column
    save_file(arrays, folder / "dev.safetensors")
    metrics = score(task, predictions, labels)
    dev = {"metrics": {"t": metrics}, "overall": 0.5, "examples": {"t": len(labels)}}
    steps = 10 * len(losses)
    where = {"epoch": 1, "seconds": 1.0}
    records: list[dict[str, Any]] = [{"event": "start", "steps": steps, "step": 0, **where}]
    for number, loss in enumerate(losses, 1):
        records.append({"event": "evaluate", **dev, "losses": {"t": loss}, "step": 10 * number, **where})
    (folder / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    content: dict[str, Any] = {"dev": dev, "data": {"t dev": "f" * 32}, "examples_seen": {"t": examples_seen}}
    for key, values in (baselines or {}).items():
        content[key] = {"metrics": {"t": {**dict.fromkeys(metrics), **values}}, "overall": 0.25}
    (folder / "metrics.json").write_text(json.dumps(content))
    return RunFacts(folder)


def found(facts: RunFacts) -> list[str]:
    return [finding.text for finding in find_problems(facts, headlines(facts))]


def test_a_good_run_has_no_finding(tmp_path: Path) -> None:
    """200 examples, all right: far above a constant's third and its probe, and at rest."""
    baselines = {"majority": {"accuracy": 0.335}, "frozen": {"accuracy": 0.7}}
    facts = write_run(tmp_path / "run", CLASSES, RIGHT, LABELS, baselines=baselines)
    assert found(facts) == []
    said = nothing_found(facts)
    assert "each is better than a constant prediction" in said
    assert "none is below its frozen probe" in said
    assert "still falling" in said


@pytest.mark.slow
def test_a_page_shows_baselines_thresholds_and_what_calibration_did(tmp_path: Path) -> None:
    baselines: dict[str, dict[str, float | None]] = {"majority": {"macro-f1": 0.5}, "frozen": {"macro-f1": 0.75}}
    facts = write_run(tmp_path / "run", MULTI, *sets(0.0), baselines=baselines, thresholds=(0.3, 0.4, 0.5))
    change = {"before": {"loss": 0.2, "macro-f1": 0.85}, "after": {"loss": 0.2, "macro-f1": 1.0}}
    calibration = {"t": {"thresholds": {"a": 0.3, "b": 0.4, "c": 0.5}, **change}}
    (tmp_path / "run" / "metrics.json").write_text(json.dumps({**facts.metrics, "calibration": calibration}))
    page = run_report(tmp_path / "run").html
    assert "Nothing stands out" in page
    for title in ("frozen probe", "majority"):
        assert page.count(f">{title}</th>") == 2, "on top, and beside every metric"
    assert ">threshold</th>" in page
    assert "thresholds of its own for each class. On dev: loss 0.200 → 0.200, macro-f1 0.850 → 1.000." in page


# --- predictions that are the same, or nothing ---------------------------------------------------------------------


@pytest.mark.parametrize(("others", "flagged"), [(0, True), (10, True), (11, False)])
def test_a_task_that_predicts_nearly_one_class(tmp_path: Path, others: int, flagged: bool) -> None:
    """0.95 of 200 are 190: 10 others are flagged, 11 are not."""
    predictions = np.tile([0.1, 0.8, 0.1], (EXAMPLES, 1))
    predictions[:others] = [0.8, 0.1, 0.1]
    texts = found(write_run(tmp_path / "run", CLASSES, predictions, LABELS))
    assert any("predicts b" in text for text in texts) == flagged
    if others == 10:
        assert "t predicts b for 95% of dev examples; at most 34% of labels are the same." in texts[0]


def test_a_rare_class_is_no_constant(tmp_path: Path) -> None:
    """97 % of labels are of the class that 98 % of predictions are of: that is as it should be."""
    labels = (np.arange(EXAMPLES) < 6).astype(np.int64)
    predictions = np.tile([0.9, 0.1], (EXAMPLES, 1))
    predictions[:4] = [0.1, 0.9]
    assert not any("predicts no" in text for text in found(write_run(tmp_path / "run", TWO, predictions, labels)))


def test_a_regression_that_predicts_nearly_one_number(tmp_path: Path) -> None:
    labels = np.linspace(0, 5, EXAMPLES)
    flat = 2.5 + 0.04 * (labels - 2.5)
    (text,) = found(write_run(tmp_path / "flat", NUMBERS, flat, labels))
    assert text.startswith("t predicts always nearly the same number: 2.5 ± 0.058, while dev labels spread by 1.5.")
    assert found(write_run(tmp_path / "steep", NUMBERS, 2.5 + 0.06 * (labels - 2.5), labels)) == []


def sets(share_empty: float) -> tuple[np.ndarray, np.ndarray]:
    """Every example has one of three classes; of so many no class is predicted, of the others the right one."""
    labels = np.eye(3, dtype=np.int64)[LABELS]
    predictions = labels * 0.8 + 0.1
    predictions[: round(share_empty * EXAMPLES)] = 0.1
    return predictions, labels


@pytest.mark.parametrize(("share", "flagged"), [(1.0, True), (0.2, True), (0.19, False)])
def test_a_multi_label_task_with_empty_predictions(tmp_path: Path, share: float, flagged: bool) -> None:
    findings = empty_predictions(write_run(tmp_path / "run", MULTI, *sets(share)))
    assert bool(findings) == flagged
    for finding in findings:
        assert finding.text.startswith(f"t predicts no class for {share:.0%} of dev examples, and 0% have none.")


def test_thresholds_decide_what_is_empty(tmp_path: Path) -> None:
    """Probabilities of 0.1 are predictions from a threshold of 0.05 on: then all classes are predicted, always."""
    predictions, labels = sets(1.0)
    facts = write_run(tmp_path / "run", MULTI, predictions, labels, thresholds=(0.05, 0.05, 0.05))
    assert empty_predictions(facts) == []
    (finding,) = constant_tasks(facts)
    assert finding.text.startswith("t always predicts a, b, c; at most 34% of dev labels are the same.")


TAGS = ("O", "B-x", "I-x")
TAG_READER = LabelReader("tags", TAGS, {name: index for index, name in enumerate(TAGS)}, scheme="BIO")


def write_tagged_run(folder: Path, predicted: list[int], **more: Any) -> RunFacts:
    """100 sentences of ten words, of which the first two are an entity."""
    labels = Ragged.from_rows([[1, 2, *[0] * 8]] * 100, np.int64)
    predictions = Ragged.from_rows([np.eye(3)[predicted] * 0.7 + 0.1] * 100, np.float64)
    columns = replace(SINGLE, words="edges")
    return write_run(folder, TAG_READER, predictions, labels, columns=columns, pooling="words", **more)


def test_a_task_that_gives_all_words_one_tag(tmp_path: Path) -> None:
    (text,) = found(write_tagged_run(tmp_path / "run", [0] * 10))
    assert text.startswith("t always predicts O; at most 80% of dev labels are the same.")
    assert found(write_tagged_run(tmp_path / "good", [1, 2, *[0] * 8])) == []


def test_tagged_words_have_a_headline_and_are_held_against_the_probe(tmp_path: Path) -> None:
    facts = write_tagged_run(tmp_path / "run", [1, *[0] * 9], baselines={"frozen": {"entity-f1": 0.5}})
    (headline,) = headlines(facts)
    assert (headline.metric, headline.value, headline.examples) == ("entity-f1", 0.0, 100)
    (text,) = found(facts)
    assert text.startswith("t is below its frozen probe: entity-f1 0.000")


# --- baselines -----------------------------------------------------------------------------------------------------


def part_right(share: float) -> np.ndarray:
    """So many right, the others the next class."""
    predictions = RIGHT.copy()
    wrong = np.arange(EXAMPLES) >= share * EXAMPLES
    predictions[wrong] = np.roll(RIGHT[wrong], 1, axis=1)
    return predictions


def test_majority_level(tmp_path: Path) -> None:
    """0.4 of 200: half of the interval is 0.067. A majority of 0.335 is nearer than that, 0.32 is not."""
    level = write_run(tmp_path / "level", CLASSES, part_right(0.4), LABELS, baselines={"majority": {"accuracy": 0.335}})
    (text,) = found(level)
    assert text.startswith(
        "t is at majority level: accuracy 0.400 (0.330 to 0.465), the best constant prediction has 0.335."
    )
    above = write_run(tmp_path / "above", CLASSES, part_right(0.4), LABELS, baselines={"majority": {"accuracy": 0.32}})
    assert found(above) == []
    below = write_run(tmp_path / "below", CLASSES, part_right(0.2), LABELS, baselines={"majority": {"accuracy": 0.9}})
    assert len(found(below)) == 1


def test_a_correlation_near_none_is_at_majority_level(tmp_path: Path) -> None:
    """A constant has no correlation: 0 stands for it. Metrics of which low is best are compared the other way round."""
    labels = np.linspace(0, 5, EXAMPLES)
    unrelated = np.where(np.arange(EXAMPLES) % 2, 1.0, 4.0)
    (text,) = found(write_run(tmp_path / "run", NUMBERS, unrelated, labels, baselines={"majority": {}}))
    assert text.startswith("t is at majority level: pearson -0.009 (")
    assert "the best constant prediction has 0.000" in text
    close = write_run(tmp_path / "close", NUMBERS, labels + 0.3, labels, baselines={"majority": {}})
    assert found(close) == []


def test_a_constant_is_not_told_twice(tmp_path: Path) -> None:
    predictions = np.tile([0.1, 0.8, 0.1], (EXAMPLES, 1))
    facts = write_run(tmp_path / "run", CLASSES, predictions, LABELS, baselines={"majority": {"accuracy": 0.335}})
    assert len(found(facts)) == 1


def test_below_the_frozen_probe(tmp_path: Path) -> None:
    """0.8 of 200: half of the interval is 0.055, a standard error 0.028. 0.84 is clearly above, 0.82 is not."""
    below = write_run(tmp_path / "below", CLASSES, part_right(0.8), LABELS, baselines={"frozen": {"accuracy": 0.84}})
    (text,) = found(below)
    assert text.startswith(
        "t is below its frozen probe: accuracy 0.800 (0.740 to 0.850), a linear model on the untrained"
    )
    assert "0.840" in text
    near = write_run(tmp_path / "near", CLASSES, part_right(0.8), LABELS, baselines={"frozen": {"accuracy": 0.82}})
    assert found(near) == []


def test_pairs_read_as_one_text_are_not_said_to_have_forgotten(tmp_path: Path) -> None:
    baselines: dict[str, dict[str, float | None]] = {"frozen": {"accuracy": 0.84}}
    facts = write_run(tmp_path / "run", CLASSES, part_right(0.8), LABELS, baselines=baselines, encoding="cross")
    (text,) = found(facts)
    assert "reads a pair as one text" in text
    assert "lost" not in text


# --- the budget ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("losses", "flagged"),
    [
        ((1.0, 0.9, 0.8, 0.7), True),  # the last of four evaluations is the last quarter: 0.8 to 0.7 is 14 % of 0.7
        ((1.0, 0.9, 0.8, 0.77), False),  # 0.03 is less than 5 % of 0.77
        ((1.0, 0.6, 0.5, 0.51), False),  # it was lower before
        ((1.0, 0.8), True),  # at three quarters of the steps the loss is taken to be 0.9
        ((0.7,), False),  # a single evaluation says nothing
        (
            (1.2, 1.1, 1.0, 0.9, 0.89, 0.88, 0.87, 0.86),
            False,
        ),  # at 60 of 80 steps 0.88: at rest, however often it is measured
    ],
)
def test_a_task_that_was_still_falling(tmp_path: Path, losses: tuple[float, ...], flagged: bool) -> None:
    texts = found(write_run(tmp_path / "run", CLASSES, RIGHT, LABELS, losses))
    assert any(text.startswith("t was still falling when training ended: ") for text in texts) == flagged
    assert len(texts) == flagged


@pytest.mark.parametrize(("examples_seen", "flagged"), [(99, False), (100, True)])
def test_what_was_not_seen_once_is_not_learnt_by_heart(tmp_path: Path, examples_seen: int, flagged: bool) -> None:
    texts = found(write_run(tmp_path / "run", CLASSES, RIGHT, LABELS, (0.5, 1.0, 1.0), examples_seen=examples_seen))
    assert any(text.startswith("t over-fits: ") for text in texts) == flagged


def test_a_run_that_ended_early_had_budget_left(tmp_path: Path) -> None:
    facts = write_run(tmp_path / "run", CLASSES, RIGHT, LABELS, (1.0, 0.9, 0.8, 0.7))
    facts.start["steps"] = 100
    assert found(facts) == []


# --- the terminal --------------------------------------------------------------------------------------------------


def test_baselines_stand_beside_every_metric_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    dev = {"metrics": {"a": {"pearson": 0.61, "mse": 0.8}}, "overall": 0.8, "examples": {"a": 40}}
    majority = {"metrics": {"a": {"pearson": None, "mse": 1.25}}, "overall": 0.5}
    frozen = {"metrics": {"a": {"pearson": 0.5, "mse": 0.9}}, "overall": 0.75}
    print_metrics({"dev": dev, "majority": majority, "frozen": frozen}, as_json=False)
    title, pearson, mse, overall = (line.split() for line in capsys.readouterr().out.splitlines())
    assert title == ["task", "metric", "dev", "frozen", "probe", "majority", "examples"]
    assert pearson == ["a", "pearson", "0.610", "0.500", "–", "40"]
    assert mse == ["a", "mse", "0.800", "0.900", "1.250", "40"]
    assert overall == ["overall", "0.800", "0.750", "0.500"]
    print_metrics({"dev": dev, "majority": {}}, as_json=False)  # as a run of kinds without a constant prediction has it
    assert "majority" not in capsys.readouterr().out
