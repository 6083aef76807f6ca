"""Averages of runs: the mean itself, what is chosen and fitted on which rows, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file, save_file

import manyheads
from command import check_refused
from command import manyheads as command
from conftest import toy_settings, write_toy_data
from manyheads import Predictor, Run, UserError, average, load_recipe, train
from manyheads.console import Reporter
from manyheads.encoder.toy import write_toy_encoder
from manyheads.model.folder import load_model, save_model
from manyheads.training.setup import assemble
from manyheads.training.soup_models import add_weights, mean_weights
from run_files import last_checkpoint, log_of

pytestmark = pytest.mark.slow
TASKS = {
    "mood": {"train": "mood.csv", "pooling": "mean"},
    "near": {"train": "near.tsv", "range": [0, 5], "pooling": "mean"},
}
TRAINING = {"epochs": 1, "max_steps": 4, "batch_size": 8, "learning_rate": 1e-3, "probe": True, "conflicts": 0}
UNPROBED = {**TRAINING, "max_steps": 1, "probe": False}
SELECT = {"select": 0.25, "calibrate": True}
RANDOM = {"evaluate": {"select": None, "calibrate": True}}
WEIGHTS = ("model.safetensors", "heads.safetensors")
Trained = Callable[..., Path]


def write_noisy_data(folder: Path) -> Path:
    """The toy tasks with some wrong labels: no model is right everywhere, or as sure as it should be."""
    write_toy_data(folder)
    lines = (folder / "mood.csv").read_text().splitlines()
    for number in range(1, len(lines), 6):
        lines[number] = lines[number][:-1] + str(number % 4)
    (folder / "mood.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def trained(toy_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Trains a variant of one recipe, once; returns its run folder."""
    data = write_noisy_data(tmp_path_factory.mktemp("soup"))
    finished: dict[str, Path] = {}

    def make(name: str, **changes: Any) -> Path:
        if name not in finished:
            base = {"tasks": TASKS, "training": TRAINING, "evaluate": SELECT, "checkpoint": {"best_per_task": False}}
            recipe = {**toy_settings(data, toy_encoder), **base, "name": name, **changes}
            finished[name] = train(load_recipe(recipe), quiet=True).folder
        return finished[name]

    return make


@pytest.fixture(scope="module")
def runs(trained: Trained) -> list[Path]:
    """Three seeds; each keeps its checkpoints. best/ is the last: of tasks so small the probed start may be best."""
    checkpoint = {"best_per_task": False, "every_steps": 1, "keep": 3}
    folders = [trained(f"seed-{seed}", seed=seed, checkpoint=checkpoint) for seed in range(3)]
    for folder in folders:
        model, about = load_model(folder / "best")
        model.load_state_dict(last_checkpoint(folder, "model.safetensors"))
        save_model(folder / "best", model, folder / "best", about)
    return folders


def copy_of(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder))


# --- the mean ---------------------------------------------------------------------------------------------------


def test_the_mean_is_rounded_once() -> None:
    """1 + 2⁻²⁴ is 1 in float32, so a sum in float32 would lose both small numbers; float64 keeps 1 + 2⁻²³."""
    weights = [{"w": torch.tensor([value], dtype=torch.float32)} for value in (1.0, 2.0**-24, 2.0**-24, 0.0)]
    sums: dict[str, torch.Tensor] = {}
    for states in weights:
        sums = add_weights(sums, states)
    mean = mean_weights(sums, 4, weights[0])["w"]
    assert mean.dtype == torch.float32
    assert mean.item() == (1 + 2.0**-23) / 4


def test_uniform_is_the_float64_mean(runs: list[Path], tmp_path: Path) -> None:
    soup = average(runs[:2], tmp_path / "soup")
    assert (soup.method, soup.models, soup.left_out, soup.notes) == ("uniform", [str(run) for run in runs[:2]], [], [])
    changed = 0
    for file in WEIGHTS:
        first, second = (load_file(run / "best" / file) for run in runs[:2])
        found = load_file(tmp_path / "soup" / file)
        assert found.keys() == first.keys()
        for name, tensor in found.items():
            expected = (first[name].numpy().astype(np.float64) + second[name].numpy().astype(np.float64)) / 2
            assert np.array_equal(tensor.numpy(), expected.astype(np.float32)), name
            changed += not torch.equal(tensor, first[name])
    assert changed > 5


