"""Claims and their verdicts, on made-up tables and on the published run."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from made_claims import altered, is_rate, judged, only, verdict_of

from labkit import analysis, claims
from labkit.errors import LabkitError
from labkit.settings import REFERENCE
from labkit.thesis import thresholds
from labkit.thesis.claims import CLAIMS, VERDICTS, find
from labkit.thesis.claims.checks import RATES
from labkit.thesis.figures import FIGURES

pytestmark = pytest.mark.unit

LETTERS = {
    "6.1.1": "abcdef", "6.1.2": "abc", "6.1.3": "ab", "6.1.4": "abcd", "6.1.5": "abcde",
    "6.2.1": "abcde", "6.2.2": "abcdefgh", "6.3": "abcd", "p": "12",
}  # fmt: skip
NUMBERS = {section + letter for section, letters in LETTERS.items() for letter in letters}
PAPER = {"p1", "p2"}
"""The later paper's, which contradict chapter 6."""

RATE_CLAIMS = {
    claim.number for claim in CLAIMS if all(check.column in RATES for check in claim.checks)
}
LEARNING_CLAIMS = {claim.number for claim in CLAIMS} - RATE_CLAIMS


@pytest.fixture(scope="module")
def published():
    return SimpleNamespace(
        table=pd.read_parquet(REFERENCE / "trials.parquet"),
        steps=pd.read_parquet(REFERENCE / "steps.parquet"),
    )


# --- the rows -------------------------------------------------------------------------------


def test_every_claim_of_the_chapter_and_the_paper_is_there_once():
    assert [claim.number for claim in CLAIMS] == sorted(NUMBERS | {"6.1.1e-initializer"})


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.number)
def test_a_claim_says_what_decides_it_and_which_figures_show_it(claim):
    assert claim.statement.endswith(".") and claim.needs and claim.words
    assert claim.figures and set(claim.figures) <= set(FIGURES)
    assert set(claim.words) <= set(thresholds.WORDS)
    for check in claim.checks:
        assert check.of and check.needs


def test_an_unknown_claim_is_refused_with_the_nearest_one():
    assert find("6.1.5d").number == "6.1.5d"
    with pytest.raises(LabkitError, match=r"'6\.9z': no such claim; did you mean '6\.\w+'\?"):
        find("6.9z")


# --- a world in which the chapter is right --------------------------------------------------


def test_in_a_world_like_the_chapter_all_its_claims_are_reproduced(made):
    found = made.before
    assert {number for number, verdict in found.items() if verdict != "reproduced"} == PAPER
    assert {found[number] for number in PAPER} == {"refuted"}


def test_nothing_measured_is_not_measured_with_a_reason(made):
    for results in (only(made, slice(0)), only(made, made.table["framework"] == "other")):
        for verdict in claims(results):
            assert verdict.verdict == "not measured"
            assert verdict.reason and not verdict.runs


def test_wide_intervals_leave_every_claim_open(made):
    """Repeats a factor of 60 apart leave their mean where it was, and say nothing of it."""
    factors = {1: 1 / 60, 2: 1, 3: 60}
    apart = made.table["seed"].map(factors)
    table = made.table.copy()
    for column in ("batches_per_second", "epoch_s", "cpu_ms_per_step"):
        table[column] *= apart
    found = judged(SimpleNamespace(table=table, steps=made.steps))
    assert {found[number] for number in RATE_CLAIMS} == {"inconclusive"}
    assert all(found[number] == "reproduced" for number in LEARNING_CLAIMS)


def test_one_run_each_has_no_interval_and_decides_nothing(made):
    for verdict in claims(only(made, made.table["seed"] == 1)):
        assert verdict.verdict == "inconclusive"
        assert verdict.reason == "one run each has no interval"


def test_what_it_needs_and_nothing_else_decides_a_claim(made):
    """Without any one framework, every claim that is about it is not measured; others stay."""
    for gone in ("tensorflow", "mxnet"):
        found = claims(only(made, made.table["framework"] != gone))
        for verdict in found:
            about = any(point.framework == gone for point in verdict.claim.needs)
            assert about == (verdict.verdict == "not measured")
            assert about == bool(verdict.reason)


