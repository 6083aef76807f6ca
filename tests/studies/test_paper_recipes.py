"""The shipped studies train what they trained: their recipes, with every default, are those of the stored copy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from changed_defaults import change_option, changed_keys
from manyheads.config.part import PartConfig
from manyheads.parts.encodings.base import Encoding
from manyheads.parts.kinds.classification import Classification
from manyheads.tasks.resolve import load_recipe
from paper_recipes import FOLDER, as_text, base_settings, differences, names, resolved, stored_file

pytestmark = pytest.mark.slow

SHOWN = 20  # differences
OPEN_RECIPE = {"encoder": "toy", "tasks": {"a": {"train": "demo:paraphrase", "labels": [0, 1]}}}


@pytest.fixture
def fresh_bases() -> Iterator[None]:
    base_settings.cache_clear()
    yield
    base_settings.cache_clear()


def test_every_study_and_base_has_a_copy() -> None:
    assert sorted(file.name for file in FOLDER.iterdir()) == sorted(stored_file(name).name for name in names())


@pytest.mark.parametrize("name", names())
def test_a_recipe_is_that_of_the_stored_copy(name: str) -> None:
    file = stored_file(name)
    stored = file.read_text(encoding="utf-8") if file.is_file() else ""
    if stored == as_text(name):
        return
    lines = differences(name, stored) if stored else [f"{name}: there is no {file.name}"]
    shown = "\n".join(lines[:SHOWN]) + (f"\n… and {len(lines) - SHOWN} more" if len(lines) > SHOWN else "")
    pytest.fail(
        f"{shown}\nA default must not change what a shipped study trains. Where the study itself was changed, rewrite "
        "the copy with `make paper-recipes`, read the diff, and commit it."
    )


def test_a_difference_is_said_by_study_run_and_key() -> None:
    name = "papers/a8-order"
    stored = stored_file(name).read_text(encoding="utf-8")
    small = stored.index("\nsmall:")
    key = stored.index("epoch-round-robin", small)
    lines = differences(name, stored[:key] + "batch" + stored[key + len("epoch") :])
    assert lines
    assert all(line.startswith("papers/a8-order: small, ") for line in lines)
    assert ", sampler: stored {'name': 'batch-round-robin'" in lines[0]
    assert "now {'name': 'epoch-round-robin'" in lines[0]


@pytest.mark.usefixtures("fresh_bases")
def test_a_changed_default_changes_no_shipped_study(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, options of parts, and the rules by which a task's parts are chosen."""
    monkeypatch.setattr(Encoding, "pooling", "mean")
    monkeypatch.setattr(Classification, "default_loss", lambda self, reader: "cross-entropy")
    monkeypatch.setattr(Classification, "default_metrics", lambda self, task: ("macro-f1",))
    change_option(monkeypatch, "heads", "linear", "dropout", 0.2)
    change_option(monkeypatch, "samplers", "batch-round-robin", "until", "smallest")
    change_option(monkeypatch, "regularisers", "smart", "weight", 1.0)
    changes = {
        "training.warmup": 0.123,
        "training.max_grad_norm": None,
        "training.head_learning_rate": 1e-3,
        "evaluate.select": 0.1,
        "tasks.*.scale": "raw",
        "sampler": PartConfig(name="staggered"),
    }
    with changed_keys(changes):
        for name in ("scales/small", "papers/a8-order", "papers/e3-ablation"):
            assert as_text(name) == stored_file(name).read_text(encoding="utf-8")
        changed = resolved(load_recipe(OPEN_RECIPE))
    assert changed["tasks.a.pooling"]["name"] == "mean", "where it is not pinned"
    assert changed["tasks.a.loss"]["name"] == "cross-entropy"
    assert changed["tasks.a.metrics"] == ["macro-f1"]
    assert changed["tasks.a.head"]["dropout"] == 0.2
    assert changed["tasks.a.scale"] == "raw"
    assert changed["sampler"]["name"] == "staggered"
    assert changed["training.warmup"] == 0.123
    assert resolved(load_recipe(OPEN_RECIPE))["training.warmup"] != 0.123, "and the change is undone"
