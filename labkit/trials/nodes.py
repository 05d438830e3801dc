"""What the nodes of a trial are like, and how slow that of each worker is."""

from __future__ import annotations

from labkit.errors import LabkitError, nearest

NODE = ("slowdown", "slowdown_spread", "cpu", "bandwidth")
"""The fields of a trial that say what its nodes are like: without any, they are those of today."""

PRESETS: dict[str, dict[str, float]] = {
    "today": {},
    "thesis": {"slowdown": 10.0, "bandwidth": 2e9},
}
"""Nodes with a name: those that are there; the thesis's, an estimate (docs/claims.md)."""


def preset(name: str) -> dict[str, float]:
    """Return the fields of a trial, or the arguments of a prediction, that a preset stands for.

    Raises
    ------
    LabkitError
        If there is none of that name.
    """
    if name not in PRESETS:
        raise LabkitError(
            f"node: {name!r}{nearest(name, PRESETS)}; allowed: {', '.join(PRESETS)}"
        )
    return PRESETS[name]


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
