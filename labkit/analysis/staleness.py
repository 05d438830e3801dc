"""How stale gradients were: what others had changed by the time that they were applied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from labkit.analysis.equations import MetricError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def staleness(ends: Sequence[ArrayLike]) -> np.ndarray:
    """Return the staleness of asynchronous workers' gradients: updates of others during a step.

    A step lasts from the end of the one before, when the worker pulls the weights, to its own end,
    when its gradient has been applied. The first steps do not count, as all begin together at the
    barrier, nor do those that end when a worker has finished: fewer are left to change anything.

    Parameters
    ----------
    ends : sequence of array_like, shape (steps,)
        For each worker the times at which its steps ended, in seconds since the barrier; of every
        step.

    Returns
    -------
    ndarray of int
        One for each step that counts, worker by worker.

    Raises
    ------
    MetricError
        If a worker has no step, or its times fall.
    """
    times = [np.asarray(each, float) for each in ends]
    for worker, each in enumerate(times):
        if not each.size or (np.diff(each, prepend=0.0) <= 0).any():
            raise MetricError(f"worker {worker}: no times of steps that grow from the barrier on")
    first = min((each[-1] for each in times), default=0.0)
    every = np.sort(np.concatenate(times)) if times else np.array([])
    found = [np.array([], int)]
    for each in times:
        # Of all updates from the end of the step before on, one is the worker's own.
        others = np.diff(np.searchsorted(every, each, side="right")) - 1
        found.append(others[each[1:] <= first])
    return np.concatenate(found)
