"""How much memory replicas can have on this machine."""

from __future__ import annotations

import psutil

from labkit.replicas import cgroups


def free() -> tuple[int, int]:
    """Return bytes that are free and bytes that there are, also where a cgroup limits them."""
    there = psutil.virtual_memory()
    limit, used = cgroups.memory() or (there.total, 0)
    if limit < there.total:
        return min(there.available, limit - used), limit
    return there.available, there.total