# --- altered on purpose ---------------------------------------------------------------------


def flipped(results, change):
    before, after = results.before, judged(change)
    return {number: after[number] for number in before if before[number] != after[number]}


def test_mxnet_ten_times_slower_flips_who_is_ahead_and_nothing_else(made):
    mxnet = is_rate(made.table) & (made.table["framework"] == "mxnet")
    slow = altered(
        made, mxnet, batches_per_second=lambda x: x / 10, epoch_s=lambda x: 10 * x
    )  # fmt: skip
    assert flipped(made, slow) == dict.fromkeys(
        ["6.1.3b", "6.1.4a", "6.1.4d", "6.1.5b", "6.2.1d", "6.2.1e", "6.2.2e", "6.3a", "6.3b",
         "6.3c"],
        "refuted",
    )  # fmt: skip


def test_no_speedup_at_all_flips_what_says_there_is_one(made):
    table = made.table.copy()
    by = ["framework", "model", "batch_size", "seed"]
    rates = is_rate(table)
    ones = table[rates & (table["workers"] == 1)].set_index(by)["batches_per_second"]
    alone = table[rates].set_index(by).index.map(ones)
    table.loc[rates, "batches_per_second"] = np.asarray(alone, float)
    table.loc[rates, "epoch_s"] = 10_000 * table["workers"] / (
        table["batches_per_second"] * table["batch_size"]
    )
    found = flipped(made, SimpleNamespace(table=table, steps=made.steps))
    # Speedups are 1 with both, which is no difference, and makes no difference to the RNN.
    assert found == {
        **dict.fromkeys(
            ["6.1.3a", "6.1.4b", "6.1.5c", "6.1.5d", "6.2.1a", "6.2.1b", "6.2.2a",
             "6.2.2b", "6.2.2c", "6.2.2g", "6.3c"], "refuted",
        ),
        **dict.fromkeys(["6.1.5e", "6.2.2d", "6.2.2f", "6.3d"], "inconclusive"),
        "p1": "inconclusive", "p2": "reproduced",
    }  # fmt: skip


def test_tensorflow_that_does_not_learn_flips_that_alone(made):
    fails = (made.table["framework"] == "tensorflow") & ~is_rate(made.table)
    assert flipped(made, altered(made, fails, accuracy=lambda x: x - 76)) == {"6.1.1d": "refuted"}


def test_a_trial_that_diverged_has_not_learnt_and_one_that_failed_says_nothing(made):
    one = (made.table["framework"] == "tensorflow") & (made.table["learning_rate"] == 0.1)
    diverged = altered(made, one, status=lambda _: "diverged", accuracy=lambda _: np.nan)
    assert flipped(made, diverged) == {"6.1.1d": "refuted"}
    failed = altered(made, one, status=lambda _: "failed", accuracy=lambda _: np.nan)
    assert flipped(made, failed) == {"6.1.1d": "not measured"}
    assert "failed" in verdict_of("6.1.1d", failed).reason


def test_plateaus_that_follow_the_framework_flip_what_says_they_follow_the_weights(made):
    names = {t: t.replace("uniform", "x").replace("xavier", "uniform").replace("x-", "xavier-")
             for t in made.steps["trial"] if "-50-512-0.025-" in t}  # fmt: skip
    swapped = SimpleNamespace(table=made.table, steps=made.steps.replace({"trial": names}))
    found = flipped(made, swapped)
    assert found == {"6.1.1e-initializer": "refuted"}


CURVES = [
    # what MXNet's curves at 0.025 become, and what that flips
    (lambda d: d["accuracy"].where(d["accuracy"] > 10, 40), {"6.1.1e", "6.1.1f", "6.1.2a"}),
    (lambda d: d["accuracy"].where(d["accuracy"] > 40, 10), set()),
]


