"""What is made of the lines of a script that counts, but says no rate."""

import math
from types import SimpleNamespace

import pytest

from labkit.replicas import account, machine
from labkit.replicas.account import Account

pytestmark = pytest.mark.unit


@pytest.fixture
def said(monkeypatch):
    """Return a function that prints lines, one a second or at given times; returns the rates."""
    clock = SimpleNamespace(t=0.0)
    monkeypatch.setattr(account, "time", SimpleNamespace(monotonic=lambda: clock.t))
    monkeypatch.setattr(machine, "cpu_seconds", lambda pid: 0.0)

    def say(lines, pattern=None, index=0, rates="each"):
        written = []
        writer = SimpleNamespace(write=lambda kind, **values: written.append(values))
        args = SimpleNamespace(role="worker", pattern=pattern, index=index, rates=rates)
        found = Account(args, writer)
        for line in lines:
            clock.t, text = (clock.t + 1, line) if isinstance(line, str) else line
            found.printed(text, pid=1)
        return [(each["t"], each["rate"], each["unit"]) for each in written], found.complaint()

    return say


def test_a_count_is_a_rate_since_the_one_before(said):
    lines = [(10 + 2 * i, f"Train Epoch: 1 [{640 * i}/60000 ({i}%)]") for i in range(4)]
    found, complaint = said(lines)
    assert found == [(12, 320, "samples"), (14, 320, "samples"), (16, 320, "samples")]
    assert not complaint


def test_an_epoch_counts_from_its_beginning(said):
    lines = [f"Epoch: [{epoch}][{step}/3] Time 0.1" for epoch in range(2) for step in (0, 1, 3)]
    found, _ = said(lines)
    # None in the fourth second: what was done from 3 of one epoch to 0 of the next, nobody knows.
    assert found == [(t, rate, "steps") for t, rate in ((2, 1), (3, 2), (5, 1), (6, 2))]


def test_a_count_that_is_printed_twice_says_nothing_new(said):
    found, _ = said(["step 1", "step 1", "step 4"], pattern=r"step (?P<steps_so_far>\d+)")
    assert found == [(3, 1.5, "steps")]


def test_two_counts_at_one_time_are_no_rate(said):
    found, _ = said([(1, "step 1"), (1, "step 2"), (2, "step 3")], r"step (?P<steps_so_far>\d+)")
    assert found == [(2, 1, "steps")]


@pytest.mark.parametrize("rates", ["first", "total"])
def test_where_only_the_first_worker_prints_rates_the_others_need_none(said, rates):
    lines = [(n, "100 samples/sec") for n in range(3)]
    assert said(lines, index=0, rates=rates) == said(lines)
    assert said(lines, index=1, rates=rates) == ([], "")
    assert "printed no rates" in said([], index=0, rates=rates)[1]
    assert "--rates" in said([], index=1)[1] and "--rates" not in said([], index=0)[1]


def seconds_of(messages, rates="each", index=0):
    """Return for how long a script has trained, after the first messages, all but one, and all."""
    args = SimpleNamespace(role="worker", pattern=None, index=index, rates=rates)
    found, seconds = Account(args, SimpleNamespace(write=lambda kind, **values: None)), []
    for t, message in messages:
        if message == "print":
            account.time.t = t
            found.printed("5 samples/sec", pid=1)
        else:
            steps = {"steps": 1, "samples": 8, "metrics": {}} if message == "step" else {}
            found.reported(message, t=t, cpu=0.0, **steps)
        seconds.append(found.seconds())
    return seconds


@pytest.fixture
def clock(monkeypatch):
    made = SimpleNamespace(t=0.0)
    made.monotonic = lambda: made.t
    monkeypatch.setattr(account, "time", made)
    monkeypatch.setattr(machine, "cpu_seconds", lambda pid: 0.0)


def test_training_counts_from_the_first_rate_and_needs_three(clock):
    assert seconds_of([(5, "print"), (6, "print"), (8, "print")]) == [0, 0, 3]


def test_training_counts_from_the_barrier_and_needs_a_step(clock):
    said = [(1, "ready"), (4, "barrier"), (9, "step")]
    assert seconds_of(said) == [0, 0, 5]
    loading = [(n, "print") for n in range(4)]
    assert seconds_of([(0, "imported"), *loading, *said])[-1] == 5
    assert not any(seconds_of([(0, "imported"), *loading, *said])[:-1]), "loading is no training"


def test_who_has_nothing_to_say_has_trained_as_long_as_anybody_asks(clock):
    assert seconds_of([(0, "print")], "first", index=1) == [math.inf]
    assert seconds_of([(0, "imported"), (1, "ready"), (2, "barrier"), (4, "step")], "first", 1)[
        1:
    ] == [0, 0, 2]


def test_three_counts_are_too_few(said):
    _, complaint = said(["Epoch: [0][0/9]", "Epoch: [0][1/9]", "Epoch: [0][2/9]"])
    assert "printed 2 rates" in complaint
