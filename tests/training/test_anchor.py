"""The anchor in recipes: resumed, off where texts are joined, and sentence vectors stay where they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from command import check_refused, manyheads
from manyheads import Run, load_recipe, train
from manyheads.config.recipe import EncoderSettings
from manyheads.encoder import load_encoder
from manyheads.encoder.hf_names import from_hugging_face
from manyheads.encoder.loading import read_tensors
from manyheads.inference.embeddings import embed_texts
from resuming import check_resumed
from run_files import last_checkpoint, log_of

pytestmark = pytest.mark.slow
ToyRecipe = Callable[..., dict[str, Any]]
RecipeFile = Callable[..., Path]
SENTENCES = [("the film was good",), ("a man plays",), ("the book was dull",), ("a great dog sleeps",)]
STILL = {"dropout": 0.0, "attention_dropout": 0.0}


def test_a_resumed_run_has_the_copies_of_both_phases(
    toy_recipe: ToyRecipe, monkeypatch: pytest.MonkeyPatch, toy_data: Path, toy_encoder: Path
) -> None:
    """Killed in the second phase, whose copy is of its own beginning; the first's is the encoder in its folder."""
    second = {"name": "anchor", "weight": 0.5, "reads": "first"}
    phases = [{"steps": 2, "regularise": "anchor"}, {"steps": 2, "regularise": [second]}]
    check_resumed(toy_recipe, monkeypatch, at=3, phases=phases, training={"batch_size": 8, "learning_rate": 1e-3})
    tensors, _ = from_hugging_face(read_tensors(toy_encoder))
    saved = last_checkpoint(toy_data / "runs" / "cut", "combiner_state.safetensors")
    for name, tensor in tensors.items():
        assert torch.equal(saved[f"regularise-1.0.start.{name}"], tensor), name
    moved = [name for name in tensors if not torch.equal(saved[f"regularise-2.0.start.{name}"], tensors[name])]
    assert moved


def test_it_is_off_where_texts_are_joined(toy_recipe: ToyRecipe) -> None:
    """The pairs of `near` are read as one input: a step of theirs alone has no term."""
    phases = [{"tasks": ["mood"], "steps": 2}, {"tasks": ["near"], "steps": 2}]
    run = train(load_recipe(toy_recipe(phases=phases, regularise="anchor")), quiet=True)
    terms = [step.get("regularise", {}) for step in log_of(run.folder, "step")]
    assert [list(term) for term in terms] == [["anchor"], ["anchor"], [], []]
    assert terms[0]["anchor"] > 1e-4, "v has dropout"


@pytest.mark.parametrize(
    ("tasks", "regularise"),
    [(["near"], "anchor"), (["mood", "near"], {"name": "anchor", "tasks": ["near"]})],
    ids=["no other task", "named"],
)
def test_refused_where_it_can_add_nothing(
    tasks: list[str], regularise: Any, recipe_file: RecipeFile, toy_recipe: ToyRecipe, toy_data: Path
) -> None:
    chosen = {name: settings for name, settings in toy_recipe()["tasks"].items() if name in tasks}
    result = manyheads("train", recipe_file(tasks=chosen, regularise=regularise))
    check_refused(
        result, "recipe.yaml:", "regularise: 'anchor': encoding 'cross' of task 'near' has no sentence vectors"
    )
    assert not (toy_data / "runs").exists()


def test_sentence_vectors_stay_where_they_were(toy_recipe: ToyRecipe, toy_encoder: Path) -> None:
    """After the same steps: mean cosine with the vectors of the start, and a task that is learnt all the same."""
    start = load_encoder(EncoderSettings(name=str(toy_encoder))).encoder
    cosines = {}
    for name, regularise in (("plain", []), ("anchored", [{"name": "anchor", "weight": 10.0}])):
        recipe = toy_recipe(name=name, regularise=regularise, encoder={"name": str(toy_encoder), **STILL})
        model = Run(train(load_recipe(recipe), quiet=True).folder).model
        one, other = (embed_texts(model, encoder, "mood", SENTENCES) for encoder in (model.encoder, start))
        products = (one * other).sum(axis=1)
        cosines[name] = float((products / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)).mean())
    assert 1 - cosines["anchored"] < (1 - cosines["plain"]) / 3
