"""What a run's log says about tasks whose gradients agree or conflict: where, how much, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import t as student

from manyheads.errors import UserError
from manyheads.reports.gramians import pcgrad_change, read_gramians, surgery_change
from manyheads.runs.run import Run

ALL_SHARED = "all shared"
MIN_STEPS = 10  # measured steps, below which nothing is said
SMALL_COSINE = 0.02  # a mean cosine this near 0 is none
LOUD_RATIO = 3.0  # a gradient this many times as long as another's decides the step
SURGERY_CHANGE = 0.1  # surgery that moves the step by less than this share of its length is not worth a trial
BETWEEN_TASKS = " – "

Measurements = dict[str, dict[str, list[tuple[float, float]]]]  # pair → layer group → (cosine, ratio of lengths)


@dataclass(frozen=True)
class Agreement:
    """Two tasks in one group of layers, over the measured steps."""

    steps: int
    cosine: float  # mean
    error: float | None  # standard error of that mean; None for one step
    against: float  # share of the steps with a negative cosine
    ratio: float  # length of the first gradient over that of the second: geometric mean

    def direction(self, comparisons: int) -> int:
        """1 where they help each other, -1 where they conflict, 0 where it is small or may be chance.

        By Student's t at 5 %, divided by the number of `comparisons` that are made at once (Bonferroni).
        """
        if self.error is None or self.steps < MIN_STEPS or abs(self.cosine) < SMALL_COSINE:
            return 0
        if abs(self.cosine) <= student.ppf(1 - 0.025 / comparisons, self.steps - 1) * self.error:
            return 0
        return int(math.copysign(1, self.cosine))


@dataclass(frozen=True)
class Conflicts:
    """All that a run measured."""

    steps: list[int]
    took: float  # seconds
    training: float  # seconds of all steps
    pairs: dict[str, dict[str, Agreement]]  # 'a – b' → layer group → how they agree
    together: int  # how many of the steps train more than one task
    would: list[float]  # by which share of its length PCGrad would move each of these steps
    did: list[float]  # by which share the run's own aggregator moved the steps that have one

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read_conflicts(run: Run) -> Conflicts:
    """From the run's log; the run may be unfinished."""
    log = run.log()
    records = [record for record in log if record["event"] == "conflicts"]
    if not records:
        message = f"{run.folder}: no conflicts were measured: {_why_not_measured(run, log)}"
        raise UserError(message, code="no-conflicts")
    measurements: Measurements = {}
    would, did = [], []
    for record in records:
        gramians = read_gramians(record)
        sum_of_groups = np.sum(list(gramians.values()), axis=0)
        trained = [record["tasks"].index(task) for task in record["trained"]]
        if len(trained) > 1:
            would.append(pcgrad_change(sum_of_groups[np.ix_(trained, trained)]))
            if "surgery" in record:
                did.append(surgery_change(gramians, trained, record))
        order = [task for task in run.recipe.tasks if task in record["tasks"]]  # the recipe's order
        _add_measurements(measurements, record["tasks"], order, {ALL_SHARED: sum_of_groups, **gramians})
    return Conflicts(
        steps=[record["step"] for record in records],
        took=sum(record["took"] for record in records),
        training=max(record["seconds"] for record in log),
        pairs=_agreements(measurements),
        together=len(would),
        would=would,
        did=did,
    )


def _add_measurements(
    measurements: Measurements, tasks: list[str], order: list[str], gramians: dict[str, np.ndarray]
) -> None:
    """Add the cosines and lengths of one step. `tasks` are the rows of the Gramians."""
    for first, second in combinations(order, 2):
        i, j = tasks.index(first), tasks.index(second)
        for group, gramian in gramians.items():
            first_length, second_length = math.sqrt(gramian[i, i]), math.sqrt(gramian[j, j])
            if first_length and second_length:
                cosine = float(gramian[i, j]) / (first_length * second_length)
                groups = measurements.setdefault(f"{first}{BETWEEN_TASKS}{second}", {})
                groups.setdefault(group, []).append((cosine, first_length / second_length))


def _agreements(measurements: Measurements) -> dict[str, dict[str, Agreement]]:
    agreements: dict[str, dict[str, Agreement]] = {}
    for pair, groups in measurements.items():
        agreements[pair] = {group: _agreement(values) for group, values in groups.items()}
    return agreements


def _agreement(values: Sequence[tuple[float, float]]) -> Agreement:
    cosines, ratios = np.array(values).T
    error = None
    if len(cosines) > 1:
        error = float(cosines.std(ddof=1)) / math.sqrt(len(cosines))
    against = float((cosines < 0).mean())
    return Agreement(len(values), float(cosines.mean()), error, against, math.exp(np.log(ratios).mean()))


def _why_not_measured(run: Run, log: list[dict[str, Any]]) -> str:
    share = run.recipe.training.conflicts
    if len(run.recipe.tasks) < 2:
        return "it has one task."
    if not share:
        return "training.conflicts is 0; train with training.conflicts=0.02 or more."
    steps = max((record["step"] for record in log), default=0)
    return (
        f"its {steps:,} steps are too few to spend {share:.0%} of them on it; train longer, or with a larger "
        "training.conflicts, such as 0.2. Phases that train one task, or heads alone, have no conflicts."
    )


