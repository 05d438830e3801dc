"""Slow nodes that really train: slower at computing, and otherwise the same."""

import pytest
from real_trials import SMALL

from labkit.campaign import measure
from labkit.replicas.events import Computed
from labkit.trials import Trial, TrialError
from labkit.trials.frameworks import FRAMEWORKS

pytestmark = [
    pytest.mark.process,
    pytest.mark.alone,
    pytest.mark.usefixtures("warm", "once"),
    pytest.mark.timeout(300),
]


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "model"), [
    ("mxnet", {}),
    ("tensorflow", {"model": "lstm", "batch_size": 20, "clip_norm": 1.0}),
])  # fmt: skip
def test_a_slow_node_learns_the_same(framework, model, store):
    """Each step takes its stretched time, and leads to the same weights as without."""
    usual = Trial(**SMALL | {"framework": framework, "steps": 4, "eval_samples": 40} | model)
    slow = usual.replace(slowdown=3.0)
    results = measure([usual, slow], store=store, quiet=True)
    losses = [event.loss for run in results.runs for _, event in run.evaluations()]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)
    run = results.runs[1]
    due = 3 * run.record["calibration"]["median"]
    row = results.table.iloc[1]
    (events,) = run.workers
    assert row.duration_s >= usual.steps * due * 0.999
    timed = next(event for event in events if isinstance(event, Computed))
    assert timed.gradients == usual.steps
    assert timed.low <= timed.median <= timed.high
    assert (run.directory / "calibration" / "worker-0.log").stat().st_size


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_more_workers_than_cores(framework, store):
    """Each worker takes its stretched time, however many there are: no rate is above that."""
    trial = Trial(
        **SMALL | {"framework": framework, "strategy": "async-ps", "eval_samples": 0},
        workers=4,
        slowdown=20.0,
    )
    results = measure([trial], store=store, quiet=True)
    (run,) = results.runs
    assert not run.oversubscribed
    due = 20 * run.record["calibration"]["median"]
    for worker in run.progress():
        assert worker.t[-1] >= trial.steps * due * 0.999
    assert 0 <= run.late_share <= 1
    row = results.table.iloc[0]
    assert row.compute_ms == pytest.approx(due / 20 * 1000)


def test_a_share_of_a_core_is_of_pods_only(store):
    slow = Trial(**SMALL | {"framework": "mxnet", "slowdown": 10.0, "cpu": 0.5})
    with pytest.raises(TrialError, match=r"cpu: 0\.5: only of pods: --launcher kubernetes"):
        measure([slow], store=store)


def test_a_bandwidth_is_of_pods_only(store):
    limited = Trial(**SMALL | {"framework": "mxnet", "bandwidth": 1e9})
    with pytest.raises(TrialError, match=r"bandwidth: 1000Mbit: only of pods: --launcher kube"):
        measure([limited], store=store)


def test_stragglers(store):
    """Each of three workers is as slow as its place, and the last takes twice as long."""
    trial = Trial(
        **SMALL | {"strategy": "async-ps", "eval_samples": 0},
        workers=3,
        slowdown=30.0,
        slowdown_spread=2.0,
    )
    (run,) = measure([trial], store=store, quiet=True).runs
    due = run.record["calibration"]["median"] * trial.steps
    for worker, slowdown in zip(run.progress(), (30, 45, 60), strict=True):
        assert worker.t[-1] >= slowdown * due * 0.999
    assert run.progress()[0].t[-1] < run.progress()[2].t[-1]


def test_a_spread_of_nothing():
    with pytest.raises(TrialError, match="slowdown_spread: 2 of no slowdown; give both"):
        Trial(**SMALL | {"slowdown_spread": 2.0})


def test_an_impossible_slowdown():
    with pytest.raises(TrialError, match="slowdown: 0.5; allowed: 1.0 or more"):
        Trial(**SMALL | {"slowdown": 0.5})
