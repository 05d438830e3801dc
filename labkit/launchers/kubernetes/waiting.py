"""What a trial waits for before its workers train, in words, and what may be the cause."""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Iterator

from labkit.launchers.kubernetes.api import Cluster
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.kubernetes.logs import Logs
from labkit.launchers.kubernetes.pods import Inventory
from labkit.launchers.tracking import PHASES, Tracker
from labkit.replicas.events import Ready

LATE = 60.0
"""Seconds without any news after which a cause is looked for."""

ASK_INTERVAL = 30.0
"""Seconds between two looks for a cause."""

NAMED = 3
"""How many pods' troubles are named, at most."""

USUAL = (
    "usual causes: nodes still pull the image, pods' names do not resolve, or a node's neighbour "
    "table is full (docs/kubernetes.md)"
)


class Startup:
    """How far a trial has started.

    Parameters
    ----------
    cluster : Cluster
    tracker : Tracker
    pods : Inventory
    logs : Logs
    """

    def __init__(self, cluster: Cluster, tracker: Tracker, pods: Inventory, logs: Logs) -> None:
        self._cluster, self._tracker, self._pods, self._logs = cluster, tracker, pods, logs
        self._cause, self._asked = "", -math.inf

    def describe(self, idle: float) -> str:
        """Return what is waited for; empty when all workers have passed the barrier.

        Parameters
        ----------
        idle : float
            Seconds for which nothing new has happened.
        """
        workers = [name for name in self._tracker.names if name.startswith("worker-")]
        phases = [self._tracker.phase(name) for name in workers]
        ready = sum(map(self._tracker.ready, workers))
        if ready == len(phases) and PHASES[Ready] not in phases:
            return ""
        started = sum(pod.started for pod in self._pods)
        what, how = "the barrier", "are connected and ready"
        if self._tracker.trial.metric is None:
            what, how = "its scripts", "have called report.ready() or printed a rate"
        text = (
            f"{what}: {started} of {self._pods.total} pods have started, "
            f"{ready} of {len(phases)} workers {how}"
        )
        return f"{text}; {self.cause() or USUAL}" if idle > LATE else text

    def cause(self) -> str:
        """Return what hinders pods or their logs, as the cluster tells it; empty if nothing."""
        if time.monotonic() - self._asked > ASK_INTERVAL:
            self._asked = time.monotonic()
            self._cause = "; ".join(itertools.islice(self._troubles(), NAMED))
        return self._cause

    def late(self) -> str:
        """Return which replicas have not finished, and how far each is."""
        names = [name for name in self._tracker.names if not self._tracker.finished(name)]
        states = ", ".join(f"{name} {self._tracker.phase(name)}" for name in names[:10])
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        cause = self.cause()
        return f"Still running: {states}{more}." + (f" Perhaps because: {cause}." if cause else "")

    def _troubles(self) -> Iterator[str]:
        for pod in self._pods:
            if not pod.started and pod.node:
                fields = f"involvedObject.name={pod.name},type=Warning"
                with contextlib.suppress(ClusterError):
                    for event in self._cluster.list("Event", selector="", fields=fields):
                        yield f"{pod} on node {pod.node}: {event['reason']}: {event['message']}"
                        break
            elif problem := self._logs.of(pod).problem:
                yield problem
