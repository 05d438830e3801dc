"""A slow node's computing: as on a processor that takes several times as long.

A worker computes its real gradient and then waits until the stretched time of that computation is
over, measured from its beginning. What the machine does slower than that, because many workers
share it, disappears in the wait, as long as it is less. All else, sending, serving, waiting for
others, stays as fast as it is.
"""

import time
from typing import List, Optional

import numpy as np

LATE = 1.05
"""From how many stretched times on a gradient is late: the machine could not keep up."""


class Pace:
    """How fast a worker computes gradients.

    Parameters
    ----------
    slowdown : float
        How many times longer computing a gradient takes than on a core of this machine.
    compute : float or None
        Seconds that one takes there, if nothing else runs. None to find out: nothing waits.
    """

    def __init__(self, slowdown: float, compute: Optional[float]) -> None:
        self.due = slowdown * (compute or 0.0)
        self.durations: List[float] = []
        self._running = False
        self._began = 0.0

    @classmethod
    def of(cls, args) -> "Optional[Pace]":
        """Return what a replica's command line asks for, if anything."""
        return None if args.slowdown is None else cls(args.slowdown, args.compute)

    def turn(self, args) -> float:
        """Return how many seconds after the barrier a worker's turn comes to begin.

        Gradients that all take equally long would all be pushed at once, which no machines do that
        have trained for a while. So the first steps begin evenly over the time of one. In lock
        step all begin together every time.
        """
        if args.strategy != "async-ps":
            return 0.0
        return self.due * args.index / len(args.hosts["worker"])

    def start(self) -> None:
        """Stretch from now on: what came before was the warm-up."""
        self._running = True

    def begin(self) -> None:
        """Note that the weights have arrived, and that the gradient is computed from now on."""
        self._began = time.monotonic()

    def end(self) -> None:
        """Wait, now that the gradient has been computed, until the stretched time is over."""
        if not self._running:
            return
        duration = time.monotonic() - self._began
        self.durations.append(duration)
        if duration < self.due:
            time.sleep(self.due - duration)

    def summary(self):
        """Return the fields of a `labkit.replicas.events.Computed`."""
        late = [duration > LATE * self.due for duration in self.durations]
        low, median, high = np.percentile(self.durations, [10, 50, 90])
        return dict(
            gradients=len(late),
            late=sum(late) if self.due else 0,
            low=round(low, 6),
            median=round(median, 6),
            high=round(high, 6),
        )
