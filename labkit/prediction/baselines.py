"""Laws that others fit to such points, to be compared with; least squares of relative errors."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from labkit.prediction.families import Array, contended


def amdahl(workers: Array, throughput: Array, targets: Array) -> Array:
    """Predict by a serial share (G. M. Amdahl, AFIPS Spring Joint Computer Conference, 1967)."""
    return _fit(1, workers, throughput, targets)


def usl(workers: Array, throughput: Array, targets: Array) -> Array:
    """Predict by the Universal Scalability Law (N. J. Gunther, 2007): contention, coherence."""
    return _fit(2, workers, throughput, targets)


def ernest(workers: Array, throughput: Array, targets: Array) -> Array:
    """Predict by Ernest (S. Venkataraman et al., NSDI 2016): time as a sum of four terms."""

    def terms(n: Array) -> Array:
        return np.stack([np.ones_like(n), 1 / n, np.log(n), n], axis=1)

    # Divided by the times, so that all points count the same relative to themselves.
    factors, _ = optimize.nnls(terms(workers) * throughput[:, None], np.ones_like(throughput))
    return 1 / (terms(targets) @ factors)


BASELINES = {"Amdahl": amdahl, "Universal Scalability Law": usl, "Ernest": ernest}


def _fit(shares: int, workers: Array, throughput: Array, targets: Array) -> Array:
    """Fit the scale and one or both shares of `contended`; return its values for the targets."""

    def law(n: Array, log_one: float, *fitted: float) -> Array:
        return log_one + np.log(contended(n, *fitted))

    fits = [
        optimize.least_squares(
            lambda values: law(workers, *values) - np.log(throughput),
            [float(np.log(throughput[0] / workers[0])), *[small] * shares],
            bounds=([-np.inf, *[0.0] * shares], [np.inf, *[1.0] * shares]),
            xtol=1e-12, ftol=1e-12, gtol=1e-12,
        )
        for small in (1e-4, 1e-2, 0.3)  # it stops at the first minimum that it finds
    ]  # fmt: skip
    best = min(fits, key=lambda fit: fit.cost)
    return np.exp(law(targets, *best.x))