@pytest.mark.parametrize("greedy", [False, True])
def test_a_run_with_itself_is_that_run(greedy: bool, runs: list[Path], toy_encoder: Path, tmp_path: Path) -> None:
    average([runs[0]] * 2, tmp_path / "soup", greedy=greedy)
    for file in (*WEIGHTS, "config.json", "tokenizer.json"):
        assert (tmp_path / "soup" / file).read_bytes() == (runs[0] / "best" / file).read_bytes()
    saved = [json.loads((folder / "manyheads.json").read_text()) for folder in (tmp_path / "soup", runs[0] / "best")]
    assert saved[0]["tasks"] == saved[1]["tasks"], "with its calibration"
    texts, pairs = ["the film was good", "a dull book"], [("a man plays", "a man sleeps")]
    opened = [Predictor.open(folder) for folder in (tmp_path / "soup", runs[0] / "best")]
    assert opened[0].predict("mood", texts) == opened[1].predict("mood", texts)
    assert opened[0].predict("near", pairs) == opened[1].predict("near", pairs)


def test_the_checkpoints_of_one_run(runs: list[Path], tmp_path: Path) -> None:
    folders = sorted((runs[0] / "checkpoints").glob("step-*"))
    assert [folder.name for folder in folders] == ["step-00000002", "step-00000003", "step-00000004"]
    soup = average(runs[0], tmp_path / "soup", checkpoints=True)
    assert len(soup.models) == 3
    kept = [load_file(folder / "model.safetensors") for folder in folders]
    found = load_model(tmp_path / "soup")[0].state_dict()
    assert found.keys() == kept[0].keys()
    for name, tensor in found.items():
        expected = sum(states[name].numpy().astype(np.float64) for states in kept) / 3
        assert np.array_equal(tensor.numpy(), expected.astype(np.float32)), name


# --- what it is chosen, calibrated and measured on ----------------------------------------------------------------


def test_greedy_is_never_below_the_best_alone(runs: list[Path], tmp_path: Path) -> None:
    soup = average(runs, tmp_path / "soup", greedy=True)
    assert soup.selection is not None
    alone = [step.alone for step in soup.tried]
    assert alone == sorted(alone, reverse=True)
    assert soup.selection["overall"] >= alone[0]
    best = alone[0]
    for step in soup.tried[1:]:
        assert step.taken == (step.in_mean >= best)
        best = max(best, step.in_mean) if step.taken else best
    assert [step.model for step in soup.tried if step.taken] == soup.models
    assert soup.selection["overall"] == pytest.approx(best)


def test_greedy_leaves_out_what_spoils_the_mean(runs: list[Path], tmp_path: Path) -> None:
    """The third model answers the opposite, loudly."""
    spoiled = copy_of(runs[2], tmp_path / "spoiled")
    model, about = load_model(spoiled / "best")
    with torch.no_grad():
        for parameter in model.heads.parameters():
            parameter.mul_(-20)
    save_model(spoiled / "best", model, spoiled / "best", about)
    soup = average([spoiled, *runs[:2]], tmp_path / "greedy", greedy=True)
    assert str(spoiled) in soup.left_out
    assert not soup.tried[-1].taken
    uniform = average([spoiled, *runs[:2]], tmp_path / "uniform")
    assert uniform.selection is not None
    assert soup.selection is not None
    assert uniform.selection["overall"] < soup.selection["overall"]


def test_it_is_a_model_folder_like_any_other(runs: list[Path], tmp_path: Path) -> None:
    """Calibrated on the held-out rows, measured on dev, which `evaluate` of a run with these files measures too."""
    soup = average(runs, tmp_path / "soup")
    predictor = Predictor.open(tmp_path / "soup")
    assert predictor.task("mood").temperature != 1.0
    assert predictor.about["average"]["models"] == [str(run) for run in runs]
    assert predictor.about["dev"] == soup.dev
    assert soup.singles == {str(run): Run(run).metrics["dev"] for run in runs}
    as_run = copy_of(runs[0], tmp_path / "as-run")
    shutil.rmtree(as_run / "best")
    shutil.copytree(tmp_path / "soup", as_run / "best")
    evaluated = Run(as_run).evaluate(split="dev")
    assert soup.dev is not None
    assert soup.dev["overall"] == pytest.approx(evaluated.overall, abs=1e-6)
    assert soup.selection is not None
    assert soup.selection["examples"] == log_of(runs[0], "evaluate")[-1]["examples"], "all rows that were held out"


