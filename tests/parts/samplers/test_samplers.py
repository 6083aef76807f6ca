"""Every sampler is held to the contract; each is pinned to its formula, and to others where they agree."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.parts.samplers import Batch, Passes, Sampler, SamplerInput
from manyheads.registry import find, parts

NAMES = [part.name for part in parts("samplers")]
PASSING = [name for name in NAMES if name not in ("balanced", "sampled-round-robin", "staggered")]  # no fresh samples
TAIL = 1e-6
sizes = st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 60), min_size=1)
Seen = list[tuple[str, list[int]]]


@st.composite
def supplies(draw: st.DrawFn) -> SamplerInput:
    found = draw(sizes)
    batch_sizes = {task: draw(st.integers(1, 9)) for task in found}
    return SamplerInput(found, batch_sizes, draw(st.integers(0, 99)), epochs=draw(st.integers(3, 4)))


def make(name: str, sampler_input: SamplerInput, **options: Any) -> Any:
    return find("samplers", name).factory(sampler_input, **options)


def flat(batches: list[Batch]) -> Seen:
    return [(one.task, one.indices.tolist()) for one in batches]


def all_rounds(sampler: Sampler) -> list[Seen]:
    return [flat(sampler.round(index)) for index in range(sum(sampler.epochs))]


def by_epoch(sampler: Sampler) -> list[list[Seen]]:
    ends = np.cumsum([0, *sampler.epochs])
    rounds = all_rounds(sampler)
    return [rounds[first:end] for first, end in itertools.pairwise(ends)]


def rows_of(rounds: list[Seen], task: str) -> list[int]:
    return [row for batches in rounds for name, rows in batches if name == task for row in rows]


# --- the contract ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@settings(derandomize=True, deadline=None, max_examples=25)
@given(sampler_input=supplies(), data=st.data())
def test_rounds_are_honest_and_need_no_replay(name: str, sampler_input: SamplerInput, data: st.DataObject) -> None:
    sampler = make(name, sampler_input)
    rounds = all_rounds(sampler)
    assert len(sampler.epochs) >= sampler_input.epochs
    assert all(length > 0 for length in sampler.epochs)
    for batches in rounds:
        assert batches or sampler.deals_examples, "a round has something to do"
        assert len({task for task, _ in batches}) == len(batches), "at most one batch per task"
        for task, rows in batches:
            assert rows
            passes = -(-len(rows) // sampler_input.sizes[task]) + sampler.deals_examples  # it may go on in the next
            assert max(Counter(rows).values()) <= passes
            assert set(rows) <= set(range(sampler_input.sizes[task]))
    for index in data.draw(st.lists(st.integers(0, len(rounds) - 1), min_size=1, max_size=4)):
        assert flat(make(name, sampler_input).round(index)) == rounds[index], "resuming is starting there"
    assert sampler.epoch_description.endswith(".")
    assert isinstance(sampler.state(0), dict)


@pytest.mark.slow
@pytest.mark.parametrize("name", PASSING)
@settings(derandomize=True, deadline=None, max_examples=25)
@given(sampler_input=supplies())
def test_no_example_is_seen_twice_before_all_are_seen_once(name: str, sampler_input: SamplerInput) -> None:
    """Whole passes, the last short batch included: at every moment counts differ by at most one."""
    rounds = all_rounds(make(name, sampler_input))
    for task, size in sampler_input.sizes.items():
        counts: Counter[int] = Counter()
        for location, row in enumerate(rows_of(rounds, task), start=1):
            counts[row] += 1
            assert counts[row] == -(-location // size), "the pass that this example belongs to"


@pytest.mark.slow
@pytest.mark.parametrize("name", [one for one in NAMES if "step" in find("samplers", one).options.model_fields])
@settings(derandomize=True, deadline=None, max_examples=25)
@given(sampler_input=supplies())
def test_a_step_per_batch_is_the_same_batches_one_by_one(name: str, sampler_input: SamplerInput) -> None:
    together, apart = by_epoch(make(name, sampler_input)), by_epoch(make(name, sampler_input, step="batch"))
    for one, other in zip(together, apart, strict=True):
        assert [batch for batches in one for batch in batches] == [batch for batches in other for batch in batches]
        assert all(len(batches) == 1 for batches in other)


@pytest.mark.parametrize("name", NAMES)
def test_tasks_that_read_the_same_rows_draw_them_in_the_same_order(name: str) -> None:
    rows = {"a": "a+b", "b": "a+b"}
    sampler_input = SamplerInput({"a": 30, "b": 30, "c": 50}, {"a": 4, "b": 4, "c": 4}, 7, 3, rows)
    rounds = all_rounds(make(name, sampler_input))
    first, second = rows_of(rounds, "a"), rows_of(rounds, "b")
    shared = min(len(first), len(second))
    assert first[:shared] == second[:shared]
    assert shared
    large = SamplerInput(
        {"a": 70, "b": 70, "c": 50}, {"a": 4, "b": 4, "c": 4}, 7, 3, rows
    )  # the largest share their rows
    both = [dict(batches) for batches in all_rounds(make(name, large)) if {"a", "b"} <= {task for task, _ in batches}]
    assert all(one["a"] == one["b"] for one in both)
    assert both or "step" not in find("samplers", name).options.model_fields


def test_orders_differ_by_seed_task_and_pass() -> None:
    def order(task: str, seed: int, number: int) -> tuple[int, ...]:
        return tuple(Passes(SamplerInput({task: 50}, {task: 50}, seed), task).batch(number).indices.tolist())

    assert len({order(*which) for which in (("a", 0, 0), ("b", 0, 0), ("a", 1, 0), ("a", 0, 1))}) == 4


# --- blocks ----------------------------------------------------------------------------------------------------


def tasks_in_order(rounds: list[Seen]) -> str:
    return "".join(task for batches in rounds for task, _ in batches)


SMALL = SamplerInput({"a": 5, "b": 9, "c": 2}, {"a": 2, "b": 3, "c": 2}, 1, epochs=2)  # 3, 3 and 1 batches


def test_sequential_and_epoch_round_robin() -> None:
    assert tasks_in_order(all_rounds(make("sequential", SMALL))) == "aaaaaabbbbbbcc"
    assert list(make("sequential", SMALL).epochs) == [3, 3, 3, 3, 1, 1]
    assert tasks_in_order(all_rounds(make("epoch-round-robin", SMALL))) == "aaabbbc" * 2
    backwards = make("epoch-round-robin", SMALL, order=["c", "b", "a"])
    assert tasks_in_order(all_rounds(backwards)) == "cbbbaaa" * 2
    assert list(backwards.epochs) == [7, 7]
    with pytest.raises(ValueError, match="'order' names each task once: a, b, c; found a, b"):
        make("sequential", SMALL, order=["a", "b"])


# --- round robin -----------------------------------------------------------------------------------------------


def test_where_passes_over_one_task_end() -> None:
    """Passes of 3, 10 and 2 batches, two epochs of each."""
    sampler_input = SamplerInput({"a": 6, "b": 20, "c": 5}, {"a": 2, "b": 2, "c": 3}, 5, epochs=2)
    ends = {
        "epoch-round-robin": [(3, "a"), (13, "b"), (15, "c"), (18, "a"), (28, "b"), (30, "c")],
        "sequential": [(3, "a"), (6, "a"), (16, "b"), (26, "b"), (28, "c"), (30, "c")],
        "batch-round-robin": [],
    }
    for name, expected in ends.items():
        sampler = make(name, sampler_input)
        assert [(one.rounds, one.task) for one in sampler.pass_ends] == expected
        for rounds, task in expected:
            assert [batch.task for batch in sampler.round(rounds - 1)] == [task]
    ordered = make("epoch-round-robin", sampler_input, order=["c", "a", "b"])
    assert [(one.rounds, one.task) for one in ordered.pass_ends][:3] == [(2, "c"), (5, "a"), (15, "b")]
    staggered = make("staggered", sampler_input, first=1)
    assert [(one.rounds, one.task) for one in staggered.pass_ends] == [(10, "b")], "the rest is mixed"


def test_where_an_epoch_ends() -> None:
    sampler_input = SamplerInput({"sst": 8544, "qqp": 61991, "sts": 6040}, dict.fromkeys(("sst", "qqp", "sts"), 16), 0)
    ends = {
        until: make("batch-round-robin", sampler_input, until=until).epochs[0]
        for until in ("largest", "smallest", "sst")
    }
    assert ends == {"largest": 3875, "smallest": 378, "sst": 534}  # ceil(N / 16)
    with pytest.raises(ValueError, match="'largest', 'smallest' or a task's name"):
        make("batch-round-robin", sampler_input, until="middle")
    assert make("sampled-round-robin", sampler_input).epochs[0] == 534, "until SST and STS have ended"


def test_max_size_cycle_by_paper_e() -> None:
    """141,498 pairs at 16 are 8,844 rounds, in which SST's 8,544 sentences are passed 16.6 times."""
    sampler_input = SamplerInput({"sst": 8544, "qqp": 141498, "sts": 6040}, dict.fromkeys(("sst", "qqp", "sts"), 16), 0)
    sampler = make("max-size-cycle", sampler_input)
    assert sampler.epochs[0] == 8844
    assert sampler.epochs[0] * 16 / 8544 == pytest.approx(16.6, abs=0.05)
    small = SamplerInput({"a": 30, "b": 7}, {"a": 4, "b": 4}, 3, 2)
    assert all_rounds(make("max-size-cycle", small)) == all_rounds(make("batch-round-robin", small, until="largest"))


