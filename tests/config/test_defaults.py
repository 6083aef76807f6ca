"""The frozen defaults of an earlier version, and recipes that are filled in with them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from changed_defaults import change_option, changed_keys
from freeze_defaults import as_yaml, code_defaults, with_new_keys
from manyheads import registry
from manyheads.config.defaults import FIRST_VERSION, defaults_file, read_defaults
from manyheads.config.part import PartConfig
from manyheads.config.recipe import Recipe
from manyheads.errors import UserError
from manyheads.parts.encodings.base import Encoding
from manyheads.parts.kinds.classification import Classification
from manyheads.tasks.load import load_tasks
from manyheads.tasks.resolve import load_recipe

DEMO: dict[str, Any] = {"encoder": "toy", "tasks": {"a": {"train": "demo:paraphrase"}}}


def test_every_key_and_option_has_a_value_that_means_as_before() -> None:
    frozen = read_defaults(FIRST_VERSION)
    complete = with_new_keys(frozen, code_defaults())
    advice = "run `make defaults`, and see that the value means 'as before'"
    assert list(frozen.settings) == list(complete.settings), advice
    assert frozen.options == complete.options, advice
    assert defaults_file(FIRST_VERSION).read_text(encoding="utf-8") == as_yaml(complete, FIRST_VERSION)


def test_what_is_frozen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new key is added at today's default; an old value is not touched."""
    frozen = read_defaults(FIRST_VERSION)
    monkeypatch.setattr(Encoding, "pooling", "mean")
    change_option(monkeypatch, "heads", "linear", "dropout", 0.2)
    change_option(monkeypatch, "heads", "linear", "novel", 7)
    with changed_keys({"training.warmup": 0.06, "training.novel": 8}):
        complete = with_new_keys(frozen, code_defaults())
    assert complete.settings["training.warmup"] == 0.1
    assert complete.settings["training.novel"] == 8
    assert complete.options["heads"]["linear"] == {"dropout": 0.1, "novel": 7}
    assert complete.task_parts == frozen.task_parts


def test_some_values_by_hand() -> None:
    frozen = read_defaults("0.1")
    assert frozen.settings["training.learning_rate"] == 5e-5
    assert frozen.settings["training.betas"] == [0.9, 0.999]
    assert frozen.settings["tasks.*.resume_margin"] == 0.01
    assert frozen.options["samplers"]["capped"]["repeats"] == 5
    assert frozen.task_parts["pooling"]["bi-cosine"] == "mean"
    assert frozen.task_parts["loss"]["classification of 2 classes"] == "binary-cross-entropy"


def test_every_frozen_value_can_be_used_today() -> None:
    frozen = read_defaults(FIRST_VERSION)
    for family, parts in frozen.options.items():
        for name, options in parts.items():
            registry.find(family, name).check(options)
    settings = {key: value for key, value in frozen.settings.items() if key.split(".")[0] in ("training", "evaluate")}
    optional = ("training.layer_learning_rates.", "training.budget.")  # sections that version 0.1 left out
    load_recipe(DEMO, {key: value for key, value in settings.items() if not key.startswith(optional)})


def test_what_a_recipe_leaves_open_is_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    change_option(monkeypatch, "samplers", "batch-round-robin", "until", "smallest")
    change_option(monkeypatch, "regularisers", "smart", "weight", 9.0)
    changes = {"training.warmup": 0.06, "training.epochs": 9, "tasks.*.scale": "unit"}
    with changed_keys({**changes, "sampler": PartConfig(name="uniform")}):
        content = {**DEMO, "training": {"epochs": 9}, "phases": [{"regularise": {"name": "smart", "steps": 2}}]}
        today, pinned = load_recipe(content), load_recipe({**content, "defaults": "0.1"})
        assert (today.training.warmup, pinned.training.warmup) == (0.06, 0.1)
        assert (today.training.epochs, pinned.training.epochs) == (9, 9), "which the recipe says"
        assert (today.tasks["a"].scale, pinned.tasks["a"].scale) == ("unit", "standard")
        assert (today.sampler.name, pinned.sampler.name) == ("uniform", "batch-round-robin")
        assert pinned.sampler.options["until"] == "largest"
        assert pinned.phases is not None
        assert pinned.phases[0].regularise is not None
        smart = pinned.phases[0].regularise[0]
        assert (smart.options["steps"], smart.options["weight"]) == (2, 0.45)
        assert "weight" in smart.filled
        assert "steps" not in smart.filled
        assert pinned.training.model_fields_set == {"epochs"}
        written_out = load_recipe(yaml.safe_load(pinned.to_yaml()))
        assert written_out.model_dump() == pinned.model_dump(), "a run's own recipe file gives the same run"
    assert Recipe.model_validate(DEMO).training.epochs != 9, "the change is undone"


def test_the_parts_that_data_decides_are_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Encoding, "pooling", "mean")
    monkeypatch.setattr(Classification, "default_loss", lambda self, reader: "cross-entropy")
    monkeypatch.setattr(Classification, "default_metrics", lambda self, task: ("f1",))
    change_option(monkeypatch, "heads", "linear", "dropout", 0.2)
    today = load_tasks(load_recipe(DEMO))["a"].task
    pinned = load_tasks(load_recipe({**DEMO, "defaults": "0.1"}))["a"].task
    assert (today.pooling.name, pinned.pooling.name) == ("mean", "head-pooler")
    assert (today.loss.name, pinned.loss.name) == ("cross-entropy", "binary-cross-entropy")
    assert (today.metrics[0].name, pinned.metrics[0].name) == ("f1", "accuracy")
    assert "dropout" not in today.head.options
    assert pinned.head.options["dropout"] == 0.1


def test_a_version_that_is_not_known_is_refused() -> None:
    with pytest.raises(UserError, match=r"defaults: .*0\.1"):
        load_recipe({**DEMO, "defaults": "0.7"})
