"""The moving average of the weights: its formula, its place in checkpoints, its model folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from building import NUMBERS, a_task
from command import check_refused, manyheads
from manyheads import Run, load_recipe, train
from manyheads.config.part import PartConfig
from manyheads.inference.evaluate import Evaluation
from manyheads.reports.pages.run import describe_weights
from manyheads.runs.history import best_overall_entry, read_history
from manyheads.training.best_models import BestModels
from manyheads.training.weight_averaging import WeightAverage
from resuming import check_resumed
from run_files import last_checkpoint, log_of

ToyRecipe = Callable[..., dict[str, Any]]
RecipeFile = Callable[..., Path]
AVERAGED = {"epochs": 3, "batch_size": 8, "learning_rate": 1e-3, "average_weights": 0.9}


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.999])
def test_the_formula(decay: float) -> None:
    """θ̄ ← β_t·θ̄ + (1 − β_t)·θ with β_t = min(β, (1 + t)/(10 + t)), against float64."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    frozen = model.bias.detach().clone()
    expected = model.weight.detach().double()
    average = WeightAverage(model, decay)
    for step in range(40):
        with torch.no_grad():
            model.weight.add_(torch.randn_like(model.weight))
        average.update()
        beta = min(decay, (1 + step) / (10 + step))
        expected = beta * expected + (1 - beta) * model.weight.detach().double()
    assert torch.allclose(average.averages["weight"].double(), expected, atol=1e-5)
    assert torch.equal(average.averages["bias"], frozen), "what does not change is not touched by rounding"


def test_within_the_block_the_weights_are_the_averaged_ones() -> None:
    model = nn.Linear(3, 2)
    average = WeightAverage(model, 0.9)
    with torch.no_grad():
        model.weight.add_(1.0)
    average.update()
    raw, averaged = model.weight.detach().clone(), average.averages["weight"].clone()
    assert not torch.equal(raw, averaged)
    with average.applied():
        assert torch.equal(model.weight, averaged)
    assert torch.equal(model.weight, raw)
    assert torch.equal(average.averages["weight"], averaged)


@pytest.mark.slow
def test_it_changes_nothing_of_the_training(toy_recipe: ToyRecipe) -> None:
    plain = train(load_recipe(toy_recipe(name="plain", training={**AVERAGED, "average_weights": None})), quiet=True)
    averaged = train(load_recipe(toy_recipe(name="averaged", training=AVERAGED)), quiet=True)
    before, after = (last_checkpoint(run.folder, "model.safetensors") for run in (plain, averaged))
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    evaluations = [log_of(run.folder, "evaluate") for run in (plain, averaged)]
    for before_record, after_record in zip(*evaluations, strict=True):
        assert before_record["metrics"] == after_record["metrics"], "the raw weights' own"
    assert "weights" not in plain.metrics["model"]
    assert "averaged" not in plain.metrics
    assert not (plain.folder / "best-averaged").exists()


@pytest.mark.slow
def test_evaluated_logged_and_kept(toy_recipe: ToyRecipe) -> None:
    run = train(load_recipe(toy_recipe(training=AVERAGED)), quiet=True)
    records = log_of(run.folder, "evaluate")
    scores = [record["averaged"]["overall"] for record in records]
    assert any(record["averaged"]["losses"] != record["losses"] for record in records)
    kept = run.metrics["averaged"]["model"]
    assert kept["overall"] == max(scores)
    assert kept["step"] == records[scores.index(max(scores))]["step"]
    assert kept["average_weights"] == 0.9
    assert run.metrics["averaged"]["dev"]["metrics"].keys() == {"mood", "near"}
    last = last_checkpoint(run.folder, "average.safetensors")
    assert int(last["steps"]) == run.metrics["steps"]
    if kept["step"] == run.metrics["steps"]:
        heads = load_file(run.folder / "best-averaged" / "heads.safetensors")
        assert all(torch.equal(tensor, last[name]) for name, tensor in heads.items())
    check_best(run, "best", lambda evaluation: evaluation["overall"])
    check_best(run, "best-near", lambda evaluation: evaluation["metrics"]["near"]["pearson"])
    assert run.metrics["model"] == run.about
    if run.about["weights"] == "averaged":
        assert run.metrics["dev"] == run.metrics["averaged"]["dev"], "it is best-averaged/"


