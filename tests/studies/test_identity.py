"""When two runs are the same run: every default counts, keys that are added later do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from changed_defaults import change_option, changed_keys
from manyheads import registry
from manyheads.config.defaults import Defaults, code_settings, read_defaults
from manyheads.config.part import PartConfig
from manyheads.parts.encodings.base import Encoding
from manyheads.parts.kinds.classification import Classification
from manyheads.registry import forget_module, register
from manyheads.studies import identity as identity_module
from manyheads.studies.identity import changed_settings, run_identity
from manyheads.tasks.resolve import load_recipe

DEMO: dict[str, Any] = {
    "encoder": "toy",
    "tasks": {"a": {"train": "demo:sentiment"}, "b": {"train": "demo:paraphrase", "head": "linear"}},
}

GOLDEN = ["f5f915bf734b6119", "db615e938ef63dc6"]  # computed by version 0.1 itself


def identity(**changes: Any) -> str:
    return run_identity(load_recipe({**DEMO, **changes}))


def use_table(monkeypatch: pytest.MonkeyPatch, table: Defaults) -> None:
    monkeypatch.setattr(identity_module, "read_defaults", lambda version: table)


def test_identities_are_those_of_version_0_1(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made by version 0.1's rule: what is written, where it is not the default; parts as they are written."""
    monkeypatch.setattr(identity_module, "__version__", "0.1.0")
    written: dict[str, Any] = {
        "training": {"epochs": 3, "max_grad_norm": 0.5, "layer_learning_rates": {"layers": [1], "chosen": 1.0}},
        "sampler": {"name": "capped", "repeats": 5},
        "combine": {"name": "uncertainty", "weighted_tasks": ["a"]},
        "regularise": ["l1", {"name": "smart", "steps": 1}],
        "phases": [{}, {"combine": {}, "trainable": "heads"}],
        "evaluate": {"weights": {"a": 1}},
        "seed": 3,
    }
    assert [identity(defaults="0.1"), identity(defaults=0.1, **written)] == GOLDEN


def test_a_default_is_the_same_written_or_not() -> None:
    written = {"training": {"warmup": 0.1}, "sampler": "batch-round-robin", "evaluate": {}, "phases": None}
    assert identity(defaults="0.1", **written) == identity(defaults="0.1")
    assert changed_settings(load_recipe({**DEMO, "defaults": "0.1", **written})) == {
        "encoder": {"name": "toy"},
        "data": {},
        "tasks": {"a": {}, "b": {"head": "linear"}},
    }


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("training.warmup", 0.123),
        ("training.max_grad_norm", 7.0),
        ("evaluate.select", 0.123),
        ("combine.losses", PartConfig(name="random-weights")),
        ("sampler", PartConfig(name="staggered")),
        ("tasks.*.scale", "raw"),
    ],
)
def test_a_changed_default_of_a_key_counts(key: str, default: Any) -> None:
    before, pinned = identity(), identity(defaults="0.1")
    value = code_settings()[key]
    with changed_keys({key: default}):
        assert identity() != before
        assert identity(defaults="0.1") == pinned, "a recipe that names the version keeps its identity"
        assert run_identity(load_recipe(DEMO, {key: value})) == before, "and so does one that says what it was"
    assert identity() == before


