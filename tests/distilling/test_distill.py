"""Teachers are trained, asked once and taught from; whatever is killed goes on to the same bits."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from conftest import made_once, toy_settings, write_toy_data
from manyheads import Run, UserError, distill, load_recipe, train
from manyheads.config.task import Fold
from manyheads.console import Reporter
from manyheads.model.fingerprint import model_fingerprint
from manyheads.studies.identity import run_identity
from manyheads.tasks.load import load_tasks
from manyheads.training.gradients.backward import Backward
from manyheads.training.setup import Setup, assemble
from run_files import last_checkpoint, log_of

TEACHERS = ("mood-0", "mood-1", "near-0", "near-1")


@pytest.fixture(scope="module")
def distilled(tmp_path_factory: pytest.TempPathFactory, toy_encoder: Path) -> Path:
    """Two teachers of each of two tasks, and their student 'toy'."""

    def make(folder: Path) -> None:
        write_toy_data(folder)
        distill(settings(folder, toy_encoder), quiet=True)

    return made_once(tmp_path_factory, "distilled", make)


def settings(folder: Path, encoder: Path, **changes: Any) -> dict[str, Any]:
    training = {"epochs": 1, "batch_size": 8, "learning_rate": 1e-3}
    recipe = {**toy_settings(folder, encoder), "training": training, "distill": {"seeds": 2}}
    return {**recipe, "checkpoint": {"every_steps": 1}, **changes}


def teachers_of(folder: Path) -> dict[str, list[str]]:
    runs = folder / "runs" / "toy-teachers"
    return {task: [str(runs / name) for name in TEACHERS if name.startswith(task)] for task in ("mood", "near")}


def check_same_bits(run: Path, other: Path) -> None:
    for file in ("model.safetensors", "optimizer.safetensors"):
        expected, found = last_checkpoint(run, file), last_checkpoint(other, file)
        assert expected.keys() == found.keys()
        for key, tensor in expected.items():
            assert torch.equal(tensor, found[key]), key


class Killed(Exception):
    """In place of a signal: the process ends in the middle of a step."""


def kill_at(monkeypatch: pytest.MonkeyPatch, step: int, recipe: dict[str, Any]) -> None:
    """Distil until so many steps were taken, of whichever run."""
    real = Backward.step
    taken = 0

    def killed(*given: Any, **more: Any) -> Any:
        nonlocal taken
        taken += 1
        if taken > step:
            raise Killed
        return real(*given, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Backward, "step", killed)
        with pytest.raises(Killed):
            distill(recipe, quiet=True)


@pytest.mark.slow
def test_a_distillation_trains_teachers_and_student_and_says_what_they_cost(distilled: Path, toy_encoder: Path) -> None:
    run = Run(distilled / "runs" / "toy")
    written = yaml.safe_load((run.folder / "recipe.yaml").read_text())
    assert written["teachers"] == teachers_of(distilled)
    teachers = [Run(distilled / "runs" / "toy-teachers" / name) for name in TEACHERS]
    assert [teacher.recipe.seed for teacher in teachers] == [0, 1, 0, 1]
    assert [list(teacher.recipe.tasks) for teacher in teachers] == [["mood"], ["mood"], ["near"], ["near"]]
    assert not list((distilled / "runs" / "toy-teachers").glob("*/checkpoints"))
    shares = [record["gold_share"] for record in log_of(run.folder)]
    assert shares == [step / (len(shares) - 1) for step in range(len(shares))]
    cost = run.metrics["cost"]
    examples = [sum(teacher.metrics["examples_seen"].values()) for teacher in teachers]
    assert cost["teachers"]["examples"] == sum(examples) == 2 * (36 + 27)
    assert cost["together"]["examples"] == cost["student"]["examples"] + sum(examples)
    assert cost["teachers"]["models"] == 4
    assert cost["teachers"]["unknown"] == 0
    of_teachers = cost["teachers"]["predicting_seconds"] + sum(teacher.metrics["seconds"] for teacher in teachers)
    assert cost["teachers"]["seconds"] == pytest.approx(of_teachers, abs=0.11), "tenths of a second, rounded twice"
    assert cost["student"]["seconds"] == run.metrics["seconds"]
    both = cost["student"]["seconds"] + cost["teachers"]["seconds"]
    assert cost["together"]["seconds"] == pytest.approx(both, abs=1e-6)
    log = (run.folder / "log.jsonl").read_bytes()
    distill(settings(distilled, toy_encoder), quiet=True)
    assert (run.folder / "log.jsonl").read_bytes() == log, "nothing is left to do"


@pytest.mark.slow
def test_a_distillation_that_is_killed_goes_on_to_the_same_bits(
    distilled: Path, toy_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the second teacher, then in the student."""
    recipe = settings(distilled, toy_encoder, output=str(tmp_path / "runs"))
    kill_at(monkeypatch, 7, recipe)
    teachers = tmp_path / "runs" / "toy-teachers"
    assert sorted(folder.name for folder in teachers.iterdir() if folder.is_dir()) == ["mood-0", "mood-1"]
    assert not (teachers / "mood-1" / "metrics.json").exists()
    shutil.copytree(distilled / "runs" / "toy-teachers" / "near-0", teachers / "near-0")  # else it takes longer
    shutil.copyfile(distilled / "runs" / "toy-teachers" / "near-0.json", teachers / "near-0.json")
    kill_at(monkeypatch, 3 + 4 + 3, recipe)  # what is left of mood-1, all of near-1, the student's first steps
    assert len(log_of(tmp_path / "runs" / "toy")) == 3
    assert not (tmp_path / "runs" / "toy" / "metrics.json").exists()
    distill(recipe, quiet=True)
    check_same_bits(distilled / "runs" / "toy", tmp_path / "runs" / "toy")
    for name in TEACHERS:
        straight, resumed = distilled / "runs" / "toy-teachers" / name / "best", teachers / name / "best"
        assert model_fingerprint(straight) == model_fingerprint(resumed)