@settings(derandomize=True, deadline=None, max_examples=50)
@given(sampler_input=supplies())
def test_the_sample_of_the_largest_is_fresh_and_without_repeats(sampler_input: SamplerInput) -> None:
    sampler = make("sampled-round-robin", sampler_input)
    large = sampler_input.largest
    epochs = [rows_of(rounds, large) for rounds in by_epoch(sampler)]
    for rows in epochs:
        assert len(set(rows)) == len(rows)
    for task in sampler_input.sizes:
        if task != large:
            seen = Counter(rows_of(by_epoch(sampler)[0], task))
            assert len(seen) == sampler_input.sizes[task], "the small tasks are used in full"


def test_fresh_samples_differ_from_epoch_to_epoch() -> None:
    sampler_input = SamplerInput({"large": 500, "small": 20}, {"large": 10, "small": 10}, 3, 2)
    for name in ("sampled-round-robin", "balanced"):
        first, second = (set(rows_of(rounds, "large")) for rounds in by_epoch(make(name, sampler_input)))
        assert len(first) == len(second) == 20
        assert first != second


def test_a_fixed_part_is_the_first_epochs_in_another_order() -> None:
    sampler_input = SamplerInput({"large": 500, "small": 20}, {"large": 10, "small": 10}, 3, 3)
    fresh = [rows_of(rounds, "large") for rounds in by_epoch(make("balanced", sampler_input))]
    fixed = [rows_of(rounds, "large") for rounds in by_epoch(make("balanced", sampler_input, draw="fixed"))]
    assert fixed[0] == fresh[0]
    assert [set(rows) for rows in fixed] == [set(fresh[0])] * 3
    assert fixed[1] != fixed[0] != fixed[2] != fixed[1]
    backwards = make("balanced", sampler_input, draw="fixed")
    rounds = range(sum(backwards.epochs))
    assert [flat(backwards.round(index)) for index in reversed(rounds)] == all_rounds(backwards)[::-1]