@pytest.mark.parametrize(
    ("family", "part", "option", "default", "changes"),
    [
        ("heads", "linear", "dropout", 0.123, {}),  # of task b by name, of task a by default
        ("metrics", "calibration-error", "bins", 123, {}),
        ("samplers", "capped", "repeats", 123, {"sampler": "capped"}),
        ("regularisers", "smart", "weight", 1.23, {"regularise": "smart"}),
        ("samplers", "capped", "repeats", 123, {"phases": [{"sampler": "capped"}]}),
    ],
)
def test_a_changed_default_of_an_option_counts(
    family: str, part: str, option: str, default: Any, changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    before, pinned = identity(**changes), identity(defaults="0.1", **changes)
    without_the_part = identity(regularise="l1")
    change_option(monkeypatch, family, part, option, default)
    assert identity(**changes) != before
    assert identity(defaults="0.1", **changes) == pinned
    if changes:
        assert identity(regularise="l1") == without_the_part


def test_a_changed_rule_counts_for_tasks_that_leave_the_part_open(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = {"a": {**DEMO["tasks"]["a"], "pooling": "first", "loss": "cross-entropy"}}
    open_before, pinned, closed_before = identity(), identity(defaults="0.1"), identity(tasks=closed)
    with monkeypatch.context() as patch:
        patch.setattr(Encoding, "pooling", "last")
        assert identity() != open_before
        assert identity(defaults="0.1") == pinned
        assert identity(tasks=closed) == closed_before
    with monkeypatch.context() as patch:
        patch.setattr(Classification, "default_loss", lambda self, reader: "ordinal-log-loss")
        assert identity() != open_before
        assert identity(defaults="0.1") == pinned
        assert identity(tasks=closed) == closed_before


def test_how_a_file_is_read_counts_wherever_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("text\tlabel\na\t1\nb\t0\n")

    def of(task: dict[str, Any]) -> str:
        return identity(data={"root": str(tmp_path)}, tasks={"a": task})

    plain = of({"train": "x.tsv"})
    at_task = of({"train": "x.tsv", "quoting": "none"})
    assert len({plain, at_task, of({"train": "x.tsv", "format": "csv"})}) == 3
    assert of({"train": {"file": "x.tsv", "quoting": "none"}}) == at_task
    assert of({"train": {"file": "x.tsv", "quoting": "none"}, "quoting": "csv"}) == at_task, "the source's goes first"
    demo = {"a": {"train": "demo:sentiment"}}
    assert identity(tasks={"a": {**demo["a"], "quoting": "none"}}) == identity(tasks=demo), "not a file's business"


def test_a_new_key_counts_only_where_it_is_not_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity()
    with changed_keys({"training.novel": 1}):
        assert identity() != before, "nobody has said that 1 is as before"
        table = read_defaults("0.1")
        use_table(monkeypatch, replace(table, settings={**table.settings, "training.novel": 1}))
        assert identity() == before
        assert identity(training={"novel": 2}) != before
    with changed_keys({"training.novel": 2}):
        assert identity() != before, "its default may change later"


def test_a_new_option_counts_only_where_it_is_not_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity()
    change_option(monkeypatch, "heads", "linear", "novel", 1)
    assert identity() != before
    table = read_defaults("0.1")
    linear = {**table.options["heads"]["linear"], "novel": 1}
    heads = {**table.options["heads"], "linear": linear}
    use_table(monkeypatch, replace(table, options={**table.options, "heads": heads}))
    assert identity() == before
    change_option(monkeypatch, "heads", "linear", "novel", 2)
    assert identity() != before


def test_a_new_part_counts_with_all_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    class Novel:
        def __init__(self, tasks: list[str], *, weight: float = 1.0) -> None: ...

    Novel.__module__ = "manyheads.novel"
    register("regularisers", "novel")(Novel)
    try:
        before = identity(regularise="novel")
        assert changed_settings(load_recipe({**DEMO, "regularise": "novel"}))["regularise"] == [
            {"name": "novel", "weight": 1.0}
        ]
        assert identity(regularise={"name": "novel", "weight": 1.0}) == before
        change_option(monkeypatch, "regularisers", "novel", "weight", 2.0)
        assert identity(regularise="novel") != before
    finally:
        monkeypatch.undo()
        forget_module("manyheads.novel")


def test_an_own_part_is_known_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.parts()  # all of the package's own, before the copy
    monkeypatch.setattr(registry, "_parts", dict(registry._parts))  # what it registers is gone afterwards
    file = tmp_path / "own_regulariser.py"
    code = (
        "from manyheads.registry import register\n\n\n"
        "@register('regularisers', 'own-for-identity')\n"
        "class Own:\n    def __init__(self, tasks, *, weight: float = 1.0) -> None: ...\n"
    )
    file.write_text(code)
    changes = {"imports": [str(file)], "regularise": "own-for-identity"}
    before = identity(**changes)
    assert changed_settings(load_recipe({**DEMO, **changes}))["regularise"] == ["own-for-identity"]
    file.write_text(code.replace("1.0", "2.0"))
    assert identity(**changes) != before
