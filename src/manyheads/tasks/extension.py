"""What a recipe that extends a model may not ask for: nothing of the model may change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from manyheads.config.extends import MODEL_FILE, model_folder
from manyheads.config.recipe import Recipe
from manyheads.tasks.compatibility import Fault

FROZEN = "the model that this run extends stays as it is; only new heads learn. Write 'heads', or leave it out."


def extension_faults(recipe: Recipe) -> Iterator[Fault]:
    """What can be said before the model is opened."""
    if recipe.extends is None:
        return
    folder = model_folder(Path(recipe.extends))
    if not (folder / MODEL_FILE).is_file():
        reason = f"'{recipe.extends}' is neither a run folder with a model in best/ nor a model folder."
        yield Fault(("extends",), reason, "no-model")
    if recipe.init is not None:
        reason = "`extends` keeps another model's weights, `init` starts from them to change them; name one of them."
        yield Fault(("init",), reason, "extends-and-init")
    if Path(recipe.encoder.name) != folder or recipe.encoder.revision is not None:
        reason = f"the encoder is that of the model, {recipe.extends}; leave it out."
        yield Fault(("encoder",), reason, "extends-other-encoder")
    if recipe.training.trainable != "heads":
        yield Fault(("training", "trainable"), FROZEN, "extends-trains-encoder")
    for number, phase in enumerate(recipe.phases or []):
        if phase.trainable not in (None, "heads"):
            yield Fault(("phases", number, "trainable"), FROZEN, "extends-trains-encoder")
