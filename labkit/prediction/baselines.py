"""Laws that others fit to such points, to be compared with; least squares of relative errors."""

from __future__ import annotations

import numpy as np
from scipy import optimize

from labkit.prediction.families import Array


def amdahl(workers: Array, throughput: Array, targets: Array) -> Array:
    """Predict by a serial share (G. M. Amdahl, AFIPS Spring Joint Computer Conference, 1967)."""

    def law(n: Array, log_one: float, serial: float) -> Array:
        return log_one + np.log(n / (1 + serial * (n - 1)))

    return _fit(law, [(0.0, 1.0)], workers, throughput, targets)


def usl(workers: Array, throughput: Array, targets: Array) -> Array:
    """Predict by the Universal Scalability Law (N. J. Gunther, 2007): contention, coherence."""

    def law(n: Array, log_one: float, contention: float, coherence: float) -> Array:
        return log_one + np.log(n / (1 + contention * (n - 1) + coherence * n * (n - 1)))

    return _fit(law, [(0.0, 1.0), (0.0, 1.0)], workers, throughput, targets)


def ernest(workers: Array, throughput: Array, targets: Array) -> Array:
    """Predict by Ernest (S. Venkataraman et al., NSDI 2016): time as a sum of four terms."""

    def terms(n: Array) -> Array:
        return np.stack([np.ones_like(n), 1 / n, np.log(n), n], axis=1)

    # Divided by the times, so that all points count the same relative to themselves.
    factors, _ = optimize.nnls(terms(workers) * throughput[:, None], np.ones_like(throughput))
    return 1 / (terms(targets) @ factors)


BASELINES = {"Amdahl": amdahl, "Universal Scalability Law": usl, "Ernest": ernest}


def _fit(law, bounds, workers: Array, throughput: Array, targets: Array) -> Array:
    low, high = zip(*bounds, strict=True)
    fits = [
        optimize.least_squares(
            lambda values: law(workers, *values) - np.log(throughput),
            [float(np.log(throughput[0] / workers[0])), *(small for _ in bounds)],
            bounds=([-np.inf, *low], [np.inf, *high]), xtol=1e-12, ftol=1e-12, gtol=1e-12,
        )
        for small in (1e-4, 1e-2, 0.3)  # it stops at the first minimum that it finds
    ]  # fmt: skip
    best = min(fits, key=lambda fit: fit.cost)
    return np.exp(law(targets, *best.x))
