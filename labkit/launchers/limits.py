"""How long a trial may take."""

from __future__ import annotations

from labkit.trials import TrialError

DEADLINE = 3600.0
"""Seconds a trial may take, if its caller does not say."""

LONGEST = 1e9
"""Seconds that any timer takes, some 30 years."""

STALL = 300.0
"""Seconds without any event after which a trial counts as hung; `stall` says when it is more."""

STARTING = 10.0
"""Seconds more for each replica that starts: they share cores, and a framework takes seconds of
each core to import, to build its network and to warm up."""

GRACE = 3.0
"""Seconds a process has to leave after it was told to."""


def stall(starting: int) -> float:
    """Return after how many seconds without any event a trial counts as hung.

    Parameters
    ----------
    starting : int
        Its replicas, until all of its workers are ready; then 0.
    """
    return STALL + STARTING * starting


def check_deadline(seconds: float) -> None:
    """Raise a TrialError unless a trial may be given so many seconds."""
    if not 0 < seconds <= LONGEST:
        allowed = f"seconds, more than 0, at most {LONGEST:g}"
        raise TrialError(f"deadline: {seconds!r}; allowed: {allowed}")
