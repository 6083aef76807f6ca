"""Bias probes: their sentences, their arithmetic, and a model that really looks at who a sentence is about."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from building import CLASSES, MULTI, NUMBERS, ORDINAL, SINGLE, TWO, a_task
from command import check_refused, manyheads
from conftest import toy_settings
from manyheads import Predictor, load_recipe, train
from manyheads.checks.bias import estimate, probe_bias, probe_task
from manyheads.checks.bias_file import AxisProbe, BiasProbe, TaskProbe, bias_lines, read_bias
from manyheads.checks.bias_texts import AXES, TEMPLATES, WHO, people_of, sentences_about
from manyheads.encoder.toy import WORDS, write_toy_encoder

PEOPLE = people_of(AXES)
GENDERED = re.compile(r"\b(he|she|him|her|his|hers|himself|herself|mr|mrs|ms)\b", re.IGNORECASE)


# --- sentences ----------------------------------------------------------------------------------------------------


def test_templates_name_one_person_and_give_no_gender() -> None:
    for text_count, templates in TEMPLATES.items():
        assert len(set(templates)) == len(templates) >= 24, "enough for intervals"
        for template in templates:
            assert len(template) == text_count
            assert any(WHO in text for text in template)
            for text in template:
                assert text.count(WHO) <= 1
                assert not GENDERED.search(text), text


def test_sentences_differ_only_in_who_they_are_about() -> None:
    template = ("{who} met a friend.", "A friend met {who}.")
    assert sentences_about([template], ["a man", "Mei"]) == [
        ("A man met a friend.", "A friend met a man."),
        ("Mei met a friend.", "A friend met Mei."),
    ]


def test_groups_of_an_axis_are_exchanged_entry_by_entry() -> None:
    assert len({axis.name for axis in AXES}) == len(AXES)
    assert sum(axis.comparison for axis in AXES) == 2
    for axis in AXES:
        assert len(axis.groups) >= 2
        entries = list(axis.groups.values())
        assert {len(people) for people in entries} == {axis.entries}
        assert len({person for people in entries for person in people}) == len(entries) * axis.entries


# --- arithmetic, worked out by hand ---------------------------------------------------------------------------------


def predictions_by_person(values: dict[str, Any], other: Any, templates: int = 3) -> np.ndarray:
    """[templates, people, …] where everybody not named has `other`; in every second template all have it."""
    rows = np.tile(np.asarray([values.get(person, other) for person in PEOPLE], dtype=float)[None], (templates, 1, 1))
    rows = rows.reshape(templates, len(PEOPLE), -1)
    rows[1::2] = np.asarray(other, dtype=float)
    return rows


def axis(probe: TaskProbe, name: str) -> AxisProbe:
    return next(axis for axis in probe.axes if axis.name == name)


def test_two_classes() -> None:
    """A woman .9, a man .4, a non-binary person .4, in two templates of three; all .4 in the other."""
    task = a_task(labels=TWO, encoding="single", columns=SINGLE)
    predictions = predictions_by_person({"a woman": (0.1, 0.9)}, (0.6, 0.4))
    gender = axis(probe_task(task, predictions, PEOPLE), "gender")
    assert gender.pairs == 3 * 3
    assert gender.moved.value == pytest.approx(2 / 3 * 2 / 3 * 0.5)  # two of three pairs differ, by .5
    assert gender.flipped is not None
    assert gender.flipped.value == pytest.approx(2 / 3 * 2 / 3)
    shifts = {group: shift.value for group, shift in gender.shifts.items()}
    third = 0.5 / 3
    assert shifts == pytest.approx(
        {"a woman": 2 / 3 * 2 * third, "a man": -2 / 3 * third, "a non-binary person": -2 / 3 * third}
    )
    assert 0 <= gender.moved.low < gender.moved.value < gender.moved.high <= 1 / 3 + 1e-9
    age = axis(probe_task(task, predictions, PEOPLE), "age")
    assert (age.moved.value, age.moved.low, age.moved.high) == (0, 0, 0)
    assert age.flipped is not None
    assert age.flipped.high > 0, "three templates without a flip do not show that there are none"


def test_names_are_compared_with_those_of_the_same_place() -> None:
    """Only Mei moves: one of eight women's names, which is compared with Wei alone."""
    task = a_task(labels=CLASSES, encoding="single", columns=SINGLE)
    predictions = predictions_by_person({"Mei": (0.0, 0.2, 0.8)}, (0.0, 1.0, 0.0), templates=1)
    probe = probe_task(task, predictions, PEOPLE)
    names = axis(probe, "names: gender")
    assert names.pairs == 8
    assert names.moved.value == pytest.approx(0.8 / 8)
    assert names.flipped is not None
    assert names.flipped.value == pytest.approx(1 / 8)
    assert names.shifts == {}, "three classes without order neither rise nor fall"
    assert axis(probe, "names: origin").moved.value == pytest.approx(7 * 0.8 / (28 * 2))


def test_ordered_classes_shift_in_classes() -> None:
    task = a_task(labels=ORDINAL, encoding="single", columns=SINGLE)
    predictions = predictions_by_person({"a young person": (0, 0, 1)}, (1, 0, 0), templates=1)
    probe = probe_task(task, predictions, PEOPLE)
    age = axis(probe, "age")
    assert age.moved.value == pytest.approx(2 / 3)
    assert age.apart is not None
    assert age.apart.value == pytest.approx(2 * 2 / 3)
    assert age.shifts["a young person"].value == pytest.approx(2 - 2 / 3)
    assert probe.ordered


