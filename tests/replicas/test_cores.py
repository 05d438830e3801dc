"""Which processors workers get."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.provenance import hardware
from labkit.replicas import cores

pytestmark = pytest.mark.unit

numbers = st.sets(st.integers(0, 200), min_size=1)


def test_a_core_is_given_to_one_worker_before_any_is_given_to_two(hardware_threads):
    """Eight processors; 0 and 1, 2 and 3, and so on are hardware threads of one core."""
    assert cores.spread(range(8)) == [0, 2, 4, 6, 1, 3, 5, 7]
    assert cores.spread({1, 4, 5, 6}) == [1, 4, 6, 5]


def test_hardware_threads_of_one_core_are_one(hardware_threads, monkeypatch):
    assert cores.count(range(8)) == 4
    assert cores.count({1, 4, 5, 6}) == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    hardware.cache_clear()
    assert hardware()["cores"] == 2
    hardware.cache_clear()


@given(numbers)
def test_a_system_that_does_not_tell_has_cores_only(usable):
    usable = {number + 10_000 for number in usable}
    assert cores.spread(usable) == sorted(usable)
    assert cores.count(usable) == len(usable)


@given(numbers, st.integers(1, 4))
def test_workers_hold_different_processors_while_there_are_enough(usable, threads):
    ordered = cores.spread(usable)
    assert sorted(ordered) == sorted(usable)
    held = [cores.take(ordered, k * threads, threads) for k in range(len(usable) // threads)]
    assert all(len(each) == threads for each in held)
    assert len(set().union(*held)) == len(held) * threads


@given(numbers, st.integers(0, 500), st.integers(1, 300))
def test_what_a_worker_holds_can_be_used(usable, first, threads):
    held = cores.take(sorted(usable), first, threads)
    assert held <= usable and len(held) == min(threads, len(usable))
