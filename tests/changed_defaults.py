"""Change a default of the code for the length of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import BaseModel, create_model
from pydantic.fields import FieldInfo

from manyheads import registry
from manyheads.config.keys import part_families
from manyheads.config.recipe import Recipe
from manyheads.config.task import TaskSettings
from manyheads.config.training import CombineSettings, EvaluateSettings, Training

SECTIONS = {"training": Training, "evaluate": EvaluateSettings, "combine": CombineSettings}
MODELS: tuple[type[BaseModel], ...] = (*SECTIONS.values(), TaskSettings, Recipe)


@contextmanager
def changed_keys(changes: dict[str, Any]) -> Iterator[None]:
    """{'training.warmup': .06, 'tasks.*.scale': 'unit'}: other defaults of keys, or keys that are new."""
    with pytest.MonkeyPatch.context() as patch:
        for key, default in changes.items():
            section, _, name = key.rpartition(".")
            model = {**SECTIONS, "tasks.*": TaskSettings, "": Recipe}[section]
            if name in model.model_fields:
                patch.setattr(model.model_fields[name], "default", default)
            else:
                patch.setitem(model.model_fields, name, FieldInfo(annotation=type(default), default=default))
        _rebuild()
        for name, model in SECTIONS.items():
            patch.setattr(Recipe.model_fields[name], "default", model())
        _rebuild()
        try:
            yield
        finally:
            patch.undo()
            _rebuild()


def _rebuild() -> None:
    for model in MODELS:
        model.model_rebuild(force=True)
    part_families.cache_clear()


def change_option(patch: pytest.MonkeyPatch, family: str, name: str, option: str, default: Any) -> None:
    """Another default of a part's option, or an option that is new."""
    part = registry.find(family, name)
    fields: dict[str, Any] = {key: (field.annotation, field) for key, field in part.options.model_fields.items()}
    fields[option] = (type(default), default)
    patch.setitem(part.__dict__, "options", create_model(name, **fields))
