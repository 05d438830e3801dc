"""Comparisons: laws, how often verdicts are right, and what is not comparable and why."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tidy_tables import lose, trials

from labkit.analysis import MetricError
from labkit.analysis.compare import compare_tables
from labkit.analysis.comparison import ALIKE, FASTER, NOT_COMPARABLE, SLOWER

pytestmark = pytest.mark.unit


def made(random, factor=1.0, variation=0.03, workers=(1, 2, 4), repeats=3):
    """Return made-up rates that scatter, of a job that scales nearly linearly."""
    return pd.DataFrame(
        [
            {"workers": n,
             "throughput": factor * 20 * n**0.9 * (1 + variation * random.standard_normal())}
            for n in workers for _ in range(repeats)
        ]
    )  # fmt: skip


def kept(**values):
    """Return a table of trials as kept runs have it."""
    table = trials(frameworks=("mxnet",), workers=(1, 2), **values)
    return table.assign(throughput=table["batches_per_second"], host="here", cores=64)


# --- how often it is right ----------------------------------------------------------------------

TRIES = 40


@pytest.mark.parametrize("variation", [0.02, 0.03])
@pytest.mark.parametrize(("factor", "verdict"), [(1.0, ALIKE), (0.9, SLOWER), (1 / 0.9, FASTER)])
def test_the_verdict_on_the_whole_is_right_in_nineteen_of_twenty(factor, verdict, variation):
    random = np.random.default_rng(2018)
    right = sum(
        compare_tables(
            made(random, 1.0, variation), made(random, factor, variation)
        ).overall.verdict == verdict
        for _ in range(TRIES)
    )  # fmt: skip
    assert right >= TRIES * 39 / 40  # half as many mistakes as are allowed


def test_more_settings_are_not_more_false_alarms():
    """Of thirty settings that are the same the first to look different decides nothing."""
    random = np.random.default_rng(5)
    numbers = range(1, 31)
    found = [
        compare_tables(made(random, workers=numbers), made(random, workers=numbers))
        for _ in range(10)
    ]
    assert all(each.overall.verdict == ALIKE for each in found)
    any_of = sum(any(row.verdict != ALIKE for row in each.settings) for each in found)
    assert any_of > 1  # what a rule of "any setting" would have made of it


def test_sets_that_are_off_as_a_whole_are_not_taken_for_different():
    """Each set is off by some 2 %, all repeats of all settings together; they hardly scatter."""
    random = np.random.default_rng(11)
    alarms = {0.0: 0, 0.02: 0}
    for _ in range(TRIES):
        pair = [made(random, 1 + 0.02 * random.standard_normal(), 0.005) for _ in range(2)]
        for drift in alarms:
            alarms[drift] += compare_tables(*pair, drift=drift).overall.verdict != ALIKE
    assert alarms[0.0] > TRIES / 4 and alarms[0.02] <= TRIES / 20


# --- laws ---------------------------------------------------------------------------------------

seeds = st.integers(0, 10_000)


@settings(max_examples=15)
@given(seeds, st.floats(0.5, 2), st.floats(1e-3, 1e6))
def test_turned_round_it_says_the_opposite_whatever_the_unit(seed, factor, unit):
    random = np.random.default_rng(seed)
    one, other = made(random), made(random, factor)
    there = compare_tables(one, other)
    scaled = [table.assign(throughput=unit * table["throughput"]) for table in (other, one)]
    back = compare_tables(*scaled)
    opposite = {FASTER: SLOWER, SLOWER: FASTER, ALIKE: ALIKE}
    pairs = zip([*there.settings, there.overall], [*back.settings, back.overall], strict=True)
    for a, b in pairs:
        np.testing.assert_allclose([a.ratio, a.low, a.high], [1 / b.ratio, 1 / b.high, 1 / b.low])
        assert b.verdict == opposite[a.verdict]


@settings(max_examples=15)
@given(seeds)
def test_the_whole_is_the_geometric_mean_of_the_settings(seed):
    random = np.random.default_rng(seed)
    found = compare_tables(made(random), made(random, 0.97))
    ratios = [row.ratio for row in found.settings]
    assert found.overall.ratio == pytest.approx(np.exp(np.mean(np.log(ratios))))
    narrow = compare_tables(made(random), made(random), level=0.5).overall
    assert narrow.low < narrow.ratio < narrow.high


@settings(max_examples=10)
@given(seeds)
def test_the_order_of_rows_does_not_matter(seed):
    random = np.random.default_rng(seed)
    one, other = made(random), made(random)
    mixed = compare_tables(one.sample(frac=1, random_state=seed), other[::-1])
    plain = compare_tables(one, other)
    assert [str(row) for row in mixed.settings] == ["workers 1", "workers 2", "workers 4"]
    assert mixed.overall.low == pytest.approx(plain.overall.low)


def test_the_same_without_scatter_is_the_same():
    same = pd.DataFrame({"workers": [1, 1, 1], "throughput": [0.1, 0.1, 0.1]})
    assert compare_tables(same, same[:2]).overall.verdict == ALIKE
    assert compare_tables(same, same.assign(throughput=0.11)).overall.verdict == FASTER


# --- what is not comparable ---------------------------------------------------------------------


def test_settings_that_only_one_has_are_named_and_do_not_count():
    random = np.random.default_rng(1)
    found = compare_tables(made(random), made(random, workers=(2, 4, 8)), ("a", "b"))
    reasons = {str(row): row.reason for row in found.settings}
    assert reasons == {"workers 1": "only in a", "workers 2": "", "workers 4": "",
                       "workers 8": "only in b"}  # fmt: skip
    assert found.overall.repeats == (6, 6)
    assert "over 2 of 4 settings" in found.note


def test_nothing_in_common_says_in_what_they_differ():
    found = compare_tables(kept(), kept().assign(steps=936), ("a", "b"))
    assert found.overall.verdict == NOT_COMPARABLE
    assert found.overall.reason == "no setting in common: steps 200 in a, 936 in b"
    assert np.isnan(found.overall.ratio)


def test_one_repeat_has_no_interval_and_no_verdict():
    found = compare_tables(kept(repeats=1), kept(repeats=1))
    assert {row.verdict for row in found.settings} == {NOT_COMPARABLE}
    assert found.overall.reason == "one repeat each"
    assert compare_tables(kept(), kept(repeats=1), ("a", "b")).overall.reason == "one repeat in b"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"slowdown": 20.0, "host": "there"}, "slow nodes of different hosts"),
        ({"slowdown": 20.0, "compute_ms": 95.0}, "calibrations: a gradient takes 110, 95 ms"),
        ({"oversubscribed": True}, "oversubscribed in b alone"),
        ({"host": ["x", "y", "z"] * 2}, "b has host x, y, z"),
        ({"versions": ["1", "2", "2"] * 2}, "b has versions 1, 2"),
    ],
)
def test_what_must_not_be_compared(change, said):
    before = kept().assign(slowdown=change.get("slowdown"), compute_ms=110.0)
    found = compare_tables(before, kept().assign(**change), ("a", "b"))
    assert found.overall.verdict == NOT_COMPARABLE
    assert said in found.overall.reason


def test_oversubscribed_rates_are_of_one_machine():
    shared = kept().assign(oversubscribed=True)
    assert compare_tables(shared, shared).overall.verdict == ALIKE
    assert all(row.oversubscribed for row in compare_tables(shared, shared).settings)
    other = compare_tables(shared, shared.assign(cores=2))
    assert other.overall.reason == "oversubscribed, on different hosts or cores"


def test_slow_nodes_of_one_host_and_calibration_are_comparable():
    slow = kept().assign(slowdown=20.0, compute_ms=110.0)
    assert compare_tables(slow, slow).overall.verdict == ALIKE
    other = slow.assign(framework="tensorflow", compute_ms=70.0)  # has another in any case
    assert compare_tables(slow, other, by="framework").overall.verdict == ALIKE


def test_who_was_not_overloaded_is_not_said_to_have_been():
    table = lose(kept(), "finished", overloaded=False, workers=2)
    table["throughput"] = table["batches_per_second"]
    _, two = compare_tables(table, kept(), ("a", "b")).settings
    assert two.reason == "no rate in a (finished)"


def test_lost_rates_are_no_repeats():
    table = lose(kept(), "finished", overloaded=True, workers=2)
    table["throughput"] = table["batches_per_second"]
    one, two = compare_tables(table, kept(), ("a", "b")).settings
    assert one.verdict == ALIKE and two.reason == "no rate in a (overloaded)"


@pytest.mark.parametrize(
    ("units", "said"),
    [
        (("images/s", "batches/s"), "a is in images/s and b is in batches/s"),
        (("", "batches/s"), "a is in an unknown unit and b is in batches/s"),
    ],
)
def test_different_units(units, said):
    found = compare_tables(kept(), kept(), ("a", "b"), units=units)
    assert (found.overall.verdict, found.overall.reason) == (NOT_COMPARABLE, said)


def test_another_host_is_compared_and_named():
    found = compare_tables(kept(), kept().assign(host="there"))
    assert found.overall.verdict == ALIKE
    assert found.differences == {"host": ("here", "there")}


def test_what_one_set_does_not_say_must_be_one_thing_in_the_other():
    own = made(np.random.default_rng(1), workers=(1, 2))
    assert compare_tables(own, kept()).overall.reason == ""
    both = compare_tables(own, kept(batch_sizes=(128, 512)), ("a", "b"))
    assert both.overall.reason == "b has batch_size 128, 512"


def test_servers_that_come_with_the_framework_are_no_other_setting():
    table = trials(workers=(1, 2)).assign(throughput=lambda t: t["batches_per_second"])
    sides = [table[table["framework"] == name] for name in ("mxnet", "tensorflow")]
    found = compare_tables(*sides, by="framework")
    assert [str(row) for row in found.settings] == ["workers 1", "workers 2"]
    assert found.differences["servers"] == ("1, 2", "1")


def test_a_level_that_is_none():
    with pytest.raises(MetricError, match="level: 99; allowed: between 0 and 1"):
        compare_tables(kept(), kept(), level=99)
