"""Rows that learn from another row's runs: teachers are trained first, their weights kept while they are needed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from command import FORKED_RUNS, check_refused, manyheads
from manyheads.runs.run import Run
from manyheads.studies.smoke import try_studies
from manyheads.studies.study import open_study

pytestmark = pytest.mark.slow

VARIANTS: dict[str, Any] = {
    "taught": {"taught_by": "alone", "distill.gold": 0.5},
    "alone": {"each": "task", "tasks": ["{task}"]},
}


@pytest.fixture
def study(toy_data: Path, toy_encoder: Path) -> Path:
    base = {
        "encoder": str(toy_encoder),
        "data": {"dev_share": 0.4},
        "tasks": {"mood": {"train": "mood.csv"}, "near": {"train": "near.tsv", "range": [0, 5]}},
        "training": {"budget": {"steps": 2}, "batch_size": 8, "learning_rate": 1e-3, "probe": False, "conflicts": 0},
        "evaluate": {"select": None},
    }
    (toy_data / "base.yaml").write_text(yaml.safe_dump(base))
    return write(toy_data, VARIANTS)


def write(folder: Path, variants: dict[str, Any], seeds: int = 2) -> Path:
    file = folder / "mine.yaml"
    file.write_text(yaml.safe_dump({"base": "base.yaml", "variants": variants, "seeds": seeds}, sort_keys=False))
    return file


def run(study: Path, output: Path, *more: str) -> str:
    words = ("study", "run", study, "--output", output, "--jobs", "2", "--threads", "1", *more)
    result = manyheads(*words, before=FORKED_RUNS)
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


def test_a_student_learns_from_all_seeds_of_the_row_that_teaches_it(study: Path, toy_data: Path) -> None:
    output = toy_data / "studies"
    printed = run(study, output, "--only", "taught")
    assert "6 runs, 0 finished before" in printed, "its teachers are trained though only the student is asked for"
    assert "'taught' learns from all seeds of 'alone'" in printed
    assert not list(output.rglob("model.safetensors")), "nobody learns from them any more"
    opened = open_study(str(study), None, output, {})
    teachers: dict[str, list[str]] = {"mood": [], "near": []}
    for identity, planned in opened.runs:
        if planned.row == "alone":
            teachers[planned.member].append(identity)
    for identity, planned in opened.runs:
        recipe = Run(output / "runs" / identity).recipe
        if planned.row == "alone":
            assert not recipe.teachers
            continue
        assert planned.teachers == teachers
        assert {
            task: [Path(folder).name for folder in folders] for task, folders in recipe.teachers.items()
        } == teachers
        cost = Run(output / "runs" / identity).metrics["cost"]
        assert cost["teachers"]["models"] == 4
    # a result that came from elsewhere has no weights: its run is trained again for a student that lacks a result
    student = next(identity for identity, planned in opened.runs if planned.row == "taught")
    before = opened.folder.results.read(student).metrics
    (output / "results" / f"{student}.json.gz").unlink()
    shutil.rmtree(output / "runs")
    assert "6 runs, 5 finished before" in run(study, output)
    assert opened.folder.results.read(student).metrics == before
    folders = {path.name for path in (output / "runs").iterdir()}
    assert folders == {student, *teachers["mood"], *teachers["near"]}


def test_a_student_is_known_by_its_teachers_runs(study: Path, toy_data: Path) -> None:
    def student(variants: dict[str, Any]) -> str:
        opened = open_study(str(write(toy_data, variants, seeds=1)), None, toy_data / "studies", {})
        return next(identity for identity, planned in opened.runs if planned.row == "taught")

    known = student(VARIANTS)
    assert known == student(dict(reversed(VARIANTS.items()))), "the order of rows does not matter"
    longer = {**VARIANTS["alone"], "training.budget": {"steps": 3}}
    assert known != student({**VARIANTS, "alone": longer})
    assert known != student({**VARIANTS, "taught": {"distill.gold": 0.5}})


def test_the_student_of_a_teacher_that_failed_is_not_started(study: Path, toy_data: Path) -> None:
    output = toy_data / "studies"
    opened = open_study(str(study), None, output, {})
    teacher = next(identity for identity, planned in opened.runs if planned.label == "alone: mood, seed 1")
    (output / "runs").mkdir(parents=True)
    (output / "runs" / teacher).write_text("a file where the run's folder should be")
    words = ("study", "run", study, "--output", output, "--jobs", "2", "--threads", "1")
    result = manyheads(*words, before=FORKED_RUNS)
    assert "failed: alone: mood, seed 1" in result.stderr
    assert "failed: taught, seed 0: a run that should teach it failed" in result.stderr


@pytest.mark.parametrize(
    ("taught", "alone", "message"),
    [
        ({"taught_by": "alnoe"}, VARIANTS["alone"], "variants.taught.taught_by: no row 'alnoe'. Did you mean 'alone'?"),
        ({"taught_by": "alone"}, {}, "'alone' has one run of all tasks"),
        ({"taught_by": "alone", "distill.folds": 2}, VARIANTS["alone"], "'taught': distill.folds is for"),
        ({"taught_by": "alone", "distill.tasks": ["near"]}, VARIANTS["alone"], "'taught': distill.tasks is for"),
        ({"taught_by": "alone"}, {**VARIANTS["alone"], "taught_by": "alone"}, "'alone' has teachers itself"),
    ],
)
def test_what_cannot_teach_is_refused(
    study: Path, toy_data: Path, taught: dict[str, Any], alone: dict[str, Any], message: str
) -> None:
    write(toy_data, {"taught": taught, "alone": alone})
    check_refused(manyheads("study", "run", study, "--output", toy_data / "studies"), message)


def test_a_study_with_teachers_can_be_tried_in_one_process(tmp_path: Path) -> None:
    class Silent:
        said: list[str] = []

        def say(self, line: str) -> None:
            self.said.append(line)

    reporter = Silent()
    assert try_studies(["own/trio"], tmp_path, ends=False, reporter=reporter) == [], reporter.said  # type: ignore[arg-type]
    assert not list((tmp_path / "runs").iterdir())