@pytest.mark.slow
def test_teachers_who_are_not_listened_to_change_no_bit(distilled: Path, toy_encoder: Path, tmp_path: Path) -> None:
    output = str(tmp_path / "runs")
    plain = settings(distilled, toy_encoder, name="plain", output=output)
    gold = {**plain, "name": "gold", "teachers": teachers_of(distilled), "distill": {"gold": 1.0}}
    runs = [train(recipe, quiet=True) for recipe in (plain, gold)]
    check_same_bits(runs[0].folder, runs[1].folder)
    with pytest.raises(AssertionError):
        check_same_bits(runs[0].folder, distilled / "runs" / "toy")
    said = [
        any("no task has teachers, so `distill` changes nothing" in note for note in run.metrics["notes"])
        for run in runs
    ]
    assert said == [True, False], "`train` makes none"


@pytest.mark.slow
def test_out_of_fold_teachers_predict_what_they_have_not_seen_and_texts_without_labels(
    tmp_path: Path, toy_encoder: Path
) -> None:
    rows = [f"the {word} was {mood},{number % 2}" for number, mood in enumerate(["dull", "good"] * 6) for word in "ab"]
    (tmp_path / "train.csv").write_text("\n".join(["sentence,label", *rows, *rows[:6], *rows[:6]]) + "\n")  # repeated
    (tmp_path / "dev.csv").write_text("sentence,label\nthe c was dull,0\nthe c was good,1\n")
    labelled = ["the a was dull", "the b was good"]  # texts that teachers know
    (tmp_path / "more.csv").write_text("\n".join(["sentence", "the d was good", "the e was dull", *labelled]) + "\n")
    task = {"train": "train.csv", "dev": "dev.csv", "unlabelled": "more.csv"}
    changes = {"tasks": {"mood": task}, "distill": {"seeds": 1, "folds": 2}, "evaluate": {"calibrate": False}}
    run = distill(settings(tmp_path, toy_encoder, name="folds", **changes), quiet=True)
    setup = assemble(load_recipe(run.folder / "recipe.yaml"), Reporter(quiet=True))
    assert setup.teaching is not None
    setup.teaching.open(setup.schedule.steps, setup.reporter, setup.processes)
    texts = setup.datasets.train["mood"].examples.texts[0].to_pylist()
    assert texts[-4:] == ["the d was good", "the e was dull", *labelled]
    assert run.metrics["examples_seen"]["mood"] == len(texts), "they are trained on"
    targets = setup.teaching.targets("mood", list(range(len(texts)))).numpy()
    probabilities, seen = [], []
    for number in (1, 2):
        teacher = Run(tmp_path / "runs" / "folds-teachers" / f"mood-0-fold-{number}")
        described = teacher.predict("mood", texts)
        probabilities.append(np.array([list(row["probabilities"].values()) for row in described]))
        seen.append(set(load_tasks(teacher.recipe)["mood"].train.texts[0].to_pylist()))
    assert seen[0] | seen[1] == set(texts[:-4])
    assert not seen[0] & seen[1], "of two folds each teacher sees one"
    for row, text in enumerate(texts):
        expected = (probabilities[0][row] + probabilities[1][row]) / 2
        if text in seen[0] | seen[1]:
            expected = probabilities[int(text in seen[0])][row]
        assert targets[row].tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    (tmp_path / "train.csv").write_text((tmp_path / "train.csv").read_text().replace("was good", "was fine"))
    with pytest.raises(UserError, match="without fold 1 of 2 of other rows") as fault:
        assemble(load_recipe(run.folder / "recipe.yaml"), Reporter(quiet=True))
    assert fault.value.code == "teacher-does-not-fit", "as many rows as before, but others"


