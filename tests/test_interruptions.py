"""Sweeps that run at once, and that are interrupted: the results are those of one that is not."""

import os
import random
import signal
import time

import pandas as pd
import psutil
import pytest
from processes import exit_code, fork
from real_trials import SMALL, Starts

from labkit import campaign
from labkit.campaign import measure
from labkit.runs import Store
from labkit.runs.check import check
from labkit.trials import Sweep

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.usefixtures("warm", "once"),
    pytest.mark.timeout(300),
]

TIMINGS = ["duration_s", "window_s", "paused_s", "batches_per_second", "samples_per_second",
           "imbalance", "variation", "epoch_s", "startup_s", "cpu_ms_per_step", "cpu_variation",
           "input_ms_per_step", "evaluation_ms_per_step", "server_cpu_ms_per_update",
           "peak_memory_mb", "inference_per_second", "overloaded", "started", "load_before",
           "load_after", "other_cpu", "steal_cpu"]  # fmt: skip

EVENTS = 6
"""Events of a trial of one process: start, ready, barrier, step, eval and end."""

HOLD = 4
"""Events after which a sweep that is to be interrupted goes no further."""


@pytest.fixture(scope="module")
def sweep():
    """Return trials whose results do not depend on timing."""
    return Sweep.grid(16, **SMALL) + Sweep.grid(2, **SMALL | {"strategy": "async-ps"})


@pytest.fixture(scope="module")
def undisturbed(sweep, warm, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(campaign, "OVERLOAD_RETRIES", 0)
        table = measure(sweep, store=Store(tmp_path_factory.mktemp("undisturbed"))).table
    assert table.accuracy.nunique() > 5  # they are worth comparing
    return table


def same_but_for_timings(one, other):
    left_out = [*TIMINGS, "revision"]  # which changes if somebody edits the tree meanwhile
    pd.testing.assert_frame_equal(one.drop(columns=left_out), other.drop(columns=left_out))


def test_two_sweeps_at_once(sweep, undisturbed, start_labkit, tmp_path):
    half = [SMALL, SMALL | {"seed": 5}]
    labkits = [start_labkit(repeats=8, **values) for values in half]
    started = [event["trial"] for labkit in labkits for event in labkit.events()
               if event["kind"] == "start"]  # fmt: skip
    assert [labkit.wait() for labkit in labkits] == [0, 0]
    # Seeds 5 to 8 were wanted by both, and run by one of them.
    assert sorted(started) == sorted(trial.identity for trial in sweep[:12])
    table = Store(tmp_path / "runs").results(sweep[:12]).table
    same_but_for_timings(table, undisturbed[:12])


def interrupt(sweep, store, events, delay, number):
    """Run a sweep in another process, and signal it some seconds after a number of its events.

    It holds still after four events more, so that it is no further on a quick machine.
    """
    reader, writer = os.pipe()
    seen = []

    def count(event):
        seen.append(event)
        os.write(writer, b".")
        if len(seen) == events + HOLD:
            signal.pause()

    child = fork(lambda: measure(sweep, store=store, on_event=count))
    os.close(writer)
    for _ in range(events):
        assert os.read(reader, 1), "it ended before it was interrupted"
    time.sleep(delay)
    os.kill(child, number)
    os.close(reader)
    return exit_code(child)


def test_twenty_interruptions(sweep, undisturbed, store):
    chance = random.Random(20)
    for _ in range(20):
        left = len(sweep) - len(list(store.runs()))
        assert left, "it was never interrupted while it kept its last run"
        # The last trial's last event is never reached.
        events = min(chance.randrange(8), EVENTS * left - HOLD - 1)
        number = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
        assert interrupt(sweep, store, events, chance.uniform(0, 0.1), number) != 0
        for run in store.runs():
            check(run)
    before = len(list(store.runs()))
    starts = Starts()
    table = measure(sweep, store=store, on_event=starts).table
    assert len(starts) == len(sweep) - before
    same_but_for_timings(table, undisturbed)
    assert list((store.root / ".scratch").iterdir()) == []
    for server in psutil.Process().children():
        assert server.children(recursive=True) == []
