"""Terms beside the loss. Importing registers every regulariser."""

from collections.abc import Sequence

from manyheads.config.part import PartConfig
from manyheads.parts.regularisers.anchor import Anchor
from manyheads.parts.regularisers.base import ForwardPass, Regulariser, divergence
from manyheads.parts.regularisers.bregman import Bregman
from manyheads.parts.regularisers.norms import L1, L2
from manyheads.parts.regularisers.r_drop import RDrop
from manyheads.parts.regularisers.smart import Smart


def build_regularisers(choices: Sequence[PartConfig], tasks: Sequence[str]) -> tuple[Regulariser, ...]:
    """Those that a recipe names, without those of weight 0; a ValueError says which cannot be built, and why."""
    found = []
    for choice in choices:
        try:
            one: Regulariser = choice.build("regularisers", tasks)
        except ValueError as fault:
            raise ValueError(f"'{choice.name}': {fault}") from None
        one.name = choice.name
        found.append(one)
    return tuple(one for one in found if one.weight)


__all__ = [
    "L1",
    "L2",
    "Anchor",
    "Bregman",
    "ForwardPass",
    "RDrop",
    "Regulariser",
    "Smart",
    "build_regularisers",
    "divergence",
]
