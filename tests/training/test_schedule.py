"""Phases: what each trains, when, at which rate; and that a run cut anywhere goes on to the same bits."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from command import check_refused, manyheads
from manyheads import load_recipe, train
from manyheads.console import Reporter
from manyheads.encoder.bert import Bert
from manyheads.model.folder import load_model
from manyheads.parts.samplers import SamplerInput
from manyheads.registry import parts
from manyheads.training.schedule import plan_schedule, set_trainable
from manyheads.training.setup import Setup, assemble
from manyheads.training.trainer import Trainer
from resuming import check_resumed

ToyRecipe = Callable[..., dict[str, Any]]
NO_RATE = 1e-30  # no weight moves by even its last bit, so no metric improves by rounding
TWO_PHASES = [
    {"name": "heads first", "epochs": 1, "trainable": "heads", "learning_rate": 2e-3, "warmup": 0},
    {"name": "all", "epochs": 2, "sampler": "proportional", "warmup": 0.5},
]


def log_of(folder: Path, event: str = "step") -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [one for one in records if one["event"] == event]


def assembled(settings: dict[str, Any]) -> Setup:
    return assemble(load_recipe(settings), Reporter(quiet=True))


# --- what a schedule says --------------------------------------------------------------------------------------


def test_phases_follow_each_other_with_their_own_lengths_and_rates() -> None:
    recipe = load_recipe(
        {
            "defaults": "0.1",
            "tasks": {"a": {"train": "a.csv"}, "b": {"train": "b.csv"}},
            "training": {"learning_rate": 1e-4, "warmup": 0.0, "epochs": 2},
            "phases": [
                {"tasks": ["b"], "epochs": 1, "learning_rate": 1e-2},
                {"steps": 7, "sampler": {"name": "batch-round-robin", "until": "smallest"}, "warmup": 0.5},
            ],
        }
    )
    flat = recipe.model_copy(
        update={"phases": [one.model_copy(update={"schedule": "constant"}) for one in recipe.phases or []]}
    )
    sampler_input = SamplerInput({"a": 12, "b": 20}, {"a": 4, "b": 4}, 0)
    assert [plan_schedule(flat, sampler_input).phases[0].rate_factor(step) for step in (0, 4)] == [1, 1]
    schedule = plan_schedule(recipe, sampler_input)
    assert [(phase.first, phase.epoch_ends) for phase in schedule.phases] == [(0, (5,)), (5, (8, 11, 12))]
    assert schedule.steps == 12, "seven steps: as many epochs of three rounds as it takes"
    assert {batch.task for batch in schedule.rounds(4)[0]} == {"b"}
    assert {batch.task for batch in schedule.rounds(5)[0]} == {"a", "b"}
    assert [schedule.phases[0].rate_factor(step) for step in (0, 4)] == pytest.approx([1, 1 / 5])
    rates = [schedule.phases[1].rate_factor(step) for step in range(5, 12)]
    assert rates == pytest.approx([1 / 5, 2 / 5, 3 / 5, 4 / 5, 3 / 3, 2 / 3, 1 / 3])
    assert [phase.peak for phase in schedule.phases] == [1e-2, 1e-4]
    assert [schedule.change_at(step).get("phase") for step in range(12)] == [
        "1", None, None, None, None, "2", None, None, "2", None, None, "2",
    ]  # fmt: skip


def test_steps_cut_a_phase_within_an_epoch_and_accumulation_rounds_up() -> None:
    recipe = load_recipe(
        {
            "defaults": "0.1",
            "tasks": {"a": {"train": "a.csv"}},
            "training": {"accumulate": 2},
            "phases": [{"epochs": 2, "steps": 5}, {"epochs": 1}],
        }
    )
    schedule = plan_schedule(recipe, SamplerInput({"a": 14}, {"a": 2}, 0))  # 7 rounds an epoch
    assert [phase.epoch_ends for phase in schedule.phases] == [(4, 5), (5 + 4,)]
    assert [len(schedule.rounds(step)) for step in (0, 4, 5, 8)] == [2, 2, 2, 1]


def test_evaluations_after_every_tasks_pass_by_hand() -> None:
    """7 and 3 rounds, two to a step: passes end in steps 4 and 5 (where the epoch does too), then 9 and 10."""
    recipe = load_recipe(
        {
            "tasks": {"a": {"train": "a.csv"}, "b": {"train": "b.csv"}},
            "sampler": "epoch-round-robin",
            "training": {"accumulate": 2, "epochs": 2},
            "evaluate": {"after": "task"},
        }
    )
    sampler_input = SamplerInput({"a": 14, "b": 6}, {"a": 2, "b": 2}, 0)
    schedule = plan_schedule(recipe, sampler_input)
    assert schedule.pass_ends == {4: "a", 5: "b", 9: "a", 10: "b"}
    assert schedule.epoch_ends == [5, 10]
    assert schedule.passes_over(9) == {"pass": "a", "passes": 3}
    assert schedule.passes_over(8) == {}
    by_epoch = recipe.model_copy(update={"evaluate": recipe.evaluate.model_copy(update={"after": "epoch"})})
    assert plan_schedule(by_epoch, sampler_input).pass_ends == {}


@pytest.mark.slow
def test_every_tasks_pass_is_evaluated_and_the_log_says_whose(recipe_file: Callable[..., Path], toy_data: Path) -> None:
    training = {"epochs": 2, "batch_size": 8, "learning_rate": 1e-3}
    file = recipe_file(training=training, evaluate={"after": "task"}, sampler="epoch-round-robin")
    result = manyheads("train", file, "-q")
    assert result.returncode == 0, result.stderr
    evaluations = log_of(toy_data / "runs" / "toy", "evaluate")
    assert [one["pass"] for one in evaluations] == ["mood", "near", "mood", "near"]
    assert [one["passes"] for one in evaluations] == [1, 2, 3, 4]
    assert [one["epoch"] for one in evaluations] == [1, 1, 2, 2]
    assert list(evaluations[0]["seen"]) == ["mood"], "the other task has not been trained yet"
    check_refused(
        manyheads("train", file, "sampler=batch-round-robin", "name=mixed"),
        "evaluate.after: no phase passes over one task after the other; take sampler 'epoch-round-robin'",
        "[no-passes]",
    )


def test_a_recipe_without_phases_is_one() -> None:
    recipe = load_recipe(
        {"defaults": "0.1", "tasks": {"a": {"train": "a.csv"}}, "training": {"epochs": 3, "max_steps": 4}}
    )
    schedule = plan_schedule(recipe, SamplerInput({"a": 8}, {"a": 4}, 0))
    assert (len(schedule.phases), schedule.epoch_ends, schedule.steps, schedule.uncut_steps) == (1, [2, 4], 4, 6)
    two = load_recipe(
        {
            "defaults": "0.1",
            "tasks": {"a": {"train": "a.csv"}},
            "training": {"max_steps": 2},
            "phases": [{"epochs": 1}, {"epochs": 2}],
        }
    )
    cut = plan_schedule(two, SamplerInput({"a": 8}, {"a": 4}, 0))
    assert (len(cut.phases), cut.steps, cut.uncut_steps) == (1, 2, 6), "the second phase is left out, and it is known"
    long = load_recipe({"defaults": "0.1", "tasks": {"a": {"train": "a.csv"}}, "phases": [{"steps": 1001}]})
    assert plan_schedule(long, SamplerInput({"a": 8}, {"a": 4}, 0)).steps == 1001
    assert schedule.phases[0].rate_factor(3) == pytest.approx(1 / 4), "the rate falls to its end by the last step"


def test_phases_do_not_repeat_each_others_order() -> None:
    recipe = load_recipe({"tasks": {"a": {"train": "a.csv"}}, "phases": [{"epochs": 1}, {"epochs": 1}]})
    schedule = plan_schedule(recipe, SamplerInput({"a": 40}, {"a": 40}, 0))
    assert schedule.rounds(0)[0][0].indices.tolist() != schedule.rounds(1)[0][0].indices.tolist()


# --- what learns -----------------------------------------------------------------------------------------------


def changed(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> set[str]:
    return {name for name, one in after.items() if not torch.equal(one, before[name])}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trains", "learning"),
    [
        ("heads", set()),
        ([2], {"layers.1"}),
        ([0], {"word", "position", "segment", "norm"}),
        ("all", {"layers.0", "layers.1", "word", "position", "segment", "norm"}),
    ],
)
def test_only_what_a_phase_trains_changes(
    toy_recipe: ToyRecipe, toy_data: Path, trains: Any, learning: set[str]
) -> None:
    settings = toy_recipe(phases=[{"epochs": 1, "trainable": trains}])
    start = assembled(settings).model.state_dict()
    run = train(load_recipe(settings), quiet=True)
    moved = changed(start, load_model(run.folder / "best")[0].state_dict())
    found = {name.removeprefix("encoder.") for name in moved if name.startswith("encoder.")}
    assert {".".join(name.split(".")[: 2 if name.startswith("layers") else 1]) for name in found} == learning
    assert any(name.startswith("heads.") for name in moved)


def test_frozen_layers_draw_no_dropout(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    setup = assembled(toy_recipe(phases=[{"trainable": "heads"}, {"trainable": [2]}, {}]))
    encoder = setup.model.encoder
    assert isinstance(encoder, Bert)
    states = []
    for phase in setup.schedule.phases:
        set_trainable(setup.model, phase)
        states.append([encoder.training, encoder.dropout.training, *(layer.training for layer in encoder.layers)])
    assert states == [[False] * 4, [True, False, False, True], [True] * 4]
    for phase in setup.schedule.phases:
        set_trainable(setup.model, phase, frozen_dropout=True)
        assert encoder.dropout.training, "as in the papers, if that is wanted"
        assert all(layer.training for layer in encoder.layers)
    assert setup.model.head("mood").training


# --- exactness -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", [part.name for part in parts("samplers")])
def test_every_sampler_resumes_in_the_middle_of_an_epoch(
    name: str, toy_recipe: ToyRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after a checkpoint that stands nowhere special, in process."""
    check_resumed(toy_recipe, monkeypatch, sampler=name, training={"epochs": 3, "batch_size": 8, "learning_rate": 1e-3})


