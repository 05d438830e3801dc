"""Which of a machine's processors workers get, and what these do.

What a system counts as processors are hardware threads. Two of one core share all that computes:
a worker on each has little more than half of what it has alone. Labkit counts cores.
"""

import collections
import os
from pathlib import Path
from typing import Iterable, List, NamedTuple, Set

from labkit.replicas import cgroups

TOPOLOGY = Path("/sys/devices/system/cpu")
STAT = Path("/proc/stat")
TICKS = os.sysconf("SC_CLK_TCK")


class Times(NamedTuple):
    """What processors did since the system started, in seconds of one.

    Attributes
    ----------
    busy : float
        For all programs together.
    stolen : float
        For another virtual machine while a program of this one could have run (steal).
    """

    busy: float
    stolen: float


def usable() -> int:
    """Return how many workers can have a core each: at least one.

    These are the cores that this process may use (its CPU affinity), but no more than a cgroup
    quota lets work at once, rounded down: what is left of a quota of 2.5 cores beside two workers
    is no core.
    """
    there = count(os.sched_getaffinity(0))
    quota = cgroups.cpu_quota()
    return there if quota is None else max(1, min(there, int(quota.cores)))


def times(processors: Iterable[int]) -> Times:
    """Return what some processors did so far."""
    names = {f"cpu{number}" for number in processors}
    busy = stolen = 0
    for line in STAT.read_text().splitlines():
        name, *fields = line.split()
        if name in names:
            user, nice, system, _, _, irq, softirq, steal = map(int, fields[:8])
            busy += user + nice + system + irq + softirq
            stolen += steal
    return Times(busy / TICKS, stolen / TICKS)


def spread(usable: Iterable[int]) -> List[int]:
    """Order processors so that the second ones of cores come after the first ones of all."""
    seen = collections.Counter()
    places = []
    for processor in sorted(usable):
        core = _core_of(processor)
        places.append((seen[core], processor))
        seen[core] += 1
    return [processor for _, processor in sorted(places)]


def count(usable: Iterable[int]) -> int:
    """Return how many cores some processors belong to."""
    return len({_core_of(processor) for processor in usable})


def take(ordered: List[int], first: int, number: int) -> Set[int]:
    """Return a number of processors from a place in their order, which goes round."""
    return {ordered[(first + k) % len(ordered)] for k in range(number)}


def _core_of(processor: int) -> str:
    """Return a name that all hardware threads of a core have in common."""
    try:
        return (TOPOLOGY / f"cpu{processor}/topology/thread_siblings_list").read_text()
    except OSError:  # a system that does not tell
        return str(processor)
