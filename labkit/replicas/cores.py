"""Which of a machine's processors workers get.

What a system counts as processors are hardware threads. Two of one core share all that computes:
a worker on each has little more than half of what it has alone. Labkit counts cores.
"""

import collections
from pathlib import Path
from typing import Iterable, List, Set

TOPOLOGY = Path("/sys/devices/system/cpu")


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
