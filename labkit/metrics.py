"""Equations 4.1 to 4.5, the window they are taken over, and intervals over repeats.

Rates are counted only in the window in which all workers train. Every worker's times count from
its own passing of the barrier, which all workers pass together; so the clocks of different
machines need not agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labkit.errors import LabkitError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

SLICES = 10
"""Parts of the window that are compared for steadiness, at most."""

FEWEST_STEP_WINDOWS = 4
"""Of a worker, for its steadiness to mean anything."""


class MetricError(LabkitError, ValueError):
    """A number that cannot be computed from what was given."""


# --- equations ------------------------------------------------------------------------------


def batches_per_second(
    samples: float, epochs: float, workers: int, batch_size: int, duration: float
) -> float:
    """Return the throughput of all workers together (equation 4.1).

    Every worker trains all epochs on the whole training set, so the work grows with the workers.

    Parameters
    ----------
    samples : float
        In the training set.
    epochs : float
        That every worker trains.
    workers : int
    batch_size : int
        Samples a batch.
    duration : float
        Seconds.

    Returns
    -------
    float
        Batches a second.

    Raises
    ------
    MetricError
        If one of them is not a positive number.
    """
    values = {
        "samples": samples,
        "epochs": epochs,
        "workers": workers,
        "batch_size": batch_size,
        "duration": duration,
    }
    for name, value in values.items():
        _positive(name, value)
    return samples * epochs * workers / (batch_size * duration)


def speedup(rate: float, rate_of_one: float) -> float:
    """Return how many times the throughput of one worker a throughput is (equation 4.2).

    Parameters
    ----------
    rate, rate_of_one : float
        Throughput with many workers and with one, in the same unit.

    Raises
    ------
    MetricError
        If one of them is not a positive number.
    """
    return _positive("rate", rate) / _positive("rate_of_one", rate_of_one)


def accuracy(correct: float, total: float) -> float:
    """Return the share of right answers (equation 4.3), in percent.

    Parameters
    ----------
    correct, total : float
        Numbers of right and of all answers.

    Raises
    ------
    MetricError
        If there are no answers, or more right ones than answers.
    """
    if not 0 <= correct <= _positive("total", total):
        raise MetricError(f"correct: {correct!r} of {total!r}; allowed: 0 to {total!r}")
    return correct / total * 100


def entropy(probabilities: ArrayLike) -> float:
    """Return the mean surprise at what came (equation 4.4), in nats.

    A mean log loss in nats is this entropy already: give it to `perplexity` as it is.

    Parameters
    ----------
    probabilities : array_like
        What the model had given to each target that then came; of any shape.

    Raises
    ------
    MetricError
        If there are none, or one is not in (0, 1].
    """
    p = np.asarray(probabilities, float)
    if p.size == 0:
        raise MetricError("probabilities: none are given; the entropy of nothing is not defined")
    wrong = p[~((p > 0) & (p <= 1))]
    if wrong.size:
        raise MetricError(f"probabilities: {wrong[0]}; allowed: more than 0, at most 1")
    return float(-np.log(p).mean())


def perplexity(entropy: float) -> float:
    """Return among how many equally likely targets a model in effect chooses (equation 4.5).

    Parameters
    ----------
    entropy : float
        Nats a target, or a mean log loss.

    Returns
    -------
    float
        1 or more; infinite where it exceeds the largest float.

    Raises
    ------
    MetricError
        If the entropy is negative or not a number.
    """
    if not entropy >= 0:
        raise MetricError(f"entropy: {entropy!r}; allowed: 0 or more nats")
    try:
        return math.exp(entropy)
    except OverflowError:
        return math.inf


def _positive(name: str, value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise MetricError(f"{name}: {value!r}; allowed: a number above 0")
    return value


# --- the window -----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Progress:
    """How far one worker had come, and when.

    Parameters
    ----------
    t : array of float, shape (points,)
        Seconds since this worker passed the barrier, rising, from 0.0; the last is the end of
        its training.
    samples : array of float, shape (points,)
        Trained on by then, from 0.
    pauses : sequence of (float, float)
        Begin and end, in the same seconds, of every time in which the worker did not train but
        evaluated on the test set; in order, not overlapping.

    Raises
    ------
    MetricError
        If these do not describe a worker's progress.
    """

    t: np.ndarray
    samples: np.ndarray
    pauses: Sequence[tuple[float, float]] = ()

    def __post_init__(self) -> None:
        t, samples = np.asarray(self.t, float), np.asarray(self.samples, float)
        pauses = np.asarray(self.pauses, float).reshape(-1, 2)
        for name, value in (("t", t), ("samples", samples), ("pauses", pauses)):
            object.__setattr__(self, name, value)
        if t.ndim != 1 or t.shape != samples.shape or t.size == 0:
            raise MetricError(
                f"progress: {t.size} times for {samples.size} counts of samples; "
                "allowed: one each, from (0, 0) on"
            )
        if t[0] != 0 or samples[0] != 0:
            raise MetricError(
                f"progress: begins at {t[0]} s with {samples[0]:g} samples; "
                "allowed: the barrier, at 0 s with 0 samples"
            )
        if not (np.diff(t) > 0).all():
            raise MetricError("progress: the times do not rise from point to point")
        if not (np.diff(samples) >= 0).all():
            raise MetricError("progress: the number of samples falls, or is not a number")
        if not (np.diff(pauses.ravel(), prepend=0) >= 0).all():
            raise MetricError(
                "progress: a pause begins before the barrier, ends before it begins, or overlaps "
                "the next"
            )
        still = np.diff(self.trained(t)) <= 0
        if (np.diff(samples)[still] > 0).any():
            raise MetricError("progress: samples were trained on during a pause")

    def trained(self, t: ArrayLike) -> np.ndarray:
        """Return the seconds spent training until t: what has passed less the pauses in it."""
        begin, end = self.pauses.T
        paused = np.clip(np.asarray(t)[..., None], begin, end) - begin
        # Rounded so that no time at all passes within a pause, not even the last bit's worth.
        return np.round(t - paused.sum(axis=-1), 9)

    def rates(self, end: float, slices: int = 1) -> np.ndarray:
        """Return samples a second in equal slices of the time it trained until `end`.

        Between two points the worker is taken to train evenly.

        Parameters
        ----------
        end : float
            Seconds since the barrier.
        slices : int

        Returns
        -------
        array of float, shape (slices,)
        """
        seconds = float(self.trained(end))
        edges = np.linspace(0, seconds, slices + 1)
        done = np.interp(edges, self.trained(self.t), self.samples)
        return np.diff(done) * slices / seconds


@dataclass(frozen=True, eq=False)
class Window:
    """The time in which all workers train, and what was measured in it.

    Attributes
    ----------
    begin, end : float
        Seconds since the barrier: 0, and the earliest end of training of any worker.
    rates : array of float, shape (workers,)
        Samples a second of each worker while it trained: its pauses are not counted.
    samples_per_second : float
        Of all workers together.
    imbalance : float
        (max - min) / mean of the workers' rates; 0 if all are equally fast.
    steadiness : float
        Coefficient of variation (standard deviation / mean) of the throughput of all workers
        over equal slices of the window; 0 if it never changes, NaN where a worker reported
        fewer than four times, which is too seldom to tell.
    """

    begin: float
    end: float
    rates: np.ndarray
    samples_per_second: float
    imbalance: float
    steadiness: float


def window(workers: Sequence[Progress]) -> Window:
    """Measure the window in which all workers train.

    Each worker's times count from its own passing of the barrier, so clocks need not agree.
    There are as many slices for the steadiness as the least talkative worker has step windows,
    at most ten: finer ones would compare interpolated values with each other.

    Parameters
    ----------
    workers : sequence of Progress
        In any order.

    Raises
    ------
    MetricError
        If there is no worker, or one that did not train in the window.
    """
    if not workers:
        raise MetricError("no worker, so no window in which all of them train")
    end = min(float(worker.t[-1]) for worker in workers)
    for index, worker in enumerate(workers):
        if not worker.trained(end) > 0:
            raise MetricError(
                f"worker {index} did not train before the first of all workers had finished "
                f"({end:g} s after the barrier): there is no window in which all of them train; "
                "take more steps"
            )
    rates = np.array([worker.rates(end)[0] for worker in workers])
    if not rates.any():
        raise MetricError(f"no sample was trained on in the {end:g} s in which all workers ran")
    step_windows = min(np.count_nonzero(worker.t <= end) - 1 for worker in workers)
    steadiness = math.nan
    if step_windows >= FEWEST_STEP_WINDOWS:
        slices = min(step_windows, SLICES)
        total = np.sum([worker.rates(end, slices) for worker in workers], axis=0)
        steadiness = float(total.std(ddof=1) / total.mean())
    return Window(
        begin=0.0,
        end=end,
        rates=rates,
        samples_per_second=float(rates.sum()),
        imbalance=float((rates.max() - rates.min()) / rates.mean()),
        steadiness=steadiness,
    )


# --- intervals over repeats -----------------------------------------------------------------


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


def interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Return the mean of repeats with its confidence interval, from Student's t.

    Parameters
    ----------
    values : array_like, shape (n,)
        One a repeat.
    level : float
        Of confidence.

    Raises
    ------
    MetricError
        If there are no values, or one is not a finite number.
    """
    mean, square_error, n = _mean("values", values)
    half = _quantile(level, n - 1) * math.sqrt(square_error) if n > 1 else math.nan
    return Interval(mean, mean - half, mean + half, n)


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
        Throughput with many workers, one a repeat.
    rates_of_one : array_like, shape (m,)
        Throughput with one worker, one a repeat, in the same unit.
    level : float
        Of confidence.

    Raises
    ------
    MetricError
        If there are none of either, or one is not a positive number.
    """
    means, square_errors, counts = [], [], []
    for name, values in (("rates", rates), ("rates_of_one", rates_of_one)):
        values = np.array([_positive(name, float(value)) for value in np.ravel(values)])
        mean, square_error, n = _mean(name, np.log(values))
        means.append(mean)
        square_errors.append(square_error)
        counts.append(n)
    ratio = means[0] - means[1]
    half = math.nan
    if min(counts) > 1:
        square_error = sum(square_errors)
        half = 0.0
        if square_error > 0:
            parts = zip(square_errors, counts, strict=True)
            freedom = square_error**2 / sum(part**2 / (n - 1) for part, n in parts)
            half = _quantile(level, freedom) * math.sqrt(square_error)
    return Interval(math.exp(ratio), math.exp(ratio - half), math.exp(ratio + half), min(counts))


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


# --- tables ---------------------------------------------------------------------------------


def configuration(table: pd.DataFrame) -> list[str]:
    """Return the columns of a table of trials that tell configurations, not repeats, apart.

    These are all fields of a trial but its seed, and whether its workers had to share cores:
    what was measured one way is never averaged with what was measured the other way.
    """
    from labkit.trials import Trial

    fields = (*Trial.model_fields, "launcher", "time_shared")
    return [field for field in dict.fromkeys(fields) if field in table and field != "seed"]


def summarise(
    table: pd.DataFrame, metric: str = "batches_per_second", level: float = 0.95
) -> pd.DataFrame:
    """Average one column of a table of trials over repeats.

    Parameters
    ----------
    table : DataFrame
        One row a trial.
    metric : str
        The column.
    level : float
        Of confidence.

    Returns
    -------
    DataFrame
        One row a configuration, sorted: its columns, then ``mean``, ``low``, ``high``, and
        ``n``, the number of repeats that yielded a number. Without any, the three are NaN.

    Raises
    ------
    MetricError
        If the table has no such column.
    """
    import pandas as pd

    _need(table, metric, "framework")
    by = configuration(table)
    rows = []
    for key, group in _groups(table, by):
        values = group[metric].dropna().to_numpy(float)
        found = interval(values, level) if values.size else _NOTHING
        rows.append((*key, *_row(found)))
    return pd.DataFrame(rows, columns=[*by, "mean", "low", "high", "n"])


def speedups(
    table: pd.DataFrame, metric: str = "batches_per_second", level: float = 0.95
) -> pd.DataFrame:
    """Compare each configuration's throughput with that of the same with one worker.

    Time-shared configurations are left out: with more workers than cores a machine cannot show
    how a job scales.

    Parameters
    ----------
    table : DataFrame
        One row a trial.
    metric : str
        The column that holds the rate.
    level : float
        Of confidence.

    Returns
    -------
    DataFrame
        One row a configuration, sorted: its columns, then ``speedup``, ``low``, ``high`` and
        ``n``, the repeats of the rarer of the two. Of one worker it is 1, by definition. The
        three are NaN where either of the two rates was not measured.

    Raises
    ------
    MetricError
        If the table lacks a column, or has one worker with several numbers of servers, so that
        it is not clear with which to compare.
    """
    import pandas as pd

    _need(table, metric, "framework", "workers", "time_shared")
    by = configuration(table)
    # Servers come with the workers in some frameworks, so they do not tell two curves apart.
    same = [column for column in by if column not in ("workers", "servers")]
    rows = []
    for _, curve in _groups(table[~table["time_shared"].astype(bool)], same):
        ones = curve[curve["workers"] == 1]
        if "servers" in ones and ones["servers"].nunique() > 1:
            raise MetricError(
                f"servers: {sorted(ones['servers'].unique())} with one worker; "
                "keep the trials of one of them, to compare the others with"
            )
        rates_of_one = ones[metric].dropna().to_numpy(float)
        for key, group in _groups(curve, by):
            rates = group[metric].dropna().to_numpy(float)
            if not (rates.size and rates_of_one.size):
                found = _NOTHING
            elif group["workers"].iloc[0] == 1:
                found = Interval(1.0, 1.0, 1.0, rates.size)
            else:
                found = speedup_interval(rates, rates_of_one, level)
            rows.append((*key, *_row(found)))
    return pd.DataFrame(rows, columns=[*by, "speedup", "low", "high", "n"])


_NOTHING = Interval(math.nan, math.nan, math.nan, 0)


def _row(found: Interval) -> tuple[float, float, float, int]:
    return found.mean, found.low, found.high, found.n


def _groups(table: pd.DataFrame, by: list[str]):
    # A field that was not set (None) is a value like any other.
    return table.groupby(by, dropna=False, sort=True)


def _need(table: pd.DataFrame, *columns: str) -> None:
    missing = [column for column in columns if column not in table]
    if missing:
        raise MetricError(
            f"the table has no column {', '.join(missing)}; give the table of trials"
        )