def test_the_command(runs: list[Path], tmp_path: Path) -> None:
    result = command("average", *runs, "--to", tmp_path / "soup", "--greedy")
    assert result.returncode == 0, result.stderr
    assert all(word in result.stdout for word in ("average", "seed-0", "seed-1", "seed-2", "pearson", "overall"))
    assert result.stderr.count("in the mean: ") == 3
    predicted = command("predict", tmp_path / "soup", "--task", "mood", "--text", "the film was good")
    assert predicted.returncode == 0, predicted.stderr
    check_refused(command("average", *runs, "--to", tmp_path / "soup"), "exists already", "[folder-exists]")


@pytest.mark.parametrize("fault", ["missing-file", "changed-data"])
def test_data_that_is_gone(fault: str, trained: Trained, runs: list[Path], tmp_path: Path) -> None:
    """A uniform average needs none; it is then not calibrated, and says so. A greedy one cannot be chosen."""
    file = Path(Run(runs[0]).recipe.data.root or "") / "mood.csv"
    content = file.read_text()
    if fault == "missing-file":
        file.unlink()
    else:
        file.write_text(content.replace("good", "fine"))
    try:
        soup = average(runs, tmp_path / "soup")
        with pytest.raises(UserError) as refusal:
            average(runs, tmp_path / "greedy", greedy=True)
    finally:
        file.write_text(content)
    assert refusal.value.code == fault
    assert not (tmp_path / "greedy").exists()
    assert (soup.selection, soup.dev) == (None, None)
    assert "neither calibrated nor measured" in soup.notes[0]
    assert Predictor.open(tmp_path / "soup").task("mood").temperature == 1.0


def random_pair(trained: Trained) -> list[Path]:
    """Two learning rates from the same random heads, chosen on dev."""
    return [trained(f"random-{rate}", **RANDOM, training={**UNPROBED, "learning_rate": rate}) for rate in (1e-3, 1e-4)]


def test_dev_chooses_and_calibrates_nothing(trained: Trained, tmp_path: Path) -> None:
    """Runs without rows held out of train chose on dev themselves: an average of them does not."""
    pair = random_pair(trained)
    soup = average(pair, tmp_path / "soup")
    assert soup.selection is None
    assert soup.dev is not None
    assert any(note.startswith("mood: not calibrated") for note in soup.notes)
    check_code("no-selection-split", pair, tmp_path, greedy=True)


def test_it_remembers_the_fold_that_its_runs_were_trained_without(trained: Trained, tmp_path: Path) -> None:
    """As a teacher it predicts the rows of that fold alone, as each of its runs does."""
    mood = {**TASKS["mood"], "without_fold": {"number": 1, "of": 2}}
    changes: dict[str, Any] = {**RANDOM, "tasks": {**TASKS, "mood": mood}}
    pair = [trained(f"fold-{rate}", **changes, training={**UNPROBED, "learning_rate": rate}) for rate in (1e-3, 1e-4)]
    average(pair, tmp_path / "soup")
    left_out = Predictor.open(tmp_path / "soup").about["left_out"]
    assert left_out == Run(pair[0]).about["left_out"]
    student = yaml.safe_load((pair[0] / "recipe.yaml").read_text())
    student["tasks"]["mood"]["without_fold"] = None
    with pytest.raises(UserError) as refusal:
        assemble(load_recipe({**student, "teachers": {"mood": str(tmp_path / "soup")}}), Reporter(quiet=True))
    assert refusal.value.code == "rows-without-teacher"


# --- what is refused --------------------------------------------------------------------------------------------


