"""Sweeps: every trial is run once and for all, whatever comes in between."""

import math
import multiprocessing
import os
import random
import signal
import threading
import time

import made_runs
import pandas as pd
import psutil
import pytest
from processes import exit_code, fork

from labkit import campaign as measuring
from labkit.campaign import SweepFailed, measure
from labkit.datasets import DataError
from labkit.launchers.protocol import NoRoomForTrial
from labkit.runs import Store
from labkit.settings import PROGRESS
from labkit.trials import Sweep, TrialError

pytestmark = [pytest.mark.usefixtures("warm", "once"), pytest.mark.timeout(300)]

SMALL = {
    "framework": "mxnet",
    "model": "lenet5",
    "strategy": "single",
    "initializer": "xavier",
    "batch_size": 32,
    "learning_rate": 0.05,
    "steps": 5,
    "eval_samples": 250,
}

TIMINGS = ["duration_s", "window_s", "batches_per_second", "samples_per_second", "imbalance",
           "variation", "epoch_s", "startup_s", "cpu_ms_per_step", "peak_memory_mb",
           "inference_per_second", "overloaded", "started", "load_before", "load_after",
           "other_cpu"]  # fmt: skip


class Starts:
    """Notes which trials are really run."""

    def __init__(self):
        self.seen = []

    def __call__(self, event):
        if event["kind"] == "start" and event["role"] == "worker":
            self.seen.append(event["trial"])


# --- before anything starts -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"launcher": "lokal"}, "launcher: 'lokal'; did you mean 'local'\\?; allowed: local, kub"),
        ({"launcher": "kubernets"}, "launcher: 'kubernets'; did you mean 'kubernetes'"),
        ({"deadline": 0}, "deadline: 0; allowed: seconds, more than 0"),
        ({"deadline": math.nan}, "deadline: nan"),
    ],
)
def test_what_cannot_be_done(options, says, store):
    with pytest.raises(TrialError, match=says):
        measure(Sweep.grid(**SMALL), store=store, **options)
    assert not store.root.exists()


