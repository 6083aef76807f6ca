"""How the tasks of a run, or of a phase, are combined: a scalarizer, and an aggregator where gradients are changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from manyheads.parts.aggregators.base import Aggregator
from manyheads.parts.scalarizers.base import Scalarizer
from manyheads.seeding import seeded_rng

if TYPE_CHECKING:
    from manyheads.config.part import PartConfig
    from manyheads.config.training import CombineSettings

COPIES = {"float32": None, "bf16": torch.bfloat16}


class Combination(nn.Module):
    """Built from `combine`; its parameters and buffers are kept in checkpoints."""

    def __init__(
        self,
        scalarizer: Scalarizer,
        aggregator: Aggregator | None = None,
        layers: Sequence[int] | None = None,
        copies: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.scalarizer = scalarizer
        self.aggregator = aggregator
        self.layers = layers  # of the encoder, on which the aggregator acts; None: on all that tasks share
        self.copies = copies  # type of the task gradients kept aside; None: as they are


def build_combination(settings: CombineSettings, tasks: Sequence[str]) -> Combination:
    """The parts that a recipe names; a ValueError says which cannot be built, and why."""
    scalarizer: Scalarizer = _build("losses", settings.losses, tasks)
    if scalarizer.affine and not _is_affine(scalarizer, tasks):
        raise ValueError(
            f"losses: '{settings.losses.name}' weighs tasks by their losses; its class must say affine = False."
        )
    if settings.gradients is None:
        for key in ("layers", "copies"):
            if getattr(settings, key) != type(settings).model_fields[key].default:
                raise ValueError(f"'{key}' is about changed gradients; name in 'gradients' what changes them.")
        return Combination(scalarizer)
    if not scalarizer.affine:
        raise ValueError(
            f"'{settings.losses.name}' weighs tasks by the size of their losses, '{settings.gradients.name}' by their "
            "gradients; they cannot both. Use one of them, or losses such as 'fixed' or 'uncertainty'."
        )
    aggregator: Aggregator = _build("gradients", settings.gradients, tasks)
    return Combination(scalarizer, aggregator, settings.layers, COPIES[settings.copies])


def _is_affine(scalarizer: Scalarizer, tasks: Sequence[str]) -> bool:
    """Whether what tasks are multiplied with is the same for other losses."""
    found = []
    for start in (1.0, 2.0):
        with seeded_rng(0, "affine"):
            found.append(scalarizer.factors({task: start + number / 7 for number, task in enumerate(tasks)}))
    return all(abs(found[0][task] - found[1][task]) < 1e-9 for task in tasks)


def _build(key: str, choice: PartConfig, tasks: Sequence[str]) -> Any:
    try:
        return choice.build("scalarizers" if key == "losses" else "aggregators", tasks)
    except ValueError as fault:
        raise ValueError(f"{key}: '{choice.name}': {fault}") from None
