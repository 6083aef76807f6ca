"""Which weights a run started from: its log keeps their fingerprints, so that averaging can tell a start in common."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from manyheads.model.multitask import ManyHeads
from manyheads.runs.run import Run

START_WEIGHTS = "start weights"  # the event of the log: weights before the first step, after the probe


def fingerprint_weights(model: ManyHeads) -> dict[str, Any]:
    """A hash of the encoder's tensors, and one of each head's; tasks that share a head stand under its owner."""
    states = model.state_dict()
    encoder = {name: tensor for name, tensor in states.items() if name.startswith("encoder.")}
    heads = {}
    for name, task in model.tasks.items():
        if task.head_of is None:
            heads[name] = _sha256({key: states[key] for key in model.head_names(name)})
    return {"encoder": _sha256(encoder), "heads": heads}


def _sha256(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {list(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()[:32]


@dataclass(frozen=True)
class Start:
    """Where a run began, as its log and its recipe say."""

    named: tuple[str, str | None]  # the encoder and the run to start from (`init`) that its recipe names
    seed: int
    encoder: str | None  # its fingerprint; None in logs that were written before there were any
    heads: Mapping[str, str]  # those of the heads
    solved: frozenset[str]  # tasks whose heads the probe solved on the frozen encoder

    @property
    def recorded(self) -> bool:
        return self.encoder is not None

    def same_encoder(self, other: Start) -> bool:
        """By the weights themselves; where a run did not record them, by what the recipes name."""
        if self.recorded and other.recorded:
            return self.encoder == other.encoder
        return self.named == other.named

    def same_head(self, other: Start, task: str) -> bool:
        """Whether a head began alike: with the same weights, or as the solution of the same linear problem.

        The probe's problem is convex and on the same features; the seed decides only which part of a large task is
        read, and on which examples the strength of the L2 term is chosen.
        """
        if task in self.solved and task in other.solved:
            return True
        if self.recorded and other.recorded:
            return self.heads.get(task) == other.heads.get(task)
        return self.seed == other.seed and self.named == other.named


def read_start(run: Run) -> Start:
    recipe = run.recipe
    weights: dict[str, Any] = {}
    solved: dict[str, float] = {}
    for record in run.log():
        if record["event"] == START_WEIGHTS:
            weights = record
        elif record["event"] == "probe":
            solved = record.get("solved", {})
    return Start(
        named=(recipe.encoder.name, recipe.init),
        seed=recipe.seed,
        encoder=weights.get("encoder"),
        heads=weights.get("heads", {}),
        solved=frozenset(solved),
    )
