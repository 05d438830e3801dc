"""What measured points say about unmeasured ones: all families, weighted by how well they fit."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from labkit.prediction.families import Array, Family

NOISE = np.array([0.005, 0.01, 0.02, 0.04, 0.08])
"""Relative errors that a measured throughput may have, beside what repeats show of them."""

DISCREPANCY = 0.03
"""How far, relatively, the truth may leave all families, per doubling beyond the points."""

CURVES = 1500
"""How many curves stand for all, in proportion to their weights."""

AROUND = 15
"""Values of each curve that stand for those that a normal distribution has around it."""

BLOCK = 100
"""Targets whose quantiles are taken at once: more of them take too much memory."""


@dataclass(frozen=True)
class Mixture:
    """Curves that may be the true one, drawn in proportion to their probability.

    Attributes
    ----------
    centres : ndarray, shape (curves, targets)
        Logarithm of the throughput that each expects.
    errors : ndarray, shape (curves, targets)
        Its standard error.
    weights : ndarray, shape (families,)
        The probability of each family.
    """

    centres: Array
    errors: Array
    weights: Array

    def quantiles(self, levels: Sequence[float]) -> Array:
        """Return the throughputs below which the true one lies with these probabilities.

        Returns
        -------
        ndarray, shape (levels, targets)
        """
        found, normal = [], _normal()
        for first in range(0, self.centres.shape[1], BLOCK):
            some = np.s_[:, first : first + BLOCK]
            around = self.centres[some] + self.errors[some] * normal
            found.append(np.quantile(around.reshape(-1, around.shape[-1]), levels, axis=0))
        return np.exp(np.concatenate(found, axis=1))


@functools.cache
def _normal() -> Array:
    """Return values that stand for a standard normal distribution, shape (AROUND, CURVES, 1).

    Those of one curve lie between those of its neighbours, by steps of the golden ratio: together
    they reach as far into the tails as that many drawn by chance.
    """
    offsets = (np.arange(1, CURVES + 1) * (5**0.5 - 1) / 2) % 1
    probability = (np.arange(AROUND)[:, None] + offsets) / AROUND
    return np.vectorize(NormalDist().inv_cdf)(probability)[..., None]


def condition(
    families: Sequence[Family],
    workers: Array,
    throughput: Array,
    targets: Array,
    variance: Array | None = None,
) -> Mixture:
    """Weigh all curves of all families by the measured points.

    The scale of a curve is unknown and integrated out, as are the noise of the points and the
    family; families are equally likely before.

    Parameters
    ----------
    families : sequence of Family
    workers, throughput : ndarray, shape (n,)
        The measured points.
    targets : ndarray, shape (m,)
        For which numbers of workers the throughput is asked.
    variance : ndarray, shape (n,), optional
        Of the points' logarithms, as far as it is known from repeats.

    Returns
    -------
    Mixture
    """
    weights, scales = [], []
    known = np.zeros(len(workers)) if variance is None else variance
    # Per level of noise, shape (levels, n).
    precise = 1 / (NOISE[:, None] ** 2 + known)
    total = precise.sum(axis=1)
    for family in families:
        residuals = np.log(throughput) - family.log_curves(workers, family.grid())
        scale = residuals @ precise.T / total
        squares = residuals**2 @ precise.T - scale**2 * total
        # The scale takes one degree of freedom.
        log = (np.log(precise).sum(axis=1) - np.log(total) - squares) / 2
        weights.append(log.ravel() - np.log(log.size))
        scales.append(scale.ravel())
    probability = np.exp(np.concatenate(weights) - max(map(np.max, weights)))
    probability /= probability.sum()
    first = np.cumsum([0, *map(len, weights)])
    # Evenly spaced through the cumulative probability: the same curves each time.
    evenly = (np.arange(CURVES) + 0.5) / CURVES
    chosen = np.searchsorted(np.cumsum(probability), evenly).clip(max=first[-1] - 1)
    centres = []
    for family, begin, end, scale in zip(families, first, first[1:], scales, strict=False):
        own = chosen[(begin <= chosen) & (chosen < end)] - begin
        shapes = family.grid()[:, own // len(NOISE)]
        centres.append(scale[own, None] + family.log_curves(targets, shapes))
    beyond = np.log2(np.maximum(1, np.maximum(targets / workers.max(), workers.min() / targets)))
    own_noise = np.sqrt(NOISE**2 + 1 / total)[chosen % len(NOISE), None]
    return Mixture(
        np.concatenate(centres), np.hypot(own_noise, DISCREPANCY * beyond),
        np.add.reduceat(probability, first[:-1]),
    )  # fmt: skip
