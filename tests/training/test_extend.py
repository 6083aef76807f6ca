"""Tasks are added to a trained model: what it had stays byte for byte, and predicts what it predicted."""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from command import check_refused, manyheads
from conftest import made_once, toy_settings, write_toy_data
from manyheads import Predictor, Run, UserError, extend, load_recipe, resume, train
from manyheads.config.load import load_run_recipe
from manyheads.console import Reporter
from manyheads.encoder.toy import WORDS, write_toy_encoder
from manyheads.model.folder import load_model
from manyheads.pretraining import pretrain
from manyheads.runs.served import read_sources
from manyheads.studies.identity import run_identity
from manyheads.training.gradients.backward import Backward
from manyheads.training.setup import assemble

SENTENCES = ["the film was dull", "a great book 7", "one dog runs", "the tea was good and the dog was not"]
PAIRS = [("a man plays 3", "a man sleeps"), ("one dog runs", "the film was great")]
OLD_TASKS = {
    "mood": {"train": "mood.csv", "pooling": "shared-pooler"},
    "near": {"train": "near.tsv", "range": [0, 5], "encoding": "bi-shared"},
}
NEW_TASKS = {"topic": {"train": "topic.csv"}, "alike": {"train": "alike.csv", "kind": "classification"}}


@pytest.fixture(scope="session")
def extended_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs/first, which has two tasks, and runs/second, which adds two more; the first one's data is
    gone before the second is trained."""

    def make(folder: Path) -> None:
        write_new_data(folder)
        write_toy_encoder(folder / "encoder")
        settings = toy_settings(write_toy_data(folder), folder / "encoder")
        settings |= {"name": "first", "tasks": OLD_TASKS}
        settings["encoder"] = {"name": str(folder / "encoder"), "max_length": 24}
        train(settings, quiet=True)
        for file in ("mood.csv", "near.tsv"):
            (folder / file).unlink()
        shutil.rmtree(folder / "encoder")
        extend(folder / "runs" / "first", new_recipe(folder, name="second"), quiet=True)

    return made_once(tmp_path_factory, "extended-runs", make)


@pytest.fixture
def runs(extended_runs: Path, tmp_path: Path) -> Path:
    """A copy of its own for tests that write there."""
    copied = Path(shutil.copytree(extended_runs, tmp_path / "extended"))
    recipe = copied / "runs" / "second" / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace(str(extended_runs), str(copied)))
    return copied


def write_new_data(folder: Path) -> None:
    """Two tasks that nobody has trained yet: 40 sentences with a topic, 30 pairs."""
    topics = ["film", "food", "sport"]
    rows = [f"the {WORDS[2 + i % 3]} and a {WORDS[5 + i % 7]} {i},{topics[i % 3]}" for i in range(40)]
    (folder / "topic.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    pairs = [f"a man plays {i},a man {['plays', 'sleeps'][i % 2]},{['yes', 'no'][i % 2]}" for i in range(30)]
    (folder / "alike.csv").write_text("sentence1,sentence2,label\n" + "\n".join(pairs) + "\n")


def new_recipe(folder: Path, **changes: Any) -> dict[str, Any]:
    """The toy recipe of the new tasks, which names no encoder."""
    settings = toy_settings(folder, folder) | {"tasks": NEW_TASKS, **changes}
    if "encoder" not in changes:
        del settings["encoder"]
    return settings


def sha256_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def saved_tasks(model: Path) -> dict[str, Any]:
    return {task["name"]: task for task in json.loads((model / "manyheads.json").read_text())["tasks"]}


def check_keeps(old: Path, new: Path) -> None:
    """Every file of encoder and tokenizer, every tensor of the old heads and every old task is the same."""
    for file in old.iterdir():
        if file.name not in ("heads.safetensors", "manyheads.json", "checksums.json"):
            assert sha256_of(new / file.name) == sha256_of(file), file.name
    old_heads, new_heads = load_file(old / "heads.safetensors"), load_file(new / "heads.safetensors")
    for name, tensor in old_heads.items():
        assert new_heads[name].dtype == tensor.dtype, name
        assert new_heads[name].numpy().tobytes() == tensor.numpy().tobytes(), name
    for name, task in saved_tasks(old).items():
        assert saved_tasks(new)[name] == task
    before, after = (json.loads((model / "manyheads.json").read_text()) for model in (old, new))
    assert (before["max_length"], before["trained_pooling"]) == (after["max_length"], after["trained_pooling"])


# --- what stays -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_old_tensors_files_and_tasks_stay_byte_for_byte(extended_runs: Path) -> None:
    first, second = extended_runs / "runs" / "first" / "best", extended_runs / "runs" / "second"
    assert sorted(path.name for path in second.glob("best*")) == ["best", "best-alike", "best-topic"]
    for model in second.glob("best*"):
        check_keeps(first, model)
        assert list(saved_tasks(model)) == ["mood", "near", "topic", "alike"]
    new_heads = {name for name in load_file(second / "best" / "heads.safetensors") if "topic" in name}
    assert new_heads


@pytest.mark.slow
@pytest.mark.numeric
def test_old_tasks_predict_bit_for_bit_what_they_predicted(extended_runs: Path) -> None:
    before = Predictor.open(extended_runs / "runs" / "first" / "best")
    after = Predictor.open(extended_runs / "runs" / "second" / "best")
    assert after.predict("mood", SENTENCES) == before.predict("mood", SENTENCES)
    assert after.predict("near", PAIRS) == before.predict("near", PAIRS)
    assert np.array_equal(after.embed(SENTENCES), before.embed(SENTENCES))


@pytest.mark.slow
@pytest.mark.numeric
def test_beside_new_tasks_old_ones_predict_the_same_but_for_rounding(extended_runs: Path) -> None:
    """One packed pass has the inputs of all four tasks, so sums are taken in another order."""
    before, _ = load_model(extended_runs / "runs" / "first" / "best")
    after, _ = load_model(extended_runs / "runs" / "second" / "best")
    batches = []
    for name, task in after.tasks.items():
        texts = list(zip(*PAIRS, strict=True)) if task.pair else [SENTENCES]
        batches.append((name, inputs_of(after, name, texts)))
    with torch.no_grad():
        together = dict(zip(after.tasks, after(batches), strict=True))
        for name, inputs in batches[:2]:
            (alone,) = before([(name, inputs)])
            assert (together[name] - alone).abs().max() <= 1e-5
    described = Run(extended_runs / "runs" / "second").predict_all(SENTENCES)
    assert list(described) == ["mood", "topic"]


def inputs_of(model: Any, task: str, texts: Any) -> Any:
    from manyheads.storage.strings import Strings
    from manyheads.tokens.column import tokenise_once

    columns = tuple(tokenise_once(Strings.of(list(column)), model.tokenizer) for column in texts)
    return [model.inputs(task, columns, row) for row in range(len(texts[0]))]


# --- a run like any other ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_run_evaluates_reports_and_serves(extended_runs: Path) -> None:
    first, second = Run(extended_runs / "runs" / "first"), Run(extended_runs / "runs" / "second")
    metrics = second.metrics
    assert set(metrics["dev"]["metrics"]) == set(metrics["majority"]["metrics"]) == {"topic", "alike"}
    scores = second.evaluate()
    assert scores.metrics == metrics["dev"]["metrics"]
    assert scores.overall == pytest.approx(metrics["dev"]["overall"])
    assert set(scores.unmeasured) == {"mood", "near"}
    with pytest.raises(UserError) as refusal:
        second.evaluate(task="mood")
    assert refusal.value.code == "nothing-to-evaluate"
    assert second.about["run"] == "second"
    assert second.about["extends"] == {"tasks": ["mood", "near"], **first.about}
    assert [task["name"] for task in json.loads((second.folder / "tasks.json").read_text())] == ["topic", "alike"]
    (source,) = read_sources([str(second.folder)])
    assert list(source.open().tasks) == ["mood", "near", "topic", "alike"]


@pytest.mark.slow
@pytest.mark.numeric
def test_killed_and_resumed_without_the_extended_run(
    runs: Path, extended_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Exception):
        pass

    real, calls = Backward.step, []

    def step(*given: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 8:
            raise Killed
        return real(*given, **more)

    cut = new_recipe(runs, name="second", checkpoint={"every_steps": 1}, output=str(runs / "again"))
    with monkeypatch.context() as patch:
        patch.setattr(Backward, "step", step)
        with pytest.raises(Killed):
            extend(runs / "runs" / "first", cut, quiet=True)
    check_keeps(runs / "runs" / "first" / "best", runs / "again" / "second" / "best")
    (runs / "runs" / "first").rename(runs / "elsewhere")
    resumed = resume(runs / "again" / "second", quiet=True)
    left = extended_runs / "runs" / "second"
    for file in ("best/heads.safetensors", "best/model.safetensors", "best/manyheads.json", "dev.safetensors"):
        assert sha256_of(resumed.folder / file) == sha256_of(left / file), file


@pytest.mark.slow
def test_a_resumed_run_finds_the_extended_model_in_its_own(extended_runs: Path) -> None:
    second = extended_runs / "runs" / "second"
    recipe = load_run_recipe(second / "recipe.yaml")
    kept, kept_again = (assemble(recipe, Reporter(quiet=True), resumed).model.earlier for resumed in (None, second))
    assert kept is not None
    assert kept_again is not None
    assert kept_again.folder == second / "best"
    assert replace(kept, folder=second / "best", heads={}) == replace(kept_again, heads={})
    assert kept.fingerprint() == kept_again.fingerprint()


@pytest.mark.slow
def test_a_run_is_not_resumed_on_another_model(runs: Path) -> None:
    second = runs / "runs" / "second"
    (second / "metrics.json").unlink()
    for model in second.glob("best*"):
        shutil.rmtree(model)
    change_head(runs / "runs" / "first" / "best")
    with pytest.raises(UserError) as refusal:
        resume(second, quiet=True)
    assert refusal.value.code == "data-changed"
    assert "the model that it extends" in str(refusal.value)


def change_head(model: Path) -> None:
    """Another model, and a sound one."""
    heads = load_file(model / "heads.safetensors")
    heads = {name: tensor + 1 for name, tensor in heads.items()}
    save_file(heads, model / "heads.safetensors")
    sums = json.loads((model / "checksums.json").read_text())
    sums["heads.safetensors"] = sha256_of(model / "heads.safetensors")
    (model / "checksums.json").write_text(json.dumps(sums))


@pytest.mark.slow
def test_extended_twice_from_a_model_folder(extended_runs: Path, runs: Path) -> None:
    """By the command, from a copy of best/ that lies alone; with today's defaults, which solve heads first."""
    copied = Path(shutil.copytree(extended_runs / "runs" / "second" / "best", runs / "copied"))
    recipe = runs / "third.yaml"
    theme = {"theme": {"train": "topic.csv"}}
    recipe.write_text(json.dumps(new_recipe(runs, name="third", tasks=theme, defaults=None)))
    result = manyheads("extend", copied, recipe, "training.max_steps=2")
    assert result.returncode == 0, result.stderr
    assert "its tasks stay as they are (mood, near, topic, alike)" in result.stderr
    assert set(Run(runs / "runs" / "third").metrics["frozen"]["metrics"]) == {"theme"}
    third = runs / "runs" / "third" / "best"
    check_keeps(extended_runs / "runs" / "second" / "best", third)
    check_keeps(extended_runs / "runs" / "first" / "best", third)
    about = json.loads((third / "manyheads.json").read_text())["about"]
    assert [about["run"], about["extends"]["run"], about["extends"]["extends"]["run"]] == ["third", "second", "first"]
    before, after = Predictor.open(extended_runs / "runs" / "first" / "best"), Predictor.open(third)
    assert after.predict("near", PAIRS) == before.predict("near", PAIRS)