@pytest.mark.slow
@pytest.mark.numeric
@pytest.mark.parametrize("at", [4, 5, 6])
def test_a_run_resumes_before_at_and_after_a_change_of_phase(
    at: int, toy_recipe: ToyRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_resumed(toy_recipe, monkeypatch, at=at, phases=TWO_PHASES)


# --- from the command line -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_phases_are_said_logged_and_evaluated(recipe_file: Callable[..., Path], toy_data: Path) -> None:
    result = manyheads("train", recipe_file(phases=TWO_PHASES), "evaluate.every_steps=4")
    assert result.returncode == 0, result.stderr
    assert "heads first (heads; batch-round-robin) → all (all; proportional): " in result.stderr
    assert "each is of a task drawn at random" in result.stderr
    run = toy_data / "runs" / "toy"
    changes = [(one["step"], one["phase"], one.get("alpha")) for one in log_of(run) if "phase" in one]
    assert [change[1:] for change in changes] == [("heads first", None), ("all", 1.0), ("all", 1.0)]
    evaluated = [one["step"] for one in log_of(run, "evaluate")]
    steps = log_of(run)[-1]["step"]
    ends = [change[0] - 1 for change in changes[1:]] + [steps]
    assert evaluated == sorted({*range(4, steps + 1, 4), *ends})
    assert log_of(run, "evaluate")[-1]["seen"].keys() == {"mood", "near"}
    again = manyheads("train", run / "recipe.yaml", "name=again", "--quiet")
    assert again.returncode == 0, again.stderr
    assert [one["loss"] for one in log_of(run.with_name("again"))] == [one["loss"] for one in log_of(run)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ([{"tasks": ["nera"]}], "phases.1.tasks: no task 'nera'. Did you mean 'near'?"),
        ([{"trainable": [7]}], "phases.1.trainable: layers are 1 to 2 here, 0 is the embeddings; found [7]."),
        (
            [{}, {"trainable": "head"}],
            "phases.2.trainable: expected 'all', 'heads', 'layers', 'top-N' or a list of layers such as",
        ),
        ([{"sampler": {"name": "batch-round-robin", "until": "x"}}], "phases.1.sampler.until: no task 'x'"),
        ([{"epoch": 1}], "phases.1.epoch: unknown key. Did you mean 'epochs'?"),
        ([], "phases: List should have at least 1 item"),
    ],
)
def test_phases_that_cannot_be(phases: Any, message: str, recipe_file: Callable[..., Path]) -> None:
    check_refused(manyheads("train", recipe_file(phases=phases)), message)


