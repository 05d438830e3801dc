"""A clock of events, and what is shared: cores by processes, links by messages."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from typing import Any

Done = Callable[[Any], None]

PERIOD = 0.1
"""Seconds in each of which a pod may use up its share of a core, as Kubernetes sets it."""


ROUNDING = 1e-9
"""Seconds that do not count: work that takes just what is left of a share is done with it."""


def in_slices(seconds: float, share: float) -> float:
    """Return after how long work is done that begins with a period (`Slices`).

    Parameters
    ----------
    seconds : float
        That it would take if the share were given evenly.
    share : float
        Of a core.
    """
    whole = max(0, math.ceil(seconds / PERIOD) - 1)
    return whole * PERIOD + (seconds - whole * PERIOD) * share


def of_slices(seconds: float, share: float) -> float:
    """Return how long work that is done after some seconds would take if given evenly."""
    whole, rest = divmod(seconds, PERIOD)
    return whole * PERIOD + min(rest / share, PERIOD)


class Clock:
    """The time of a simulation, and what is to happen at which time.

    Own instead of SimPy's: with a generator and a request object per service, 50 workers' 200
    steps took it 2.6 s with 8 services a step and 17 s with 50.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.running = True
        self._events: list[tuple[float, int, Done, Any]] = []
        self._count = 0

    def at(self, time: float, done: Done, what: Any) -> None:
        """Call `done` with `what` at a time; what is due at once, in the order of these calls."""
        self._count += 1
        heapq.heappush(self._events, (time, self._count, done, what))

    def run(self) -> None:
        """Let time pass until nothing is left to happen, or `running` is no longer true."""
        events, pop = self._events, heapq.heappop
        while events and self.running:
            self.now, _, done, what = pop(events)
            done(what)


class OwnCore:
    """A core that one process has for itself."""

    occupied = False

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def run(self, seconds: float, done: Done, what: Any) -> None:
        """Compute for some seconds, then call `done` with `what`."""
        if seconds:
            self.clock.at(self.clock.now + seconds, done, what)
        else:
            done(what)


class Cores:
    """Cores that processes share evenly, none getting more than one (processor sharing).

    It keeps how much each process has been given since the beginning: with that as the clock, they
    finish in the order of what it shows when they have enough.

    Parameters
    ----------
    clock : Clock
    count : float
        How many, such as 1.9 where others take a tenth of the second one.
    """

    def __init__(self, clock: Clock, count: float) -> None:
        self.clock, self.count = clock, count
        self._used = 0.0
        self._given, self._since, self._rate = 0.0, 0.0, 1.0
        self._jobs: list[tuple[float, int, Done, Any]] = []
        self._number = 0
        self._due = 0

    @property
    def occupied(self) -> bool:
        """Whether a process computes on them."""
        return bool(self._jobs)

    @property
    def spare(self) -> bool:
        """Whether a whole one is left beside those that are computed on, or beside the first."""
        return self.count - max(1, len(self._jobs)) >= 1

    def run(self, seconds: float, done: Done, what: Any) -> None:
        """Compute for some seconds of CPU time, then call `done` with `what`."""
        if not seconds:
            done(what)
            return
        self._settle()
        self._number += 1
        heapq.heappush(self._jobs, (self._given + seconds, self._number, done, what))
        self._schedule()

    def busy(self) -> float:
        """Return for how many seconds they have been busy until now, on average."""
        self._settle()
        return self._used / self.count

    def _settle(self) -> None:
        """Count what has been given until now."""
        now = self.clock.now
        passed = now - self._since
        self._since = now
        self._given += passed * self._rate
        self._used += passed * self._rate * len(self._jobs)

    def _schedule(self) -> None:
        jobs = self._jobs
        if jobs:
            self._rate = min(1.0, self.count / len(jobs))
            self._due += 1  # whatever was scheduled before is no longer true
            left = max(jobs[0][0] - self._given, 0.0)
            self.clock.at(self._since + left / self._rate, self._finish, self._due)

    def _finish(self, due: int) -> None:
        if due == self._due:
            self._settle()
            _, _, done, what = heapq.heappop(self._jobs)
            self._schedule()
            done(what)


class Slices(Cores):
    """A share of a core that processes have in slices, as Linux limits those of a pod.

    All of the core until the share of a period is used up, then nothing until the next one begins.
    After a period without work, that is when work comes.

    Parameters
    ----------
    clock : Clock
    share : float
        Of each period; 1 for a whole core. Seconds of work are what it would take if the share
        were given evenly.
    at_once : float
        Cores that they may use at the same time, as long as the share lasts.
    """

    def __init__(self, clock: Clock, share: float, at_once: float = 1.0) -> None:
        super().__init__(clock, 1.0)
        self._speed, self._at_once = 1 / share, at_once
        self._left = self._end = 0.0

    def run(self, seconds: float, done: Done, what: Any) -> None:
        """Compute for some seconds of the share, then call `done` with `what`."""
        now = self.clock.now
        if not self._jobs and now >= self._end:
            begin = now if now >= self._end + PERIOD else self._end
            self._left, self._end = PERIOD, begin + PERIOD
        super().run(seconds, done, what)

    def _settle(self) -> None:
        used = self._used
        super()._settle()
        self._left -= self._used - used

    def _schedule(self) -> None:
        jobs = self._jobs
        if not jobs:
            return
        self._due += 1  # whatever was scheduled before is no longer true
        stop = finish = self._end
        self._rate = self._speed * min(1.0, self._at_once / len(jobs)) if self._left > 0 else 0.0
        if self._rate:
            stop = min(self._since + self._left / (self._rate * len(jobs)), self._end)
            finish = self._since + max(jobs[0][0] - self._given, 0.0) / self._rate
        if self._rate and finish <= stop + ROUNDING:
            self.clock.at(finish, self._finish, self._due)
        else:
            self.clock.at(stop, self._stop, self._due)

    def _stop(self, due: int) -> None:
        """Wait for the next period, as this one's share is used up, or begin it."""
        if due == self._due:
            self._settle()
            self._left = 0.0
            if self.clock.now >= self._end:
                self._left, self._end = PERIOD, self._end + PERIOD
            self._schedule()


class Link(Cores):
    """One direction of a node's network, which messages share evenly."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock, 1.0)

    def send(self, seconds: float, into: Link, done: Done, what: Any) -> None:
        """Let a message pass this link and another one, then call `done` with `what`.

        It is on both at once, and has passed when it has passed both. Of each it takes so many
        seconds, or longer where it is not alone.
        """
        message = [2, done, what]
        for link in (self, into):
            link.run(seconds, _passed, message)


def _passed(message: list[Any]) -> None:
    """Note that a message has passed one of its links; after the last, go on with what follows."""
    message[0] -= 1
    if not message[0]:
        _, done, what = message
        done(what)
