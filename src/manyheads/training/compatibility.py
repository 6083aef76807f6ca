"""What this encoder, or several processes, cannot do: refused before training starts."""

from __future__ import annotations

from typing import Any

from manyheads import registry
from manyheads.config.recipe import Recipe
from manyheads.encoder import Encoder
from manyheads.errors import UserError
from manyheads.tasks.task import Task


def check_length(recipe: Recipe, encoder: Encoder) -> None:
    if (recipe.encoder.max_length or 0) > encoder.max_length:
        location = recipe.location("encoder", "max_length")
        raise UserError(f"{location}: this encoder reads at most {encoder.max_length} tokens.", "max-length-too-large")


def check_whole_batches(recipe: Recipe, tasks: dict[str, Task], processes: int) -> None:
    for name, task in tasks.items():
        if processes > 1 and registry.find("losses", task.loss.name).factory.whole_batch:
            location = recipe.location("tasks", name, "loss")
            reason = f"'{task.loss.name}' compares the examples of a batch, which several processes would cut up"
            raise UserError(f"{location}: {reason}; train it in one.", "loss-needs-one-process")


def check_layers(recipe: Recipe, encoder: Encoder) -> None:
    """Refuse layers that this encoder does not have, wherever a recipe names some."""
    if not len(encoder.layers) and recipe.training.layer_decay != 1:
        location = recipe.location("training", "layer_decay")
        raise UserError(
            f"{location}: this encoder's layers share their weights, and so their rate; leave it out.",
            "layers-share-weights",
        )
    for path, layers in _named_layers(recipe).items():
        _check_named(recipe.location(*path), layers, encoder)


def _named_layers(recipe: Recipe) -> dict[tuple[str | int, ...], Any]:
    """Path of a setting → the layers that it names."""
    layer_rates = recipe.training.layer_learning_rates
    named: dict[tuple[str | int, ...], Any] = {
        ("combine", "layers"): recipe.combine.layers,
        ("training", "trainable"): recipe.training.trainable,
        ("training", "layer_learning_rates", "layers"): layer_rates and layer_rates.layers,
    }
    for number, phase in enumerate(recipe.phases or []):
        named["phases", number, "trainable"] = phase.trainable
        named["phases", number, "combine", "layers"] = phase.combine and phase.combine.layers
    for name, task in recipe.tasks.items():
        named["tasks", name, "layer_factors", "layers"] = task.layer_factors and task.layer_factors.layers
    return named


def _check_named(location: str, layers: Any, encoder: Encoder) -> None:
    depth = encoder.depth
    if not len(encoder.layers) and layers not in (None, "all", "heads"):
        raise UserError(
            f"{location}: this encoder's layers share their weights; no layer can be chosen.", "layers-share-weights"
        )
    if isinstance(layers, str) and layers.startswith("top-") and int(layers.removeprefix("top-")) > depth:
        raise UserError(f"{location}: this encoder has {depth} layers, found '{layers}'.", "no-such-layer")
    if isinstance(layers, list) and any(layer > depth for layer in layers):
        raise UserError(
            f"{location}: layers are 1 to {depth} here, 0 is the embeddings; found {layers}.", "no-such-layer"
        )