def test_no_data(store, tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    with pytest.raises(DataError, match="is missing; fetch it with: labkit data"):
        measure(Sweep.grid(**SMALL), store=store)
    assert not store.root.exists()


# --- results --------------------------------------------------------------------------------


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_results(framework, store, tensorboard_scalars):
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
    assert f", {framework} " in row.versions
    assert row.overloaded == math.isnan(row.samples_per_second)
    if not row.overloaded:
        assert row.window_s <= row.duration_s
        assert row.samples_per_second == pytest.approx(32 * row.batches_per_second)

    run = store.find(sweep[0])
    assert {path.name for path in run.directory.glob("*.err")} == {
        f"{role}-{index}.err" for role, n in sweep[0].replicas.items() for index in range(n)
    }
    assert results.evals.value.tolist() == [row.accuracy]
    assert results.evals.samples.tolist() == [500]
    for worker in range(2):
        steps = results.steps[results.steps.worker == worker]
        assert steps.steps.iloc[-1] == 20
        assert steps.samples.tolist() == [32 * n for n in steps.steps]
        # What TensorBoard shows is what the tables say.
        scalars = tensorboard_scalars(run.directory / "tensorboard" / f"worker-{worker}")
        for tag in ("loss", "accuracy"):
            shown = scalars[f"train/{tag}"]
            assert [s.step for s in shown] == steps.steps.tolist()
            assert [s.value for s in shown] == pytest.approx(steps[tag].tolist())
        assert ("test/accuracy" in scalars) is (worker == 0)


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_learning_is_the_same_each_time(framework, store):
    """With one worker, distributed or not, a seed decides everything."""
    values = SMALL | {"framework": framework, "learning_rate": 0.1, "steps": 10}
    sweep = Sweep.grid(**values) + Sweep.grid(**values | {"strategy": "async-ps"})
    values = []
    for _ in range(2):
        measure(sweep, store=store, force=True)
        values.append([[event["loss"] for event in store.find(trial).evaluations()]
                       for trial in sweep])  # fmt: skip
    assert values[0] == values[1]
    assert values[0][0] == pytest.approx(values[0][1], rel=1e-4)


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_a_diverged_trial_is_a_result_without_numbers(framework, store):
    sweep = Sweep.grid(**SMALL | {"framework": framework, "learning_rate": 3e38})
    starts = Starts()
    for _ in range(2):
        row = measure(sweep, store=store, on_event=starts).table.iloc[0]
        assert row.status == "diverged"
        assert "worker 0: the loss became " in row.error
        assert row[["samples_per_second", "accuracy", "duration_s"]].isna().all()
    assert len(starts.seen) == 1
    assert measure(sweep, store=store).evals.empty


# --- once and for all -----------------------------------------------------------------------


def test_what_has_finished_is_not_run_again_unless_asked(store):
    sweep, starts = Sweep.grid(2, **SMALL), Starts()
    first = measure(sweep, store=store, on_event=starts).table
    assert starts.seen == [trial.identity for trial in sweep]
    begun = time.monotonic()
    pd.testing.assert_frame_equal(measure(sweep, store=store, on_event=starts).table, first)
    assert time.monotonic() - begun < 2
    assert len(starts.seen) == 2
    measure(sweep + Sweep.grid(3, **SMALL), store=store, on_event=starts)
    assert len(starts.seen) == 3
    again = measure(sweep, store=store, on_event=starts, force=True).table
    assert len(starts.seen) == 5
    assert (again.started >= first.started).all()
    assert (again.duration_s != first.duration_s).all()


def test_a_failed_trial_does_not_spoil_the_others(store):
    sweep = Sweep.grid(3, **SMALL)
    failing = sweep[1]

    def kill(event):
        if (event["kind"], event.get("trial")) == ("start", failing.identity):
            os.kill(event["pid"], signal.SIGKILL)

    with pytest.raises(SweepFailed) as caught:
        measure(sweep, store=store, on_event=kill)
    assert "1 of 3 trials failed" in str(caught.value)
    assert f"{failing.name}: worker 0 was ended by SIGKILL" in str(caught.value)
    assert str(store.failure(failing).directory) in str(caught.value)
    assert store.results(sweep).table.status.tolist() == ["finished", "failed", "finished"]
    starts = Starts()
    results = measure(sweep, store=store, on_event=starts)
    assert starts.seen == [failing.identity]
    assert results.table.status.tolist() == ["finished"] * 3
    assert store.failure(failing) is None


def test_progress_for_who_asks(store, tmp_path, monkeypatch):
    monkeypatch.setenv(PROGRESS, str(tmp_path / "progress"))
    measure(Sweep.grid(2, **SMALL), store=store)
    lines = pd.read_json(tmp_path / "progress", lines=True)
    assert lines.text.iloc[0].startswith("trial 1 of 2: mxnet-lenet5-w1")
    assert lines.text.iloc[-1].startswith("trial 2 of 2: ")
    assert lines.state.iloc[0] == "starting"
    assert lines.left.iloc[-1] == 0


# --- a busy machine -------------------------------------------------------------------------


def be_busy():
    while True:
        pass


def test_no_rates_from_a_busy_machine(store, monkeypatch):
    monkeypatch.setattr(measuring, "OVERLOAD_RETRIES", 1)
    sweep, starts = Sweep.grid(**SMALL | {"steps": 40}), Starts()
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
    assert len(starts.seen) == 2  # it was given a second chance
    assert (row.status, row.overloaded) == ("finished", True)
    assert math.isnan(row.samples_per_second)
    assert row.accuracy >= 0
    assert row.other_cpu > 0.1


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_our_own_work_is_not_taken_for_others(framework, store):
    """A worker that ends at once after its last step has been busy nevertheless."""
    sweep = Sweep.grid(**SMALL | {"framework": framework, "steps": 60, "eval_samples": 0})
    measure(sweep, store=store)
    run = store.find(sweep[0])
    barrier, *_, last, _ = run.events("worker", 0)[2:]
    assert last["steps"] == 60
    used = (last["cpu"] - barrier["cpu"]) / (last["t"] - barrier["t"])
    assert run.record["own_cpu"] == pytest.approx(used, rel=0.3)


# --- two at once, and interrupted -----------------------------------------------------------


@pytest.fixture(scope="module")
def sweep():
    """Return trials whose results do not depend on timing."""
    return Sweep.grid(16, **SMALL) + Sweep.grid(2, **SMALL | {"strategy": "async-ps"})


@pytest.fixture(scope="module")
def undisturbed(sweep, warm, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "OVERLOAD_RETRIES", 0)
        table = measure(sweep, store=Store(tmp_path_factory.mktemp("undisturbed"))).table
    assert table.accuracy.nunique() > 5  # they are worth comparing
    return table


def same_but_for_timings(one, other):
    pd.testing.assert_frame_equal(one.drop(columns=TIMINGS), other.drop(columns=TIMINGS))


def test_two_sweeps_at_once(sweep, undisturbed, start_labkit, tmp_path):
    half = [SMALL, SMALL | {"seed": 5}]
    labkits = [start_labkit(repeats=8, **values) for values in half]
    started = [event["trial"] for labkit in labkits for event in labkit.events()
               if event["kind"] == "start"]  # fmt: skip
    assert [labkit.wait() for labkit in labkits] == [0, 0]
    # Seeds 5 to 8 were wanted by both, and run by one of them.
    assert sorted(started) == sorted(trial.identity for trial in sweep[:12])
    table = Store(tmp_path / "runs").table(sweep[:12])
    same_but_for_timings(table, undisturbed[:12])


def test_twenty_interruptions(sweep, undisturbed, store):
    moments = random.Random(20)
    interruptions = 0
    while interruptions < 20:
        child = fork(lambda: measure(sweep, store=store))
        time.sleep(moments.uniform(0, 1.2))
        os.kill(child, moments.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
        code = exit_code(child)
        assert code != 0, "the sweep is too short to be interrupted so often"
        interruptions += 1
        for run in store.runs():
            check(run)
    before = len(list(store.runs()))
    starts = Starts()
    table = measure(sweep, store=store, on_event=starts).table
    assert len(starts.seen) == len(sweep) - before
    same_but_for_timings(table, undisturbed)
    assert list((store.root / ".scratch").iterdir()) == []
    for server in psutil.Process().children():
        assert server.children(recursive=True) == []


# --- several at once ------------------------------------------------------------------------


class Place:
    """A launcher with room for some trials, that would start more; what it runs is made up."""

    def __init__(self, room, parallel, stops_at=None):
        self.room, self.parallel, self.stops_at = room, parallel, stops_at
        self.running, self.most, self.tries, self.stopped = 0, 0, 0, False
        self.lock = threading.Lock()

    def __call__(self, deadline):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def stop(self):
        self.stopped = True

    def run(self, trial, directory, watch):
        with self.lock:
            self.tries += 1
            self.running += 1
            self.most = max(self.most, self.running)
            full = self.running > self.room
        try:
            time.sleep(0.05)
            if full:
                raise NoRoomForTrial(f"{trial.name}: no room")
            made_runs.write(trial, directory)
            return made_runs.RECORD
        finally:
            with self.lock:
                self.running -= 1


@pytest.mark.parametrize("room", [1, 2, 9])
def test_trials_that_find_no_room_wait_for_others(room, store, monkeypatch):
    place = Place(room, parallel=3)
    monkeypatch.setitem(measuring.LAUNCHERS, "place", place)
    sweep = [made_runs.trial(seed=seed) for seed in range(6)]
    table = measure(sweep, "place", store=store).table
    assert list(table.status) == ["finished"] * 6
    assert list(table.seed) == list(range(6))
    assert place.most <= 3 and place.tries >= 6


def test_a_trial_that_finds_no_room_alone_fails(store, monkeypatch):
    place = Place(0, parallel=2)
    monkeypatch.setitem(measuring.LAUNCHERS, "place", place)
    sweep = [made_runs.trial(seed=seed) for seed in range(3)]
    with pytest.raises(SweepFailed, match="3 of 3 trials failed"):
        measure(sweep, "place", store=store)
    assert place.tries < 12


def test_an_interrupt_stops_those_that_run(store, monkeypatch):
    place = Place(9, parallel=2)
    monkeypatch.setitem(measuring.LAUNCHERS, "place", place)

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure([made_runs.trial(seed=seed) for seed in range(3)], "place", store=store)
    assert place.stopped