# --- the recipe -------------------------------------------------------------------------------------------------------


def test_what_the_recipe_leaves_open_is_the_models(saved_model: Path, tmp_path: Path) -> None:
    recipe = load_recipe(new_recipe(tmp_path, extends=str(saved_model)))
    assert recipe.encoder.name == str(saved_model)
    assert recipe.encoder.max_length == json.loads((saved_model / "manyheads.json").read_text())["max_length"]
    assert recipe.training.trainable == "heads"


def test_the_identity_is_the_models_content(model_folder: Path, tmp_path: Path) -> None:
    write_new_data(tmp_path)
    copied = Path(shutil.copytree(model_folder, tmp_path / "elsewhere"))
    here, there = (new_recipe(tmp_path, extends=str(folder)) for folder in (model_folder, copied))
    assert run_identity(load_recipe(here)) == run_identity(load_recipe(there))
    (copied / "manyheads.json").write_text((copied / "manyheads.json").read_text() + "\n")
    assert run_identity(load_recipe(here)) != run_identity(load_recipe(there))


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"tasks": {"mood": {"train": "topic.csv"}}}, "extends-old-task"),
        ({"tasks": {"new": {"train": "alike.csv", "encoding": "bi-shared"}}}, "extends-old-layer"),
        ({"tasks": {"new": {"train": "topic.csv", "head_of": "mood"}}}, "extends-old-head"),
        ({"encoder": "toy"}, "extends-other-encoder"),
        ({"encoder": {"max_length": 8}}, "extends-other-length"),
        ({"training": {"trainable": "top-1"}}, "extends-trains-encoder"),
        ({"phases": [{"trainable": "heads"}, {"trainable": "all"}]}, "extends-trains-encoder"),
        ({"init": "runs/first"}, "extends-and-init"),
    ],
)
def test_what_would_change_the_model_is_refused(
    saved_model: Path, tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    write_new_data(tmp_path)
    with pytest.raises(UserError) as refusal:
        extend(saved_model, new_recipe(tmp_path, **changes), quiet=True)
    assert refusal.value.code == code
    assert not (tmp_path / "runs").exists()


def test_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError) as refusal:
        extend(tmp_path / "empty", new_recipe(tmp_path))
    assert refusal.value.code == "no-model"


