"""Sweeps of real trials: every trial is run once, and the tables say what came of it."""

import math
import multiprocessing
import os
import signal

import pandas as pd
import pytest
from real_trials import SMALL, Starts

from labkit import campaign
from labkit.campaign import SweepFailed, measure
from labkit.launchers import load
from labkit.launchers.load import is_overloaded
from labkit.replicas.events import Start
from labkit.runs import run as runs
from labkit.runs import tensorboard
from labkit.settings import PROGRESS
from labkit.trials import Sweep

pytestmark = [
    pytest.mark.process,
    pytest.mark.alone,
    pytest.mark.usefixtures("warm", "once"),
    pytest.mark.timeout(300),
]

# --- results --------------------------------------------------------------------------------


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_results(framework, store, tmp_path, tensorboard_scalars):
    sweep = Sweep.grid(**SMALL | {
        "framework": framework, "strategy": "async-ps", "workers": 2, "steps": 20,
        "eval_samples": 500,
    })  # fmt: skip
    results = measure(sweep, store=store)
    row = results.table.iloc[0]
    assert (row.status, row.workers, row.error) == ("finished", 2, None)
    assert row.duration_s > 0
    assert 0 < row.startup_s < 60
    assert 0 <= row.accuracy <= 100
    assert row.cpu_ms_per_step > 1
    assert row.peak_memory_mb > 100
    assert row.inference_per_second > 10
    assert f", {framework} " in f", {row.versions}"
    assert row.window_s <= row.duration_s
    assert row.samples_per_second == pytest.approx(32 * row.batches_per_second)

    run = store.find(sweep[0])
    assert {path.name for path in run.directory.glob("*.err")} == {
        f"{role}-{index}.err" for role, n in sweep[0].replicas.items() for index in range(n)
    }
    assert results.evals.value.tolist() == [row.accuracy]
    assert results.evals.samples.tolist() == [500]
    tensorboard.write(run, tmp_path / "tensorboard")
    for worker in range(2):
        steps = results.steps[results.steps.worker == worker]
        assert steps.steps.iloc[-1] == 20
        assert steps.samples.tolist() == [32 * n for n in steps.steps]
        # What TensorBoard shows is what the tables say.
        scalars = tensorboard_scalars(tmp_path / "tensorboard" / f"worker-{worker}")
        for tag in ("loss", "accuracy"):
            shown = scalars[f"train/{tag}"]
            assert [s.step for s in shown] == steps.steps.tolist()
            assert [s.value for s in shown] == pytest.approx(steps[tag].tolist())
        assert ("test/accuracy" in scalars) is (worker == 0)


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_learning_is_the_same_each_time(framework, store):
    """With one worker, distributed or not, a seed decides everything."""
    values = SMALL | {"framework": framework, "learning_rate": 0.1, "steps": 10}
    sweep = Sweep.grid(**values)
    for strategy in ("async-ps", "sync-ps"):
        sweep += Sweep.grid(**values | {"strategy": strategy})
    values = []
    for _ in range(2):
        measure(sweep, store=store, force=True)
        values.append([[event.loss for _, event in store.find(trial).evaluations()]
                       for trial in sweep])  # fmt: skip
    assert values[0] == values[1]
    assert values[0][1] == pytest.approx(values[0][0], rel=1e-4)
    assert values[0][2] == pytest.approx(values[0][0], rel=1e-4)


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_a_diverged_trial_is_a_result_without_numbers(framework, store):
    sweep = Sweep.grid(**SMALL | {"framework": framework, "learning_rate": 3e38})
    starts = Starts()
    for _ in range(2):
        row = measure(sweep, store=store, on_event=starts).table.iloc[0]
        assert row.status == "diverged"
        assert "worker 0: the loss became " in row.error
        assert row[["samples_per_second", "accuracy", "duration_s"]].isna().all()
    assert len(starts) == 1
    assert measure(sweep, store=store).evals.empty


# --- once and for all -----------------------------------------------------------------------


