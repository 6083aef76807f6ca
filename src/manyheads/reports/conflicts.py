"""What a run's log says about tasks whose gradients agree or fight: where, how much, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import t as student

from manyheads.errors import UserError
from manyheads.runs.run import Run

EVERYWHERE = "all shared"
ENOUGH = 10  # measured steps, to say anything
SMALL = 0.02  # a mean cosine that is nearly none
LOUD = 3.0  # a gradient so many times as long as another's decides the step
CHANGED = 0.1  # surgery that moves the step by less than this share of its length is not worth a trial


@dataclass(frozen=True)
class Agreement:
    """Two tasks in one group of layers, over the steps measured."""

    steps: int
    cosine: float  # mean
    error: float | None  # standard error of that mean; of one step nothing is known
    against: float  # share of the steps with a negative cosine
    ratio: float  # how many times as long the first one's gradient is, as a geometric mean

    def direction(self, looks: int) -> int:
        """1 where they help each other, -1 where they fight, 0 where it is small or may be chance.

        By Student's t at 5 %, shared among as many `looks` as are taken at once (Bonferroni).
        """
        if self.error is None or self.steps < ENOUGH or abs(self.cosine) < SMALL:
            return 0
        sure = abs(self.cosine) > student.ppf(1 - 0.025 / looks, self.steps - 1) * self.error
        return (1 if self.cosine > 0 else -1) if sure else 0


@dataclass(frozen=True)
class Conflicts:
    """All that was measured in a run."""

    steps: list[int]
    took: float  # seconds
    training: float  # seconds of all steps
    pairs: dict[str, dict[str, Agreement]]  # 'a – b' → layer group → how they agree
    together: int  # in how many of the steps more than one task was trained
    would: list[float]  # by which share of its length PCGrad would move each of these steps
    did: list[float]  # by which share the run's own aggregator moved those steps that have one

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read_conflicts(run: Run) -> Conflicts:
    """From the run's log; a run may still be going on."""
    log = run.log()
    found = [record for record in log if record["event"] == "conflicts"]
    if not found:
        raise UserError(f"{run.folder}: no conflicts were measured: {_why_none(run, log)}")
    values: dict[str, dict[str, list[tuple[float, float]]]] = {}  # pair → group → (cosine, ratio)
    would, did = [], []
    for record in found:
        gramians = _gramians(record)
        whole = np.sum(list(gramians.values()), axis=0)
        trained = [record["tasks"].index(task) for task in record["trained"]]
        if len(trained) > 1:
            would.append(_pcgrad_change(whole[np.ix_(trained, trained)]))
            if "surgery" in record:
                did.append(_change(gramians, trained, record))
        order = [task for task in run.recipe.tasks if task in record["tasks"]]  # as the recipe has them
        for one, other in combinations(order, 2):
            i, j = record["tasks"].index(one), record["tasks"].index(other)
            for group, gramian in {EVERYWHERE: whole, **gramians}.items():
                lengths = math.sqrt(gramian[i, i]), math.sqrt(gramian[j, j])
                if all(lengths):
                    cosine = float(gramian[i, j]) / (lengths[0] * lengths[1])
                    by_group = values.setdefault(f"{one} – {other}", {})
                    by_group.setdefault(group, []).append((cosine, lengths[0] / lengths[1]))
    return Conflicts(
        steps=[record["step"] for record in found],
        took=sum(record["took"] for record in found),
        training=max(record["seconds"] for record in log),
        pairs={pair: {group: _agreement(some) for group, some in groups.items()} for pair, groups in values.items()},
        together=len(would),
        would=would,
        did=did,
    )


def _gramians(record: dict[str, Any]) -> dict[str, np.ndarray]:
    """G_ij = cos_ij·‖g_i‖·‖g_j‖ of every layer group."""
    size = len(record["tasks"])
    found = {}
    for group, norms in record["norms"].items():
        cosines = np.eye(size)
        for (i, j), cosine in zip(combinations(range(size), 2), record["cosines"][group], strict=True):
            cosines[i, j] = cosines[j, i] = cosine or 0.0
        found[group] = cosines * np.outer(norms, norms)
    return found


def _pcgrad_change(gramian: np.ndarray) -> float:
    """‖Σp − Σg‖/‖Σg‖, with p the projected gradients, tasks in their order."""
    size = len(gramian)
    rows = np.eye(size)
    for i in range(size):
        for j in range(size):
            inner = rows[i] @ gramian[j]
            if i != j and inner < 0:
                rows[i, j] -= inner / gramian[j, j]
    return _length(gramian, rows.sum(axis=0) - 1) / max(_length(gramian, np.ones(size)), 1e-30)


def _change(gramians: dict[str, np.ndarray], trained: list[int], record: dict[str, Any]) -> float:
    """How far the shared step was from that of the sum, each as long as the other: weights may be means or sums."""
    weights = np.array([record["surgery"][record["tasks"][i]] for i in trained])
    plain = np.ones(len(trained))
    whole = before = across = 0.0  # ‖a‖², ‖b‖², a·b of the two steps, layer group by layer group
    for group, gramian in gramians.items():
        own = gramian[np.ix_(trained, trained)]
        used = weights if group in record["operated"] else plain
        whole += used @ own @ used
        before += plain @ own @ plain
        across += used @ own @ plain
    if min(whole, before) <= 0:
        return 0.0
    return math.sqrt(max(0.0, 2 - 2 * across / math.sqrt(whole * before)))