# --- in words --------------------------------------------------------------------------------------------------


def conflict_table(conflicts: Conflicts) -> list[dict[str, str]]:
    """A row per layer group, a column per pair: mean cosine ± standard error, and how often it was negative."""
    rows: dict[str, dict[str, str]] = {}
    for groups in conflicts.pairs.values():
        for group in groups:
            rows[group] = {"": group}
    for pair, groups in conflicts.pairs.items():
        for group, row in rows.items():
            row[pair] = _cell(groups.get(group))
    return list(rows.values())


def _cell(agreement: Agreement | None) -> str:
    if agreement is None:
        return "–"
    error = ""
    if agreement.error is not None:
        error = f" ± {agreement.error:.2f}"
    return f"{agreement.cosine:+.2f}{error}, {agreement.against:.0%} against"


def describe_conflicts(conflicts: Conflicts) -> list[str]:
    """Sentences that a user can act on."""
    cost = "no extra time"
    if conflicts.took:
        cost = f"{conflicts.took:.0f} s, {conflicts.took / conflicts.training:.1%} of the training"
    steps = conflicts.steps
    lines = [
        f"{len(steps)} steps measured, from {steps[0]:,} to {steps[-1]:,}, at a cost of {cost}. "
        "Cosines of single batches are noisy, which pulls them towards 0: their signs over many steps count."
    ]
    if len(steps) < MIN_STEPS:
        lines.append(
            f"That is too few to say which tasks agree: measure {MIN_STEPS} or more. Train longer, or with a larger "
            "training.conflicts."
        )
    else:
        for pair, groups in conflicts.pairs.items():
            lines.append(_describe_pair(pair, groups, len(conflicts.pairs)))
    for pair, groups in conflicts.pairs.items():
        ratio = groups[ALL_SHARED].ratio
        if max(ratio, 1 / ratio) >= LOUD_RATIO:
            lines.append(_describe_lengths(pair, ratio))
    lines.append(_describe_surgery(conflicts))
    return lines


def _describe_lengths(pair: str, ratio: float) -> str:
    """What to do about gradients of very different lengths."""
    loud, quiet = pair.split(BETWEEN_TASKS)
    if ratio < 1:
        loud, quiet = quiet, loud
        ratio = 1 / ratio
    return (
        f"{loud} sends gradients {ratio:.1f} times as long as {quiet}'s, so the shared step is mostly {loud}'s."
        f" If {quiet} suffers, weigh {loud} less (combine.losses fixed, {loud}: {1 / ratio:.2f} makes them "
        "equal), or take combine.gradients=imtl-g, which serves all directions equally."
    )


def _describe_pair(pair: str, groups: dict[str, Agreement], pair_count: int) -> str:
    first, second = pair.split(BETWEEN_TASKS)
    shared = groups[ALL_SHARED]
    layers = {group: agreement for group, agreement in groups.items() if group != ALL_SHARED}
    comparisons = pair_count * len(layers)
    cosine = f"cosine {shared.cosine:+.2f}"
    direction = shared.direction(pair_count)
    if not direction:
        near_zero = shared.error is not None and abs(shared.cosine) + 2 * shared.error < 5 * SMALL_COSINE
        relation = "show no clear agreement or conflict"
        if near_zero:
            relation = "neither help nor hinder each other"
        conflicting = [group for group, agreement in layers.items() if agreement.direction(comparisons) < 0]
        exception = ""
        if conflicting:
            exception = f", though they pull against each other in {_list(conflicting)}"
        return f"{first} and {second} {relation} ({cosine}){exception}."
    strongest = max(layers, key=lambda group: direction * layers[group].cosine)
    layer = ""
    if layers[strongest].direction(comparisons) == direction:
        layer = f", most in {strongest} ({layers[strongest].cosine:+.2f})"
    if direction > 0:
        return f"{first} and {second} help each other ({cosine}){layer}."
    return f"{first} and {second} pull against each other ({cosine}, in {shared.against:.0%} of the steps){layer}."


def _describe_surgery(conflicts: Conflicts) -> str:
    if not conflicts.together:
        return (
            "The measured steps train one task each, so surgery has nothing to do in them; it needs a sampler whose "
            "rounds have several tasks, such as batch-round-robin."
        )
    if conflicts.did:
        return (
            f"The run's own surgery turned the shared step in {_share_changed(conflicts.did)} of the "
            f"{len(conflicts.did)} measured steps that had it, by {np.mean(conflicts.did):.1%} of its length "
            "on average."
        )
    change = float(np.mean(conflicts.would))
    often = f"in {_share_changed(conflicts.would)} of the steps, by {change:.1%} of its length on average"
    would = f"PCGrad would have moved the step {often}"
    if change < SURGERY_CHANGE:
        return f"{would}: there is little to expect of surgery. Look at weights and sampling first."
    return f"{would}: worth a trial with combine.gradients=pcgrad, compared over several seeds."


def _share_changed(changes: Sequence[float]) -> str:
    return f"{np.mean(np.array(changes) > 1e-6):.0%}"


def _list(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"
