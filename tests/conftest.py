"""A toy encoder (2 layers, 32 wide, a few hundred word pieces) keeps the suite in seconds; it is a real BERT."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest

# the same examples everywhere, and none refused because a busy machine took long to make them
SLOW = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile("same", derandomize=True, deadline=None, suppress_health_check=SLOW)
hypothesis.settings.load_profile("same")
os.environ["HF_HUB_OFFLINE"] = "1"  # nothing here may wait for a network
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.fsync = lambda descriptor: None  # no test pulls the plug; tests/storage/test_files.py sees that files are synced
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")  # some virtual machines advertise AMX and crash on it

from manyheads.encoder.toy import WORDS, write_toy_encoder  # noqa: E402  (after the environment is set)
from report_fixtures import finished_study, hostile_run, other_run, report_runs, smoke_run  # noqa: E402, F401  (used by name)
from saved_models import model_folder, saved_model  # noqa: E402, F401  (used by name)


def pytest_collection_finish() -> None:
    """What libraries and tests have made by now stays to the end: it need not be looked through for garbage."""
    gc.collect()
    gc.freeze()


SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def toy_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_encoder(tmp_path_factory.mktemp("toy") / "encoder")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Fixtures of whole modules too read nothing that the user's cache keeps."""
    os.environ["MANYHEADS_CACHE"] = str(tmp_path_factory.getbasetemp() / "cache")


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that all processes of this test session share: whoever needs it first makes it. Work on a copy."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder, is_made = root / name, root / f"{name}.made"
    with (root / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_made.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            is_made.touch()
    return folder


def write_toy_data(folder: Path) -> Path:
    """Two small tasks as files: 40 rated sentences (csv), 30 graded pairs (tsv)."""
    moods = ["dull", "poor", "good", "great"]
    rows = [f"{i},the {WORDS[2 + i % 4]} was {moods[i % 4]} {i},{i % 4}" for i in range(40)]
    (folder / "mood.csv").write_text("id,sentence,label\n" + "\n".join(rows) + "\n")
    pairs = [
        f"{i}\ta man plays {i}\ta man {['plays', 'sleeps', 'runs'][i % 3]}\t{[4.6, 1.2, 2.5][i % 3]}" for i in range(30)
    ]
    (folder / "near.tsv").write_text("id\tsentence1\tsentence2\tscore\n" + "\n".join(pairs) + "\n")
    return folder


def toy_settings(data: Path, encoder: Path) -> dict[str, Any]:
    """A recipe over the toy tasks."""
    return {
        "name": "toy",
        "defaults": "0.1",  # tests say what they are about; the defaults of today have tests of their own
        "encoder": str(encoder),
        "data": {"root": str(data)},
        "tasks": {"mood": {"train": "mood.csv"}, "near": {"train": "near.tsv", "range": [0, 5]}},
        "training": {"epochs": 2, "batch_size": 8, "learning_rate": 1e-3},
        "output": str(data / "runs"),
        "report": False,  # it takes longer than the training
    }


def write_exported_run(folder: Path, encoder: Path) -> None:
    """A trained run of the toy tasks, and its export in int8."""
    from manyheads import load_recipe, train
    from manyheads.exporting.folder import ExportSettings, export

    run = train(load_recipe(toy_settings(write_toy_data(folder), encoder)), quiet=True)
    export(run.folder, settings=ExportSettings(precision="int8", most_lost=1.0))


@pytest.fixture(scope="session")
def toy_run(toy_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder. Work on a copy."""
    made = made_once(tmp_path_factory, "exported-run", lambda folder: write_exported_run(folder, toy_encoder))
    return made / "runs" / "toy"


@pytest.fixture
def toy_data(tmp_path: Path) -> Path:
    return write_toy_data(tmp_path)


@pytest.fixture
def toy_recipe(toy_data: Path, toy_encoder: Path) -> Callable[..., dict[str, Any]]:
    """The toy recipe as a dict; keyword arguments replace its sections."""

    def make(**changes: Any) -> dict[str, Any]:
        return {**toy_settings(toy_data, toy_encoder), **changes}

    return make


@pytest.fixture
def recipe_file(toy_recipe: Callable[..., dict[str, Any]], toy_data: Path) -> Callable[..., Path]:
    """The same as a file on disk (JSON is YAML)."""

    def make(**changes: Any) -> Path:
        file = toy_data / "recipe.yaml"
        file.write_text(json.dumps(toy_recipe(**changes), indent=1))
        return file

    return make


@pytest.fixture
def shared_data() -> Path:
    if not SHARED_DATA.is_dir():
        pytest.skip("the real data files are not here")
    return SHARED_DATA