def check_best(run: Run, folder: str, score: Callable[[dict[str, Any]], float]) -> None:
    """A model folder has the better of both candidates, the raw weights where they are equal; the first of the best."""
    candidates = []
    for record in log_of(run.folder, "evaluate"):
        candidates += [(score(record), record["step"], "raw"), (score(record["averaged"]), record["step"], "averaged")]
    value, step, weights = max(candidates, key=lambda candidate: candidate[0])
    about = Run(run.folder, folder).about
    assert (about["step"], about["weights"]) == (step, weights)
    assert score(about) == value
    assert about.get("average_weights") == (0.9 if weights == "averaged" else None)


def evaluation(overall: float, near: float) -> Evaluation:
    return Evaluation({"near": {"pearson": near}}, overall, {"near": 5})


def test_the_better_of_two_candidates_is_kept() -> None:
    """Overall and for each task by itself; equal ones leave the raw weights, and what was there before."""
    best, near = BestModels(), {"near": a_task(name="near", labels=NUMBERS, metrics=(PartConfig(name="pearson"),))}
    assert best.update({"raw": evaluation(0.5, 0.5), "averaged": evaluation(0.5, 0.6)}, near, 1) == {
        "": "raw",
        "near": "averaged",
    }
    assert best.best[""] == {"value": 0.5, "step": 1, "weights": "raw"}
    assert best.best["near"] == {"value": 0.6, "step": 1, "weights": "averaged"}
    assert best.update({"raw": evaluation(0.4, 0.6), "averaged": evaluation(0.5, 0.6)}, near, 2) == {}
    assert best.evaluations_without_improvement == 1
    assert best.update({"raw": evaluation(0.6, 0.1), "averaged": evaluation(0.7, 0.1)}, near, 3) == {"": "averaged"}
    assert (best.best[""]["value"], best.evaluations_without_improvement) == (0.7, 0)
    assert best.update({"raw": evaluation(0.8, 0.1)}, {}, 4) == {"": "raw"}
    assert best.best[""] == {"value": 0.8, "step": 4}, "without averages nothing is said of them"


def test_the_history_knows_which_evaluation_chose_best() -> None:
    records = []
    for step, overall, averaged in ((1, 0.5, 0.7), (2, 0.6, 0.65), (3, 0.6, 0.7)):
        scores = {"metrics": {}, "overall": overall, "averaged": {"overall": averaged}}
        records.append({"event": "evaluate", "step": step, "epoch": 1, **scores})
    chosen = best_overall_entry(read_history(records))
    assert chosen is not None
    assert chosen["step"] == 1
    for record in records:
        del record["averaged"]
    assert (best_overall_entry(read_history(records)) or {})["step"] == 2


def test_the_report_says_which_weights_it_is_of() -> None:
    about = {"weights": "averaged", "step": 1200}
    assert describe_weights(about) == "best/ has the averaged weights of step 1,200 (training.average_weights)."
    assert describe_weights({"step": 1200}) == ""


@pytest.mark.slow
def test_the_average_begins_with_the_probed_heads(toy_recipe: ToyRecipe) -> None:
    training = {**AVERAGED, "epochs": 1, "max_steps": 1, "probe": True}
    run = train(load_recipe(toy_recipe(training=training)), quiet=True)
    before, _ = log_of(run.folder, "evaluate")
    assert before["step"] == 0
    assert before["averaged"]["losses"] == before["losses"]


@pytest.mark.slow
def test_resumed_is_as_if_never_stopped(toy_recipe: ToyRecipe, monkeypatch: pytest.MonkeyPatch) -> None:
    phases = [{"trainable": "all", "epochs": 1}, {"trainable": "heads", "epochs": 2}]  # the second reads kept states
    for at in (4, 7):
        check_resumed(toy_recipe, monkeypatch, at=at, training=AVERAGED, phases=phases)
        folder = Path(toy_recipe()["output"])
        straight, cut = (last_checkpoint(folder / name, "average.safetensors") for name in ("straight", "cut"))
        assert straight.keys() == cut.keys()
        assert all(torch.equal(tensor, cut[name]) for name, tensor in straight.items())
        for kept in ("best-averaged", "best"):
            best = [load_file(folder / name / kept / "model.safetensors") for name in ("straight", "cut")]
            assert all(torch.equal(tensor, best[1][name]) for name, tensor in best[0].items())
            about = [Run(folder / name, kept).about for name in ("straight", "cut")]
            assert {**about[0], "run": ""} == {**about[1], "run": ""}
        evaluations = [log_of(folder / name, "evaluate") for name in ("straight", "cut")]
        assert [one["averaged"] for one in evaluations[0]] == [one["averaged"] for one in evaluations[1]]
        for name in ("straight", "cut"):
            (folder / name).rename(folder / f"{name}-{at}")


