"""What CPU time a trial's servers take while all workers train."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

from labkit.trials import Trial

LEAST = 0.2
"""Seconds between the looks that are compared, at least: a few times their distance."""


class Serving:
    """Looks at servers' CPU times, as often as it is told to, and keeps what training took.

    Servers cannot tell themselves when workers begin to train, and what they do before that, such
    as getting to know them, is not an update's.

    Parameters
    ----------
    trial : Trial
        Of a script nothing is looked at: it has processes of its own.
    """

    def __init__(self, trial: Trial) -> None:
        count = trial.replicas.get("server", 0) if trial.total_steps else 0
        self._names = [f"server-{index}" for index in range(count)]
        self._looks: deque[tuple[float, list[float]]] = deque(maxlen=2)
        self._first: tuple[float, list[float]] | None = None
        self._last: tuple[float, list[float]] | None = None
        self._begin: float | None = None

    def look(self, pids: Mapping[str, int]) -> None:
        """Look at them now, if all have a process and nobody has finished."""
        if self._last or not self._names or not all(name in pids for name in self._names):
            return
        t = time.monotonic()
        try:
            taken = [time.clock_gettime(_clock(pids[name])) for name in self._names]
        except OSError:  # one has ended, and the trial will fail
            return
        self._looks.append((t, taken))
        if not self._first and self._begin is not None and t >= self._begin:
            self._first = self._looks[-1]

    def begin(self, t: float) -> None:
        """Take note of when a worker passed the barrier, in monotonic seconds."""
        self._begin = t if self._begin is None else max(t, self._begin)

    def finish(self, t: float) -> None:
        """Take note of when a worker took its last step: what was looked at before that counts."""
        if not self._last:
            self._last = next((look for look in reversed(self._looks) if look[0] <= t), None)

    def report(self) -> dict[str, Any]:
        """Return the CPU seconds of each server, and in how many seconds; None if too few."""
        if not self._names:
            return {}
        if not self._first or not self._last or self._last[0] - self._first[0] < LEAST:
            return {"serving": None}
        (t0, before), (t1, after) = self._first, self._last
        took = [round(b - a, 6) for a, b in zip(before, after, strict=True)]
        return {"serving": {"seconds": round(t1 - t0, 6), "cpu": took}}


def _clock(pid: int) -> int:
    """Return the clock of a process's CPU time, as `clock_getcpuclockid` of Linux's C library."""
    return ~pid << 3 | 2
