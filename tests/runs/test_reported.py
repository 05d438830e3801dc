"""What is made of rates that scripts print: only that."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.analysis import MetricError, window
from labkit.replicas.events import End, Rate
from labkit.runs.reported import reported, unit_of

pytestmark = pytest.mark.unit


def worker(index, lines, unit="samples"):
    return [Rate(i, t, "worker", index, 0.0, rate, unit) for i, (t, rate) in enumerate(lines)]


def test_the_first_line_is_warm_up_and_each_rate_holds_since_the_line_before():
    found = window(reported([worker(0, [(10, 1), (11, 100), (13, 40), (14, 100)])]))
    assert found.end == 4
    assert found.samples_per_second == pytest.approx((100 + 2 * 40 + 100) / 4)


def test_only_the_time_that_all_share_counts():
    slow = worker(0, [(0, 9), (2, 10), (4, 30), (6, 10)])
    late = worker(1, [(3, 9), (5, 100), (9, 100)])
    found = window(reported([slow, late]))
    assert found.end == 3  # from 3 s, when the last began, to 6 s, when the first had ended
    assert found.rates == pytest.approx([(30 + 2 * 10) / 3, 100])


@given(st.floats(-1e6, 1e6), st.floats(1e9, 2e9))
def test_clocks_of_several_machines_are_put_on_one_line(shift, zero):
    """Such as the nodes of a cluster, each of which counts from when it started."""
    lines = [[(0, 9), (2, 10), (4, 30), (6, 10)], [(3, 9), (5, 100), (9, 100)]]
    away = [(t - shift, rate) for t, rate in lines[1]]
    found = window(reported([worker(0, lines[0]), worker(1, away)], [zero, zero + shift]))
    assert found.end == pytest.approx(3, abs=1e-5)
    assert found.rates == pytest.approx([(30 + 2 * 10) / 3, 100], rel=1e-5)


@given(st.integers(1, 4), st.floats(0.1, 1e6), st.lists(st.floats(0.1, 10), min_size=3))
def test_a_steady_rate_is_found_whatever_the_times(workers, rate, gaps):
    times = 100 + np.cumsum(gaps)
    found = window(reported([worker(i, [(t, rate) for t in times]) for i in range(workers)]))
    assert found.samples_per_second == pytest.approx(workers * rate, rel=1e-6)
    assert found.imbalance == pytest.approx(0, abs=1e-6)


def test_samples_count_if_all_workers_say_them():
    both = worker(0, [(0, 1), (1, 1)]) + worker(0, [(0, 1), (1, 1)], "steps")
    steps = worker(1, [(0, 1), (1, 1)], "steps")
    assert unit_of([both]) == "samples"
    assert unit_of([both, steps]) == "steps"


def test_workers_that_share_no_time_have_no_rate():
    with pytest.raises(MetricError, match="share no time"):
        reported([worker(0, [(0, 1), (1, 1)]), worker(1, [(5, 1), (6, 1)])])


def test_workers_that_print_nothing_train_until_they_end():
    """Whatever the first one prints after that is not the rate of all."""
    first = worker(0, [(0, 1), (1, 10), (2, 10), (3, 99)])
    ended = End(0, 2.0 - 100, "worker", 1, 0.0, 0)
    found = window(reported([first], [50.0, 150.0], [[ended]]))
    assert (found.end, found.samples_per_second) == (2, pytest.approx(10))
    for early in (-100.0, -105.0):
        with pytest.raises(MetricError, match="had ended before the first one had printed"):
            reported([first], [50.0, 150.0], [[replace(ended, t=early)]])


def test_rates_in_different_units_are_none_together():
    with pytest.raises(MetricError, match="worker 1 printed fewer than two rates in steps"):
        reported([worker(0, [(0, 1), (1, 1)], "steps"), worker(1, [(0, 1), (1, 1)])])
