"""Batch round robin: every example once per pass, whatever the sizes; any round without replay."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.sampling import BatchRoundRobin, Passes

sizes = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 60), min_size=1)


@settings(derandomize=True, deadline=None)
@given(size=st.integers(1, 80), batch_size=st.integers(1, 20), seed=st.integers(0, 99), number=st.integers(0, 3))
def test_each_pass_sees_every_example_exactly_once(size: int, batch_size: int, seed: int, number: int) -> None:
    passes = Passes("task", size, batch_size, seed)
    first = number * passes.batches
    batches = [passes.batch(first + place).rows.tolist() for place in range(passes.batches)]
    assert sorted(row for batch in batches for row in batch) == list(range(size))
    assert all(len(batch) == batch_size for batch in batches[:-1])
    assert 1 <= len(batches[-1]) <= batch_size


@settings(derandomize=True, deadline=None)
@given(sizes=sizes, batch_size=st.integers(1, 9), seed=st.integers(0, 99), at=st.integers(0, 200))
def test_any_round_is_the_same_without_what_came_before(
    sizes: dict[str, int], batch_size: int, seed: int, at: int
) -> None:
    batch_sizes = dict.fromkeys(sizes, batch_size)
    straight = BatchRoundRobin(sizes, batch_sizes, seed)
    rounds = [straight.round(index) for index in range(at + 1)]
    resumed = BatchRoundRobin(sizes, batch_sizes, seed).round(at)
    assert [(one.task, one.rows.tolist()) for one in resumed] == [(one.task, one.rows.tolist()) for one in rounds[-1]]
    assert [one.task for one in resumed] == list(sizes), "one batch of each task"


def test_where_an_epoch_ends() -> None:
    sizes, batch_sizes = {"sst": 8544, "qqp": 61991, "sts": 6040}, {"sst": 16, "qqp": 16, "sts": 16}
    rounds = {
        until: BatchRoundRobin(sizes, batch_sizes, 0, until=until).rounds(0) for until in ("largest", "smallest", "sst")
    }
    assert rounds == {"largest": 3875, "smallest": 378, "sst": 534}  # ceil(N / 16)
    with pytest.raises(ValueError, match="'largest', 'smallest' or a task's name"):
        BatchRoundRobin(sizes, batch_sizes, 0, until="middle")


def test_a_long_task_goes_on_where_it_stopped_in_the_next_epoch() -> None:
    sampler = BatchRoundRobin({"long": 100, "short": 20}, {"long": 10, "short": 10}, 3, until="smallest")
    assert sampler.rounds(0) == 2
    seen = Counter(row for index in range(10) for row in sampler.round(index)[0].rows.tolist())  # five epochs
    assert set(seen.values()) == {1}
    assert len(seen) == 100


def test_orders_differ_by_seed_task_and_pass() -> None:
    def order(task: str, seed: int, number: int) -> list[int]:
        return Passes(task, 50, 50, seed).batch(number).rows.tolist()

    assert len({tuple(order(*which)) for which in (("a", 0, 0), ("b", 0, 0), ("a", 1, 0), ("a", 0, 1))}) == 4
