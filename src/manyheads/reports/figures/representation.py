"""Where dev examples lie in the encoder's space before and after training: their first two principal components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from manyheads.config.recipe import EncoderSettings
from manyheads.encoder import load_encoder
from manyheads.errors import UserError
from manyheads.model.multitask import ManyHeads
from manyheads.reports.facts import RunFacts
from manyheads.reports.figures.panels import legend_below, panel_grid
from manyheads.reports.figures.projection import draw_classes
from manyheads.reports.figures.style import FAINT
from manyheads.reports.task_predictions import TaskPredictions
from manyheads.storage.strings import Strings
from manyheads.tokens.column import tokenise_once
from manyheads.tokens.packing import Sequence, pack

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES = 250  # of a task: enough to see groups
BATCH_SIZE = 64


@dataclass(frozen=True)
class Projection:
    """Embeddings in two dimensions."""

    points: np.ndarray  # [examples, 2]
    explained: float  # share of the variance


@dataclass(frozen=True)
class Embeddings:
    """Some dev examples of a task, by the encoder that the run started from and by the trained one."""

    before: Projection
    after: Projection
    labels: np.ndarray


def project_embeddings(facts: RunFacts) -> dict[str, Embeddings]:
    """Of every task with texts and one label per example; empty where the model or its first encoder is gone."""
    try:
        model = facts.run.model
        first_encoder = load_encoder(EncoderSettings(name=facts.run.recipe.encoder.name)).encoder
    except UserError as fault:
        facts.notes.append(f"Embeddings are not shown: {fault}")
        return {}
    embeddings = {}
    for task_name, predictions in facts.predictions.items():
        count = len(predictions.texts)
        if count < 3 or predictions.labels.ndim != 1:
            continue
        rows = np.linspace(0, count - 1, min(EXAMPLES, count)).astype(int)
        texts = [predictions.texts[row] for row in rows]
        before = _project(_embed(model, first_encoder, task_name, texts))
        after = _project(_embed(model, model.encoder, task_name, texts))
        embeddings[task_name] = Embeddings(before, after, predictions.labels[rows])
    return embeddings


@torch.no_grad()
def _embed(model: ManyHeads, encoder: torch.nn.Module, task_name: str, texts: list[tuple[str, ...]]) -> np.ndarray:
    """[examples, width] the mean token state of each example, over both texts of a pair."""
    encoder.eval()
    columns = tuple(tokenise_once(Strings.of(column), model.tokenizer) for column in zip(*texts, strict=True))
    embeddings = []
    for start in range(0, len(texts), BATCH_SIZE):
        sequences: list[Sequence] = []
        sequence_counts: list[int] = []  # of each example: a bi-encoder has two
        for row in range(start, min(start + BATCH_SIZE, len(texts))):
            inputs = model.inputs(task_name, columns, row)
            # all positions, whichever the task's pooling needs
            sequences += [Sequence(sequence.ids, sequence.segments) for sequence in inputs]
            sequence_counts.append(len(inputs))
        tokens = pack(sequences, model.device)
        states = encoder(tokens).cpu().numpy()
        starts, lengths = tokens.starts.tolist(), tokens.lengths.tolist()
        first = 0
        for sequence_count in sequence_counts:
            total, length = 0.0, 0
            for sequence in range(first, first + sequence_count):
                end = starts[sequence] + lengths[sequence]
                total = total + states[starts[sequence] : end].sum(axis=0)
                length += lengths[sequence]
            embeddings.append(total / length)
            first += sequence_count
    return np.stack(embeddings)


def _project(states: np.ndarray) -> Projection:
    centred = states - states.mean(axis=0)
    components, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    explained = float((sizes[:2] ** 2).sum() / max((sizes**2).sum(), 1e-12))
    return Projection(components[:, :2] * sizes[:2], explained)


def draw_embeddings(predictions: TaskPredictions, embeddings: Embeddings) -> Figure:
    """Two panels, coloured by label: what training has separated."""
    figure, panels = panel_grid(2, height=2.9)
    projections = {"before": embeddings.before, "after": embeddings.after}
    for axes, (when, projection) in zip(panels, projections.items(), strict=True):
        if predictions.is_regression:
            first, second = projection.points.T
            image = axes.scatter(first, second, c=embeddings.labels, cmap="viridis", s=9, linewidths=0)
        else:
            draw_classes(axes, predictions, projection.points, embeddings.labels)
        axes.set_title(f"{when} ({projection.explained:.0%})")
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_color(FAINT)
    if predictions.is_regression:
        figure.colorbar(image, ax=panels, label="label", shrink=0.9)
    else:
        legend_below(figure)
    return figure
