"""What is known of a trial's pods, by the last poll."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from labkit.launchers.kubernetes.api import COMPONENT, CONTAINER, NETWORK

CONDITIONS = ("PodScheduled", "DisruptionTarget")
"""The conditions of a pod that matter here."""


@dataclass
class Pod:
    """One pod, by the last poll.

    Attributes
    ----------
    name : str
    component : str
        Its kind: the role of a replica in it.
    index : int
        Among the pods of its kind.
    status : dict
        What `trim` leaves of its status.
    node : str
        Empty as long as it has none.
    deletion : tuple of float and int, or None
        When it was deleted, in seconds since the epoch, and its grace period in seconds.
    """

    name: str
    component: str
    index: int
    status: dict[str, Any] = field(default_factory=dict)
    node: str = ""
    deletion: tuple[float, int] | None = None

    @property
    def phase(self) -> str:
        """``Pending``, ``Running``, ``Succeeded`` or ``Failed``.

        It has ended with its own container: one that a mesh has injected may never end.
        """
        phase = self.status.get("phase", "Pending")
        if phase == "Running" and "terminated" in self.state:
            return "Failed" if self.state["terminated"].get("exitCode") else "Succeeded"
        return phase

    @property
    def started(self) -> bool:
        """Whether its container runs, or has run."""
        return "running" in self.state or "terminated" in self.state

    @property
    def broken(self) -> bool:
        """Whether it has failed, or is deleted before it has succeeded."""
        return self.phase == "Failed" or (self.phase != "Succeeded" and self.deleted)

    @property
    def deleted(self) -> bool:
        """Whether it was deleted; it may still run until its grace period ends."""
        return self.deletion is not None

    @property
    def disrupted(self) -> bool:
        """Whether the cluster itself has ended it, and says why."""
        return bool(self.condition("DisruptionTarget"))

    @property
    def state(self) -> dict[str, Any]:
        """The state of its own container."""
        containers = self.status.get("containerStatuses")
        return containers[0]["state"] if containers else {}

    @property
    def unlimited(self) -> str:
        """Why its network could not be limited, if that was tried; empty if it could be."""
        for container in self.status.get("initContainerStatuses", []):
            ended = container["state"].get("terminated", {})
            if ended.get("exitCode"):
                return ended.get("message", "").strip() or f"exit code {ended['exitCode']}"
        return ""

    def condition(self, kind: str) -> dict[str, Any]:
        """Return one of its `CONDITIONS`; empty if there is none."""
        return next((c for c in self.status.get("conditions", []) if c["type"] == kind), {})

    def __str__(self) -> str:
        return f"{self.component} {self.index}"


class Inventory:
    """The pods of a trial, by the last poll.

    Parameters
    ----------
    expected : dict of str to int
        How many pods of each kind there are to be.
    """

    def __init__(self, expected: dict[str, int]) -> None:
        self.expected = expected
        self._pods: dict[str, Pod] = {}

    def __iter__(self) -> Iterator[Pod]:
        return iter(self._pods.values())

    @property
    def total(self) -> int:
        """How many pods there are to be."""
        return sum(self.expected.values())

    @property
    def complete(self) -> bool:
        """Whether all pods have started."""
        return sum(pod.started for pod in self) == self.total

    @property
    def succeeded(self) -> bool:
        """Whether all pods have ended well."""
        return sum(pod.phase == "Succeeded" for pod in self) == self.total

    def missing(self) -> list[str]:
        """Return the kinds of which pods have not been created yet."""
        return [
            kind
            for kind, count in self.expected.items()
            if sum(pod.component == kind for pod in self) != count
        ]

    def phases(self) -> dict[str, dict[str, int]]:
        """Return for each kind the number of its pods in each phase."""
        counts = {
            kind: {"Pending": count, "Running": 0, "Succeeded": 0, "Failed": 0}
            for kind, count in self.expected.items()
        }
        for pod in self:
            if pod.phase in counts[pod.component] and pod.phase != "Pending":
                counts[pod.component][pod.phase] += 1
                counts[pod.component]["Pending"] -= 1
        return counts

    def update(self, items: Iterable[dict[str, Any]]) -> bool:
        """Take the pods as the cluster lists them; return whether the status of one is new."""
        changed, listed = False, set()
        for item in items:
            meta, labels = item["metadata"], item["metadata"]["labels"]
            name, index = meta["name"], labels["batch.kubernetes.io/job-completion-index"]
            listed.add(name)
            pod = self._pods.setdefault(name, Pod(name, labels[COMPONENT], int(index)))
            status = trim(item["status"])
            changed |= status != pod.status
            pod.status, pod.node = status, item["spec"].get("nodeName", "")
            if "deletionTimestamp" in meta:
                grace = meta.get("deletionGracePeriodSeconds", 0)
                pod.deletion = seconds(meta["deletionTimestamp"]) - grace, grace
        for pod in self:
            if pod.name not in listed and not pod.deleted:
                pod.deletion = math.inf, 0  # between two polls, so nobody knows when
        return changed


def trim(status: dict[str, Any]) -> dict[str, Any]:
    """Return what matters here of a pod's status: a thousand whole ones take much memory."""
    kept = {name: status[name] for name in ("phase", "reason", "message") if name in status}
    conditions = [c for c in status.get("conditions", []) if c["type"] in CONDITIONS]
    for kind, name in (("containerStatuses", CONTAINER), ("initContainerStatuses", NETWORK)):
        kept[kind] = [{"state": s["state"]} for s in status.get(kind, []) if s["name"] == name]
    return kept | {"conditions": conditions}


def seconds(timestamp: str) -> float:
    """Return the seconds since the epoch of one of the cluster's timestamps."""
    return datetime.fromisoformat(timestamp).timestamp()
