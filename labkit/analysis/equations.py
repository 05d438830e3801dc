"""Equations 4.1 to 4.5 of the thesis."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from labkit.errors import LabkitError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class MetricError(LabkitError, ValueError):
    """A number that cannot be computed from what was given."""


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
        Samples per batch.
    duration : float
        Seconds.

    Returns
    -------
    float
        Batches per second.

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
        positive(name, value)
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
    return positive("rate", rate) / positive("rate_of_one", rate_of_one)


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
    if not 0 <= correct <= positive("total", total):
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
        Nats per target, or a mean log loss.

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


def positive(name: str, value: float) -> float:
    """Return a value if it is a positive number; refuse it by its name if it is not."""
    if not (value > 0 and math.isfinite(value)):
        raise MetricError(f"{name}: {value!r}; allowed: a number above 0")
    return value