# --- stop and go -----------------------------------------------------------------------------------------------


def test_a_task_that_stops_improving_rests_and_comes_back_when_it_gets_worse(toy_recipe: ToyRecipe) -> None:
    from manyheads.inference.evaluate import Evaluation
    from manyheads.training.pausing import PausedTasks
    from manyheads.training.state import Progress

    tasks = toy_recipe()["tasks"]
    tasks["mood"] |= {"patience": 2, "resume_margin": 0.05}
    setup = assembled(toy_recipe(tasks=tasks))
    pausing, paused, records = PausedTasks(), [], []
    for step, accuracy in enumerate([0.5, 0.6, 0.6, 0.6, 0.58, 0.5, 0.7, None]):
        progress = Progress(step=step, examples={"mood": step + 1})
        metrics = {"mood": {"accuracy": accuracy}, "near": {"pearson": 0.0}}
        records += pausing.update(setup.recipe.tasks, setup.model.tasks, Evaluation(metrics, 0.5, {}), progress)
        paused.append(list(pausing.paused))
    assert paused == [[], [], [], ["mood"], ["mood"], [], [], []]
    assert not pausing.examples_at_evaluation.keys() - {"mood"}
    rounds = setup.datasets.usable(setup.schedule.rounds(0), ["mood"])
    assert {batch.task for batches in rounds for batch in batches} == {"near"}
    assert [(change["step"], change["paused"]) for change in pausing.history] == [(3, ["mood"]), (5, [])]
    assert [(record["event"], record["task"]) for record in records] == [("rotation", "mood")] * 2
    resumed = PausedTasks()
    resumed.load_state_dict(json.loads(json.dumps(pausing.state_dict())))
    assert resumed == pausing


