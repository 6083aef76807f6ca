"""An exported model: who can run it, and what is refused of a damaged one."""

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

from building import SIDES
from command import manyheads
from manyheads import Predictor, UserError
from manyheads.inference.onnx_backend import MOST_WASTE, OnnxBackend
from manyheads.tokens.packing import Sequence
from running_server import RunningServer

ROOT = Path(__file__).resolve().parents[2]
PAIRS = list(zip(*SIDES, strict=True))

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
