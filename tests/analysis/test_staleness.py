"""How stale gradients were, from the times at which workers' steps ended."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import analysis

pytestmark = pytest.mark.unit


def test_what_others_changed_meanwhile():
    """The first worker's second step lasts from 1 to 4: others' end at 1.5, 2, 3 and 3.5."""
    ends = [[1, 4, 4.5], [1.5, 3, 6], [2, 3.5, 5]]
    assert analysis.staleness(ends).tolist() == [4, 0, 1, 1]


@given(workers=st.integers(1, 8), steps=st.integers(2, 12))
def test_workers_that_take_turns_wait_for_all_others_once(workers, steps):
    ends = [1 + worker / workers + np.arange(steps) for worker in range(workers)]
    assert set(analysis.staleness(ends)) == {workers - 1}


def test_a_straggler_is_overtaken_more_often():
    fast = [np.arange(1, 21) + shift for shift in (0.0, 0.1)]
    slow = 2 * np.arange(1, 11) + 0.2
    found = np.split(analysis.staleness([*fast, slow]), [19, 38])
    assert found[2].mean() > found[0].mean()


@given(st.lists(st.lists(st.floats(0.01, 10), min_size=2, max_size=9), min_size=1, max_size=6))
def test_nothing_is_counted_that_did_not_happen(durations):
    ends = [np.cumsum(each) for each in durations]
    found = analysis.staleness(ends)
    assert len(found) <= sum(len(each) - 1 for each in ends)
    assert (found >= 0).all() and (found <= sum(map(len, ends)) - 1).all()


@pytest.mark.parametrize("ends", [[[]], [[1, 2], [2, 1]], [[1, 1]], [[0, 1]]])
def test_times_that_cannot_be(ends):
    with pytest.raises(analysis.MetricError, match="no times of steps that grow"):
        analysis.staleness(ends)
