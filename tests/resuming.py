"""A run that is killed at a step, in process, and resumed ends with the same bits as one that was left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from manyheads import load_recipe, resume, train
from manyheads.training.gradients.backward import Backward
from run_files import last_checkpoint, log_of

ToyRecipe = Callable[..., dict[str, Any]]


def check_resumed(toy_recipe: ToyRecipe, monkeypatch: pytest.MonkeyPatch, at: int = 3, **changes: Any) -> None:
    checkpoint = {"every_steps": at}
    straight = train(load_recipe(toy_recipe(name="straight", checkpoint=checkpoint, **changes)), quiet=True)

    class Killed(Exception):
        pass

    real = Backward.step

    def killed(*given: Any, **more: Any) -> Any:
        killed.calls += 1  # type: ignore[attr-defined]
        if killed.calls == at + 1:  # type: ignore[attr-defined]
            raise Killed
        return real(*given, **more)

    killed.calls = 0  # type: ignore[attr-defined]
    recipe = load_recipe(toy_recipe(name="cut", checkpoint=checkpoint, **changes))
    with monkeypatch.context() as patch:
        patch.setattr(Backward, "step", killed)
        with pytest.raises(Killed):
            train(recipe, quiet=True)
    checkpoints = sorted((recipe.folder / "checkpoints").glob("step-*"))
    assert checkpoints[-1].name == f"step-{at:08d}", "no step is trained again"
    resume(recipe.folder, quiet=True)
    for file in ("model.safetensors", "optimizer.safetensors"):
        one, other = last_checkpoint(straight.folder, file), last_checkpoint(recipe.folder, file)
        assert one.keys() == other.keys()
        for key, tensor in one.items():
            assert torch.equal(tensor, other[key]), key
    for first, second in zip(log_of(straight.folder), log_of(recipe.folder), strict=True):
        assert {**first, "seconds": 0, "took": 0} == {**second, "seconds": 0, "took": 0}