def test_what_has_finished_is_not_run_again_unless_asked(store):
    sweep, starts = Sweep.grid(2, **SMALL), Starts()
    first = measure(sweep, store=store, on_event=starts).table
    assert starts == [trial.identity for trial in sweep]
    pd.testing.assert_frame_equal(measure(sweep, store=store, on_event=starts).table, first)
    assert len(starts) == 2
    measure(sweep + Sweep.grid(3, **SMALL), store=store, on_event=starts)
    assert len(starts) == 3
    again = measure(sweep, store=store, on_event=starts, force=True).table
    assert len(starts) == 5
    assert (again.started >= first.started).all()
    assert (again.duration_s != first.duration_s).all()


def test_a_failed_trial_does_not_spoil_the_others(store):
    sweep = Sweep.grid(3, **SMALL)
    failing = sweep[1]

    def kill(event):
        if isinstance(event, Start) and event.trial == failing.identity:
            os.kill(event.pid, signal.SIGKILL)

    with pytest.raises(SweepFailed) as caught:
        measure(sweep, store=store, on_event=kill)
    assert "1 of 3 trials failed" in str(caught.value)
    assert f"{failing.name}: worker 0 was ended by SIGKILL" in str(caught.value)
    assert str(store.failure(failing).directory) in str(caught.value)
    assert store.results(sweep).table.status.tolist() == ["finished", "failed", "finished"]
    starts = Starts()
    results = measure(sweep, store=store, on_event=starts)
    assert starts == [failing.identity]
    assert results.table.status.tolist() == ["finished"] * 3
    assert store.failure(failing) is None


def test_progress_for_who_asks(store, tmp_path, monkeypatch):
    monkeypatch.setenv(PROGRESS, str(tmp_path / "progress"))
    measure(Sweep.grid(2, **SMALL), store=store)
    lines = pd.read_json(tmp_path / "progress", lines=True)
    assert lines.tally.iloc[-1]["run"] == sorted(run.directory.name for run in store.runs())
    lines = lines.iloc[:-1]
    assert lines.text.iloc[0].startswith("trial 1 of 2: mxnet-lenet5-w1")
    assert lines.text.iloc[-1].startswith("trial 2 of 2: ")
    assert lines.state.iloc[0] == "starting"
    assert lines.left.iloc[-1] == 0


# --- a busy machine -------------------------------------------------------------------------


def be_busy():
    while True:
        pass


def test_no_rates_from_a_busy_machine(store, monkeypatch):
    monkeypatch.setattr(campaign, "OVERLOAD_RETRIES", 1)
    monkeypatch.setattr(load, "is_overloaded", is_overloaded)
    monkeypatch.setattr(runs, "SHORTEST_JUDGED", 0.0)  # on however quick a machine
    sweep, starts = Sweep.grid(**SMALL | {"steps": 100}), Starts()
    others = [multiprocessing.get_context("fork").Process(target=be_busy)
              for _ in os.sched_getaffinity(0)]  # fmt: skip
    for other in others:
        other.start()
    try:
        row = measure(sweep, store=store, on_event=starts).table.iloc[0]
    finally:
        for other in others:
            other.kill()
            other.join()
    assert len(starts) == 2  # it was given a second chance
    assert (row.status, row.overloaded) == ("finished", True)
    assert math.isnan(row.samples_per_second)
    assert row.accuracy >= 0
    assert row.other_cpu > 0.1


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_our_own_work_is_not_taken_for_others(framework, store):
    """A worker that ends at once after its last step has been busy nevertheless."""
    sweep = Sweep.grid(**SMALL | {"framework": framework, "steps": 300, "eval_samples": 0})
    measure(sweep, store=store)
    run = store.find(sweep[0])
    barrier, *_, last, _ = run.events("worker", 0)[2:]
    assert last.steps == 300
    used = (last.cpu - barrier.cpu) / (last.t - barrier.t)
    assert run.record["own_cpu"] == pytest.approx(used, rel=0.3)