def check_code(code: str, runs: list[Path], folder: Path, **options: Any) -> str:
    with pytest.raises(UserError) as refusal:
        average(runs, folder / "refused", **options)
    assert refusal.value.code == code
    assert not (folder / "refused").exists()
    return str(refusal.value)


VARIANTS: dict[str, dict[str, Any]] = {
    "other-tasks": {"tasks": {"mood": TASKS["mood"]}},
    "other-labels": {"tasks": {**TASKS, "mood": {**TASKS["mood"], "labels": ["3", "2", "1", "0"]}}},
    "other-parts": {"tasks": {**TASKS, "mood": {**TASKS["mood"], "head": {"name": "linear", "dropout": 0.3}}}},
    "other-orders": {"tasks": {**TASKS, "near": {**TASKS["near"], "symmetric": True, "both_orders": True}}},
    "other-data": {"evaluate": {**SELECT, "select": 0.3}},
}
CODES = {"other-orders": "other-parts"}  # of the others the name is the code


@pytest.mark.parametrize("variant", VARIANTS)
def test_runs_that_differ_are_refused(variant: str, trained: Trained, runs: list[Path], tmp_path: Path) -> None:
    other = trained(variant, training=UNPROBED, **VARIANTS[variant])
    message = check_code(CODES.get(variant, variant), [runs[0], other], tmp_path)
    assert str(other) in message


@pytest.mark.parametrize("code", ["other-encoder", "other-start"])
def test_another_encoder_is_refused(
    code: str, trained: Trained, runs: list[Path], toy_encoder: Path, tmp_path: Path
) -> None:
    if code == "other-encoder":
        encoder = write_toy_encoder(tmp_path / "encoder", num_attention_heads=2)  # tensors of the same shapes
    else:
        encoder = Path(shutil.copytree(toy_encoder, tmp_path / "encoder"))
        weights = load_file(encoder / "model.safetensors")
        weights = {name: tensor * 1.001 for name, tensor in weights.items()}
        save_file(weights, encoder / "model.safetensors", {"format": "pt"})
    check_code(code, [runs[0], trained(code, encoder=str(encoder), training=UNPROBED)], tmp_path)


def test_random_heads_share_their_start_with_the_same_seed_alone(trained: Trained, tmp_path: Path) -> None:
    """Heads that no probe solves begin with the same weights where the seed is the same, whatever else differs."""
    pair = random_pair(trained)
    assert len(average(pair, tmp_path / "soup").models) == 2
    check_code("other-heads", [pair[0], trained("reseeded", **RANDOM, training=UNPROBED, seed=1)], tmp_path)


def test_a_run_that_did_not_record_its_start(runs: list[Path], tmp_path: Path) -> None:
    old = copy_of(runs[1], tmp_path / "old")
    lines = (old / "log.jsonl").read_text().splitlines(keepends=True)
    kept = [line for line in lines if '"start weights"' not in line]
    assert len(kept) == len(lines) - 1
    (old / "log.jsonl").write_text("".join(kept))
    soup = average([runs[0], old], tmp_path / "soup")
    assert soup.notes == [f"{old}: its log does not say which weights it began with; its recipe is believed"]
    recipe = (old / "recipe.yaml").read_text()
    (old / "recipe.yaml").write_text(recipe.replace("init: null", f"init: {runs[2]}"))
    check_code("other-start", [runs[0], old], tmp_path)


def test_too_few_unfinished_and_contradictory(runs: list[Path], tmp_path: Path) -> None:
    check_code("too-few-models", runs[:1], tmp_path)
    check_code("conflicting-options", runs[:2], tmp_path, checkpoints=True)
    check_code("not-a-run", [runs[0], runs[1] / "best"], tmp_path)
    cut = copy_of(runs[0], tmp_path / "cut")
    shutil.rmtree(cut / "checkpoints" / "step-00000002")
    shutil.rmtree(cut / "checkpoints" / "step-00000003")
    check_code("too-few-models", [cut], tmp_path, checkpoints=True)
    (cut / "metrics.json").unlink()
    check_code("unfinished-run", [runs[1], cut], tmp_path)
    assert manyheads.average is average
    (tmp_path / "file").touch()
    check_code("not-writable", runs, tmp_path / "file")
