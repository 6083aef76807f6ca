"""Where dev examples lie in the encoder's space before and after training: their first two principal components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from manyheads.inference.embeddings import Projection, embed_texts, project, spread_rows
from manyheads.reports.facts import RunFacts
from manyheads.reports.figures.panels import legend_below, panel_grid
from manyheads.reports.figures.projection import draw_classes
from manyheads.reports.figures.style import FAINT
from manyheads.reports.task_predictions import TaskPredictions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXAMPLES = 250  # of a task: enough to see groups


@dataclass(frozen=True)
class Embeddings:
    """Some dev examples of a task, by the encoder that the run started from and by the trained one."""

    before: Projection
    after: Projection
    labels: np.ndarray


def project_embeddings(facts: RunFacts) -> dict[str, Embeddings]:
    """Of every task with texts and one label per example; empty where the model or its first encoder is gone."""
    if facts.first_encoder is None:
        return {}
    model = facts.run.model
    embeddings = {}
    for task_name, predictions in facts.predictions.items():
        count = len(predictions.texts)
        if count < 3 or predictions.labels.ndim != 1:
            continue
        rows = spread_rows(count, EXAMPLES)
        texts = [predictions.texts[row] for row in rows]
        before = project(embed_texts(model, facts.first_encoder, task_name, texts))
        after = project(embed_texts(model, model.encoder, task_name, texts))
        embeddings[task_name] = Embeddings(before, after, predictions.labels[rows])
    return embeddings


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
        axes.set_title(f"{when} ({sum(projection.explained):.0%})")
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set_color(FAINT)
    if predictions.is_regression:
        figure.colorbar(image, ax=panels, label="label", shrink=0.9)
    else:
        legend_below(figure)
    return figure
