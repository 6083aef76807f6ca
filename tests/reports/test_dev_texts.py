"""Dev texts of a report: only those of the examples that were predicted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from manyheads import load_recipe, train
from manyheads.reports.dev_texts import add_texts
from manyheads.reports.facts import RunFacts
from manyheads.reports.task_predictions import TaskPredictions


@pytest.mark.slow
def test_texts_of_other_examples_are_not_taken(toy_recipe: Callable[..., dict[str, Any]], toy_data: Path) -> None:
    """A study knows the ids of its examples: a run folder with other ids, or another number of them, does not fit."""
    run = train(load_recipe(toy_recipe()), quiet=True)
    (toy_data / "mood.csv").unlink()
    mood = RunFacts(run.folder).predictions["mood"]
    assert mood.texts
    assert len(mood.ids) == len(mood.labels) > 1
    elsewhere = toy_data / "nowhere"
    cases = {
        "same ids": (mood.ids, len(mood.ids), run.folder),
        "other ids": (mood.ids[::-1], len(mood.ids), run.folder),
        "fewer examples": ([], len(mood.ids) - 1, run.folder),
        "no run folder": (mood.ids, len(mood.ids), elsewhere),
    }
    for case, (ids, count, folder) in cases.items():
        predictions = TaskPredictions(mood.task, mood.predictions[:count], mood.labels[:count], ids=list(ids))
        notes = add_texts({"mood": predictions}, [elsewhere, folder], run.recipe)
        fits = case == "same ids"
        assert predictions.texts == (mood.texts if fits else []), case
        assert bool(notes) != fits, case
