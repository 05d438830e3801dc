"""How busy a machine was while a trial was measured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from labkit.replicas import cgroups, cores


class Load:
    """What else the machine did while all workers trained.

    Only processors that this process may use count, and where a cgroup quota limits it, what its
    group used of that.
    """

    def __init__(self) -> None:
        self.before = os.getloadavg()[0]
        self.processors = os.sched_getaffinity(0)
        self.quota = cgroups.cpu_quota()
        self.marks: dict[str, tuple[float, float, cores.Times, float | None]] = {}
        self.started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self.startup_s: float | None = None

    def _mark(self, name: str, own: Callable[[], float]) -> None:
        """Keep what is so now, the first time that it is asked for: looking costs CPU time."""
        if name not in self.marks:
            used = self.quota.used() if self.quota else None
            self.marks[name] = time.monotonic(), own(), cores.times(self.processors), used

    def begin(self, own: Callable[[], float]) -> None:
        """Mark the barrier; `own` returns the CPU seconds that we have used so far."""
        self._mark("begin", own)

    def printed(self, own: Callable[[], float]) -> None:
        """Mark the first rate that a script has printed: the beginning, where no barrier is."""
        self._mark("printed", own)

    def finish(self, own: Callable[[], float]) -> None:
        """Mark the moment in which the first worker has taken its last step.

        Of a script's steps nobody knows which is the last: there it is the script's end.
        """
        self._mark("finish", own)

    def startup(self, seconds: float) -> None:
        """Note the time from the launch to the last worker's passing of the barrier."""
        self.startup_s = max(seconds, self.startup_s or 0.0)

    def report(self) -> dict[str, Any]:
        """Return loads in cores: of our replicas, and of all else, with what was stolen."""
        begin = self.marks.get("begin") or self.marks.get("printed")
        if not begin or "finish" not in self.marks:
            return {}  # the events that mark them are missing, and so will be found wanting
        t0, own0, times0, used0 = begin
        t1, own1, times1, used1 = self.marks["finish"]
        seconds = max(t1 - t0, 1e-3)
        own = (own1 - own0) / seconds
        stolen = (times1.stolen - times0.stolen) / seconds
        other = max((times1.busy - times0.busy) / seconds - own, 0.0) + stolen
        overloaded = is_overloaded(own, other, cores.count(self.processors))
        if used0 is not None and used1 is not None:
            beside = (used1 - used0) / seconds - own
            overloaded |= is_overloaded(own, beside, self.quota.cores)
        return {
            "started": self.started,
            "startup_s": self.startup_s,
            "load_before": self.before,
            "load_after": os.getloadavg()[0],
            "own_cpu": round(own, 3),
            "other_cpu": round(other, 3),
            "steal_cpu": round(stolen, 3),
            "overloaded": overloaded,
        }


def is_overloaded(own: float, other: float, cores: float) -> bool:
    """Whether other programs took so much of a machine, or of a quota, that ours were held up.

    Parameters
    ----------
    own, other : float
        Cores that our replicas, and all else, used while all workers trained.
    cores : float
        What there is for both.
    """
    return bool(other > 0.1 * cores and own + other > 0.9 * cores)
