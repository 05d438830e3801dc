"""What is known of pods and nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass
class Pod:
    """One pod: what is known of it, and how far its log has been read."""

    name: str
    component: str
    index: int
    status: dict[str, Any] = field(default_factory=dict)
    node: str = ""
    deletion: tuple[float, int] | None = None  # when, and the seconds it was given
    since: str = ""
    complete: bool = False

    @property
    def phase(self) -> str:
        return self.status.get("phase", "Pending")

    @property
    def started(self) -> bool:
        return any("running" in s["state"] or "terminated" in s["state"] for s in self.containers)

    @property
    def broken(self) -> bool:
        return self.phase == "Failed" or (self.phase != "Succeeded" and self.deleted)

    @property
    def deleted(self) -> bool:
        return self.deletion is not None

    @property
    def disrupted(self) -> bool:
        """Whether the cluster itself has ended it, and says why."""
        return bool(self.condition("DisruptionTarget"))

    @property
    def containers(self) -> list[dict[str, Any]]:
        return self.status.get("containerStatuses", [])

    @property
    def state(self) -> dict[str, Any]:
        """The state of its container, of which each pod has one."""
        return self.containers[0]["state"] if self.containers else {}

    def condition(self, kind: str) -> dict[str, Any]:
        return next((c for c in self.status.get("conditions", []) if c["type"] == kind), {})

    def __str__(self) -> str:
        return f"{self.component} {self.index}"


@dataclass
class Node:
    """One node: what it is, and how busy it was while its workers trained, in cores."""

    name: str
    pods: list[Pod]
    machine: dict[str, Any] = field(default_factory=dict)
    own: float = 0.0
    other: float = 0.0

    @property
    def workers(self) -> int:
        return sum(pod.component == "worker" for pod in self.pods)


def essence(status: dict[str, Any]) -> dict[str, Any]:
    """Return of a pod's status what is asked for here: a thousand whole ones take much memory."""
    kept = {name: status[name] for name in ("phase", "reason", "message") if name in status}
    told = ("PodScheduled", "DisruptionTarget")
    conditions = [c for c in status.get("conditions", []) if c["type"] in told]
    states = [{"state": s["state"]} for s in status.get("containerStatuses", [])]
    return kept | {"conditions": conditions, "containerStatuses": states}


def seconds_of(stamp: str) -> float:
    """Return the seconds since the epoch of one of the cluster's times."""
    return datetime.fromisoformat(stamp).timestamp()