def test_numbers_move_in_label_units_and_within_their_range() -> None:
    task = a_task(labels=NUMBERS, encoding="cross")
    predictions = predictions_by_person({"a deaf person": 7.5}, 3.0, templates=1)[:, :, 0]
    probe = probe_task(task, predictions, PEOPLE)
    disability = axis(probe, "disability")
    assert disability.moved.value == pytest.approx(4 / 10 * 2), "7.5 is told as 5"
    assert disability.flipped is None
    assert disability.shifts["a deaf person"].value == pytest.approx(2 * 4 / 5)
    assert probe.score == "the value"


def test_several_classes_at_once() -> None:
    task = a_task(labels=MULTI, encoding="single", columns=SINGLE, thresholds=(0.5, 0.5, 0.5))
    predictions = predictions_by_person({"a man": (0.9, 0.1, 0.1)}, (0.3, 0.1, 0.1), templates=1)
    gender = axis(probe_task(task, predictions, PEOPLE), "gender")
    assert gender.moved.value == pytest.approx(2 / 3 * 0.6 / 3)
    assert gender.flipped is not None
    assert gender.flipped.value == pytest.approx(2 / 3)


@pytest.mark.numeric
def test_the_interval_is_that_of_the_mean_over_templates() -> None:
    values = np.random.default_rng(0).normal(0.2, 0.1, size=400)
    estimated = estimate(values)
    half = 1.96 * values.std() / 20
    assert estimated.value == pytest.approx(values.mean())
    assert estimated.low == pytest.approx(values.mean() - half, abs=0.25 * half)
    assert estimated.high == pytest.approx(values.mean() + half, abs=0.25 * half)


# --- models -------------------------------------------------------------------------------------------------------


def test_every_kind_of_task_is_probed(saved_model: Path) -> None:
    probe = probe_bias(Predictor.open(saved_model))
    assert set(probe.tasks) == {"mood", "topics", "length", "same", "near"}
    assert probe.model == {"run": "toy", "step": 3}
    for name, task in probe.tasks.items():
        assert task.templates == len(TEMPLATES[2 if name in ("same", "near") else 1])
        assert [axis.name for axis in task.axes] == [axis.name for axis in AXES]
        assert len(bias_lines(task)) == len(AXES)
        for measured in task.axes:
            assert 0 <= measured.moved.low <= measured.moved.value <= measured.moved.high
            if measured.shifts:
                assert sum(shift.value for shift in measured.shifts.values()) == pytest.approx(0, abs=1e-5)
    assert any(measured.moved.value > 0 for measured in probe.tasks["mood"].axes)
    assert BiasProbe.model_validate_json(probe.model_dump_json()) == probe


@pytest.fixture(scope="module")
def prejudiced_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on labels that are nothing but whether the sentence is about a woman."""
    folder = tmp_path_factory.mktemp("prejudiced")
    rows: list[str] = []
    for number in range(4):
        for who, label in (("a woman", "low"), ("a man", "high")):
            for sentence in sentences_about(TEMPLATES[1][::2], [who]):
                rows.append(f"{sentence[0].replace(',', '')} {number},{label}")
    (folder / "pay.csv").write_text("sentence,label\n" + "\n".join(rows) + "\n")
    encoder = write_toy_encoder(folder / "encoder", [*WORDS, "woman", "man", "person", "from"])
    settings = toy_settings(folder, encoder)
    settings["tasks"] = {"pay": {"train": "pay.csv", "pooling": "mean"}}
    settings["training"] = {"epochs": 15, "batch_size": 12, "learning_rate": 3e-3, "head_learning_rate": 3e-2}
    return train(load_recipe(settings), quiet=True).folder


@pytest.mark.slow
def test_a_model_that_looks_at_who_it_is_about_is_found_out(prejudiced_run: Path) -> None:
    printed = manyheads("probe-bias", prejudiced_run)
    assert printed.returncode == 0, printed.stderr
    assert "do not show that a model is fair" in printed.stdout
    probe = read_bias(prejudiced_run)
    assert probe is not None
    task = probe.tasks["pay"]
    gender = axis(task, "gender")
    assert task.score == "the probability of 'low'"
    assert gender.shifts["a woman"].low > 0.1
    assert gender.shifts["a man"].high < -0.1
    comparison = axis(task, "comparison: neutral words")
    assert gender.moved.low > comparison.moved.high
    assert gender.flipped is not None
    assert gender.flipped.low > 0


@pytest.mark.slow
def test_the_report_shows_a_probe_that_is_there(prejudiced_run: Path) -> None:
    file = prejudiced_run / "bias.json"
    file.unlink(missing_ok=True)
    assert manyheads("report", prejudiced_run).returncode == 0
    page = prejudiced_run / "report.html"
    assert "Names and group words" not in page.read_text()
    asked = manyheads("probe-bias", prejudiced_run, "--json")
    assert json.loads(asked.stdout)["tasks"]["pay"]["templates"] == len(TEMPLATES[1])
    assert manyheads("report", prejudiced_run).returncode == 0
    text = page.read_text()
    assert "Names and group words" in text
    assert "comparison: neutral words" in text
    stale = json.loads(file.read_text())
    stale["model"]["step"] = -1
    file.write_text(json.dumps(stale))
    assert manyheads("report", prejudiced_run).returncode == 0
    assert "of another model of this run" in page.read_text()
    assert "comparison: neutral words" not in page.read_text()
    file.write_text("{")
    check_refused(manyheads("report", prejudiced_run), "[damaged-file]", "probe-bias")


@pytest.mark.slow
def test_what_is_no_run_is_not_probed(tmp_path: Path) -> None:
    check_refused(manyheads("probe-bias", tmp_path), "[not-a-run]")
