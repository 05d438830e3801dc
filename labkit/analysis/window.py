"""The window in which all workers train, and what was measured in it.

Every worker's times count from its own passing of the barrier, which all workers pass together; so
the clocks of different machines need not agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from labkit.analysis.equations import MetricError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

SLICES = 10
"""Parts of the window that are compared for variation, at most."""


FEWEST_STEP_WINDOWS = 4
"""Of a worker, for its variation to mean anything."""


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
        Begin and end, in the same seconds, of every time in which the worker did not train: it
        evaluated on the test set, or its turn to begin had not come; in order, not overlapping.

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

    def trained_on(self, t: ArrayLike) -> np.ndarray:
        """Return the samples trained on until t; evenly between two points."""
        return np.interp(self.trained(t), self.trained(self.t), self.samples)


@dataclass(frozen=True, eq=False)
class Window:
    """The time in which all workers train, and what was measured in it.

    While one pauses, not all train: those times are no part of the window, for no worker.

    Attributes
    ----------
    begin, end : float
        Seconds since the barrier: 0, or what was asked for, and the earliest end of training of
        any worker.
    paused : float
        Seconds between them in which a worker paused.
    rates : array of float, shape (workers,)
        Samples per second of each worker while all trained.
    samples_per_second : float
        Of all workers together.
    imbalance : float
        (max - min) / mean of the workers' rates; 0 if all are equally fast.
    variation : float
        Coefficient of variation (standard deviation / mean) of the throughput of all workers
        over equal slices of the window; 0 if it never changes, NaN where a worker reported
        fewer than four times, which is too seldom to tell.
    """

    begin: float
    end: float
    paused: float
    rates: np.ndarray
    samples_per_second: float
    imbalance: float
    variation: float


def waiting_together(workers: Sequence[Progress]) -> list[Progress]:
    """Return the progress of workers in lock step: while one of them evaluates, the others wait.

    What one reports in such a time, a last answer that came late or a gradient that waits for the
    others', counts as of the time's beginning; nothing happens until all go on together.

    Parameters
    ----------
    workers : sequence of Progress
        In any order; each with its own pauses only.
    """
    pauses = _union(workers)
    begin, end = pauses.T
    found = []
    for worker in workers:
        within = (begin < worker.t[:, None]) & (worker.t[:, None] <= end)
        t = np.where(within.any(axis=1), (within * begin).sum(axis=1), worker.t)
        last = np.append(np.diff(t) > 0, True)  # of those that count as of the same time
        found.append(Progress(t[last], worker.samples[last], pauses))
    return found


def window(workers: Sequence[Progress], begin: float = 0.0) -> Window:
    """Measure the window in which all workers train.

    Each worker's times count from its own passing of the barrier, so clocks need not agree.
    There are as many slices for the variation as the worker with the fewest step windows has,
    at most ten: finer ones would compare interpolated values with each other.

    Parameters
    ----------
    workers : sequence of Progress
        In any order.
    begin : float
        Seconds since the barrier; what comes before counts for nothing.

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
    if not begin < end:
        raise MetricError(
            f"the window begins {begin:g} s after the barrier, and the first of all workers had "
            f"finished after {end:g} s; take more steps"
        )
    pauses = _union(workers, before=begin)
    knots = np.concatenate([[0.0], np.clip(pauses.ravel(), 0, end), [end]])
    together = _outside(pauses, np.asarray, knots)
    seconds = float(together[-1])
    if not seconds > 0:
        raise MetricError(
            f"in all of the {end:g} s in which the workers ran, one paused: there is no window "
            "in which all of them train; take more steps"
        )

    def rates_in(slices: int) -> np.ndarray:
        """Return the rates in equal slices of the window, shape (workers, slices)."""
        t = np.interp(np.linspace(0, seconds, slices + 1), together, knots)
        done = [_outside(pauses, worker.trained_on, t) for worker in workers]
        return np.diff(done) * slices / seconds

    rates = rates_in(1)[:, 0]
    if not rates.any():
        raise MetricError(f"no sample was trained on in the {end:g} s in which all workers ran")
    step_windows = min(
        np.count_nonzero((begin < worker.t) & (worker.t <= end)) for worker in workers
    )
    variation = math.nan
    if step_windows >= FEWEST_STEP_WINDOWS:
        slices = min(step_windows, SLICES)
        total = rates_in(slices).sum(axis=0)
        variation = float(total.std(ddof=1) / total.mean())
    return Window(
        begin=begin,
        end=end,
        paused=round(end - begin - seconds, 9),  # as rounded as what passes outside of pauses
        rates=rates,
        samples_per_second=float(rates.sum()),
        imbalance=float((rates.max() - rates.min()) / rates.mean()),
        variation=variation,
    )


def _union(workers: Sequence[Progress], before: float = 0.0) -> np.ndarray:
    """Return when at least one worker paused: begins and ends, in order, shape (times, 2).

    What came before some seconds since the barrier is a pause, too.
    """
    times: list[list[float]] = [[0.0, before]] if before else []
    for begin, end in sorted(tuple(pause) for worker in workers for pause in worker.pauses):
        if times and begin <= times[-1][1]:
            times[-1][1] = max(times[-1][1], end)
        else:
            times.append([begin, end])
    return np.reshape(times, (-1, 2))


def _outside(
    pauses: np.ndarray, quantity: Callable[[np.ndarray], np.ndarray], t: np.ndarray
) -> np.ndarray:
    """Return how far a quantity that grows with time came by t, its growth in pauses left out."""
    begin, end = pauses.T
    within = quantity(np.clip(t[:, None], begin, end)) - quantity(begin)
    # Rounded for the same reason as in `Progress.trained`.
    return np.round(quantity(t) - within.sum(axis=1), 9)
