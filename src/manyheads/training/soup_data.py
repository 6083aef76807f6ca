"""What an average of runs is chosen and measured on: the runs' own held-out rows and dev, read again."""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.errors import UserError
from manyheads.model.multitask import ManyHeads
from manyheads.model.task_tokens import TaskTokens
from manyheads.runs.run import Run
from manyheads.tasks.load import load_tasks


@dataclass(frozen=True)
class SoupData:
    """Task → tokens, of tasks that the run trained."""

    selection: dict[str, TaskTokens]  # what `evaluate.select` holds out of train; without tasks that have none
    dev: dict[str, TaskTokens]


def read_soup_data(run: Run, model: ManyHeads) -> SoupData:
    """Both splits as the run had them: other rows are refused, for the run may have trained on them."""
    recipe = run.recipe
    fingerprints = run.metrics.get("data", {})
    data = SoupData({}, {})
    for name, loaded in load_tasks(recipe).items():
        if name not in (recipe.training.active_tasks or recipe.tasks):
            continue
        for split, examples in (("select", loaded.select), ("dev", loaded.dev)):
            if examples is None:
                continue
            tokens = TaskTokens(model.tasks[name], examples, model.tokenizer, row_group=loaded.row_group)
            key = f"{name} {split}"
            if tokens.fingerprint() != fingerprints.get(key):
                raise UserError(f"{run.folder}: its data has changed since it was trained ({key}).", "changed-data")
            splits = data.selection if split == "select" else data.dev
            splits[name] = tokens
    return data
