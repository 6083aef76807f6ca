"""From a run to the hub and back, by huggingface_hub's own client and a small hub on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command import check_refused, manyheads
from local_hub import LocalHub
from manyheads import Predictor, Run, UserError

THERE_AND_BACK = """
import json, sys
from manyheads import Run, UserError, publish
from manyheads.publishing.facts import CardSettings
from manyheads.runs.opening import local_folder
from manyheads.runs.served import read_sources

run, out, other = sys.argv[1:]
first = publish(run, out, CardSettings(hub_name="me/toy"), exported=["exported-int8"]).address
second = publish(run, out, CardSettings(hub_name="me/toy", licence="mit"), overwrite=True).address
code = open(out + "/README.md").read().split("```python")[1].split("```")[0]
exec(code)
folder = local_folder("hub:me/toy")
answers = Run.from_hub("me/toy", revision=first.rpartition("/")[2]).predict("mood", ["the film was good"])
[served] = read_sources(["hub:me/toy@main"])
assert (served.name, served.model_folder) == ("toy", folder)
codes = []
for name, revision in (("me/nothing", None), ("me/toy", "f" * 40), ("me/other", None), ("a/b/c", None)):
    try:
        Run.from_hub(name, revision)
    except UserError as fault:
        codes.append(fault.code)
print(json.dumps([first, second, str(folder), sorted(file.name for file in folder.iterdir()), answers, codes]))
"""


def in_a_process(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """One of its own: huggingface_hub reads its settings when it is imported."""
    return subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, env={**os.environ, **environment}
    )


@pytest.mark.slow
def test_a_model_goes_to_the_hub_and_comes_back(toy_run: Path, tmp_path: Path) -> None:
    home = str(tmp_path / "hf")
    with LocalHub() as hub:
        hub.private["me/other"] = False
        hub.commits["me/other"] = {"1" * 40: {"config.json": b"{}", "model.safetensors": b"0" * 9}}
        environment = hub.environment(home)
        done = in_a_process("-c", THERE_AND_BACK, toy_run, tmp_path / "out", tmp_path, **environment)
        assert done.returncode == 0, done.stderr
        first, second, folder, names, answers, codes = json.loads(done.stdout.splitlines()[-1])
        assert done.stdout.count("'prediction':") == 3, "the card's code"
        assert (first, second) == tuple(f"{hub.url}/me/toy/commit/{sha}" for sha in list(hub.commits["me/toy"])[1:])
        assert hub.private["me/toy"] is True
        assert "exported-int8/model.onnx" in list(hub.commits["me/toy"].values())[1]
        assert "exported-int8/model.onnx" not in hub.files("me/toy"), "an earlier file that does not belong"
        assert hub.files("me/toy")["README.md"].decode().partition("\n# me/toy")[0].count("\nlicense: mit\n") == 1
        fetched = {Path(name).suffix for name in hub.fetched}
        assert fetched == {".json", ".safetensors"}, "nothing else is fetched"
        assert {name.count("/") for name in hub.fetched} == {2}, "nothing in folders"
        assert {name.rpartition("/")[0] for name in hub.fetched} == {"me/toy"}, "nothing of another kind of model"
        assert codes == ["not-on-hub", "not-on-hub", "not-a-run", "bad-option"]
    assert set(names) == {path.name for path in (toy_run / "best").iterdir()}
    assert not any(file.is_symlink() for file in Path(folder).iterdir())
    expected = Run(toy_run).predict("mood", ["the film was good"])
    assert answers == expected
    assert Predictor.open(folder).predict("mood", ["the film was good"]) == expected
    # the hub is gone: what was fetched is still there
    words = ("-m", "manyheads", "predict", "hub:me/toy", "--task", "mood", "--text", "the film was good", "--json")
    later = in_a_process(*words, HF_HOME=home, HF_HUB_OFFLINE="1")
    assert later.returncode == 0, later.stderr
    [described] = json.loads(later.stdout)
    assert described["probability"] == pytest.approx(expected[0]["probability"], abs=1e-6)


@pytest.mark.slow
def test_what_the_hub_refuses_is_one_message(toy_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with LocalHub() as hub:
        hub.refuse_head = '"license" must be one of the known'
        environment = hub.environment(str(tmp_path / "hf"))
        words = ("-m", "manyheads", "publish", toy_run, "--to", out, "--hub", "me/toy")
        refused = in_a_process(*words, **environment)
        assert refused.returncode == 2, refused.stderr
        assert "[hub-not-reached]" in refused.stderr
        assert '"license" must be one of the known' in refused.stderr
        assert "Traceback" not in refused.stderr
        assert (out / "README.md").is_file(), "the folder is there all the same"
    gone = in_a_process(*words, "--overwrite", **environment)
    assert gone.returncode == 2
    assert "[hub-not-reached]" in gone.stderr
    assert "Traceback" not in gone.stderr


@pytest.mark.slow
def test_an_export_of_what_is_on_the_hub_has_a_folder_of_its_own() -> None:
    check_refused(manyheads("export", "hub:me/toy"), "[bad-option]", "--folder")


def test_without_a_network_a_model_that_was_never_fetched_is_one_message() -> None:
    with pytest.raises(UserError) as fault:
        Run.from_hub("nobody/nothing")
    assert fault.value.code == "hub-not-reached"
