"""The progress of workers of which nothing is known but the rates that their scripts print.

A rate is taken to hold since the line before it, so the first one, of the warm-up, counts for
nothing: its line is where the worker's time begins. There is no barrier: what all workers share is
the time from the last of these beginnings to the first of their last lines.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from labkit.analysis import MetricError, Progress
from labkit.replicas.events import Event, Rate
from labkit.replicas.rates import UNITS


def unit_of(workers: Sequence[Sequence[Event]]) -> str:
    """Return what the workers count per second: samples where all do, otherwise steps."""
    return UNITS[0] if all(len(_rates(worker, UNITS[0])) > 1 for worker in workers) else UNITS[1]


def reported(
    workers: Sequence[Sequence[Event]],
    zeros: Sequence[float] | None = None,
    silent: Sequence[Sequence[Event]] = (),
) -> list[Progress]:
    """Return each worker's progress in the time that all share, from the rates they printed.

    Parameters
    ----------
    workers : sequence of sequence of Event
    zeros : sequence of float, optional
        When each worker's clock was at 0, by a clock that all share; without it their clocks
        agree, as on one machine. Those of the silent ones follow.
    silent : sequence of sequence of Event
        Of workers that print nothing, and train until their last event.

    Returns
    -------
    list of Progress
        In samples, or in steps: see `unit_of`.

    Raises
    ------
    MetricError
        If they share no time.
    """
    unit = unit_of(workers)
    lines = [_rates(worker, unit) for worker in workers]
    shifts = np.array([0.0] * (len(lines) + len(silent)) if zeros is None else zeros)
    for index, found in enumerate(lines):
        if len(found) < 2:
            raise MetricError(
                f"worker {index} printed fewer than two rates in {unit} per second: there is no "
                "time in which its rate is known"
            )
    # From the first one's clock on, as seconds since the epoch have fewer digits to spare.
    times = [
        np.array([rate.t for rate in found]) + shift
        for found, shift in zip(lines, shifts - shifts[0], strict=False)
    ]
    later = zip(silent, (shifts - shifts[0])[len(lines) :], strict=True)
    ends = [events[-1].t + shift for events, shift in later]
    begin, end = max(t[0] for t in times), min(t[-1] for t in times)
    if ends and min(ends) <= begin:
        raise MetricError("a worker had ended before the first one had printed two rates")
    end = min([end, *ends])
    if not begin < end:
        raise MetricError(
            "the workers' printed rates share no time: one had printed its last before another "
            "printed its first; take more steps"
        )
    rates = [[line.rate for line in found] for found in lines]
    return [_between(begin, end, *found) for found in zip(times, rates, strict=True)]


def _rates(worker: Sequence[Event], unit: str) -> list[Rate]:
    return [event for event in worker if isinstance(event, Rate) and event.unit == unit]


def _between(begin: float, end: float, t: np.ndarray, rates: Sequence[float]) -> Progress:
    done = np.append(0.0, np.cumsum(np.diff(t) * rates[1:]))
    kept = np.unique(np.concatenate([[begin], t[(begin < t) & (t < end)], [end]]))
    done = np.interp(kept, t, done)
    # Rounded as in `Progress.trained`: no time that is none must be left.
    return Progress(t=np.round(kept - begin, 9), samples=done - done[0])