def test_staggered_is_the_largest_alone_and_then_sampled() -> None:
    sampler_input = SamplerInput({"a": 6, "b": 20, "c": 9}, {"a": 2, "b": 2, "c": 3}, 5, epochs=4)
    sampler = make("staggered", sampler_input)
    assert list(sampler.epochs) == [10, 10, 3, 3]
    rounds = all_rounds(sampler)
    assert tasks_in_order(rounds[:20]) == "b" * 20
    assert sorted(rows_of(rounds[:10], "b")) == list(range(20))
    after = SamplerInput(sampler_input.sizes, sampler_input.batch_sizes, 5, epochs=2)
    assert rounds[20:] == all_rounds(make("sampled-round-robin", after))
    with pytest.raises(ValueError, match="'first' is from 1 to one less than the epochs"):
        make("staggered", sampler_input, first=4)


# --- sized and capped ------------------------------------------------------------------------------------------


def test_full_data_by_paper_c() -> None:
    """4,423 rounds, batch sizes 2, 32 and 1, passes 1.035, 1.000 and 0.732."""
    sampler_input = SamplerInput({"sst": 8544, "qqp": 141506, "sts": 6041}, dict.fromkeys(("sst", "qqp", "sts"), 32), 0)
    sampler = make("full-data", sampler_input)
    assert sampler.epochs[0] == 4423
    assert sampler.batch_sizes == {"sst": 2, "qqp": 32, "sts": 1}
    passes = [sampler.epochs[0] / stream.batches for stream in sampler.streams]
    assert passes == pytest.approx([1.035, 1.000, 0.732], abs=5e-4)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(sampler_input=supplies())
def test_balanced_takes_as_much_of_each_as_the_smallest_has(sampler_input: SamplerInput) -> None:
    for rounds in by_epoch(make("balanced", sampler_input)):
        for task in sampler_input.sizes:
            rows = rows_of(rounds, task)
            assert len(rows) == len(set(rows)) == min(sampler_input.sizes.values())


