"""What the words of the claims mean: each turns at its bound, and needs a whole interval."""

import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_claims import altered, curve, is_rate, only, verdict_of

from labkit.thesis import thresholds
from labkit.thesis.claims import find
from labkit.thesis.claims.checks import RATE, TIME

pytestmark = pytest.mark.unit

WHO = ("framework", "batch_size", "workers")


@given(st.sampled_from(thresholds.WORDS), st.floats(-200, 200), st.floats(0, 50))
def test_a_word_is_never_true_and_false_and_either_needs_the_whole_interval(word, low, width):
    high = low + width
    assert not (word.holds(low, high) and word.fails(low, high))
    if word.holds(low, high) or word.fails(low, high):
        inside = low + width / 2
        assert word.holds(inside, inside) == word.holds(low, high)
    else:
        assert low <= word.low <= high or low <= word.high <= high
    nan = float("nan")
    assert not word.holds(nan, nan) and not word.fails(nan, nan)


def test_every_word_has_its_reason_and_range():
    assert len({word.name for word in thresholds.WORDS}) == len(thresholds.WORDS)
    for word in thresholds.WORDS:
        assert word.reason.endswith((".", ")")) and any(c.isdigit() for c in word.range)


def test_no_difference_at_all_is_no_direction():
    for word, none in ((thresholds.HIGHER, 1), (thresholds.LONGER, 0)):
        assert word.fails(none, none) and not word.holds(none, none)


# --- each word at its bound -----------------------------------------------------------------

TF, MX = "tensorflow", "mxnet"
STRETCH = math.log2(5 / 2)
"""Doublings from 2 workers to 5, and from 10 to 25."""

BOUNDS = {
    # the claim, what is changed, of whom, to what: a power of the quantity, times others' mean
    "near ideal": ("6.2.1a", RATE, (TF, 20, 25), (TF, 20, 1), 1, 25, [0.9]),
    "linear": ("6.2.1b", RATE, (MX, 20, 5), (MX, 20, 2), STRETCH, 1, [1.8]),
    "flat": ("6.2.1c", RATE, (MX, 20, 50), (MX, 20, 25), 1, 1, [1.2]),
    "rising": ("6.2.2b", RATE, (TF, 5, 25), (TF, 5, 10), STRETCH, 1, [1.2]),
    "higher": ("6.1.4d", RATE, (MX, 256, 1), (TF, 256, 1), 1, 1, [1.0]),
    "about equal": ("6.1.4c", TIME, (TF, 256, 1), (TF, 512, 1), 1, 1, [0.8, 1.25]),
    "clearly higher": ("6.2.2e", RATE, (MX, 5, 50), (TF, 5, 50), 1, 1, [1.25]),
    "not clearly lower": ("6.3c", RATE, (MX, 512, 25), (TF, 512, 25), 1, 1, [0.8]),
}


@pytest.mark.parametrize(
    ("word", "bound"), [(word, bound) for word, row in BOUNDS.items() for bound in row[-1]]
)
def test_a_word_about_rates_turns_at_its_bound(word, bound, made):
    number, column, who, other, power, times, _ = BOUNDS[word]
    (known,) = (each for each in thresholds.WORDS if each.name == word)
    assert known in find(number).words

    def rows(who):
        table = made.table
        same = [table[name] == value for name, value in zip(WHO, who, strict=True)]
        return is_rate(table) & np.logical_and.reduce(same)

    def at(value, spread):
        middle = made.table.loc[rows(other) & (made.table["seed"] == 2), column].item()
        repeats = times * middle * value**power * np.array([1 / spread, 1, spread])
        return verdict_of(number, altered(made, rows(who), **{column: lambda _: repeats})).verdict

    above, below = at(bound * 1.02, 1.001), at(bound / 1.02, 1.001)
    inside = "reproduced", "refuted"
    assert (above, below) == (inside if bound == known.low else inside[::-1])
    assert at(bound, 1.1) == "inconclusive"
    assert verdict_of(number, only(made, ~rows(who))).verdict == "not measured"


ACCURACIES = {
    "learns": ("6.1.1d", (TF, 512, 5), 20.0),
    "does not learn": ("6.1.1a", (MX, 512, 5), 20.0),
    "clearly better": ("6.1.2c", (MX, 5, 1), 85.0 + 2),
    "not clearly worse": ("6.1.1f", (MX, 512, 5), 86.0 - 2),
}