def test_pretraining_extends_nothing(saved_model: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError) as refusal:
        pretrain(load_recipe(new_recipe(tmp_path, extends=str(saved_model))), quiet=True)
    assert refusal.value.code == "extends-not-allowed"


@pytest.mark.slow
def test_a_run_does_not_overwrite_the_one_that_it_extends(runs: Path) -> None:
    recipe = runs / "first.yaml"
    recipe.write_text(json.dumps(new_recipe(runs, name="first")))
    check_refused(manyheads("extend", runs / "runs" / "first", recipe, "--overwrite"), "overwrites-extended")
    assert (runs / "runs" / "first" / "best").is_dir()


@pytest.mark.slow
def test_plan_says_what_learns_and_check_says_what_is_refused(runs: Path) -> None:
    recipe = runs / "new.yaml"
    recipe.write_text(json.dumps(new_recipe(runs, extends="runs/first")))
    planned = manyheads("plan", recipe, "--no-time")
    assert planned.returncode == 0, planned.stderr
    assert "its tasks stay as they are (mood, near)" in planned.stderr
    assert "trains heads" in planned.stdout
    checked = manyheads("check", recipe, "tasks.mood.train=topic.csv")
    assert checked.returncode == 1, checked.stderr
    assert "Training would not start" in checked.stdout
    assert "has a task of this name" in checked.stdout


def test_a_model_that_changes_under_the_run_is_refused(model_folder: Path, tmp_path: Path) -> None:
    """Encoder and old heads of every saved model belong together."""
    from manyheads.model.earlier import EarlierModel

    earlier = EarlierModel(model_folder, {"config.json": "0" * 64}, {}, {}, {}, {})
    with pytest.raises(UserError) as refusal:
        earlier.copy_files(tmp_path)
    assert refusal.value.code == "extended-model-changed"
    (model_folder / "config.json").unlink()
    with pytest.raises(UserError) as refusal:
        earlier.copy_files(tmp_path)
    assert refusal.value.code == "extended-model-changed"