def _length(gramian: np.ndarray, weights: np.ndarray) -> float:
    return math.sqrt(max(0.0, weights @ gramian @ weights))


def _agreement(values: Sequence[tuple[float, float]]) -> Agreement:
    cosines = np.array([cosine for cosine, _ in values])
    ratios = np.log([ratio for _, ratio in values])
    error = float(cosines.std(ddof=1)) / math.sqrt(len(cosines)) if len(cosines) > 1 else None
    against = float((cosines < 0).mean())
    return Agreement(len(values), float(cosines.mean()), error, against, math.exp(ratios.mean()))


def _why_none(run: Run, log: list[dict[str, Any]]) -> str:
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


def conflict_table(found: Conflicts) -> list[dict[str, str]]:
    """A row per layer group, a column per pair: mean cosine ± standard error, and how often it was negative."""
    groups = dict.fromkeys(group for groups in found.pairs.values() for group in groups)
    return [
        {"": group, **{pair: _cell(by_group.get(group)) for pair, by_group in found.pairs.items()}} for group in groups
    ]


def _cell(one: Agreement | None) -> str:
    if one is None:
        return "–"
    error = "" if one.error is None else f" ± {one.error:.2f}"
    return f"{one.cosine:+.2f}{error}, {one.against:.0%} against"


def describe_conflicts(found: Conflicts) -> list[str]:
    """Sentences that a user can act on."""
    cost = f"{found.took:.0f} s, {found.took / found.training:.1%} of the training" if found.took else "no extra time"
    lines = [
        f"{len(found.steps)} steps measured, from {found.steps[0]:,} to {found.steps[-1]:,}, at a cost of {cost}. "
        "Cosines of single batches are noisy, which pulls them towards 0: their signs over many steps count."
    ]
    if len(found.steps) < ENOUGH:
        lines.append(
            f"That is too few to say which tasks agree: {ENOUGH} or more are needed. Train longer, or with a larger "
            "training.conflicts."
        )
    else:
        lines += [_describe_pair(pair, groups, len(found.pairs)) for pair, groups in found.pairs.items()]
    for pair, groups in found.pairs.items():
        ratio = groups[EVERYWHERE].ratio
        if max(ratio, 1 / ratio) >= LOUD:
            loud, quiet = pair.split(" – ") if ratio > 1 else reversed(pair.split(" – "))
            times = max(ratio, 1 / ratio)
            lines.append(
                f"{loud} sends gradients {times:.1f} times as long as {quiet}'s, so the shared step is mostly {loud}'s."
                f" If {quiet} suffers, weigh {loud} less (combine.losses fixed, {loud}: {1 / times:.2f} makes them "
                "equal), or take combine.gradients=imtl-g, which serves all directions alike."
            )
    lines.append(_describe_surgery(found))
    return lines


def _describe_pair(pair: str, groups: dict[str, Agreement], pairs: int) -> str:
    one, other = pair.split(" – ")
    whole = groups[EVERYWHERE]
    looks = pairs * (len(groups) - 1)
    inner = {group: some for group, some in groups.items() if group != EVERYWHERE}
    size = f"cosine {whole.cosine:+.2f}"
    direction = whole.direction(pairs)
    if not direction:
        fights = [group for group, some in inner.items() if some.direction(looks) < 0]
        where = f", though they pull against each other in {_list(fights)}" if fights else ""
        sure = whole.error is not None and abs(whole.cosine) + 2 * whole.error < 5 * SMALL
        said = "neither help nor hinder each other" if sure else "show no clear agreement or conflict"
        return f"{one} and {other} {said} ({size}){where}."
    most = max(inner, key=lambda group: direction * inner[group].cosine)
    where = f", most in {most} ({inner[most].cosine:+.2f})" if inner[most].direction(looks) == direction else ""
    if direction > 0:
        return f"{one} and {other} help each other ({size}){where}."
    return f"{one} and {other} pull against each other ({size}, in {whole.against:.0%} of the steps){where}."


def _describe_surgery(found: Conflicts) -> str:
    if not found.together:
        return (
            "The measured steps train one task each, so surgery has nothing to do in them; it needs a sampler whose "
            "rounds have several tasks, such as batch-round-robin."
        )
    if found.did:
        return (
            f"The run's own surgery turned the shared step in {_share(found.did)} of the {len(found.did)} measured "
            f"steps that had it, by {np.mean(found.did):.1%} of its length on average."
        )
    change = float(np.mean(found.would))
    often = f"in {_share(found.would)} of the steps, by {change:.1%} of its length on average"
    would = f"PCGrad would have moved the step {often}"
    if change < CHANGED:
        return f"{would}: there is little to expect of surgery. Look at weights and sampling first."
    return f"{would}: worth a trial with combine.gradients=pcgrad, compared over several seeds."


def _share(changes: Sequence[float]) -> str:
    return f"{np.mean([one > 1e-6 for one in changes]):.0%}"


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
