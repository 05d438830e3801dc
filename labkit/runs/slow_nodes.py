"""When the rate of a run of slow nodes holds."""

from __future__ import annotations

from typing import Any

LATE_SHARE = 0.1
"""Of a slow node's gradients: where more are late, the machine could not keep up, and the rate is
too low."""

LEAST_IDLE = 0.05
"""Share of a machine with slow nodes that must have been idle: beyond that it is saturated."""

BEHIND = 0.15
"""Share of the time for which a pod waits for its share of a core: beyond that it has no slack in
which to make up for what other programs take (``outputs/reference/held-up``)."""

MOST_OTHER = 0.25
"""Share of a machine that other programs may take where a pod has no slack: a control plane of
fifty pods takes less of two cores."""


def is_saturated(late_share: float, idle_share: float) -> bool:
    """Whether the machine could not keep up with its slow nodes."""
    return late_share > LATE_SHARE or idle_share < LEAST_IDLE


def is_held_up(throttled_share: float, other_share: float) -> bool:
    """Whether other programs took what a pod without slack could not make up for."""
    return throttled_share > BEHIND and other_share > MOST_OTHER


def idle_share(record: dict[str, Any]) -> float:
    """Return the share of a run's machine that was idle while all workers trained."""
    used = record["own_cpu"] + record["other_cpu"]  # of two clocks: it may exceed
    return max(0.0, 1 - used / record["machine"]["cores"])


def other_share(record: dict[str, Any]) -> float:
    """Return the share of a run's machine that other programs took while all workers trained."""
    return record["other_cpu"] / record["machine"]["cores"]


def throttled_share(record: dict[str, Any]) -> float:
    """Return the share of the time for which the pod that waited longest for its core did so.

    0 outside pods.
    """
    use = record.get("use", {})
    return max((used["throttled"] / used["seconds"] for used in use.values()), default=0.0)
