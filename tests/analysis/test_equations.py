"""Equations 4.1 to 4.5."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import analysis
from labkit.analysis.equations import MetricError
from labkit.errors import LabkitError

pytestmark = pytest.mark.unit

positive = st.floats(1e-3, 1e6)
factor = st.floats(0.01, 100)


def close(value, rel=1e-6):
    return pytest.approx(value, rel=rel, abs=1e-12)


def test_batches_per_second_of_a_case_by_hand():
    # 60,000 images in batches of 512 are 117.1875 batches; 8 epochs 937.5; in 375 s 2.5 a second.
    assert analysis.batches_per_second(60_000, 8, 1, 512, 375) == 2.5
    assert analysis.batches_per_second(60_000, 8, 10, 512, 375) == 25


@given(positive, positive, st.integers(1, 50), st.integers(1, 512), positive, factor)
def test_batches_per_second_scales_with_each_of_its_parts(s, e, w, b, d, k):
    rate = analysis.batches_per_second(s, e, w, b, d)
    assert analysis.batches_per_second(s * k, e, w, b, d) == close(rate * k)
    assert analysis.batches_per_second(s, e * k, w, b, d) == close(rate * k)
    assert analysis.batches_per_second(s, e, w * 3, b, d) == close(rate * 3)
    assert analysis.batches_per_second(s, e, w, b * 3, d) == close(rate / 3)
    assert analysis.batches_per_second(s, e, w, b, d * k) == close(rate / k)


@pytest.mark.parametrize("name", ["samples", "epochs", "workers", "batch_size", "duration"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_batches_per_second_of_nothing_is_an_error_that_names_it(name, value):
    good = {"samples": 100, "epochs": 1, "workers": 1, "batch_size": 10, "duration": 1}
    with pytest.raises(MetricError, match=f"^{name}: {value}"):
        analysis.batches_per_second(**good | {name: value})


def test_speedup_of_a_case_by_hand():
    assert analysis.speedup(30, 7.5) == 4


@given(positive, positive, factor)
def test_speedup_compares_rates_in_any_unit(rate, one, k):
    assert analysis.speedup(rate, rate) == 1
    assert analysis.speedup(rate * k, one * k) == close(analysis.speedup(rate, one))
    assert analysis.speedup(one, rate) == close(1 / analysis.speedup(rate, one))


@pytest.mark.parametrize("rates", [(0, 1), (1, 0), (-1, 1), (1, -1), (math.nan, 1), (1, math.inf)])
def test_speedup_of_nothing_is_an_error(rates):
    with pytest.raises(MetricError, match="rate"):
        analysis.speedup(*rates)


def test_accuracy_of_a_case_by_hand():
    assert analysis.accuracy(45, 60) == 75
    assert analysis.accuracy(0, 7) == 0
    assert analysis.accuracy(7, 7) == 100


@given(st.integers(1, 10_000), st.data())
def test_right_and_wrong_answers_are_all_answers(total, data):
    correct = data.draw(st.integers(0, total))
    parts = analysis.accuracy(correct, total) + analysis.accuracy(total - correct, total)
    assert parts == close(100)


@pytest.mark.parametrize(
    "answers", [(0, 0), (1, 0), (-1, 2), (3, 2), (math.nan, 2), (1, math.nan)]
)
def test_accuracy_of_impossible_answers_is_an_error(answers):
    with pytest.raises(MetricError, match="correct|total"):
        analysis.accuracy(*answers)


def test_entropy_and_perplexity_of_a_case_by_hand():
    # -(ln 1/2 + ln 1/4) / 2 = (3 ln 2) / 2, and e to it is the root of 8.
    assert analysis.entropy([0.5, 0.25]) == close(1.5 * math.log(2))
    assert analysis.perplexity(analysis.entropy([0.5, 0.25])) == close(math.sqrt(8))


@given(st.integers(1, 10_000), st.integers(1, 20))
def test_a_guess_among_k_has_perplexity_k(k, targets):
    assert analysis.perplexity(analysis.entropy(np.full(targets, 1 / k))) == close(k)


@given(st.lists(st.floats(1e-6, 1), min_size=1), st.randoms())
def test_entropy_is_a_mean_over_targets_in_any_order(p, random):
    shuffled = random.sample(p, len(p))
    assert analysis.entropy(shuffled) == close(analysis.entropy(p))
    assert analysis.entropy([p, p]) == close(analysis.entropy(p))
    assert analysis.entropy(p) >= 0


@pytest.mark.parametrize("p", [[], [0.5, 0], [-0.1], [1.1], [math.nan]])
def test_entropy_of_what_is_no_probability_is_an_error(p):
    with pytest.raises(MetricError, match="probabilities"):
        analysis.entropy(p)


def test_perplexity_at_its_ends():
    assert analysis.perplexity(0) == 1
    assert analysis.perplexity(1e4) == math.inf
    for entropy in (-0.1, math.nan):
        with pytest.raises(MetricError, match="entropy"):
            analysis.perplexity(entropy)


def test_a_metric_error_is_one_that_users_see():
    assert issubclass(MetricError, LabkitError)
    assert issubclass(MetricError, ValueError)
