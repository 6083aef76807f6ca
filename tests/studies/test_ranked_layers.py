"""Layers that another study ranks: its best ones once it is finished, those of the file until then."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from manyheads.errors import UserError
from manyheads.studies.load import load_study
from manyheads.studies.runner import train_in_process
from manyheads.studies.study import open_study

LAYERS = "tasks.sst.layer_factors.layers"
ALL_LAYERS = "training.layer_learning_rates.layers"
FROM: dict[str, Any] = {"layers_from": "single.yaml", "task": "sst", "top": 1, "otherwise": [1, 2]}
SMOKE: dict[str, Any] = {"base": "scales/smoke", "seeds": 1, "set": {"training.max_steps": 1}}


def write(folder: Path, name: str, **content: Any) -> Path:
    file = folder / name
    file.write_text(yaml.safe_dump({**SMOKE, **content}, sort_keys=False))
    return file


def write_both(folder: Path, **request: Any) -> Path:
    single = {"each": ["layer", "task"], "training.trainable": ["{layer}"], "tasks": ["{task}"]}
    write(folder, "single.yaml", variants={"Layer {layer}": single}, seeds=2)
    settings = {"training.max_steps": 1, LAYERS: {**FROM, **request}, ALL_LAYERS: {**FROM, "task": ["sst", "qqp"]}}
    return write(folder, "rates.yaml", set=settings, variants={"chosen": {"tasks.sst.layer_factors.chosen": 2}})


def set_accuracy(file: Path, accuracy: float) -> None:
    record = json.loads(gzip.decompress(file.read_bytes()))
    record["metrics"]["sst"]["accuracy"] = accuracy
    file.write_bytes(gzip.compress(json.dumps(record).encode()))


@pytest.mark.slow
def test_the_best_layers_of_a_finished_study(tmp_path: Path) -> None:
    study = write_both(tmp_path)
    output = tmp_path / "studies"
    single = open_study(str(tmp_path / "single.yaml"), None, output, {})
    sst_runs = [(identity, planned) for identity, planned in single.runs if planned.member == "sst"]
    qqp_runs = [(identity, planned) for identity, planned in single.runs if planned.member == "qqp"]
    assert (len(sst_runs), len(qqp_runs)) == (4, 4), "two layers, two seeds"

    files = [single.folder.results.file(identity) for identity, _ in sst_runs]
    train_in_process(single.folder, *sst_runs[0])
    for file in files[1:3]:  # the others only need figures
        shutil.copy(files[0], file)
    opened = open_study(str(study), None, output, {})
    assert opened.base.tasks["sst"].layer_factors is not None
    assert opened.base.tasks["sst"].layer_factors.layers == [1, 2], "one of its runs is still to do"
    assert "Layers of sst: 1, 2, as the study's file has them" in opened.study.notes[0]

    shutil.copy(files[0], files[3])
    for file, accuracy in zip(files, (0.9, 0.1, 0.6, 0.6), strict=True):  # layer 2 has the better mean
        set_accuracy(file, accuracy)
    opened = open_study(str(study), None, output, {})
    assert opened.base.tasks["sst"].layer_factors is not None
    assert opened.base.tasks["sst"].layer_factors.layers == [2]
    assert opened.base.training.layer_learning_rates is not None
    assert opened.base.training.layer_learning_rates.layers == [1, 2], "of qqp no run is finished"
    assert "Layers of sst: 2, the best 1 of each task in single.yaml here." in opened.study.notes
    assert "Layers of sst and qqp: 1, 2, as the study's file has them" in opened.study.notes[1]

    overridden = open_study(str(study), None, output, {LAYERS: [1, 2]})
    assert overridden.base.tasks["sst"].layer_factors is not None
    assert overridden.base.tasks["sst"].layer_factors.layers == [1, 2], "the command line is asked first"


def test_a_study_without_single_layers_ranks_none(tmp_path: Path) -> None:
    study = write_both(tmp_path)
    write(tmp_path, "single.yaml", variants={"all": {}})
    (tmp_path / "studies" / "results").mkdir(parents=True)
    (tmp_path / "studies" / "results" / "another.json.gz").touch()  # of another study
    with pytest.raises(UserError, match="no run trains one layer alone for task 'sst'") as fault:
        open_study(str(study), None, tmp_path / "studies", {})
    assert fault.value.code == "ranked-layers"


@pytest.mark.parametrize(
    ("request_keys", "words"),
    [({"top": 0}, "top: Input should be greater"), ({"otherwise": []}, "otherwise: List should have at least 1 item")],
)
def test_a_fault_is_named_by_its_place(tmp_path: Path, request_keys: dict[str, Any], words: str) -> None:
    study = write_both(tmp_path, **request_keys)
    with pytest.raises(UserError, match=words) as fault:
        load_study(study)
    assert f"rates.yaml:5: set.{LAYERS}" in str(fault.value)


def test_rows_do_not_rank_layers_themselves(tmp_path: Path) -> None:
    study = write(tmp_path, "rates.yaml", variants={"chosen": {LAYERS: FROM}})
    with pytest.raises(UserError, match="layers_from stands in `set`, for all variants"):
        load_study(study)