@pytest.mark.slow
def test_kept_states_of_frozen_layers_are_not_those_of_averaged_weights(toy_recipe: ToyRecipe) -> None:
    phases = [{"trainable": "all", "epochs": 2}, {"trainable": "heads", "epochs": 2}]
    found = []
    for gigabytes in (0.0, 4.0):
        training = {**AVERAGED, "frozen_gigabytes": gigabytes}
        run = train(load_recipe(toy_recipe(name=f"kept-{gigabytes:g}", training=training, phases=phases)), quiet=True)
        found.append([record["averaged"]["losses"] for record in log_of(run.folder, "evaluate")])
    for computed, kept in zip(*found, strict=True):
        assert computed == pytest.approx(kept, abs=1e-4)


@pytest.mark.slow
def test_predict_from_the_averaged_model(recipe_file: RecipeFile, toy_data: Path) -> None:
    assert manyheads("train", recipe_file(training=AVERAGED), "-q").returncode == 0
    run = toy_data / "runs" / "toy"
    words = ("--task", "mood", "--text", "the film was good", "--json")
    raw, averaged = (manyheads("predict", run, *words, *more) for more in ((), ("--model", "best-averaged")))
    assert averaged.returncode == 0, averaged.stderr
    assert "probabilities" in averaged.stdout
    assert (raw.stdout == averaged.stdout) == (Run(run).about["weights"] == "averaged")


@pytest.mark.slow
def test_a_lost_averaged_model_is_made_anew(recipe_file: RecipeFile, toy_data: Path) -> None:
    assert manyheads("train", recipe_file(training=AVERAGED), "-q").returncode == 0
    run = toy_data / "runs" / "toy"
    (run / "metrics.json").unlink()
    shutil.rmtree(run / "best-averaged")
    resumed = manyheads("resume", run)
    assert resumed.returncode == 0, resumed.stderr
    assert "best-averaged is gone" in resumed.stderr
    metrics = Run(run).metrics
    assert f"best/: {metrics['model']['weights']} weights of step {metrics['model']['step']}" in resumed.stderr
    assert metrics["averaged"]["model"]["step"] == metrics["steps"], "only the last averaged weights are left"
    heads, last = load_file(run / "best-averaged" / "heads.safetensors"), last_checkpoint(run, "average.safetensors")
    assert all(torch.equal(tensor, last[name]) for name, tensor in heads.items())


@pytest.mark.slow
def test_a_checkpoint_without_averages_is_refused(recipe_file: RecipeFile, toy_data: Path) -> None:
    training = {**AVERAGED, "average_weights": None}
    assert manyheads("train", recipe_file(training=training), "-q").returncode == 0
    run = toy_data / "runs" / "toy"
    (run / "metrics.json").unlink()
    recipe = (run / "recipe.yaml").read_text()
    assert "average_weights: null" in recipe
    (run / "recipe.yaml").write_text(recipe.replace("average_weights: null", "average_weights: 0.9"))
    check_refused(manyheads("resume", run), "checkpoints/step-", "'average'", "[checkpoint-lacks-entry]")


@pytest.mark.parametrize("decay", [0, 1, 1.5, "much"])
def test_a_decay_is_between_0_and_1(decay: Any, recipe_file: RecipeFile) -> None:
    check_refused(manyheads("train", recipe_file(training={"average_weights": decay})), "training.average_weights")


@pytest.mark.slow
def test_a_task_may_not_take_its_folder(recipe_file: RecipeFile) -> None:
    file = recipe_file(tasks={"averaged": {"train": "mood.csv"}}, training=AVERAGED)
    for command in ("plan", "check", "train"):
        check_refused(manyheads(command, file), "tasks.averaged", "[task-name-taken]")
    file = recipe_file(tasks={"averaged": {"train": "mood.csv"}})
    assert manyheads("plan", file).returncode == 0, "without averaging it is a name like others"
