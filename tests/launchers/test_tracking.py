"""How far the replicas of a trial came, by their events."""

import made_runs
import pytest

from labkit.launchers.tracking import Tracker
from labkit.replicas.events import decode

pytestmark = pytest.mark.unit


def tell(tracker, role, index, kind):
    """Let a replica have said something of that kind."""
    made = made_runs.events(tracker.trial, role, index)
    event = next(event for event in made if event["kind"] == kind)
    tracker.update(decode(made_runs.line(event)))


def test_a_server_has_come_as_far_as_the_foremost_worker():
    """Also one that was told to leave, and said farewell, while they trained."""
    tracker = Tracker(made_runs.trial(framework="tensorflow"))

    def phase_after(role, index, kind):
        tell(tracker, role, index, kind)
        return tracker.phase("server-0"), tracker.training()

    assert phase_after("server", 0, "start") == ("before all were ready", False)
    assert phase_after("server", 0, "ready") == ("before all were ready", False)
    assert phase_after("worker", 1, "barrier") == ("while training", False)
    assert phase_after("worker", 0, "step") == ("while training", True)
    assert phase_after("server", 0, "end") == ("while training", True)
    assert phase_after("worker", 0, "end") == ("at the end", False)


def test_replicas_share_the_start_until_all_workers_are_ready():
    tracker = Tracker(made_runs.trial(framework="tensorflow"))

    def starting_after(role, index, kind):
        tell(tracker, role, index, kind)
        return tracker.starting

    assert tracker.starting == 3
    assert starting_after("server", 0, "ready") == 3
    assert starting_after("worker", 0, "ready") == 3
    assert starting_after("worker", 1, "start") == 3
    assert starting_after("worker", 1, "ready") == 0
    assert starting_after("worker", 0, "step") == 0