@pytest.mark.parametrize("word", ACCURACIES)
def test_a_word_about_accuracy_turns_at_its_bound(word, made):
    number, who, bound = ACCURACIES[word]
    rows = ~is_rate(made.table) & (made.table["learning_rate"].isin([0.1, 0.025]))
    for name, value in zip(WHO, who, strict=True):
        rows &= made.table[name] == value

    def at(value, spread):
        repeats = made.table.loc[rows, "seed"].map({1: -spread, 2: 0, 3: spread})
        return verdict_of(number, altered(made, rows, accuracy=lambda _: value + repeats)).verdict

    sides = ["reproduced", "refuted"]
    assert [at(bound + 1, 0.1), at(bound - 1, 0.1)] == (
        sides[::-1] if word == "does not learn" else sides
    )
    assert at(bound, 5) == "inconclusive"
    assert verdict_of(number, only(made, ~rows)).verdict == "not measured"


PLATEAUS = {
    "a plateau of more than half": ("6.1.1e", "mxnet-lenet5-5-512-0.025-uniform", 50, 1),
    "from the start": ("6.1.2b", "mxnet-lenet5-10-5-0.025-uniform", 12.5, -1),
    "much shorter": ("6.1.2a", "mxnet-lenet5-1-5-0.025-uniform", 30, -1),
    "longer": ("6.1.1e-initializer", "mxnet-lenet5-50-512-0.025-xavier", 60, -1),
}


@pytest.mark.parametrize("word", PLATEAUS)
def test_a_word_about_plateaus_turns_at_its_bound(word, made):
    number, name, bound, sign = PLATEAUS[word]

    def at(*lengths):
        steps = [made.steps[~made.steps["trial"].str.startswith(f"{name}-")]]
        for seed, length in enumerate(lengths, 1):
            (trial,) = made.table[made.table["trial"] == f"{name}-{seed}"].to_dict("records")
            steps.append(curve(trial, length, 10))
        changed = SimpleNamespace(table=made.table, steps=pd.concat(steps))
        return verdict_of(number, changed).verdict

    assert at(*(bound + sign * n for n in (8, 9, 10))) == "reproduced"
    assert at(*(bound - sign * n for n in (8, 9, 10))) == "refuted"
    assert at(bound - 9, bound, bound + 9) == "inconclusive"
    assert at() == "not measured"


@pytest.mark.parametrize(("plateau", "rise"), [(100, 0), (60, 40)])
def test_a_rise_whose_end_was_not_seen_is_none(made, plateau, rise):
    """Not the steepest of all: it needs no time at all if there was none."""
    name = "mxnet-lenet5-1-512-0.025-uniform"
    kept = made.steps[~made.steps["trial"].str.startswith(f"{name}-")]
    mine = made.table[made.table["trial"].str.startswith(f"{name}-")].to_dict("records")
    steps = pd.concat([kept, *(curve(trial, plateau, rise) for trial in mine)])
    assert verdict_of("6.1.1f", made).verdict == "reproduced"
    verdict = verdict_of("6.1.1f", SimpleNamespace(table=made.table, steps=steps))
    assert verdict.verdict == "not measured"
    assert "without the end of a rise" in verdict.reason


def test_leads_of_both_do_not_make_up_for_each_other(made):
    """One is ahead with few workers, and the other with many: they are as far apart as ever."""
    table = made.table
    mxnet = is_rate(table) & (table["framework"] == "mxnet")
    turned = mxnet & (table["batch_size"] == 512) & (table["workers"] > 5)
    crossed = altered(made, turned, batches_per_second=lambda x: x / 1.31**2)
    assert verdict_of("6.1.4a", crossed).verdict == "reproduced"


def test_closer_is_closer_whoever_is_ahead(made):
    """MXNet as far behind as it was ahead: the distance is the same."""
    table = made.table
    mxnet = is_rate(table) & (table["framework"] == "mxnet")
    lead = table["batch_size"].map({512: 1.31, 256: 1.15}).fillna(1) ** 2
    behind = altered(made, mxnet, batches_per_second=lambda x: x / lead[mxnet])
    assert verdict_of("6.1.4a", behind).verdict == "reproduced"
    one = mxnet & (table["batch_size"] == 256)
    crossed = altered(made, one, batches_per_second=lambda x: x / lead[one])
    assert verdict_of("6.1.4a", crossed).verdict == "reproduced"
