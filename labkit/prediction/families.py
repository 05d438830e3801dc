"""How throughput can grow with the workers: a family of curves for each reason to bend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Family:
    """Curves of one shape, on a grid over what their shape depends on.

    Attributes
    ----------
    name : str
    limit : str
        Why throughput stays below the workers' own, by this family.
    curve : callable
        Takes the workers, shape (n,), and a value of each parameter, shape (k, 1); returns the
        throughput in that of an undisturbed worker, shape (k, n).
    axes : tuple of ndarray
        The values of each parameter; the grid is their product, and all its points are equally
        likely before anything has been measured.
    """

    name: str
    limit: str
    curve: Callable[..., Array]
    axes: tuple[Array, ...]

    def grid(self) -> Array:
        """Return all combinations of the parameters' values, shape (parameters, k)."""
        return np.array([axis.ravel() for axis in np.meshgrid(*self.axes, indexing="ij")])

    def log_curves(self, workers: Array, shapes: Array) -> Array:
        """Return the logarithm of the curves with these parameters, shape (k, n)."""
        return np.log(self.curve(workers, *(values[:, None] for values in shapes)))


def _saturating(workers: Array, most: Array, sharpness: Array) -> Array:
    # Log of the sum avoids powers that overflow.
    load = np.log(workers / most)
    return workers * np.exp(-np.logaddexp(0.0, sharpness * load) / sharpness)


def contended(
    workers: Array, contention: Array | float, coherence: Array | float = 0.0
) -> Array:
    """Return throughput by the Universal Scalability Law; by Amdahl's without coherence."""
    others = workers - 1
    return workers / (1 + contention * others + coherence * workers * others)


def _ring(workers: Array, bandwidth: Array, latency: Array) -> Array:
    others = workers - 1
    return workers / (1 + bandwidth * others / workers + latency * others)


def _tree(workers: Array, start: Array, level: Array) -> Array:
    return workers / (1 + start * (workers > 1) + level * np.log2(workers))


FAMILIES = (
    Family(
        "saturation",
        "a shared resource is busy",
        _saturating,
        (np.geomspace(0.7, 3000, 90), np.geomspace(1, 32, 16)),
    ),
    Family(
        "contention",
        "workers wait for each other",
        contended,
        (np.geomspace(1e-4, 1, 50), np.geomspace(1e-7, 0.05, 30)),
    ),
    Family(
        "ring",
        "exchange of gradients round a ring",
        _ring,
        (np.geomspace(1e-3, 3, 50), np.geomspace(1e-5, 0.3, 30)),
    ),
    Family(
        "tree",
        "synchronising over all workers",
        _tree,
        (np.geomspace(1e-3, 1, 40), np.geomspace(1e-3, 1, 40)),
    ),
)
"""Saturation holds between the asymptotic bounds of a closed queueing network (P. J. Denning and
J. P. Buzen, "The operational analysis of queueing network models", Computing Surveys 10, 1978);
its sharpness says how suddenly. Contention is the Universal Scalability Law (N. J. Gunther,
"Guerrilla Capacity Planning", 2007). The ring's terms are those of P. Patarasuk and X. Yuan,
"Bandwidth optimal all-reduce algorithms", J. Parallel Distrib. Comput. 69, 2009."""
