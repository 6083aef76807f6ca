"""`manyheads export`: what it writes, and what it checks first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from building import SIDES
from command import manyheads
from manyheads import Predictor, UserError
from manyheads.encoder.bert import Bert
from manyheads.exporting.check import Measured, loses_too_much, losing_tasks
from manyheads.exporting.folder import ExportSettings, as_lines, export
from manyheads.model.folder import load_model, save_model

PAIRS = list(zip(*SIDES, strict=True))
MOODS = (("film", "good"), ("dog", "dull"))
TEXTS = [f"the {noun} was {mood} {number}" for number in range(9) for noun, mood in MOODS]


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_checks_and_writes(toy_run: Path, tmp_path: Path) -> None:
    printed = manyheads("export", toy_run, "--folder", tmp_path / "float", "--json")
    assert printed.returncode == 0, printed.stderr
    content = json.loads(printed.stdout)
    assert content["folder"] == str(tmp_path / "float")
    assert content["original_bytes"] == sum(file.stat().st_size for file in (toy_run / "best").iterdir())
    assert set(content["tasks"]) == {"mood", "near"}
    for measured in content["tasks"].values():
        assert measured["original"] == pytest.approx(measured["exported"], abs=1e-4)
        assert measured["moved"] < 1e-5
        assert measured["flipped"] in (0.0, None)
    described = json.loads((tmp_path / "float" / "onnx.json").read_text())
    assert described["about"]["run"] == "toy"
    ours = manyheads("predict", toy_run, "--task", "mood", *text_options(), "--json")
    theirs = manyheads("predict", tmp_path / "float", "--task", "mood", *text_options(), "--json")
    assert theirs.returncode == 0, theirs.stderr
    for one, other in zip(json.loads(ours.stdout), json.loads(theirs.stdout), strict=True):
        assert one["prediction"] == other["prediction"]
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-5)


def text_options() -> list[str]:
    options: list[str] = []
    for text in TEXTS[:4]:
        options += ["--text", text]
    return options


@pytest.mark.slow
def test_labelled_files_are_evaluated_by_an_exported_model(toy_run: Path, tmp_path: Path) -> None:
    data = toy_run.parents[1] / "mood.csv"
    ours = manyheads("evaluate", toy_run / "best", data, "--task", "mood", "--json")
    theirs = manyheads("evaluate", toy_run / "exported-int8", data, "--task", "mood", "--json")
    assert theirs.returncode == 0, theirs.stderr
    mine, its = (json.loads(printed.stdout)["files"]["metrics"]["mood"]["accuracy"] for printed in (ours, theirs))
    assert its == pytest.approx(mine, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--precision", "int8-dynamic"], "bad-option", "Did you mean 'int8'"),
        (["--layout", "square"], "bad-option", "packed"),
        (["--to", "tflite"], "bad-option", "onnx"),
        (["--precision", "int8", "--float-layers", "9"], "no-such-layer", "layer 9"),
        (["--float-layers", "one"], "bad-option", "1,6"),
        (["--precision", "int8", "--check", "nowhere.csv"], "no-such-file", "nowhere.csv"),
        (["--float-layers", "1"], "conflicting-options", "--precision int8"),
        (["--task", "mood"], "conflicting-options", "--to transformers"),
        (["--to", "sentence-transformers", "--task", "mood"], "unknown-task", "no task 'mood' that searches"),
        (["--to", "cross-encoder", "--precision", "int8", "--layout", "padded"], "conflicting-options", "--layout"),
    ],
)
def test_bad_options_are_one_message(toy_run: Path, options: list[str], code: str, words: str) -> None:
    printed = manyheads("export", toy_run, *options)
    assert printed.returncode == 2
    assert f"[{code}]" in printed.stderr
    assert words in printed.stderr
    assert "Traceback" not in printed.stderr


def test_what_is_exported_already_is_one_message(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="exported already") as fault:
        export(exported, tmp_path / "again")
    assert fault.value.code == "not-a-run"


@pytest.mark.slow
def test_help_says_all_of_it() -> None:
    printed = manyheads("export", "--help")
    assert "batch × length" in " ".join(printed.stdout.replace("│", " ").split())


def test_int8_of_a_model_without_data_is_not_written(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError) as fault:
        export(exported.parent / "best", tmp_path / "int8", ExportSettings(precision="int8"))
    assert fault.value.code == "nothing-to-check"
    assert list(tmp_path.iterdir()) == []


# --- int8 -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_int8_does_not_depend_on_what_shares_a_pass(toy_run: Path) -> None:
    predictor = Predictor.open(toy_run / "exported-int8")
    together = predictor.predict("mood", TEXTS)
    for text, described in zip(TEXTS, together, strict=True):
        [alone] = predictor.predict("mood", [text])
        assert alone["probability"] == pytest.approx(described["probability"], abs=1e-5)


@pytest.mark.slow
def test_int8_is_near_float32_and_smaller(toy_run: Path) -> None:
    folder = toy_run / "exported-int8"
    original, reduced = Predictor.open(toy_run / "best"), Predictor.open(folder)
    ours, theirs = original.predict("near", PAIRS), reduced.predict("near", PAIRS)
    apart = [abs(one["prediction"] - other["prediction"]) for one, other in zip(ours, theirs, strict=True)]
    assert 0 < max(apart) < 0.5  # of a range from 0 to 5
    described = json.loads((folder / "onnx.json").read_text())
    assert described["precision"] == "int8"
    assert described["measured"]["mood"]["moved"] > 0
    assert described["measured"]["mood"]["examples"] > 0
    float_size = (toy_run / "best" / "model.safetensors").stat().st_size
    assert (folder / "model.onnx").stat().st_size < 0.75 * float_size + 250_000  # the graph itself takes some


def measured(**values: Any) -> Measured:
    defaults: dict[str, Any] = {
        "metric": "accuracy", "original": 0.8, "exported": 0.8, "lost": 0.0, "examples": 50, "flipped": 0.0,
        "flipped_alone": 0.0, "moved": 0.0, "moved_alone": 0.0, "speed": 1.0,
    }  # fmt: skip
    return Measured(**{**defaults, **values})


def test_a_loss_beyond_the_limit_is_refused() -> None:
    assert losing_tasks({"mood": measured(exported=0.796, lost=0.004)}, 0.005) == []
    tasks = {"mood": measured(exported=0.79, lost=0.01), "near": measured()}
    assert losing_tasks(tasks, 0.005) == ["mood"]
    fault = loses_too_much(tasks, 0.005, None)
    assert fault.code == "export-loses"
    assert "mood: accuracy 0.800 → 0.790" in str(fault)
    assert "near" not in str(fault)


@pytest.mark.slow
def test_a_refused_export_leaves_nothing_and_names_the_layer_to_leave(
    toy_run: Path, toy_encoder: Path, tmp_path: Path
) -> None:
    model, about = load_model(toy_run / "best")
    assert isinstance(model.encoder, Bert)
    with torch.no_grad():
        model.encoder.layers[1].attention_out.weight[:, 3] *= 300  # the other weights of its columns round to 0
    save_model(tmp_path / "best", model, toy_encoder, about)
    data = [str(toy_run.parents[1] / "mood.csv")]
    with pytest.raises(UserError, match=r"Nothing was written. Try --float-layers 2 \(predictions"):
        export(tmp_path / "best", tmp_path / "int8", ExportSettings(precision="int8", most_lost=-1.0), data)
    assert [path.name for path in tmp_path.iterdir()] == ["best"]


def test_the_table_names_what_was_measured() -> None:
    [line] = as_lines({"mood": measured(flipped=0.03, speed=5.04)})
    assert line["task"] == "mood"
    assert (line["flipped"], line["times as fast"]) == ("3.0 %", "5.0")
    assert as_lines({"near": measured(flipped=None)})[0]["flipped"] == "–"
