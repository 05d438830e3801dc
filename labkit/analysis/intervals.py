"""Means over repeats, and the intervals that hold the true ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labkit.analysis.equations import MetricError, positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Interval:
    """A mean over repeats and the interval that holds the true one.

    Attributes
    ----------
    mean : float
    low, high : float
        Ends of the interval; NaN (not measured) where there is no second repeat.
    n : int
        Number of repeats; of the rarer of two things compared.
    """

    mean: float
    low: float
    high: float
    n: int

    @property
    def half_width(self) -> float:
        """Half the width of the interval as a share of the mean."""
        return (self.high - self.low) / 2 / self.mean


def interval(values: ArrayLike, level: float = 0.95, least: float = -math.inf) -> Interval:
    """Return the mean of repeats with its confidence interval, from Student's t.

    Parameters
    ----------
    values : array_like, shape (n,)
        One per repeat.
    level : float
        Of confidence.
    least : float
        The least value that the quantity can have: there the interval ends.

    Raises
    ------
    MetricError
        If there are no values, or one is not a finite number.
    """
    mean, square_error, n = _mean("values", values)
    half = _quantile(level, n - 1) * math.sqrt(square_error) if n > 1 else math.nan
    low = mean - half
    return Interval(mean, least if low < least else low, mean + half, n)


def geometric_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Return the geometric mean of repeats with its confidence interval, of a positive quantity.

    Rates and times cannot be negative and scatter by factors rather than by amounts, so the
    interval is taken of the logarithms, from Student's t, and its ends are exponentiated
    (J. M. Bland and D. G. Altman, "Transformations, means, and confidence intervals", BMJ 312,
    1996). It lies above zero, and that of a time per epoch is that of the rate turned over.

    Parameters
    ----------
    values : array_like, shape (n,)
        One per repeat.
    level : float
        Of confidence.

    Raises
    ------
    MetricError
        If there are no values, or one is not a positive number.
    """
    return exponential(interval(_logs("values", values), level))


def speedup_interval(rates: ArrayLike, rates_of_one: ArrayLike, level: float = 0.95) -> Interval:
    """Return a speedup with its confidence interval, from repeats of both rates.

    A speedup is a ratio, so means and errors are taken of the logarithms and the result is
    exponentiated: it is the ratio of the geometric means (J. Fleming and J. Wallace, "How not
    to lie with statistics", Commun. ACM 29, 1986). The two rates scatter differently, so the
    degrees of freedom are those of B. L. Welch, "The generalization of 'Student's' problem when
    several different population variances are involved", Biometrika 34, 1947, and
    F. E. Satterthwaite, "An approximate distribution of estimates of variance components",
    Biometrics Bulletin 2, 1946.

    Parameters
    ----------
    rates : array_like, shape (n,)
        Throughput with many workers, one per repeat.
    rates_of_one : array_like, shape (m,)
        Throughput with one worker, one per repeat, in the same unit.
    level : float
        Of confidence.

    Raises
    ------
    MetricError
        If there are none of either, or one is not a positive number.
    """
    logs = _logs("rates", rates), _logs("rates_of_one", rates_of_one)
    return exponential(contrast([(1, logs[0]), (-1, logs[1])], level))


def contrast(
    parts: Sequence[tuple[float, ArrayLike]], level: float = 0.95, shared: float = 0.0
) -> Interval:
    """Return a weighted sum of the means of several samples with its confidence interval.

    The samples are independent and scatter differently; see `speedup_interval` for the sources.
    Of logarithms, with weights 1 and -1, it is the logarithm of a ratio.

    Parameters
    ----------
    parts : sequence of (float, array_like)
        Weights and samples, one value per repeat.
    level : float
        Of confidence.
    shared : float
        A variance of the sum that does not show in the samples, as all repeats of one share it.

    Returns
    -------
    Interval
        Its `n` is that of the smallest sample.

    Raises
    ------
    MetricError
        If there are no values of one, or one is not a finite number.
    """
    mean, square_errors, counts = 0.0, [], []
    for weight, values in parts:
        center, square_error, n = _mean("values", values)
        mean += weight * center
        square_errors.append(weight**2 * square_error)
        counts.append(n)
    half = math.nan
    if min(counts) > 1:
        square_error = sum(square_errors) + shared
        half = 0.0
        if square_error > 0:
            each = zip(square_errors, counts, strict=True)
            uncertain = sum(part**2 / (n - 1) for part, n in each)
            freedom = square_error**2 / uncertain if uncertain else math.inf
            half = _quantile(level, freedom) * math.sqrt(square_error)
    return Interval(mean, mean - half, mean + half, min(counts))


def exponential(found: Interval) -> Interval:
    """Return the interval of a quantity from that of its logarithm."""
    return Interval(*map(_exp, (found.mean, found.low, found.high)), found.n)


def _logs(name: str, values: ArrayLike) -> np.ndarray:
    if np.size(values) == 0:
        raise MetricError(f"{name}: none are given")
    return np.log([positive(name, float(value)) for value in np.ravel(values)])


def _exp(value: float) -> float:
    """Return the exponential; infinity where it is too large for a number."""
    with np.errstate(over="ignore"):
        return float(np.exp(value))


def _mean(name: str, values: ArrayLike) -> tuple[float, float, int]:
    """Return the mean, its squared standard error (NaN for one value) and the number."""
    values = np.ravel(np.asarray(values, float))
    if values.size == 0:
        raise MetricError(f"{name}: none are given")
    if not np.isfinite(values).all():
        raise MetricError(f"{name}: {values.tolist()}; allowed: finite numbers")
    n = values.size
    return float(values.mean()), float(values.var(ddof=1) / n) if n > 1 else math.nan, n


def _quantile(level: float, freedom: float) -> float:
    """Return how many standard errors an interval of Student's t reaches to either side."""
    if not 0 < level < 1:
        raise MetricError(f"level: {level!r}; allowed: between 0 and 1, such as 0.95")
    from scipy import stats  # takes a second, which what needs no interval need not wait

    return float(stats.t.ppf((1 + level) / 2, freedom))
