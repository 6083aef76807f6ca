"""manyheads: one shared BERT-family encoder, many task heads, trained together.

import manyheads
run = manyheads.train("recipe.yaml")
run.predict("sentiment", ["A warm and funny film."])
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

__version__ = version("manyheads")

# public name → where it lives; imported on first use, so that `import manyheads` does not wait for torch
_PUBLIC = {
    "Recipe": "manyheads.config.recipe",
    "load_recipe": "manyheads.tasks.resolve",
    "Task": "manyheads.tasks.task",
    "ManyHeads": "manyheads.model.multitask",
    "train": "manyheads.training.loop",
    "resume": "manyheads.training.loop",
    "extend": "manyheads.training.loop",
    "average": "manyheads.training.soup",
    "distill": "manyheads.distilling.distill",
    "export": "manyheads.exporting.folder",
    "publish": "manyheads.publishing.folder",
    "Predictor": "manyheads.inference.predictor",
    "Run": "manyheads.runs.run",
    "create_app": "manyheads.runs.served",
    "register": "manyheads.registry",
    "parts": "manyheads.registry",
    "UserError": "manyheads.errors",
}
__all__ = [
    "ManyHeads",
    "Predictor",
    "Recipe",
    "Run",
    "Task",
    "UserError",
    "average",
    "create_app",
    "distill",
    "export",
    "extend",
    "load_recipe",
    "parts",
    "publish",
    "register",
    "resume",
    "train",
]

if TYPE_CHECKING:
    from manyheads.config.recipe import Recipe
    from manyheads.distilling.distill import distill
    from manyheads.errors import UserError
    from manyheads.exporting.folder import export
    from manyheads.inference.predictor import Predictor
    from manyheads.model.multitask import ManyHeads
    from manyheads.publishing.folder import publish
    from manyheads.registry import parts, register
    from manyheads.runs.run import Run
    from manyheads.runs.served import create_app
    from manyheads.tasks.resolve import load_recipe
    from manyheads.tasks.task import Task
    from manyheads.training.loop import extend, resume, train
    from manyheads.training.soup import average


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'manyheads' has no attribute '{name}'")
    return getattr(import_module(_PUBLIC[name]), name)
