"""What servers take while all workers train: no more than the clocks say, and nothing else."""

import os
import subprocess
import time

import made_runs
import pytest

from labkit.launchers.local.serving import LEAST, Serving

pytestmark = pytest.mark.unit

ME = {"server-0": os.getpid()}


def work(seconds):
    """Use a processor for some seconds of its time, and for longer than `LEAST` in all."""
    until, wall = time.process_time() + seconds, time.monotonic() + 1.5 * LEAST
    while time.process_time() < until or time.monotonic() < wall:
        pass


@pytest.mark.parametrize("before", [0.0, 0.3])
def test_what_is_between_the_barrier_and_the_last_step_counts(before):
    serving = Serving(made_runs.trial(servers=1))
    serving.look(ME)
    work(before)
    serving.begin(time.monotonic())
    at_least = time.process_time()
    serving.look(ME)
    begun = time.process_time()
    work(0.3)
    ended = time.process_time()
    serving.look(ME)
    at_most = time.process_time()
    last = time.monotonic()
    work(0.2)
    serving.look(ME)
    serving.finish(last)
    serving.look(ME)
    found = serving.report()["serving"]
    assert ended - begun - 1e-3 <= found["cpu"][0] <= at_most - at_least + 1e-3
    assert LEAST <= found["seconds"] <= last


def test_each_server_is_looked_at():
    other = subprocess.Popen(["sleep", "60"])
    try:
        pids = {"server-1": other.pid, "worker-0": 1} | ME
        serving = Serving(made_runs.trial(servers=2))
        serving.begin(time.monotonic())
        serving.look(pids)
        work(0.3)
        serving.look(pids)
        serving.finish(time.monotonic())
        busy, idle = serving.report()["serving"]["cpu"]
    finally:
        other.kill()
        other.wait()
    assert idle < 0.1 < 0.25 < busy


def test_too_short_to_tell():
    serving = Serving(made_runs.trial(servers=1))
    serving.begin(time.monotonic())
    serving.look(ME)
    serving.finish(time.monotonic())
    assert serving.report() == {"serving": None}


def test_without_servers_there_is_nothing_to_tell():
    serving = Serving(made_runs.trial(strategy="single"))
    serving.begin(time.monotonic())
    serving.look({"worker-0": os.getpid()})
    serving.finish(time.monotonic())
    assert serving.report() == {}


def test_one_that_has_ended_is_not_looked_at():
    ended = subprocess.Popen(["true"])
    ended.wait()
    serving = Serving(made_runs.trial(servers=1))
    serving.begin(time.monotonic())
    serving.look({"server-0": ended.pid})
    serving.finish(time.monotonic())
    assert serving.report() == {"serving": None}
