"""`manyheads export`: what it writes, what it checks first, and who can run it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from building import CLASSES, NUMBERS, SIDES, TWO, a_task, toy_model
from command import manyheads
from conftest import made_once
from manyheads import Predictor, UserError
from manyheads.encoder.bert import Bert
from manyheads.exporting.check import Measured, loses_too_much, losing_tasks
from manyheads.exporting.folder import ExportSettings, as_lines, export
from manyheads.inference.onnx_backend import MOST_WASTE, OnnxBackend
from manyheads.model.folder import load_model, save_model
from manyheads.tokens.packing import Sequence
from running_server import RunningServer

ROOT = Path(__file__).resolve().parents[2]
PAIRS = list(zip(*SIDES, strict=True))
MOODS = (("film", "good"), ("dog", "dull"))
TEXTS = [f"the {noun} was {mood} {number}" for number in range(9) for noun, mood in MOODS]


def write_model(folder: Path, encoder: Path) -> None:
    tasks = [
        a_task(name="mood", labels=CLASSES, encoding="single", temperature=1.4),
        a_task(name="same", labels=TWO, encoding="cross"),
        a_task(name="near", labels=NUMBERS, encoding="bi-features"),
    ]
    save_model(folder / "best", toy_model(encoder, tasks), encoder, {"run": "toy", "step": 3})
    export(folder / "best", folder / "exported")


@pytest.fixture(scope="session")
def exported(toy_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder's export in float32."""
    return made_once(tmp_path_factory, "exported", lambda folder: write_model(folder, toy_encoder)) / "exported"


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


# --- who can run it ---------------------------------------------------------------------------------------------------

NO_TORCH = """
import sys
from manyheads.cli.app import app
try:
    app(sys.argv[1:], prog_name="manyheads")
except SystemExit as end:
    assert not end.code, end.code
heavy = {"torch", "transformers", "datasets", "sklearn", "scipy", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.mark.slow
def test_prediction_imports_no_torch(exported: Path) -> None:
    for words in (["--all", "--text", "a good film"], ["-t", "mood", "--text", "a"]):
        command = [sys.executable, "-c", NO_TORCH, "predict", str(exported), *words]
        printed = subprocess.run(command, capture_output=True, text=True, check=False)
        assert printed.returncode == 0, printed.stderr
        assert "left out: same, near" in printed.stderr or "0." in printed.stdout


ONLY = """
import sys
from manyheads.cli.app import main

missing = {missing!r}

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
main()
"""
MODULES = {"scikit-learn": "sklearn", "PyYAML": "yaml"}  # that are called otherwise than their package


@pytest.mark.slow
def test_the_slim_environment_of_the_docs_predicts_and_evaluates(exported: Path, tmp_path: Path) -> None:
    """Nothing that manyheads requires is imported but what docs/exporting.md says to install."""
    page = (ROOT / "docs" / "exporting.md").read_text()
    to_predict, to_evaluate = re.findall(r"^    pip install ((?:onnxruntime|scikit-learn) [^#\n]*)", page, re.M)
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    all_packages = {re.split("[=<>]", requirement)[0] for requirement in required} - {"huggingface-hub"}  # tokenizers'
    data = tmp_path / "mood.csv"
    data.write_text("text,label\na good film,a\na bad film,b\n")
    for words, packages in (
        (["predict", "--all", "--text", "a good film"], to_predict.split()),
        (["evaluate", str(data)], [*to_predict.split(), *to_evaluate.split()]),
    ):
        left_out = sorted(MODULES.get(name, name.replace("-", "_")) for name in all_packages - set(packages))
        assert "torch" in left_out
        command = [sys.executable, "-c", ONLY.format(missing=left_out), words[0], str(exported), *words[1:]]
        printed = subprocess.run(command, capture_output=True, text=True, check=False)
        assert printed.returncode == 0, printed.stderr
    command[2] = ONLY.format(missing=["sklearn"])
    printed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert printed.returncode == 2
    assert printed.stderr.startswith("error: this needs the package 'sklearn'"), printed.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("runtime", "tolerance"), [("openvino", 1e-5), ("openvino-bf16", 0.02)])
def test_openvino_runs_the_same_graph(runtime: Any, tolerance: float, exported: Path) -> None:
    ours, theirs = Predictor.open(exported), Predictor.open(exported, runtime=runtime)
    for name, task in ours.tasks.items():
        texts = PAIRS if task.pair else SIDES[0]
        for one, other in zip(ours.predict(name, texts), theirs.predict(name, texts), strict=True):
            if "probability" in one:
                assert other["probabilities"] == pytest.approx(one["probabilities"], abs=tolerance)
            else:
                assert other["prediction"] == pytest.approx(one["prediction"], abs=5 * tolerance)
    assert np.abs(ours.embed(SIDES[0]) - theirs.embed(SIDES[0])).max() <= 5 * tolerance


@pytest.mark.slow
def test_a_runtime_is_for_exported_models(exported: Path) -> None:
    printed = manyheads("predict", exported, "--all", "--text", "a", "--runtime", "openvino")
    assert printed.returncode == 0, printed.stderr
    wrong = manyheads("predict", exported, "--all", "--text", "a", "--runtime", "openwine")
    assert "Did you mean" in wrong.stderr
    with pytest.raises(UserError) as fault:
        Predictor.open(exported.parent / "best", runtime="openvino")
    assert fault.value.code == "conflicting-options"


@pytest.mark.slow
def test_openvino_is_refused_what_it_misreads(toy_run: Path) -> None:
    with pytest.raises(UserError, match="cannot run int8") as fault:
        Predictor.open(toy_run / "exported-int8", runtime="openvino")
    assert fault.value.code == "conflicting-options"


@pytest.mark.parametrize(("package", "runtime"), [("onnxruntime", "onnxruntime"), ("openvino", "openvino")])
def test_a_missing_package_is_named(
    package: str, runtime: Any, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=f"needs {package}: pip install") as fault:
        Predictor.open(exported, runtime=runtime)
    assert fault.value.code == "missing-extra"


@pytest.mark.slow
def test_its_readme_runs_where_there_is_no_manyheads(exported: Path, tmp_path: Path) -> None:
    """In an environment with onnxruntime, tokenizers and numpy alone."""
    environment = tmp_path / "slim"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    packages = ("onnxruntime", "tokenizers", "numpy")
    installed = subprocess.run(
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], capture_output=True, text=True
    )
    if installed.returncode:
        pytest.skip("onnxruntime cannot be installed here")
    page = (exported / "README.md").read_text()
    [code] = re.findall(r"```python\n(.*?)```", page, re.S)
    printed = subprocess.run([python, "-c", code], cwd=exported, capture_output=True, text=True, check=False)
    assert printed.returncode == 0, printed.stderr
    numbers = [float(number) for number in re.findall(r"\d\.[\de-]+", printed.stdout)]
    expected: list[float] = []
    for described in Predictor.open(exported).predict("mood", ["A warm and funny film.", "Never again."]):
        expected += described["probabilities"].values()
    assert numbers == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
def test_it_is_served(exported: Path) -> None:
    original = Predictor.open(exported.parent / "best")
    without_torch = "import sys\nsys.modules['torch'] = None"  # importing it fails
    with RunningServer(exported, before=without_torch) as server:
        answer = server.predict(["a good film", ["a", "b"], "the " * 300])
        expected = original.predict("mood", ["a good film"])[0]
        served = answer["predictions"][0]["tasks"]["mood"]
        assert served["probability"] == pytest.approx(expected["probability"], abs=1e-5)
        assert set(answer["predictions"][1]["tasks"]) == {"same", "near"}
        assert [one["truncated"] for one in answer["predictions"]] == [False, False, True]
        [model] = server.client.get("/v1/models").json()["data"]
        assert model["explains"] is False
        refused = server.post("/v1/predict", {"inputs": "a", "explain": True})
        assert refused.status_code == 422, refused.text
        vectors = server.post("/v1/embeddings", {"input": ["a good film"]}).json()["data"][0]["embedding"]
        assert np.allclose(vectors, original.embed(["a good film"])[0], atol=1e-5)


def test_long_and_short_texts_have_passes_of_their_own(exported: Path) -> None:
    """Attention's view is as wide as its longest sequence."""
    backend = OnnxBackend.open(exported, tokens_per_pass=300)
    lengths = [10] * 40 + [60] * 3 + [11]
    inputs = [{"mood": [Sequence(np.arange(length), np.zeros(length, dtype=int))]} for length in lengths]
    passes = backend._plan_passes(inputs)
    assert sorted(row for rows in passes for row in rows) == list(range(len(lengths)))
    for rows in passes:
        chosen = [lengths[row] for row in rows]
        assert sum(chosen) <= 300
        assert sum(max(chosen) ** 2 - length**2 for length in chosen) <= MOST_WASTE
    assert passes[0][:3] == [40, 41, 42]


