"""What a model of a trial answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NO_STATION = "no single station"

BUSY = 0.5
"""A station that is busy for less than this share of the time is nobody's bottleneck."""


@dataclass(frozen=True)
class Answer:
    """How a system does in the long run.

    Attributes
    ----------
    throughput : float
        Batches per second of all workers together.
    speedup : float
        In that of the same system with one worker.
    utilisation : dict of str to float
        Share of the time in which each shared station is busy: servers, links, shared cores.
    staleness : dict of int to float
        For each number of updates that others made between a worker's pull and the application
        of its gradient, its share of all gradients.
    late : float
        Share of gradients whose computation took over `LATE` times its stretched time.
    """

    throughput: float
    speedup: float
    utilisation: Mapping[str, float]
    staleness: Mapping[int, float]
    late: float = 0.0

    @property
    def mean_staleness(self) -> float:
        """Updates that others made meanwhile, on average."""
        return sum(updates * share for updates, share in self.staleness.items())

    @property
    def bottleneck(self) -> str:
        """The station that is busiest, if it is busy half the time; else that there is none.

        Cores that all share come first: where they are busy, so is a server that waits for one.
        """
        name = max(self.utilisation, key=lambda name: round(self.utilisation[name], 2))
        return name if self.utilisation[name] >= BUSY else NO_STATION
