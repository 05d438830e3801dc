"""How busy a machine was while a trial was measured."""

from __future__ import annotations

import os
import time
from typing import Any

import psutil

from labkit.replicas import cores


class Load:
    """What else the machine did while all workers trained."""

    def __init__(self) -> None:
        self.before = os.getloadavg()[0]
        self.marks: dict[str, tuple[float, float, float]] = {}
        self.started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self.startup_s: float | None = None

    def _mark(self, name: str, own: float) -> None:
        times = psutil.cpu_times()
        busy = times.user + times.nice + times.system + times.irq + times.softirq
        self.marks.setdefault(name, (time.monotonic(), own, busy))

    def begin(self, own: float) -> None:
        """Mark the barrier; `own` are the CPU seconds that we have used so far."""
        self._mark("begin", own)

    def finish(self, own: float) -> None:
        """Mark the moment in which the first worker has taken its last step."""
        self._mark("finish", own)

    def startup(self, seconds: float) -> None:
        """Note the time from the launch to the last worker's passing of the barrier."""
        self.startup_s = max(seconds, self.startup_s or 0.0)

    def report(self) -> dict[str, Any]:
        """Return loads in cores: of our replicas, of all other programs."""
        if len(self.marks) < 2:
            return {}  # the events that mark them are missing, and so will be found wanting
        (t0, own0, busy0), (t1, own1, busy1) = self.marks["begin"], self.marks["finish"]
        seconds = max(t1 - t0, 1e-3)
        own = (own1 - own0) / seconds
        other = max((busy1 - busy0) / seconds - own, 0.0)
        there = cores.count(os.sched_getaffinity(0))
        return {
            "started": self.started,
            "startup_s": self.startup_s,
            "load_before": self.before,
            "load_after": os.getloadavg()[0],
            "own_cpu": round(own, 3),
            "other_cpu": round(other, 3),
            "overloaded": is_overloaded(own, other, there),
        }


def is_overloaded(own: float, other: float, cores: int) -> bool:
    """Whether other programs took so much of a machine that ours were held up.

    Parameters
    ----------
    own, other : float
        Cores that our replicas, and all else, used while all workers trained.
    cores : int
        What the machine has.
    """
    return bool(other > 0.1 * cores and own + other > 0.9 * cores)