@settings(derandomize=True, deadline=None, max_examples=50)
@given(sampler_input=supplies(), repeats=st.integers(1, 6))
def test_the_cap_is_kept_and_batches_are_spread(sampler_input: SamplerInput, repeats: int) -> None:
    sampler = make("capped", sampler_input, repeats=repeats)
    most = max(map(sampler_input.batches, sampler_input.sizes))
    for rounds in by_epoch(sampler):
        assert len(rounds) == most
        for task in sampler_input.sizes:
            present = [index for index, batches in enumerate(rounds) if task in dict(batches)]
            wanted = min(repeats * sampler_input.batches(task), most)
            assert len(present) == wanted
            gaps = np.diff([-1, *present])
            assert gaps.max() - gaps.min() <= 1, "spread evenly"
            assert max(Counter(rows_of(rounds, task)).values()) <= repeats + 1


def test_a_cap_that_never_binds_is_batch_round_robin() -> None:
    assert all_rounds(make("capped", SMALL, repeats=99)) == all_rounds(make("batch-round-robin", SMALL))


# --- weighted --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(derandomize=True, deadline=None, max_examples=30)
@given(sampler_input=supplies(), alpha=st.sampled_from([1.0, 0.5, 0.0]), steps=st.integers(200, 800))
def test_frequencies_are_those_of_the_formula(sampler_input: SamplerInput, alpha: float, steps: int) -> None:
    """Hoeffding: a share strays further than √(ln(2/tail)/2n) with a probability below the tail."""
    rounds = all_rounds(make("proportional", sampler_input, alpha=alpha, steps_per_epoch=steps))
    counts = Counter(task for batches in rounds for task, _ in batches)
    total = sum(size**alpha for size in sampler_input.sizes.values())
    bound = math.sqrt(math.log(2 / TAIL) / (2 * len(rounds)))
    for task, size in sampler_input.sizes.items():
        assert abs(counts[task] / len(rounds) - size**alpha / total) <= bound


def test_alpha_by_paper_b() -> None:
    """α = 1 − 0.8·(e − 1)/(E − 1); 1 where there is one epoch."""
    sizes = {"sst": 8544, "qqp": 141498, "sts": 6040}
    sampler_input = SamplerInput(sizes, dict.fromkeys(sizes, 16), 0, epochs=5)
    annealed = make("annealed", sampler_input, steps_per_epoch=2500)
    assert [annealed.state(epoch)["alpha"] for epoch in range(5)] == pytest.approx([1, 0.8, 0.6, 0.4, 0.2])
    for epoch, alpha in enumerate([1, 0.8, 0.6, 0.4, 0.2]):
        weights = [size**alpha for size in sizes.values()]
        assert annealed.probabilities(epoch).tolist() == pytest.approx([one / sum(weights) for one in weights])
    assert make("annealed", SamplerInput(sizes, sampler_input.batch_sizes, 0, epochs=1)).state(0) == {"alpha": 1.0}


def test_identities_of_weighted_samplers() -> None:
    sampler_input = SamplerInput({"a": 40, "b": 160, "c": 10}, {"a": 4, "b": 4, "c": 4}, 2, epochs=3)
    proportional = make("proportional", sampler_input)
    assert proportional.epochs[0] == 10 + 40 + 3, "as many batches as one pass over every task"
    first = proportional.epochs[0]
    assert all_rounds(make("annealed", sampler_input))[:first] == all_rounds(proportional)[:first], (
        "it starts proportional"
    )
    assert all_rounds(make("uniform", sampler_input)) == all_rounds(make("proportional", sampler_input, alpha=0))
    sizes = {task: float(size) for task, size in sampler_input.sizes.items()}
    assert all_rounds(make("explicit", sampler_input, probabilities=sizes)) == all_rounds(proportional)
    never = make("explicit", sampler_input, probabilities={"a": 1, "b": 0, "c": 0})
    assert set(tasks_in_order(all_rounds(never))) == {"a"}
    with pytest.raises(ValueError, match="one number for each task: a, b, c"):
        make("explicit", sampler_input, probabilities={"a": 1})
    with pytest.raises(ValueError, match="must be above 0"):
        make("explicit", sampler_input, probabilities={"a": 0, "b": 0, "c": 0})
    assert make("proportional", sampler_input, alpha=500).probabilities(0).tolist() == pytest.approx([0, 1, 0])


def test_one_task_is_the_same_in_every_order_of_passes() -> None:
    sampler_input = SamplerInput({"a": 23}, {"a": 4}, 9, epochs=3)
    plain = all_rounds(make("sequential", sampler_input))
    for name in ("epoch-round-robin", "batch-round-robin", "max-size-cycle", "capped", "full-data", "proportional"):
        assert all_rounds(make(name, sampler_input)) == plain, name
