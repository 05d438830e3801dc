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


# --- quantities that cannot be negative -----------------------------------------------------


def test_geometric_interval_of_a_case_by_hand():
    found = analysis.geometric_interval([10, 1000])  # logs 1 and 3 of base 10, standard error 1
    assert (found.mean, found.n) == (close(100), 2)
    assert found.low == close(10 ** (2 - 12.7062), 1e-4)
    assert found.high == close(10 ** (2 + 12.7062), 1e-4)
    found = analysis.geometric_interval(np.exp([1, 2, 3]))  # t(0.975, 2) = 4.30265
    half = 4.30265 / math.sqrt(3)
    assert found.low == close(math.exp(2 - half), 1e-5)
    assert found.half_width == close(math.sinh(half), 1e-5)
    assert math.isnan(analysis.geometric_interval([7]).half_width)


wide = st.lists(st.floats(1e-6, 1e9), min_size=2, max_size=8)
few = st.lists(st.floats(20, 200), min_size=2, max_size=8)


@given(wide)
def test_no_interval_of_what_cannot_be_negative_reaches_below_zero(values):
    found = analysis.geometric_interval(values)
    assert 0 <= found.low <= found.mean * (1 + 1e-12) <= found.high * (1 + 1e-9)
    assert min(values) * (1 - 1e-9) <= found.mean <= max(values) * (1 + 1e-9)
    clipped = analysis.interval(values, least=0)
    free = analysis.interval(values)
    assert clipped.low == max(free.low, 0) and clipped.high == free.high


@given(few, factor)
def test_geometric_interval_of_times_is_that_of_rates_turned_over(values, k):
    rate = analysis.geometric_interval(values)
    time = analysis.geometric_interval([k / value for value in values])
    assert time.mean == close(k / rate.mean)
    assert (time.low, time.high) == (close(k / rate.high), close(k / rate.low))


@given(few, few)
def test_a_speedup_is_the_ratio_of_the_means_that_are_shown(many, one):
    means = [analysis.geometric_interval(values).mean for values in (many, one)]
    assert analysis.speedup_interval(many, one).mean == close(means[0] / means[1])


@given(st.floats(50, 200), st.integers(2, 8))
def test_repeats_that_agree_leave_an_interval_without_width(value, n):
    assert analysis.geometric_interval([value] * n).half_width == pytest.approx(0, abs=1e-9)


def test_geometric_intervals_hold_the_true_value_as_often_as_they_say():
    random = np.random.default_rng(5)
    hits = 0
    for _ in range(1500):
        found = analysis.geometric_interval(np.exp(random.normal(math.log(30), 0.3, 4)))
        hits += found.low <= 30 <= found.high
    assert 0.93 < hits / 1500 < 0.97


@pytest.mark.parametrize("values", [[], [1, math.nan], [1, 0], [-1]])
def test_geometric_interval_of_what_is_not_positive_is_an_error(values):
    with pytest.raises(MetricError, match="values: "):
        analysis.geometric_interval(values)


# --- speedups -------------------------------------------------------------------------------


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


# --- sums of several means ------------------------------------------------------------------


parts_of_a_sum = st.tuples(st.sampled_from([-2, -1, 0.5, 1, 3]), rates)


@given(st.lists(parts_of_a_sum, min_size=1, max_size=4), factor)
def test_a_contrast_is_the_sum_of_its_weighted_means(parts, k):
    found = analysis.contrast(parts)
    expected = sum(weight * np.mean(values) for weight, values in parts)
    assert found.mean == pytest.approx(expected, abs=1e-6)
    assert found.low <= found.mean <= found.high
    scaled = analysis.contrast([(k * weight, values) for weight, values in parts])
    width = found.high - found.low
    assert scaled.high - scaled.low == pytest.approx(k * width, rel=1e-6, abs=1e-9)
    assert found.n == min(len(values) for _, values in parts)


@given(rates)
def test_a_contrast_of_one_mean_is_its_interval(values):
    one, other = analysis.contrast([(1, values)]), analysis.interval(values)
    assert (one.low, one.high) == (pytest.approx(other.low), pytest.approx(other.high))


def test_contrasts_hold_the_true_value_as_often_as_they_say():
    random, hits = np.random.default_rng(6), 0
    for _ in range(1500):
        parts = [
            (weight, random.normal(mean, spread, n))
            for weight, mean, spread, n in ((1, 5, 1, 3), (-1, 4, 0.2, 5), (0.5, 2, 1, 4))
        ]
        found = analysis.contrast(parts)
        hits += found.low <= 2 <= found.high
    assert 0.93 < hits / 1500 < 0.98