@pytest.mark.parametrize(("change", "which"), CURVES)
def test_what_curves_say_follows_the_curves(made, change, which):
    of = made.steps["trial"].str.contains(r"^mxnet.*-512-0.025-uniform")
    few = ~made.steps["trial"].str.contains("-50-512-")
    steps = made.steps.copy()
    steps.loc[of & few, "accuracy"] = change(steps[of & few])
    found = flipped(made, SimpleNamespace(table=made.table, steps=steps))
    assert set(found) == which and set(found.values()) <= {"refuted"}


def test_a_point_that_several_ratios_share_is_one_sample(made):
    """The speedups of a mean have one worker's rate in common, so its errors do not cancel."""
    spread = {1: 0.9, 2: 1.0, 3: 1 / 0.9}
    table = made.table.copy()
    by = ["framework", "model", "batch_size", "workers"]
    rates = is_rate(table)
    middle = table[rates & (table["seed"] == 2)].set_index(by)["batches_per_second"]
    table.loc[rates, "batches_per_second"] = (
        table[rates].set_index(by).index.map(middle).to_numpy(float)
    )
    ones = rates & (table["framework"] == "tensorflow") & (table["batch_size"] == 20)
    ones &= table["workers"] == 1
    table.loc[ones, "batches_per_second"] *= table["seed"].map(spread)
    changed = SimpleNamespace(table=table, steps=made.steps)
    (finding,) = verdict_of("6.2.2f", changed).findings
    expected = analysis.geometric_interval(list(spread.values()))
    assert finding.found.low / finding.found.mean == pytest.approx(expected.low)
    assert finding.found.high / finding.found.mean == pytest.approx(expected.high)


# --- what is no evidence --------------------------------------------------------------------

SPOILED = {
    "oversubscribed": {"oversubscribed": lambda _: True},
    "overloaded": {"overloaded": lambda _: True},
    "diverged": {"status": lambda _: "diverged"},
    "failed": {"status": lambda _: "failed"},
    "too briefly": {"overloaded": lambda _: None},
}


@pytest.mark.parametrize("why", SPOILED)
def test_spoiled_runs_are_no_evidence_of_rates(made, why):
    made = SimpleNamespace(
        table=made.table.astype({"overloaded": object, "oversubscribed": object}),
        steps=made.steps,
    )
    spoiled = altered(made, is_rate(made.table), **SPOILED[why])
    for verdict in claims(spoiled):
        if verdict.claim.number in RATE_CLAIMS:
            assert verdict.verdict == "not measured" and why in verdict.reason
        elif verdict.claim.number in LEARNING_CLAIMS:
            assert verdict.verdict == "reproduced"


def test_spoiled_repeats_beside_good_ones_change_nothing(made):
    nonsense = made.table[is_rate(made.table)].copy()
    nonsense["batches_per_second"] *= 7.0
    nonsense["oversubscribed"] = nonsense["workers"] > 1
    nonsense["overloaded"] = nonsense["workers"] == 1
    both = pd.concat([made.table, nonsense.assign(trial=nonsense["trial"] + "-x")])
    before, after = (
        claims(SimpleNamespace(table=table, steps=made.steps)) for table in (made.table, both)
    )
    assert [verdict.evidence for verdict in before] == [verdict.evidence for verdict in after]


def test_learning_curves_of_shared_cores_count_and_that_is_said(made):
    of = ~is_rate(made.table)
    shared = verdict_of("6.1.1d", altered(made, of, oversubscribed=lambda _: True))
    assert shared.verdict == "reproduced"
    assert shared.where.endswith("54 of 54 runs oversubscribed")
    assert verdict_of("6.1.3a", made).where.endswith("none of 36 runs oversubscribed")


def test_fifty_workers_without_cores_are_not_measured(made):
    few = altered(made, made.table["workers"] > 10, oversubscribed=lambda _: True)
    found = judged(few)
    assert found["6.1.5c"] == found["6.1.3a"] == found["6.3d"] == "not measured"
    assert found["6.2.1b"] == found["6.1.4d"] == "reproduced"
    reason = verdict_of("6.1.5c", few).reason
    assert reason == (
        "TensorFlow, MXNet, batch 128 with 50 workers: run, but oversubscribed: no scaling"
    )