def refusal(recipe: dict[str, Any]) -> str:
    with pytest.raises(UserError) as fault:
        assemble(load_recipe(recipe), Reporter(quiet=True))
    return fault.value.code


@pytest.mark.slow
def test_teachers_that_do_not_fit_are_refused(distilled: Path, toy_encoder: Path, tmp_path: Path) -> None:
    given = teachers_of(distilled)
    base = settings(distilled, toy_encoder, output=str(tmp_path))
    tasks = base["tasks"]

    def with_teachers(teachers: dict[str, Any], **mood: Any) -> dict[str, Any]:
        return {**base, "teachers": teachers, "tasks": {**tasks, "mood": {**tasks["mood"], **mood}}}

    two = {"0": "bad", "1": "bad", "2": "good", "3": "good"}
    assert refusal(with_teachers({"mood": str(tmp_path / "nowhere")})) == "no-teacher"
    assert refusal(with_teachers({"mood": given["near"]})) == "teacher-does-not-fit"
    assert refusal(with_teachers(given, labels=two)) == "teacher-does-not-fit"
    assert refusal(with_teachers({"near": given["near"]}, unlabelled="mood.csv")) == "no-teacher"
    score = {**tasks["near"], "loss": "cosent"}
    assert refusal({**base, "teachers": given, "tasks": {**tasks, "near": score}}) == "cannot-be-taught"
    with pytest.raises(UserError, match="no task 'moood'"):
        load_recipe({**base, "teachers": {"moood": given["mood"]}})
    shutil.copytree(given["mood"][0], tmp_path / "begun")
    (tmp_path / "begun" / "metrics.json").unlink()
    assert refusal(with_teachers({"mood": str(tmp_path / "begun")})) == "unfinished-teacher"
    ordinal = assembled(with_teachers({"mood": str(tmp_path / "begun" / "best")}, kind="ordinal"))
    assert ordinal.teaching is not None, "a model folder is enough, and a classification may teach an order"


def assembled(recipe: dict[str, Any]) -> Setup:
    return assemble(load_recipe(recipe), Reporter(quiet=True))


