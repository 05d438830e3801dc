"""What the nodes of a trial are like, and how slow that of each worker is."""

from __future__ import annotations

NODE = ("slowdown", "slowdown_spread", "cpu", "bandwidth")
"""The fields of a trial that say what its nodes are like: without any, they are those of today."""


def slowdowns(slowdown: float, spread: float, workers: int) -> list[float]:
    """Return how many times as long computing takes on each worker's node.

    Parameters
    ----------
    slowdown : float
        Of the first worker's; a single worker has that one.
    spread : float
        How many times as slow as the first worker the last one is, the others evenly in between;
        1 if all are alike.
    workers : int

    Returns
    -------
    list of float
        One per worker, in their order.
    """
    last = max(workers - 1, 1)
    return [slowdown * (1 + (spread - 1) * index / last) for index in range(workers)]