def test_trials_of_other_settings_are_not_taken(made):
    other = made.table.assign(batches_per_second=1.0, trial=made.table["trial"] + "-other")
    changes = (
        {"clip_norm": 1.0}, {"threads": 2}, {"strategy": "single"}, {"servers": 99},
        {"learning_rate": 0.7}, {"dataset": "mnist"}, {"loss_over_time": "mean"},
    )  # fmt: skip
    everything = pd.concat([made.table, *(other.assign(**change) for change in changes)])
    assert not flipped(made, SimpleNamespace(table=everything, steps=made.steps))


def test_scripts_of_other_frameworks_are_no_evidence(made):
    script = made.table.head(2).assign(
        framework="torch", model="train.py", dataset=None, strategy="script", servers=0,
        trial=["one", "two"],
    )  # fmt: skip
    everything = SimpleNamespace(table=pd.concat([made.table, script]), steps=made.steps)
    assert not flipped(made, everything)


# --- nodes ----------------------------------------------------------------------------------


def elsewhere(results, **columns):
    """Return the same runs on other nodes."""
    table = results.table.assign(**columns, trial=results.table["trial"] + "-elsewhere")
    steps = results.steps.assign(trial=results.steps["trial"] + "-elsewhere")
    return SimpleNamespace(table=table, steps=steps)


def together(*several):
    return SimpleNamespace(
        table=pd.concat([each.table for each in several], ignore_index=True),
        steps=pd.concat([each.steps for each in several], ignore_index=True),
    )


def slower(results):
    mxnet = is_rate(results.table) & (results.table["framework"] == "mxnet")
    return altered(results, mxnet, batches_per_second=lambda x: x / 10)


def test_runs_on_different_nodes_are_never_pooled_and_disagree_openly(made):
    for columns in ({"host": "there"}, {"launcher": "kubernetes"}, {"cores": 100},
                    {"congestion_control": "bbr"}, {"slowdown": 10.0}):  # fmt: skip
        verdict = verdict_of("6.1.3b", together(made, elsewhere(slower(made), **columns)))
        assert verdict.verdict == "inconclusive"
        assert "says the opposite" in verdict.reason
    agreed = verdict_of("6.1.3b", together(made, elsewhere(made, host="there")))
    assert agreed.verdict == "reproduced" and len(agreed.runs) == 36


def test_the_nodes_with_most_of_the_runs_decide(made):
    some = elsewhere(slower(only(made, made.table["workers"] <= 2)), slowdown=10.0)
    verdict = verdict_of("6.1.3b", together(made, some))
    assert verdict.verdict == "reproduced"
    assert verdict.nodes == "processes on 200 cores, here, a processor"
    assert [(other.nodes[:10], other.verdict) for other in verdict.others] == [
        ("slow nodes", "refuted")
    ]
    slow = verdict_of("6.1.3b", some)
    assert slow.verdict == "refuted"
    assert slow.nodes == (
        "slow nodes (computing takes 10 times as long), processes on 200 cores, here, a processor"
    )
    assert "not run on these slow nodes" in verdict_of("6.1.5c", some).reason


def test_slow_nodes_show_no_computing_time(made):
    slow = verdict_of("6.2.1e", elsewhere(made, slowdown=10.0))
    assert slow.verdict == "not measured" and "wait instead of computing" in slow.reason
    assert verdict_of("6.2.1d", elsewhere(made, slowdown=10.0)).verdict == "reproduced"


