"""Runs of slow nodes: when their rates hold, and that nobody takes them for those of today's."""

import json
import math

import made_runs
import pytest
from matplotlib.text import Text

from labkit import analysis
from labkit.cli.run import why_overloaded
from labkit.figures import speedup, throughput
from labkit.figures.page import title_of
from labkit.replicas.events import PREFIX
from labkit.runs import RunError
from labkit.runs.slow_nodes import BEHIND, LATE_SHARE, LEAST_IDLE, MOST_OTHER, idle_share

pytestmark = pytest.mark.unit

CALIBRATION = {"gradients": 80, "low": 0.01, "median": 0.02, "high": 0.03, "overloaded": False}


def add(store, late=3, calibration=CALIBRATION, **values):
    """Put a run of slow nodes into a store, of whose gradients some were late."""
    record = {name: values.pop(name) for name in ("own_cpu", "other_cpu", "use") if name in values}
    trial = made_runs.trial(**{"slowdown": 20} | values)

    def change(role, index, lines):
        return [line.replace('"late": 3', f'"late": {late}') for line in lines]

    with store.claim(trial) as scratch:
        made_runs.write(trial, scratch, change)
        return store.keep(trial, scratch, made_runs.RECORD | {"calibration": calibration} | record)


def row(store, run):
    return store.results([run.trial]).table.iloc[0]


def test_what_is_kept(store):
    found = row(store, add(store))
    assert (found.slowdown, found.compute_ms) == (20, 20)
    assert found.late_share == pytest.approx(0.03)
    assert found.idle_share == pytest.approx(1 - 0.625 / 4)
    assert not found.overloaded
    assert found.batches_per_second == pytest.approx(15)


def test_the_window_begins_when_all_have_had_their_turn(store):
    """The second worker trains from four seconds after the barrier on, as fast as ever."""
    trial = made_runs.trial(slowdown=20)

    def change(role, index, lines):
        if (role, index) != ("worker", 1):
            return lines
        events = [json.loads(line.removeprefix(PREFIX)) for line in lines]
        met = next(event for event in events if event["kind"] == "barrier")
        met["turn"] = 4.0
        for event in events[events.index(met) + 1 :]:
            event["t"] += 4
        return [made_runs.line(event) for event in events]

    with store.claim(trial) as scratch:
        made_runs.write(trial, scratch, change)
        run = store.keep(trial, scratch, made_runs.RECORD | {"calibration": CALIBRATION})
    window = run.window
    assert (window.begin, window.end, window.paused) == (0, pytest.approx(10), pytest.approx(4))
    assert window.rates == pytest.approx([500, 250])
    assert row(store, run).overloaded is not True


def test_a_machine_is_never_less_than_not_idle(store):
    """The time and what was used in it are of two clocks, which may differ by a tick."""
    assert idle_share(add(store, own_cpu=4.0, other_cpu=0.01).record) == 0


def test_more_workers_than_cores_are_not_oversubscribed(store):
    run = add(store, workers=50)
    assert not run.oversubscribed
    assert not run.overloaded


@pytest.mark.parametrize("values", [
    {"late": math.ceil(100 * LATE_SHARE) + 1},
    {"own_cpu": 4 * (1 - LEAST_IDLE), "other_cpu": 0.01},
    {"calibration": CALIBRATION | {"overloaded": True}},
])  # fmt: skip
def test_a_machine_that_could_not_keep_up_gives_no_rate(values, store):
    run = add(store, **values)
    assert run.overloaded
    found = row(store, run)
    assert math.isnan(found.batches_per_second)
    assert math.isfinite(found.late_share)  # why there is none


def test_others_may_be_busy_as_long_as_they_disturb_nobody(store):
    """The rule of today's nodes would refuse this one: the wait absorbs what others take."""
    assert not add(store, own_cpu=2.0, other_cpu=1.7).overloaded


def waiting(share):
    """What two pods used, of which one waited for its share of a core so much of the time."""
    rest = {"sent": 0, "received": 0}
    return {
        "worker 0": {"seconds": 10.0, "throttled": 0.0} | rest,
        "server 0": {"seconds": 20.0, "throttled": 20 * share} | rest,
    }


@pytest.mark.parametrize("throttled", [BEHIND - 0.01, BEHIND + 0.01])
@pytest.mark.parametrize("other", [MOST_OTHER - 0.01, MOST_OTHER + 0.01])
def test_a_pod_without_slack_cannot_make_up_for_what_others_take(throttled, other, store):
    pods = {"cpu": 0.16, "own_cpu": 0.5, "other_cpu": 4 * other, "use": waiting(throttled)}
    run = add(store, **pods)
    assert run.overloaded == (throttled > BEHIND and other > MOST_OTHER)
    if run.overloaded:
        found = row(store, run)
        assert math.isnan(found.batches_per_second)
        assert "1.0 of 4 cores" in why_overloaded(found)
        assert "16% of the time" in why_overloaded(found)


def test_a_slowdown_of_one_is_judged_as_nodes_of_today_are(store):
    run = add(store, slowdown=1, workers=5, late=90)
    assert run.oversubscribed
    assert not add(store, slowdown=1, late=90).overloaded


def test_every_gradient_is_timed(store):
    trial = made_runs.trial(slowdown=20)

    def change(role, index, lines):
        return [line.replace('"gradients": 100', '"gradients": 99') for line in lines]

    with store.claim(trial) as scratch:
        made_runs.write(trial, scratch, change)
        with pytest.raises(RunError, match="gradients timed is .99., should be .100."):
            store.keep(trial, scratch, made_runs.RECORD)


def test_never_pooled_with_others(store):
    runs = [add(store, slowdown=s, workers=w) for s in (2, 20) for w in (1, 2)]
    runs += [made_runs.add(store, made_runs.trial(workers=workers)) for workers in (1, 2)]
    table = store.results([run.trial for run in runs]).table
    assert list(analysis.summarise(table)["n"]) == [1] * 6
    found = analysis.speedups(table)
    assert sorted(found["slowdown"].fillna(1)) == [1, 1, 2, 2, 20, 20]


def test_figures_name_the_nodes(store):
    slow = [add(store, workers=workers).trial for workers in (1, 2)]
    today = [made_runs.add(store, made_runs.trial(workers=workers)).trial for workers in (1, 2)]
    only, both = store.results(slow), store.results(slow + today)
    words = "slow nodes (computing takes 20 times as long)"
    for draw in (throughput, speedup):
        for title in ("{}", "My job"):
            assert words in title_of(draw(only, title=title))
        labels = " ".join(text.get_text() for text in draw(both).findobj(Text))
        assert words in labels
        assert "nodes of today" in labels
        assert "slow" not in title_of(draw(store.results(today)))

