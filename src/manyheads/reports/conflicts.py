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

Measurements = dict[str, dict[str, list[float]]]  # pair → layer group → cosines


@dataclass(frozen=True)
class Agreement:
    """Two tasks in one group of layers, over the measured steps."""

    steps: int
    cosine: float  # mean
    error: float | None  # standard error of that mean; None for one step
    against: float  # share of the steps with a negative cosine

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
    lengths: dict[str, float]  # task → geometric mean of its gradient's length
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
    lengths: dict[str, list[float]] = {}
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
        _add_cosines(measurements, record["tasks"], order, {ALL_SHARED: sum_of_groups, **gramians})
        for task in order:
            index = record["tasks"].index(task)
            lengths.setdefault(task, []).append(math.sqrt(sum_of_groups[index, index]))
    return Conflicts(
        steps=[record["step"] for record in records],
        took=sum(record["took"] for record in records),
        training=max(record["seconds"] for record in log),
        pairs=_agreements(measurements),
        lengths={task: _geometric_mean(values) for task, values in lengths.items()},
        together=len(would),
        would=would,
        did=did,
    )


def _add_cosines(
    measurements: Measurements, tasks: list[str], order: list[str], gramians: dict[str, np.ndarray]
) -> None:
    """Add those of one step. `tasks` are the rows of the Gramians."""
    for first, second in combinations(order, 2):
        i, j = tasks.index(first), tasks.index(second)
        for group, gramian in gramians.items():
            lengths = math.sqrt(gramian[i, i]) * math.sqrt(gramian[j, j])
            if lengths:
                groups = measurements.setdefault(f"{first}{BETWEEN_TASKS}{second}", {})
                groups.setdefault(group, []).append(float(gramian[i, j]) / lengths)


def _agreements(measurements: Measurements) -> dict[str, dict[str, Agreement]]:
    agreements: dict[str, dict[str, Agreement]] = {}
    for pair, groups in measurements.items():
        agreements[pair] = {group: _agreement(cosines) for group, cosines in groups.items()}
    return agreements


def _agreement(cosines: Sequence[float]) -> Agreement:
    values = np.array(cosines)
    error = None
    if len(values) > 1:
        error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return Agreement(len(values), float(values.mean()), error, float((values < 0).mean()))


def _geometric_mean(lengths: Sequence[float]) -> float:
    """Of the steps in which a task had a gradient; 0 if it had none."""
    positive = [length for length in lengths if length > 0]
    if not positive:
        return 0.0
    return float(np.exp(np.log(positive).mean()))


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
    """A row per pair, those that pull hardest against each other first; a column per layer group."""
    layers: dict[str, None] = {}
    for groups in conflicts.pairs.values():
        layers |= dict.fromkeys(group for group in groups if group != ALL_SHARED)
    rows: list[dict[str, str]] = []
    for pair, groups in sorted(conflicts.pairs.items(), key=lambda item: item[1][ALL_SHARED].cosine):
        shared = groups[ALL_SHARED]
        row = {"tasks": pair, ALL_SHARED: _cosine(shared), "against": f"{shared.against:.0%}"}
        for layer in layers:
            row[layer.removeprefix("layer ")] = f"{groups[layer].cosine:+.2f}" if layer in groups else "–"
        rows.append(row)
    return rows


def _cosine(agreement: Agreement) -> str:
    if agreement.error is None:
        return f"{agreement.cosine:+.2f}"
    return f"{agreement.cosine:+.2f} ± {agreement.error:.2f}"


def describe_conflicts(conflicts: Conflicts) -> list[str]:
    """Sentences that a user can act on."""
    cost = "no extra time"
    if conflicts.took:
        cost = f"{conflicts.took:.0f} s, {conflicts.took / conflicts.training:.1%} of the training"
    steps = conflicts.steps
    lines = [
        "Mean cosines of the tasks' gradients, in all that they share ± standard error, and layer by layer; 'against' "
        f"is the share of the steps in which it was negative. {len(steps)} steps measured, from {steps[0]:,} to "
        f"{steps[-1]:,}, at a cost of {cost}. "
        "Cosines of single batches are noisy, which pulls them towards 0: their signs over many steps count."
    ]
    if len(steps) < MIN_STEPS:
        lines.append(
            f"That is too few to say which tasks agree: measure {MIN_STEPS} or more. Train longer, or with a larger "
            "training.conflicts."
        )
    else:
        lines += [*_describe_pairs(conflicts), *_describe_lengths(conflicts.lengths)]
    lines.append(_describe_surgery(conflicts))
    return lines


def _describe_lengths(lengths: dict[str, float]) -> list[str]:
    """How much longer each task's gradient is than the shortest, and the weights that make all of them as long."""
    longest_first = sorted((task for task in lengths if lengths[task] > 0), key=lambda task: -lengths[task])
    if len(longest_first) < 2:
        return []
    loudest, shortest = longest_first[0], lengths[longest_first[-1]]
    if lengths[loudest] / shortest < LOUD_RATIO:
        return []
    shown = ", ".join(f"{task} {lengths[task] / shortest:.1f}" for task in longest_first)
    mean = _geometric_mean(list(lengths.values()))
    weights = ", ".join(f"{task}: {mean / lengths[task]:.2g}" for task in longest_first)
    return [
        f"Lengths of the gradients, as times the shortest: {shown}. The shared step is mostly {loudest}'s. Where "
        f"others suffer, combine.losses={{name: fixed, weights: {{{weights}}}}} makes all of them as long, or "
        "combine.gradients=imtl-g serves all directions equally."
    ]


def _describe_pairs(conflicts: Conflicts) -> list[str]:
    """A sentence for each pair of which something can be said, and one for all others."""
    lines: list[str] = []
    unclear: list[str] = []
    for pair, groups in conflicts.pairs.items():
        sentence = _describe_pair(pair, groups, len(conflicts.pairs))
        if sentence is None:
            unclear.append(pair)
        else:
            lines.append(sentence)
    if unclear and not lines:
        lines.append("No two tasks show a clear agreement or conflict.")
    elif unclear:
        lines.append(f"The other pairs ({len(unclear)}) show no clear agreement or conflict.")
    return lines


def _describe_pair(pair: str, groups: dict[str, Agreement], pair_count: int) -> str | None:
    """None where nothing is clear."""
    first, second = pair.split(BETWEEN_TASKS)
    shared = groups[ALL_SHARED]
    layers = {group: agreement for group, agreement in groups.items() if group != ALL_SHARED}
    comparisons = pair_count * len(layers)
    cosine = f"cosine {shared.cosine:+.2f}"
    direction = shared.direction(pair_count)
    if not direction:
        conflicting = [group for group, agreement in layers.items() if agreement.direction(comparisons) < 0]
        if not conflicting:
            return None
        return (
            f"{first} and {second} show no clear agreement or conflict ({cosine}), though they pull against each other "
            f"in {_list(conflicting)}."
        )
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
