"""A slow node's computing: stretched from its beginning, whatever the machine does meanwhile."""

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.replicas import pace
from labkit.replicas.pace import LATE, Pace

pytestmark = pytest.mark.unit

seconds = st.floats(1e-4, 10)


class Clock:
    """Time that passes only when somebody says so, or sleeps."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        assert seconds >= 0
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(pace, "time", made)
    return made


def compute(pace, clock, seconds):
    """Return how long a gradient takes whose computation takes so long."""
    begun = clock.now
    pace.begin()
    clock.now += seconds
    pace.end()
    return clock.now - begun


@given(st.floats(1, 100), seconds, seconds)
def test_a_gradient_takes_its_stretched_time_or_longer(slowdown, calibrated, real):
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace, "time", clock)
        slow = Pace(slowdown, calibrated)
        slow.start()
        took = compute(slow, clock, real)
    assert took == pytest.approx(max(slowdown * calibrated, real), abs=1e-6)
    late = real > LATE * slowdown * calibrated
    assert slow.summary()["late"] == late


def test_the_wait_is_from_the_beginning(clock):
    """What other workers on the machine cost a gradient comes off its wait."""
    slow = Pace(10, 0.1)
    slow.start()
    assert [compute(slow, clock, real) for real in (0.1, 0.7, 0.99)] == [pytest.approx(1)] * 3
    assert slow.summary() == {
        "gradients": 3, "late": 0, "low": pytest.approx(0.22), "median": pytest.approx(0.7),
        "high": pytest.approx(0.932),
    }  # fmt: skip


def test_asynchronous_workers_begin_one_after_the_other():
    """Evenly over the time of one step; in lock step they wait for each other anyway."""
    slow = Pace(10, 0.1)
    hosts = {"worker": ["a:1", "b:1", "c:1", "d:1"]}

    def turns(strategy):
        return [
            slow.turn(argparse.Namespace(strategy=strategy, index=index, hosts=hosts))
            for index in range(4)
        ]

    assert turns("async-ps") == pytest.approx([0, 0.25, 0.5, 0.75])
    assert turns("sync-ps") == [0, 0, 0, 0]
    assert slow.turn(argparse.Namespace(strategy="single", index=0, hosts=None)) == 0


def test_the_warm_up_is_neither_stretched_nor_counted(clock):
    slow = Pace(10, 0.1)
    assert compute(slow, clock, 0.25) == pytest.approx(0.25)
    slow.start()
    compute(slow, clock, 0.25)
    assert slow.summary()["gradients"] == 1


def test_a_calibration_only_times(clock):
    timed = Pace(1, None)
    timed.start()
    assert compute(timed, clock, 0.25) == pytest.approx(0.25)
    assert timed.summary() == {
        "gradients": 1, "late": 0, "low": 0.25, "median": 0.25, "high": 0.25
    }  # fmt: skip
