"""Terms beside the loss. Importing registers every regulariser."""

from collections.abc import Sequence

from manyheads.config.part import Choice
from manyheads.regularise.base import Regulariser, View, divergence
from manyheads.regularise.bregman import Bregman
from manyheads.regularise.norms import L1, L2
from manyheads.regularise.smart import Smart


def build_regularisers(choices: Sequence[Choice], tasks: Sequence[str]) -> tuple[Regulariser, ...]:
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


__all__ = ["L1", "L2", "Bregman", "Regulariser", "Smart", "View", "build_regularisers", "divergence"]