def test_where_all_tasks_are_paused_the_run_ends(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    trainer = Trainer(assembled(toy_recipe()), toy_data / "run")
    assert trainer.ready()
    trainer.pausing.paused = ["mood", "near"]
    assert not trainer.ready(), "nobody is left to train"


@pytest.mark.slow
@pytest.mark.numeric
def test_a_run_with_resting_tasks_reports_them_and_resumes_exactly(
    toy_recipe: ToyRecipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing improves: both rest after one evaluation more, and the run ends early."""
    tasks = toy_recipe()["tasks"]
    tasks["mood"]["patience"] = 1
    changes = {"tasks": tasks, "training": {"epochs": 4, "batch_size": 8, "learning_rate": NO_RATE}}
    run = train(load_recipe(toy_recipe(name="calm", **changes)), quiet=True)
    (rest,) = run.metrics["pauses"]
    assert (rest["step"], rest["task"], rest["paused"]) == (10, "mood", ["mood"])
    assert rest["share_of_examples"] == pytest.approx(72 / (72 + 2 * 27 + 2 * 8), abs=1e-4)
    assert run.metrics["examples_seen"]["mood"] == 72, "two epochs of four"
    assert set(log_of(run.folder)[-1]["loss"]) == {"near"}
    check_resumed(toy_recipe, monkeypatch, at=12, **changes)
    tasks["near"]["patience"] = 1
    both = train(load_recipe(toy_recipe(name="both", **changes)), quiet=True)
    assert both.metrics["steps"] == 10


@pytest.mark.slow
def test_a_task_whose_turn_has_not_come_does_not_rest(toy_recipe: ToyRecipe) -> None:
    tasks = toy_recipe()["tasks"]
    tasks["near"]["patience"] = 1
    settings = toy_recipe(tasks=tasks, sampler="sequential", training={"epochs": 2, "learning_rate": NO_RATE})
    run = train(load_recipe(settings), quiet=True)
    assert run.metrics["examples_seen"]["near"] == 54, "both of its epochs: the second evaluation ends the run"
    assert [one["step"] for one in run.metrics["pauses"]] == [run.metrics["steps"]]


@pytest.mark.slow
@pytest.mark.numeric
def test_patience_ends_a_phase_not_the_run(toy_recipe: ToyRecipe, capsys: pytest.CaptureFixture[str]) -> None:
    training = {"epochs": 3, "batch_size": 8, "learning_rate": NO_RATE, "patience": 1}
    run = train(load_recipe(toy_recipe(phases=[{"trainable": "heads"}, {"epochs": 1}], training=training)))
    said = capsys.readouterr().err
    assert "phase 1 ends after step 10: the overall score has not improved" in said
    assert [one["phase"] for one in log_of(run.folder) if "phase" in one] == ["1", "1", "2"]
    assert run.metrics["steps"] == 20