@pytest.mark.parametrize(("lead", "verdict"), [(1.1, "inconclusive"), (1.25, "reproduced")])
def test_a_lead_on_slow_nodes_is_more_than_calibrations_scatter(made, lead, verdict):
    """A framework's rates are multiples of one calibration, in all repeats; a speedup is not."""
    table = made.table.copy()
    by = ["framework", "model", "batch_size", "workers", "seed"]
    table = table.sort_values(by, ignore_index=True)
    rates = is_rate(table) & (table["model"] == "lenet5")
    for framework, factor in (("tensorflow", 1), ("mxnet", lead)):
        mine = rates & (table["framework"] == framework)
        noise = 1 + table.loc[mine, "seed"] * 1e-4
        table.loc[mine, "batches_per_second"] = factor * table.loc[mine, "workers"] * noise
    results = SimpleNamespace(table=table, steps=made.steps)
    assert verdict_of("6.1.3b", results).verdict == "reproduced"
    slow = elsewhere(results, slowdown=10.0)
    assert verdict_of("6.1.3b", slow).verdict == verdict
    assert verdict_of("6.1.3a", slow).verdict == "reproduced"
    efficiency = verdict_of("6.1.5d", slow).findings[0].found
    assert efficiency.high - efficiency.low < 0.01


def test_of_several_versions_the_one_that_ran_last_is_judged(made):
    table = made.table.assign(versions="1", started="2020-01-01")
    made = SimpleNamespace(table=table, steps=made.steps)
    old = elsewhere(slower(made), versions="0", started="2019-01-01")
    new = elsewhere(slower(made), versions="2", started="2021-01-01")
    assert verdict_of("6.1.3b", together(made, old)).verdict == "reproduced"
    assert verdict_of("6.1.3b", together(made, new)).verdict == "refuted"


def test_verdicts_depend_neither_on_the_order_of_rows_nor_on_the_unit_of_rates(made):
    shuffled = made.table.sample(frac=1, random_state=1)
    assert not flipped(made, SimpleNamespace(table=shuffled, steps=made.steps))
    times = altered(
        made, is_rate(made.table), batches_per_second=lambda x: 3 * x, epoch_s=lambda x: x / 3,
        cpu_ms_per_step=lambda x: x / 3,
    )  # fmt: skip
    assert not flipped(made, times)


# --- the published run ----------------------------------------------------------------------


def test_the_published_run_gets_a_verdict_or_a_reason_for_every_claim(published):
    for verdict in claims(published):
        assert verdict.verdict in VERDICTS
        assert bool(verdict.reason) == (verdict.verdict in ("inconclusive", "not measured"))
        assert bool(verdict.runs) == any(finding.found for finding in verdict.findings)
        assert verdict.evidence or verdict.verdict == "not measured"


def test_the_published_run_altered_flips_what_it_should(published):
    """Whatever is published: claims that MXNet is ahead cannot stand, and others stay."""
    mxnet = published.table["framework"] == "mxnet"
    slow = altered(published, mxnet, batches_per_second=lambda x: x / 10,
                   epoch_s=lambda x: x * 10)  # fmt: skip
    fast = altered(published, mxnet, batches_per_second=lambda x: x * 10,
                   epoch_s=lambda x: x / 10)  # fmt: skip
    before, below, above = (judged(each) for each in (published, slow, fast))
    ahead = {"6.1.3b", "6.1.4d", "6.2.1d", "6.2.2e", "6.3a"}
    sizes = {"6.1.4a", "6.1.5b", "6.1.5c", "6.2.1e", "6.3b", "6.3c"}
    for number, verdict in before.items():
        if number not in ahead | sizes:
            assert verdict == below[number] == above[number]
        if number in ahead:
            assert below[number] in ("refuted", "not measured")
            assert above[number] in ("reproduced", "not measured")
            assert above[number] == "not measured" or below[number] == "refuted"
    assert below["6.1.4d"] == "refuted" and above["6.1.4d"] == "reproduced"


def test_the_table_has_a_row_for_each_claim(published):
    found = claims(published)
    assert list(found.table["claim"]) == [claim.number for claim in CLAIMS]
    assert found.summary in repr(found) and found.summary in found._repr_html_()
    counts = found.table["verdict"].value_counts()
    assert found.summary == ", ".join(f"{counts.get(name, 0)} {name}" for name in VERDICTS)
    json.dumps([finding.record for verdict in found for finding in verdict.findings])


def test_a_table_of_trials_alone_says_nothing_of_plateaus(made):
    found = judged(made.table)
    assert found["6.1.3a"] == "reproduced" and found["6.1.1d"] == "reproduced"
    assert found["6.1.1e"] == "not measured"
