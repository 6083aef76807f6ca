"""Training from recipe to run folder, on the toy encoder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel

from manyheads import Run, UserError, load_recipe, resume, train
from manyheads.model.folder import load_model
from manyheads.storage.strings import Strings
from manyheads.tokens.column import tokenise_once
from manyheads.tokens.packing import Sequence, pack

ToyRecipe = Callable[..., dict[str, Any]]


def run_recipe(recipe: dict[str, Any], **overrides: Any) -> Run:
    changes = {key.replace("__", "."): value for key, value in overrides.items()}
    return train(load_recipe(recipe, changes), quiet=True)


def log_of(run: Run, event: str) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]
    return [record for record in records if record["event"] == event]


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_model(folder)[0].state_dict()


@pytest.mark.slow
def test_run_folder_holds_what_it_should(toy_recipe: ToyRecipe) -> None:
    run = run_recipe(toy_recipe())
    for name in ("recipe.yaml", "log.jsonl", "metrics.json", "best/model.safetensors", "best/heads.safetensors",
                 "best-mood/config.json", "best-near/manyheads.json", "predictions/mood-dev.csv"):  # fmt: skip
        assert (run.folder / name).is_file(), name
    assert not list(run.folder.rglob(".*.new")), "nothing half-written is left"
    assert not [file for file in run.folder.rglob("*") if file.suffix in (".bin", ".pt", ".pkl")]
    steps = log_of(run, "step")
    assert [record["step"] for record in steps] == list(range(1, 11))  # 36 sentences / 8 → 5 rounds, 2 epochs
    assert steps[-1]["loss"].keys() == {"mood", "near"}
    evaluations = log_of(run, "evaluate")
    assert [record["step"] for record in evaluations] == [5, 10]
    about = json.loads((run.folder / "best" / "manyheads.json").read_text())["about"]
    assert "4 of 4" in about["chosen_on"]
    assert about["overall"] == max(record["overall"] for record in evaluations)
    assert run.metrics["examples_seen"] == {
        "mood": 72,
        "near": 27 + 27 + 8 + 8,
    }  # 27 rows make 4 batches, and are passed over again


@pytest.mark.slow
def test_a_recipe_may_be_a_dict_or_a_path(toy_recipe: ToyRecipe, recipe_file: Callable[..., Path]) -> None:
    few_steps = {"training.max_steps": 1}
    assert train(toy_recipe(name="dict"), few_steps, quiet=True).metrics["steps"] == 1
    assert train(str(recipe_file(name="path")), overrides=few_steps, quiet=True).folder.name == "path"


@pytest.mark.slow
@pytest.mark.numeric
def test_training_learns(toy_recipe: ToyRecipe) -> None:
    recipe = toy_recipe()
    recipe["evaluate"] = {"before": True}
    recipe["training"].update(epochs=15, learning_rate=3e-3)
    run = run_recipe(recipe)
    steps = log_of(run, "step")
    assert np.mean([one["loss"]["mood"] for one in steps[-5:]]) < 0.7 * steps[0]["loss"]["mood"]
    assert run.metrics["dev"]["overall"] > run.metrics["before"]["overall"]
    assert "before" in json.loads((run.folder / "metrics.json").read_text())


@pytest.mark.slow
@pytest.mark.numeric
def test_same_recipe_same_numbers_and_another_seed_others(toy_recipe: ToyRecipe) -> None:
    runs = [run_recipe(toy_recipe(name=name), seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))]
    a, b, c = (weights_of(run.folder / "best") for run in runs)
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert any(not torch.equal(a[name], c[name]) for name in a)
    assert [one["loss"] for one in log_of(runs[0], "step")] == [one["loss"] for one in log_of(runs[1], "step")]


@pytest.mark.slow
@pytest.mark.numeric
def test_evaluation_does_not_change_training(toy_recipe: ToyRecipe) -> None:
    plain = run_recipe(toy_recipe(name="plain"))
    busy = run_recipe(toy_recipe(name="busy", evaluate={"before": True, "max_examples": 2}))
    assert [one["loss"] for one in log_of(plain, "step")] == [one["loss"] for one in log_of(busy, "step")]


@pytest.mark.slow
@pytest.mark.numeric
def test_best_opens_with_transformers_and_gives_the_same_states(toy_recipe: ToyRecipe) -> None:
    run = run_recipe(toy_recipe())
    theirs = AutoModel.from_pretrained(run.folder / "best").eval()
    ids = run.model.tokenizer.backend.encode("the film was good", "a cat sleeps")
    tokens = pack([Sequence(np.array(ids.ids), np.array(ids.type_ids))])
    with torch.no_grad():
        expected = theirs(input_ids=torch.tensor([ids.ids]), token_type_ids=torch.tensor([ids.type_ids]))
        assert torch.allclose(run.model.encoder(tokens), expected.last_hidden_state[0], atol=1e-5)


@pytest.mark.slow
@pytest.mark.numeric
def test_reloaded_run_evaluates_to_the_same_metrics(toy_recipe: ToyRecipe) -> None:
    run = run_recipe(toy_recipe())
    again = Run(run.folder)
    assert again.evaluate().metrics == run.metrics["dev"]["metrics"]
    assert again.metrics == run.metrics


@pytest.mark.slow
@pytest.mark.numeric
def test_predictions_do_not_depend_on_what_else_is_asked(toy_recipe: ToyRecipe) -> None:
    run = run_recipe(toy_recipe())
    texts = ["the film was dull", "a very good meal in an old hotel", "great"]
    together = run.predict("mood", texts)
    for text, prediction in zip(texts, together, strict=True):
        alone = run.predict("mood", [text])[0]
        assert alone["prediction"] == prediction["prediction"]
        assert alone["probability"] == pytest.approx(prediction["probability"], abs=1e-6)
    assert run.predict("mood", []) == []
    with pytest.raises(UserError, match="takes two texts"):
        run.predict("near", ["only one"])
    with pytest.raises(UserError, match="empty text"):
        run.predict("mood", ["  "])
    with pytest.raises(UserError, match=r"no task 'moood'. Did you mean 'mood'"):
        run.predict("moood", ["x"])


@pytest.mark.slow
def test_prediction_files(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    (toy_data / "unlabelled.csv").write_text('id,sentence\nx1,a good film\n"x,2",a dull book\n')
    recipe = toy_recipe()
    recipe["tasks"]["mood"] |= {
        "test": "unlabelled.csv",
        "labels": {"0": "awful", "1": "poor", "2": "fine", "3": "great"},
    }
    recipe["tasks"]["near"]["predictions"] = {
        "file": "near-{split}-output.csv", "column": "Predicted_Similiary", "format": "course",
    }  # fmt: skip
    run = run_recipe(recipe)
    lines = (run.folder / "predictions" / "mood-test.csv").read_text().splitlines()
    assert lines[0] == "id,prediction"
    assert [line.rsplit(",", 1)[0] for line in lines[1:]] == ["x1", '"x,2"']
    assert {line.rsplit(",", 1)[1] for line in lines[1:]} <= {"awful", "poor", "fine", "great"}
    course = (run.folder / "predictions" / "near-dev-output.csv").read_text().splitlines()
    assert course[0] == "id \t Predicted_Similiary "
    assert len(course) == 1 + 3  # a tenth of 30 rows is dev
    number, comma, value = course[1].split()
    assert number.isdigit()
    assert comma == ","
    assert 0 <= float(value) <= 6


@pytest.mark.slow
def test_existing_run_is_not_overwritten_by_accident(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    run = run_recipe(toy_recipe())
    with pytest.raises(UserError, match="exists already"):
        run_recipe(toy_recipe())
    assert train(load_recipe(toy_recipe(seed=5)), overwrite=True, quiet=True).recipe.seed == 5
    other = toy_data / "runs" / "papers"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match="not overwritten"):
        train(load_recipe(toy_recipe(name="papers")), overwrite=True, quiet=True)
    assert (other / "thesis.tex").is_file()
    assert run.folder.is_dir()


@pytest.mark.slow
def test_init_takes_encoder_and_heads_of_the_same_name(
    toy_recipe: ToyRecipe, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run_recipe(toy_recipe(name="first"))
    recipe = toy_recipe(name="second", init=str(first.folder))
    recipe["tasks"] = {"mood": {"train": "mood.csv"}, "other": {"train": "near.tsv"}}
    recipe["training"] |= {"max_steps": 1, "learning_rate": 1e-12}  # so that weights stay where they start
    run = train(load_recipe(recipe))
    assert "heads taken over: mood; new: other" in capsys.readouterr().err
    before, after = weights_of(first.folder / "best"), weights_of(run.folder / "best")
    for name, tensor in after.items():
        if not name.startswith("heads.other-head."):
            assert torch.allclose(tensor, before[name], atol=1e-9), name
    assert not torch.equal(after["heads.other-head.head.dense.weight"], before["heads.near-head.head.dense.weight"])
    recipe["tasks"]["near"] = {"train": "mood.csv"}  # another task under the name of an old head
    with pytest.raises(UserError, match=r"labels of task 'near' are numbers in .* and 0, 1, 2, 3 here"):
        train(load_recipe({**recipe, "name": "third"}), quiet=True)
    with pytest.raises(UserError, match=r"init.*not a run folder"):
        train(load_recipe({**recipe, "name": "fourth", "init": "nowhere"}), quiet=True)


@pytest.mark.slow
@pytest.mark.numeric
def test_patience_stops_early_and_a_resumed_run_stays_stopped(toy_recipe: ToyRecipe) -> None:
    recipe = toy_recipe()
    recipe["training"] |= {"epochs": 30, "patience": 2, "learning_rate": 1e-30}  # no bit moves
    run = run_recipe(recipe)
    assert run.metrics["steps"] == 15, "one evaluation that counts, two without anything better"
    (run.folder / "metrics.json").unlink()
    assert resume(run.folder, quiet=True).metrics["steps"] == 15


@pytest.mark.slow
def test_accumulated_batches_make_fewer_steps(toy_recipe: ToyRecipe) -> None:
    recipe = toy_recipe()
    recipe["training"]["accumulate"] = 3
    run = run_recipe(recipe)
    assert run.metrics["steps"] == 4  # 10 rounds, the last step has one
    assert run.metrics["examples_seen"] == {"mood": 72, "near": 70}


@pytest.mark.slow
@pytest.mark.numeric
def test_passes_of_few_tokens_train_alike(toy_recipe: ToyRecipe) -> None:
    """To the rounding of sums that are cut elsewhere. With ε = 1 AdamW moves weights smoothly with the gradient; with
    its usual ε rounding alone decides where a weight goes whose gradient is 0. Exactly: gradients/test_backward.py."""
    encoder = {"name": toy_recipe()["encoder"], "dropout": 0, "attention_dropout": 0}
    runs = []
    for name, tokens in (("whole", 10_000), ("pieces", 30)):
        recipe = toy_recipe(name=name, encoder=encoder)
        for task in recipe["tasks"].values():
            task["head"] = {"name": "linear", "dropout": 0.0}
        recipe["training"] |= {"tokens_per_pass": tokens, "epsilon": 1.0, "learning_rate": 0.1}
        runs.append([one["loss"]["near"] for one in log_of(run_recipe(recipe), "step")])
    assert runs[0] == pytest.approx(runs[1], rel=1e-5)
    assert runs[0] != runs[1], "the passes were really cut"


@pytest.mark.numeric
def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_checkpoint(
    toy_recipe: ToyRecipe, toy_data: Path
) -> None:
    recipe = toy_recipe(checkpoint={"every_steps": 1})
    recipe["training"] |= {"learning_rate": 1e30, "max_grad_norm": None, "warmup": 0}
    with pytest.raises(
        UserError, match=r"Step \d+: the (loss of task '(mood|near)'|gradient of tasks mood, near) is"
    ) as fault:
        run_recipe(recipe)
    assert fault.value.code == "not-finite"
    folder = toy_data / "runs" / "toy"
    kept = sorted((folder / "checkpoints").glob("step-*"))
    assert str(kept[-1]) in str(fault.value)
    assert "mood.csv:" in str(fault.value) or "near.tsv:" in str(fault.value), "it says where the rows stand"
    last = json.loads((folder / "log.jsonl").read_text().splitlines()[-1])
    assert last["event"] == "not finite"


@pytest.mark.slow
def test_changed_data_is_noticed_on_resume(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    run = run_recipe(toy_recipe())
    (run.folder / "metrics.json").unlink()
    file = toy_data / "mood.csv"
    file.write_text(file.read_text().replace("dull", "poor"))
    with pytest.raises(UserError, match="mood train") as fault:
        resume(run.folder, quiet=True)
    assert fault.value.code == "data-changed"


@pytest.mark.slow
def test_skipped_rows_and_cut_inputs_are_said_at_the_start_and_at_the_end(
    toy_recipe: ToyRecipe, toy_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (toy_data / "mood.csv").open("a") as file:
        file.write("98,a film with no label,\n99," + "very " * 100 + "good,1\n")
    recipe = toy_recipe(data={"root": str(toy_data), "bad_rows": "skip"})
    run = train(load_recipe(recipe))
    said = capsys.readouterr().err
    assert said.count("mood: 1 bad row of train skipped") == 2
    assert said.count("inputs are cut to 64 tokens") == 2
    assert any("1 bad row" in note for note in run.metrics["notes"])
    assert any("1 bad row" in note for note in log_of(run, "start")[0]["notes"])


@pytest.mark.slow
@pytest.mark.numeric
def test_resolved_recipe_says_what_was_inferred_and_trains_again(toy_recipe: ToyRecipe) -> None:
    run = run_recipe(toy_recipe())
    mood, near = run.recipe.tasks["mood"], run.recipe.tasks["near"]
    assert (mood.text, mood.label, mood.kind, mood.labels) == (["sentence"], "label", "classification", list("0123"))
    assert (near.text, near.kind) == (["sentence1", "sentence2"], "regression")
    assert (near.encoding and near.encoding.name, near.loss and near.loss.name) == ("cross", "mse")
    again = train(load_recipe(run.folder / "recipe.yaml", {"name": "again"}), quiet=True)
    a, b = weights_of(run.folder / "best"), weights_of(again.folder / "best")
    assert all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.slow
@pytest.mark.numeric
def test_a_transformers_encoder_trains_and_reloads(toy_recipe: ToyRecipe, tmp_path: Path, toy_encoder: Path) -> None:
    import shutil

    from transformers import DistilBertConfig

    config = DistilBertConfig(vocab_size=200, dim=32, n_layers=2, n_heads=4, hidden_dim=64, max_position_embeddings=64)
    AutoModel.from_config(config).save_pretrained(tmp_path / "distil")
    shutil.copy(toy_encoder / "tokenizer.json", tmp_path / "distil")
    run = run_recipe(toy_recipe(encoder=str(tmp_path / "distil")))
    assert type(run.model.encoder).__name__ == "AutoEncoder"
    assert Run(run.folder).evaluate().metrics == run.metrics["dev"]["metrics"]


@pytest.mark.slow
@pytest.mark.numeric
def test_bf16_trains(toy_recipe: ToyRecipe) -> None:
    recipe = toy_recipe()
    recipe["training"]["precision"] = "bf16"
    run = run_recipe(recipe)
    assert all(np.isfinite(one["loss"]["mood"]) for one in log_of(run, "step"))
    assert weights_of(run.folder / "best")["encoder.word.weight"].dtype == torch.float32


@pytest.mark.slow
@pytest.mark.parametrize("name", ["type", "train", "1"])
def test_a_task_may_have_any_name(toy_recipe: ToyRecipe, name: str) -> None:
    run = run_recipe(toy_recipe(tasks={name: {"train": "mood.csv"}}), training__max_steps=1)
    assert run.predict(None, ["a film"])[0]["prediction"] in list("0123")


@pytest.mark.slow
@pytest.mark.numeric
@pytest.mark.parametrize(("scale", "offset", "unit"), [("raw", 0, 1), ("unit", 0, 5), ("standard", None, None)])
def test_scales_of_a_regression(toy_recipe: ToyRecipe, scale: str, offset: float | None, unit: float | None) -> None:
    """The loss sees (label − offset) / unit; predictions come back in label units whatever the scale."""
    recipe = toy_recipe(tasks={"near": {"train": "near.tsv", "range": [0, 5], "scale": scale}})
    run = run_recipe(recipe)
    task = run.model.tasks["near"]
    if offset is not None:
        assert (task.offset, task.unit) == (offset, unit)
    else:
        assert task.offset == pytest.approx(2.77, abs=0.3)  # labels are 4.6, 1.2 and 2.5
        assert task.unit == pytest.approx(1.4, abs=0.2)
    first = log_of(run, "step")[0]["loss"]["near"]
    assert {"raw": first > 4, "unit": first < 1, "standard": 0.3 < first < 3}[scale]
    pair = ("a man plays 3", "a man sleeps")
    columns = tuple(tokenise_once(Strings.of([text]), run.model.tokenizer) for text in pair)
    with torch.no_grad():
        output = run.model([("near", [run.model.inputs("near", columns, 0)])])[0].item()
    assert run.predict("near", [pair])[0]["prediction"] == pytest.approx(output * task.unit + task.offset, abs=1e-5)


@pytest.mark.slow
def test_overwrite_keeps_the_old_run_until_the_new_one_is_sound(toy_recipe: ToyRecipe) -> None:
    run = run_recipe(toy_recipe())
    with pytest.raises(UserError, match="no file"):
        train(load_recipe(toy_recipe(tasks={"mood": {"train": "gone.csv"}})), overwrite=True, quiet=True)
    assert (run.folder / "best").is_dir()
    with pytest.raises(UserError, match="cannot overwrite the run it starts from"):
        train(load_recipe(toy_recipe(init=str(run.folder))), overwrite=True, quiet=True)
    assert (run.folder / "best").is_dir()


@pytest.mark.slow
def test_init_refuses_a_head_with_other_classes(toy_recipe: ToyRecipe) -> None:
    first = run_recipe(toy_recipe(name="first"))
    recipe = toy_recipe(name="second", init=str(first.folder))
    recipe["tasks"]["mood"]["labels"] = ["3", "2", "1", "0"]
    with pytest.raises(UserError, match=r"are 0, 1, 2, 3 in .* and 3, 2, 1, 0 here"):
        run_recipe(recipe)


@pytest.mark.slow
@pytest.mark.numeric
def test_a_run_resumes_without_the_run_it_started_from(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    first = run_recipe(toy_recipe(name="first"))
    second = run_recipe(toy_recipe(name="second", init=str(first.folder)))
    before = weights_of(second.folder / "best")
    (second.folder / "metrics.json").unlink()
    first.folder.rename(toy_data / "elsewhere")
    after = weights_of(resume(second.folder, quiet=True).folder / "best")
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.slow
def test_a_lost_best_is_made_anew(toy_recipe: ToyRecipe, capsys: pytest.CaptureFixture[str]) -> None:
    import shutil

    run = run_recipe(toy_recipe())
    shutil.rmtree(run.folder / "best")
    again = resume(run.folder)
    assert "best is gone" in capsys.readouterr().err
    assert again.predict("mood", ["a film"])
    assert again.about["step"] == 10


@pytest.mark.slow
def test_held_out_dev_of_a_changed_file_is_not_scored(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    run = run_recipe(toy_recipe())
    with (toy_data / "mood.csv").open("a") as file:
        file.write("99,a new film,1\n")
    with pytest.raises(UserError, match="rows that were trained on"):
        Run(run.folder).evaluate()


@pytest.mark.slow
def test_a_torn_last_line_of_the_log_is_dropped(toy_recipe: ToyRecipe) -> None:
    run = run_recipe(toy_recipe())
    (run.folder / "metrics.json").unlink()
    with (run.folder / "log.jsonl").open("a") as file:
        file.write('{"event": "step", "loss": {"mood": 1.0}')
    resume(run.folder, quiet=True)
    assert len(log_of(run, "step")) == 10


@pytest.mark.slow
def test_what_predict_and_max_length_refuse(toy_recipe: ToyRecipe) -> None:
    run = run_recipe(toy_recipe(), training__max_steps=1)
    with pytest.raises(UserError, match="put it in brackets"):
        run.predict("mood", "hello")
    with pytest.raises(UserError, match="expected text, found 3"):
        run.predict("mood", [3])  # type: ignore[list-item]
    with pytest.raises(UserError, match="not valid UTF-8"):
        run.predict("mood", ["\udcff"])
    with pytest.raises(UserError, match="reads at most 64 tokens"):
        run_recipe(toy_recipe(name="long"), encoder__max_length=65)


def test_a_run_folder_that_cannot_be_made(toy_recipe: ToyRecipe, toy_data: Path) -> None:
    with pytest.raises(UserError, match="cannot be made here"):
        run_recipe(toy_recipe(output=str(toy_data / "mood.csv")))


def test_a_part_that_does_not_fit_the_encoder_is_refused(toy_recipe: ToyRecipe) -> None:
    encoder = {"name": toy_recipe()["encoder"], "implementation": "transformers"}
    tasks = {"mood": {"train": "mood.csv", "pooling": "shared-pooler"}}
    with pytest.raises(UserError, match="needs an encoder that has a pooler"):
        run_recipe(toy_recipe(encoder=encoder, tasks=tasks))
    tasks["mood"]["pooling"] = {"name": "head-pooler", "start": "encoder"}  # type: ignore[assignment]
    with pytest.raises(UserError, match=r"tasks\.mood\.pooling: .*came without one; use 'start: random'") as refused:
        run_recipe(toy_recipe(encoder=encoder, tasks=tasks))
    assert refused.value.code == "incompatible-part"


@pytest.mark.slow
@pytest.mark.numeric
def test_poolers_moved_into_heads_train_apart_and_are_opened_again(toy_recipe: ToyRecipe) -> None:
    pooling = {"name": "head-pooler", "reads": "last", "start": "encoder"}
    tasks = {name: {**task, "pooling": pooling} for name, task in toy_recipe()["tasks"].items()}
    run = run_recipe(toy_recipe(tasks=tasks))
    trained = weights_of(run.folder / "best")
    start = trained["encoder.pooler.weight"]  # no task reads it, so it is as it came
    assert torch.equal(start, AutoModel.from_pretrained(load_recipe(toy_recipe()).encoder.name).pooler.dense.weight)
    moved = [trained[f"heads.{name}-head.pooling.dense.weight"] for name in tasks]
    assert len(moved) > 1
    for number, weight in enumerate(moved):
        assert 0 < (weight - start).abs().max() < 0.1, "learnt, and not far from where it began"
        assert not any(torch.equal(weight, other) for other in moved[number + 1 :])
    assert Run(run.folder).evaluate().metrics == run.metrics["dev"]["metrics"]


@pytest.mark.slow
@pytest.mark.numeric
def test_shared_pooler_trains_and_is_saved_with_the_encoder(toy_recipe: ToyRecipe) -> None:
    tasks = {name: {**task, "pooling": "shared-pooler"} for name, task in toy_recipe()["tasks"].items()}
    run = run_recipe(toy_recipe(tasks=tasks))
    start = load_recipe(toy_recipe()).encoder.name
    trained = weights_of(run.folder / "best")["encoder.pooler.weight"]
    assert not torch.equal(trained, AutoModel.from_pretrained(start).pooler.dense.weight)
    assert torch.equal(trained, AutoModel.from_pretrained(run.folder / "best").pooler.dense.weight)
    assert Run(run.folder).evaluate().metrics == run.metrics["dev"]["metrics"]


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["bi-concat", "bi-siamese", "bi-cosine-feature", "cross-nosep"])
def test_other_encodings_train_beside_a_single_sentence_task_and_reload(toy_recipe: ToyRecipe, encoding: str) -> None:
    recipe = toy_recipe()
    recipe["tasks"]["near"] |= {"encoding": encoding, "pooling": "mean", "head": {"name": "hidden", "units": 8}}
    run = run_recipe(recipe)
    assert Run(run.folder).evaluate().metrics == run.metrics["dev"]["metrics"]
    assert Run(run.folder).model.tasks["near"].encoding.name == encoding
