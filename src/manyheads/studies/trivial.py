"""What a study's rows are held against: the best constant prediction, and a linear model on the frozen encoder."""

from __future__ import annotations

from dataclasses import replace

from manyheads.studies.store import BASELINES, Result

TITLES = {"majority": "majority", "frozen": "frozen probe"}


def trivial_results(runs: dict[int, dict[str, Result]]) -> dict[str, dict[int, dict[str, Result]]]:
    """By title and seed: a row's results, with what a baseline has in place of what was trained. Without baselines
    that a run does not have."""
    by_title: dict[str, dict[int, dict[str, Result]]] = {}
    for baseline in BASELINES:
        seeds: dict[int, dict[str, Result]] = {}
        for seed, members in runs.items():
            seeds[seed] = {}
            for member, result in members.items():
                if baseline in result.baselines:
                    seeds[seed][member] = replace(result, metrics=result.baselines[baseline])
        if all(len(seeds[seed]) == len(members) for seed, members in runs.items()):
            by_title[TITLES[baseline]] = seeds
    return by_title
