"""A recipe that extends a model (`extends`): which folder that is, and what the recipe then leaves to it."""

from __future__ import annotations

import json
from pathlib import Path

from manyheads.config.recipe import Recipe

MODEL_FILE = "manyheads.json"


def model_folder(folder: Path) -> Path:
    """A model folder itself, or best/ of a run."""
    return folder if (folder / MODEL_FILE).is_file() else folder / "best"


def fill_from_model(recipe: Recipe) -> None:
    """What the recipe leaves open is the model's: its encoder, its longest input; and nothing but heads learns."""
    folder = model_folder(Path(str(recipe.extends)))
    if "name" not in recipe.encoder.model_fields_set:
        recipe.encoder.name = str(folder)
    if recipe.encoder.max_length is None:
        recipe.encoder.max_length = _saved_max_length(folder / MODEL_FILE)
    if "trainable" not in recipe.training.model_fields_set:
        recipe.training.trainable = "heads"


def _saved_max_length(file: Path) -> int | None:
    """None where the file does not say it; opening the model then says what is wrong with it."""
    try:
        saved = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    length = saved.get("max_length") if isinstance(saved, dict) else None
    return length if isinstance(length, int) else None
