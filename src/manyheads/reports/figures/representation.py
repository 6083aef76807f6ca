"""Where dev examples lie in the encoder's space, before and after training: their first two principal components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from manyheads.config.recipe import EncoderSettings
from manyheads.encoder import load_encoder
from manyheads.errors import UserError
from manyheads.model.multitask import ManyHeads
from manyheads.reports.facts import RunFacts, TaskPredictions
from manyheads.reports.figures.predictions import largest_classes
from manyheads.reports.figures.style import FAINT, colour, short
from manyheads.reports.figures.training import legend_below, side_by_side
from manyheads.storage.strings import Strings
from manyheads.tokens.column import tokenise_once
from manyheads.tokens.packing import Sequence, pack

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES = 250  # of a task: enough to see groups
PIECE = 64


@dataclass(frozen=True)
class Cloud:
    """Some dev examples of a task in two dimensions."""

    before: np.ndarray  # [examples, 2]
    after: np.ndarray
    shares: tuple[float, float]  # of the variance that two dimensions show, before and after
    labels: np.ndarray


def clouds(facts: RunFacts) -> dict[str, Cloud]:
    """Of every task with texts; nothing where the model or its first encoder is not here any more."""
    try:
        model = facts.run.model
        first = load_encoder(EncoderSettings(name=facts.run.recipe.encoder.name)).encoder
    except UserError as fault:
        facts.notes.append(f"Embeddings are not shown: {fault}")
        return {}
    found = {}
    for name, one in facts.predictions.items():
        if one.texts and one.labels.ndim == 1 and len(one.texts) > 2:
            rows = np.linspace(0, len(one.texts) - 1, min(EXAMPLES, len(one.texts))).astype(int)
            before = _states(model, first, name, one, rows)
            after = _states(model, model.encoder, name, one, rows)
            flat = [_components(states) for states in (before, after)]
            found[name] = Cloud(flat[0][0], flat[1][0], (flat[0][1], flat[1][1]), one.labels[rows])
    return found


@torch.no_grad()
def _states(
    model: ManyHeads, encoder: torch.nn.Module, task: str, one: TaskPredictions, rows: np.ndarray
) -> np.ndarray:
    """The mean token state of each example, both sentences of a pair together."""
    encoder.eval()
    sides = [Strings.of(one.texts[row][side] for row in rows) for side in range(len(one.texts[0]))]
    columns = tuple(tokenise_once(side, model.tokenizer) for side in sides)
    found = []
    for start in range(0, len(rows), PIECE):
        examples = [model.inputs(task, columns, row) for row in range(start, min(start + PIECE, len(rows)))]
        # whole sequences, whatever the task's pooling keeps
        tokens = pack([Sequence(side.ids, side.segments) for example in examples for side in example], model.device)
        states = encoder(tokens).cpu().numpy()
        bounds = zip(tokens.starts.tolist(), tokens.lengths.tolist(), strict=True)
        sums = [(states[first : first + length].sum(axis=0), length) for first, length in bounds]
        for example in examples:
            own, sums = sums[: len(example)], sums[len(example) :]
            found.append(np.sum([total for total, _ in own], axis=0) / sum(length for _, length in own))
    return np.stack(found)


def _components(states: np.ndarray) -> tuple[np.ndarray, float]:
    centred = states - states.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    share = float((sizes[:2] ** 2).sum() / max((sizes**2).sum(), 1e-12))
    return left[:, :2] * sizes[:2], share


def draw_cloud(one: TaskPredictions, cloud: Cloud) -> Figure:
    """Two panels, coloured by label: what training has pulled apart."""
    figure, every = side_by_side(2, height=2.9)
    for axes, points, share, when in zip(
        every, (cloud.before, cloud.after), cloud.shares, ("before", "after"), strict=True
    ):
        if one.task.kind == "regression":
            image = axes.scatter(*points.T, c=cloud.labels, cmap="viridis", s=9, linewidths=0)
            if axes is every[-1]:
                figure.colorbar(image, ax=every, label="label", shrink=0.9)
        else:
            names = one.task.labels.names
            shown = largest_classes(one)
            others = points[~np.isin(cloud.labels, shown)]
            if len(others):
                axes.plot(*others.T, "o", markersize=2, markeredgewidth=0, alpha=0.5, color=FAINT, label="others")
            for index, location in enumerate(shown):
                chosen, name = points[cloud.labels == location], names[location]
                axes.plot(
                    *chosen.T, "o", markersize=3, markeredgewidth=0, alpha=0.75, color=colour(index), label=short(name)
                )
        axes.set_title(f"{when} ({share:.0%})")
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_color(FAINT)
    if one.task.kind != "regression":
        legend_below(figure)
    return figure
