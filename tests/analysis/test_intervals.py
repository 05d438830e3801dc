"""Means over repeats and their intervals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from labkit import analysis
from labkit.analysis.equations import MetricError

pytestmark = pytest.mark.unit

positive = st.floats(1e-3, 1e6)
factor = st.floats(0.01, 100)


def close(value, rel=1e-6):
    return pytest.approx(value, rel=rel, abs=1e-12)


def test_interval_with_tabulated_t_values():
    found = analysis.interval([1, 2, 3])  # standard error 1 / root 3, t(0.975, 2) = 4.30265
    assert (found.mean, found.n) == (2, 3)
    assert found.low == close(2 - 4.30265 / math.sqrt(3), rel=1e-5)
    assert found.high == close(2 + 4.30265 / math.sqrt(3), rel=1e-5)
    found = analysis.interval([10, 12])  # standard error 1, t(0.975, 1) = 12.7062
    assert (found.low, found.high) == (close(11 - 12.7062, 1e-5), close(11 + 12.7062, 1e-5))
    found = analysis.interval([1, 2, 3], level=0.9)  # t(0.95, 2) = 2.91999
    assert found.high == close(2 + 2.91999 / math.sqrt(3), rel=1e-5)


def test_a_single_repeat_has_no_interval():
    for found in (analysis.interval([7]), analysis.speedup_interval([7], [7, 8])):
        assert math.isnan(found.low) and math.isnan(found.high)
        assert found.n == 1
    assert analysis.interval([7]).mean == 7


def test_intervals_hold_the_true_value_as_often_as_they_say():
    random = np.random.default_rng(4)
    hits = ratios = 0
    for _ in range(1500):
        found = analysis.interval(random.normal(50, 5, 4))
        hits += found.low <= 50 <= found.high
        many = np.exp(random.normal(math.log(30), 0.10, 5))
        one = np.exp(random.normal(math.log(10), 0.03, 4))
        found = analysis.speedup_interval(many, one)
        ratios += found.low <= 3 <= found.high
    assert 0.93 < hits / 1500 < 0.97
    assert 0.93 < ratios / 1500 < 0.97


@given(st.lists(positive, min_size=2, max_size=8), factor, st.randoms())
def test_interval_scales_with_its_values_in_any_order(values, k, random):
    one = analysis.interval(values)
    other = analysis.interval([k * v for v in random.sample(values, len(values))])
    for end in ("low", "mean", "high"):
        expected = pytest.approx(k * getattr(one, end), abs=1e-6 * k * max(values))
        assert getattr(other, end) == expected
    assert one.low <= one.mean <= one.high


def test_speedup_interval_of_a_case_by_hand():
    # Logs: means 1.1 and 0.1; squared errors 0.01 and 0.01 / 3; degrees of freedom
    # (0.04 / 3)^2 / (0.01^2 / 1 + (0.01 / 3)^2 / 2) = 1.684.
    found = analysis.speedup_interval(np.exp([1.0, 1.2]), np.exp([0, 0.1, 0.2]))
    half = stats.t.ppf(0.975, 32 / 19) * math.sqrt(0.04 / 3)
    assert found.mean == close(math.e)
    assert (found.low, found.high) == (close(math.exp(1 - half)), close(math.exp(1 + half)))
    assert found.n == 2


rates = st.lists(st.floats(50, 200), min_size=2, max_size=8)


@given(rates, rates, factor)
def test_speedup_interval_follows_welch_and_does_not_depend_on_the_unit(many, one, k):
    found = analysis.speedup_interval(many, one)
    if min(np.std(many), np.std(one)) > 1e-3:
        welch = stats.ttest_ind(np.log(many), np.log(one), equal_var=False)
        low, high = welch.confidence_interval(0.95)
        assert (found.low, found.high) == (close(math.exp(low)), close(math.exp(high)))
    scaled = analysis.speedup_interval([k * r for r in many], [k * r for r in one])
    assert scaled.mean == close(found.mean)
    swapped = analysis.speedup_interval(one, many)
    assert swapped.mean == close(1 / found.mean)
    assert swapped.low == close(1 / found.high)
    assert found.n == min(len(many), len(one))


@given(rates)
def test_speedup_of_equal_rates_is_one(values):
    found = analysis.speedup_interval(values, values)
    assert found.mean == close(1)
    assert found.low <= found.mean <= found.high


def test_repeats_that_agree_exactly_leave_no_doubt():
    found = analysis.speedup_interval([8, 8], [2, 2, 2])
    assert (found.mean, found.low, found.high) == (close(4), close(4), close(4))


@pytest.mark.parametrize("values", [[], [1, math.nan], [1, math.inf]])
def test_interval_of_what_is_not_measured_is_an_error(values):
    with pytest.raises(MetricError, match="values"):
        analysis.interval(values)


@pytest.mark.parametrize("values", [[], [1, math.nan], [1, 0], [-1]])
def test_speedup_interval_of_what_is_no_rate_is_an_error(values):
    with pytest.raises(MetricError, match="rates: "):
        analysis.speedup_interval(values, [1, 2])
    with pytest.raises(MetricError, match="rates_of_one: "):
        analysis.speedup_interval([1, 2], values)


@pytest.mark.parametrize("level", [0, 1, 95, math.nan])
def test_a_level_is_between_0_and_1(level):
    with pytest.raises(MetricError, match="level"):
        analysis.interval([1, 2], level)