@pytest.mark.slow
def test_a_fold_without_a_teacher_and_a_run_that_has_changed_are_refused(
    distilled: Path, toy_encoder: Path, tmp_path: Path
) -> None:
    shutil.copytree(distilled / "runs" / "toy-teachers" / "mood-0", tmp_path / "teacher")
    model_file = tmp_path / "teacher" / "best" / "manyheads.json"
    content = json.loads(model_file.read_text())
    folds = load_tasks(load_recipe(settings(distilled, toy_encoder)))["mood"].folds
    left_out = folds.without(Fold(number=1, of=2)).to_json()
    content["about"]["left_out"] = {"mood": left_out}
    model_file.write_text(json.dumps(content))
    one_fold = settings(distilled, toy_encoder, teachers={"mood": str(tmp_path / "teacher")})
    assert refusal(one_fold) == "rows-without-teacher"
    content["about"] = {"run": "a run that extends it", "extends": {"tasks": ["mood"], **content["about"]}}
    model_file.write_text(json.dumps(content))
    assert refusal(one_fold) == "rows-without-teacher", "what a model keeps of another has left it out still"
    content["about"] = content["about"]["extends"]
    for texts, code in (("of other rows", "teacher-does-not-fit"), (None, "damaged-model")):
        content["about"]["left_out"]["mood"] = {**left_out, "texts": texts} if texts else {"number": 1, "of": 2}
        model_file.write_text(json.dumps(content))
        assert refusal(one_fold) == code
    with pytest.raises(UserError) as fault:
        distill(settings(distilled, toy_encoder, seed=0, evaluate={"max_examples": 2}), quiet=True)
    assert fault.value.code == "run-changed"
    shutil.copytree(distilled / "runs" / "toy", tmp_path / "toy")  # which no distillation has begun there
    with pytest.raises(UserError) as fault:
        distill(settings(distilled, toy_encoder, output=str(tmp_path)), quiet=True)
    assert fault.value.code == "run-exists"
    assert not (tmp_path / "toy-teachers").exists(), "it is said before any teacher is trained"
    output = str(distilled / "runs" / "toy-teachers")
    itself = settings(distilled, toy_encoder, name="mood-0", output=output, teachers=teachers_of(distilled))
    for command in (train, distill):
        with pytest.raises(UserError) as fault:
            command(itself, overwrite=True, quiet=True)
        assert fault.value.code == "overwrites-teacher"
    assert (distilled / "runs" / "toy-teachers" / "mood-0" / "best").is_dir()


@pytest.mark.slow
def test_a_run_without_teachers_is_not_taken_for_the_student(
    distilled: Path, toy_encoder: Path, tmp_path: Path
) -> None:
    shutil.copytree(distilled / "runs", tmp_path / "runs")
    recipe = settings(distilled, toy_encoder, output=str(tmp_path / "runs"), teachers=teachers_of(distilled))
    distill(recipe, overwrite=True, quiet=True)
    distill(recipe, quiet=True)  # which is finished
    train(settings(distilled, toy_encoder, output=str(tmp_path / "runs")), overwrite=True, quiet=True)
    with pytest.raises(UserError) as fault:
        distill(recipe, quiet=True)
    assert fault.value.code == "run-changed"


@pytest.mark.slow
def test_teachers_are_known_by_what_they_are_and_not_by_where_they_lie(
    distilled: Path, toy_encoder: Path, tmp_path: Path
) -> None:
    given = teachers_of(distilled)
    shutil.copytree(given["mood"][0], tmp_path / "moved")

    def identity(*teachers: str, **changes: Any) -> str:
        return run_identity(load_recipe(settings(distilled, toy_encoder, teachers={"mood": [*teachers]}, **changes)))

    first = identity(given["mood"][0])
    assert identity(str(tmp_path / "moved")) == first
    assert identity(str(tmp_path / "moved" / "best")) == first
    assert identity(given["mood"][0], distill={"seeds": 7, "folds": 3}) == first, "which only the command reads"
    others = [identity(given["mood"][1]), identity(*given["mood"]), identity(given["mood"][0], distill={"gold": 0.5})]
    plain = run_identity(load_recipe(settings(distilled, toy_encoder)))
    assert len({first, plain, *others}) == 5