# --- damaged, or of unknown origin ------------------------------------------------------------------------------------


def spoil(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """onnx.json changed, and its checksum with it."""
    import hashlib

    content = json.loads((folder / "onnx.json").read_text())
    change(content)
    (folder / "onnx.json").write_text(json.dumps(content))
    sums = json.loads((folder / "checksums.json").read_text())
    sums["onnx.json"] = hashlib.sha256((folder / "onnx.json").read_bytes()).hexdigest()
    (folder / "checksums.json").write_text(json.dumps(sums))


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(format=2),
        lambda content: content.update(max_length=-1),
        lambda content: content.update(tasks=[]),
        lambda content: content.pop("frames"),
        lambda content: content["frames"].pop("mood"),
        lambda content: content["frames"].update(mood=[{"holds": "triple"}]),
        lambda content: content["tasks"][0].update(name="another"),
        lambda content: content["tasks"][0]["labels"].update(kind="horoscope"),
        lambda content: content["frames"].update(mood=[{"holds": "single", "side": 5}]),
    ],
)
def test_a_changed_description_is_one_message(
    exported: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    folder = Path(shutil.copytree(exported, tmp_path / "copied"))
    spoil(folder, change)
    with pytest.raises(UserError) as fault:
        Predictor.open(folder)
    assert str(folder) in str(fault.value)


def test_a_damaged_graph_is_one_message(exported: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(exported, tmp_path / "copied"))
    graph = folder / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:-1000])
    with pytest.raises(UserError, match=r"model\.onnx") as fault:
        Predictor.open(folder)
    assert fault.value.code == "damaged-model"
    graph.unlink()
    with pytest.raises(UserError, match=r"model\.onnx"):
        Predictor.open(folder)


def test_a_graph_cannot_name_other_files(exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX lets weights lie in another file, wherever it is."""
    import hashlib

    import onnx

    folder = Path(shutil.copytree(exported, tmp_path / "copied"))
    graph = onnx.load(folder / "model.onnx")
    onnx.save(graph, tmp_path / "model.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
    shutil.copyfile(tmp_path / "model.onnx", folder / "model.onnx")
    shutil.copyfile(tmp_path / "weights.bin", folder / "weights.bin")
    sums = json.loads((folder / "checksums.json").read_text())
    sums["model.onnx"] = hashlib.sha256((folder / "model.onnx").read_bytes()).hexdigest()
    (folder / "checksums.json").write_text(json.dumps(sums))
    monkeypatch.chdir(folder)
    with pytest.raises(UserError) as fault:
        Predictor.open(folder)
    assert fault.value.code == "damaged-model"
