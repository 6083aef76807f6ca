"""Everything goes with everything: a cover in which every two settings that may stand together do so is trained.

The settings come from the registry, so a new part is covered without editing this file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from command import start_two, wait_for_two
from manyheads import train
from manyheads.registry import find, parts
from manyheads.tasks.resolve import load_recipe
from manyheads.training import frozen_cache as frozen

NONE = None
SPELT: dict[Any, Any] = {  # settings that take more than a word
    "ball": {"name": "smart", "form": "ball", "epsilon": 1e-3, "masks": "independent", "tasks": ["near"]},
    "library": {"name": "smart", "form": "library"},
    "layer 1": [1],
    "chosen layers": {"layers": [1], "chosen": 2.0, "others": 0.5},
}
FACTORS: dict[str, list[Any]] = {
    "sampler": [part.name for part in parts("samplers")],
    "losses": [part.name for part in parts("scalarizers")],
    "gradients": [NONE, *(part.name for part in parts("aggregators"))],
    "regularise": [NONE, *(part.name for part in parts("regularisers")), "ball", "library"],
    "trainable": ["all", "heads", "top-1", "layers", "layer 1"],
    "frozen_dropout": [False, True],
    "head_learning_rate": [NONE, 2e-3],
    "layer_learning_rates": [NONE, "chosen layers"],
    "accumulate": [1, 2],
    "tokens_per_pass": [8192, 30],
    "schedule": ["linear", "cosine", "constant"],
    "layer_decay": [1.0, 0.8],
    "precision": ["float32", "bf16"],
    "copies": ["float32", "bf16"],
}
NEEDED = {"explicit": {"probabilities": {"mood": 0.6, "near": 0.4}}}


def legal(row: dict[str, Any]) -> bool:
    """What recipes refuse: losses that weigh tasks by size with surgery, and copies of gradients without it."""
    affine = "losses" not in row or find("scalarizers", row["losses"]).factory.affine
    surgery = row.get("gradients", "unknown")
    copies = row.get("copies") == "bf16"  # which only surgery makes
    if not affine and (surgery not in (None, "unknown") or copies):
        return False
    return not (surgery is None and copies)


def pairs_of(row: dict[str, Any]) -> set[tuple[tuple[str, Any], tuple[str, Any]]]:
    return set(combinations(row.items(), 2))


@cache  # made by the first test that needs it, not whenever tests are collected
def cover() -> list[dict[str, Any]]:
    """Row by row, setting by setting, whatever covers most pairs that are still missing."""
    missing = {
        ((one, a), (other, b))
        for one, other in combinations(FACTORS, 2)
        for a in FACTORS[one]
        for b in FACTORS[other]
        if legal({one: a, other: b})
    }
    rows: list[dict[str, Any]] = []
    while missing:
        (one, a), (other, b) = min(missing, key=str)
        row = {one: a, other: b}
        for factor, values in FACTORS.items():
            if factor not in row:
                fitting = [value for value in values if legal({**row, factor: value})]
                gains = [sum(1 for f, v in row.items() if pair(f, v, factor, value) in missing) for value in fitting]
                row[factor] = fitting[max(range(len(fitting)), key=lambda i: (gains[i], -i))]
        row = {factor: row[factor] for factor in FACTORS}
        rows.append(row)
        missing -= pairs_of(row)
    return rows


def pair(one: str, a: Any, other: str, b: Any) -> tuple[tuple[str, Any], tuple[str, Any]]:
    order = list(FACTORS)
    return ((one, a), (other, b)) if order.index(one) < order.index(other) else ((other, b), (one, a))


SHARES = 16  # tests that the cover is dealt to, so that processes can share the work


def recipe_of(row: dict[str, Any], toy_recipe: Callable[..., dict[str, Any]], name: str) -> dict[str, Any]:
    keys = (
        "trainable",
        "frozen_dropout",
        "head_learning_rate",
        "layer_learning_rates",
        "accumulate",
        "tokens_per_pass",
        "schedule",
    )
    row = {key: SPELT.get(value, value) for key, value in row.items()}
    return toy_recipe(
        name=name,
        sampler={"name": row["sampler"], **NEEDED.get(row["sampler"], {})},
        combine={"losses": row["losses"], "gradients": row["gradients"], "copies": row["copies"]},
        regularise=[row["regularise"]] if row["regularise"] else [],
        training={"epochs": 3, "max_steps": 2, "batch_size": 8, "learning_rate": 1e-3, "conflicts": 0.5}
        | {key: row[key] for key in (*keys, "layer_decay", "precision")},
        evaluate={"max_examples": 3},
        checkpoint={"best_per_task": False},
    )


def check_run(folder: Path) -> None:
    steps = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    losses = [value for one in steps if one["event"] == "step" for value in one["loss"].values()]
    assert losses
    assert all(math.isfinite(one) for one in losses)
    assert (folder / "metrics.json").is_file()


def test_the_cover_has_every_setting() -> None:
    for factor, values in FACTORS.items():
        assert {row[factor] for row in cover()} == set(values)
    assert len(cover()) < 2.2 * len(FACTORS["sampler"]) * len(FACTORS["losses"])


@pytest.mark.slow
@pytest.mark.parametrize("share", range(SHARES))
def test_every_two_settings_train_together(
    share: int, toy_recipe: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frozen, "WORTH", 0.0)  # so that states of frozen layers are kept in runs as short as these
    for number, row in enumerate(cover()[share::SHARES]):
        run = train(load_recipe(recipe_of(row, toy_recipe, f"row-{number}")), quiet=True)
        check_run(run.folder)


# the process group is kept from one run to the next, so that two processes are started once for all of them
TWO = """
import json, sys
from manyheads import train
from manyheads.training import frozen_cache as frozen
frozen.WORTH = 0.0
from manyheads.training.distributed import Processes
from manyheads.tasks.resolve import load_recipe
Processes.leave = Processes.wait
for recipe in json.load(open(sys.argv[1])):
    train(load_recipe(recipe), quiet=True)
"""


@pytest.mark.slow
def test_every_setting_trains_in_two_processes(toy_recipe: Callable[..., dict[str, Any]], toy_data: Path) -> None:
    chosen: list[dict[str, Any]] = []
    missing = {(factor, value) for factor, values in FACTORS.items() for value in values}
    while missing:
        best = max(cover(), key=lambda row: len(missing & set(row.items())))
        chosen.append(best)
        missing -= set(best.items())
    recipes = [recipe_of(row, toy_recipe, f"two-{number}") for number, row in enumerate(chosen)]
    (toy_data / "recipes.json").write_text(json.dumps(recipes))
    result = wait_for_two(start_two(toy_data / "recipes.json", program=TWO))
    assert result.returncode == 0, result.stderr[-3000:]
    for recipe in recipes:
        check_run(toy_data / "runs" / recipe["name"])
