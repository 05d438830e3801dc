"""Predict the throughput of more workers than have been measured."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from labkit.errors import LabkitError
from labkit.prediction.families import FAMILIES
from labkit.prediction.forecast import (
    LEVEL,
    NEARLY_LINEAR,
    NO_LIMIT,
    Forecast,
    Forecasts,
    check_level,
    check_workers,
)
from labkit.prediction.mixture import condition
from labkit.prediction.points import read

if TYPE_CHECKING:
    import pandas as pd

MOST_TARGETS = 10_000
"""Numbers of workers that are predicted at once: more take gigabytes."""


@dataclass(frozen=True, repr=False)
class Prediction(Forecasts):
    """Forecasts from measured points, and how sure their reasons are.

    Attributes
    ----------
    forecasts, level
        As of `Forecasts`.
    reasons : dict of str to float
        For each reason to bend its probability, given the points.
    measured : int
        The largest number of workers that was measured.
    notes : tuple of str
        How the points were understood, where there is a choice.
    """

    reasons: Mapping[str, float]
    measured: int
    notes: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """How sure it is, and of what reason, in a sentence."""
        likely = max(self.reasons, key=self.reasons.__getitem__)
        return (
            f"{100 * self.level:g}% intervals, from points up to {self.measured} workers. Most "
            f"likely reason to bend: {likely} ({self.reasons[likely]:.0%} of what fits the "
            "points)."
        )


def predict(
    points: str | Path | Mapping[int, float] | pd.DataFrame,
    until: int | None = None,
    *,
    workers: Iterable[int] | None = None,
    level: float = LEVEL,
) -> Prediction:
    """Predict throughput from measured points, with intervals and the reason for the limit.

    Nothing is known but the points: all shapes that fit them count, in proportion to how well
    they do. So the intervals grow fast beyond the points, and faster where these show no bend.

    Parameters
    ----------
    points : path of a csv file, mapping or DataFrame
        Number of workers and throughput, in any unit: columns ``workers`` and ``throughput``, or
        one as key and the other as value. At least two numbers; of repeats the geometric mean
        counts, and the less, the more they scatter.
    until : int, optional
        Predict all numbers of workers up to this one; by default four times the most measured.
    workers : iterable of int, optional
        Predict these instead.
    level : float
        How often the intervals are to hold the truth.

    Returns
    -------
    Prediction

    Raises
    ------
    LabkitError
        If the points or a value cannot be used; it names all that is wrong.

    Examples
    --------
    >>> predict({1: 22.3, 2: 45.05, 4: 46.61}, workers=[8])  # doctest: +SKIP
    """
    known = read(points)
    check_level(level)
    if workers is not None and until is not None:
        raise LabkitError("until and workers: give one of them")
    most = int(known.workers.max())
    if workers is None:
        last = 4 * most if until is None else until
        if last < 1:
            raise LabkitError(f"until: {last!r}; allowed: 1 or more workers")
        workers = range(1, last + 1)
    numbers = set(itertools.islice(workers, MOST_TARGETS + 1))
    if len(numbers) > MOST_TARGETS:
        raise LabkitError(
            f"workers: at most {MOST_TARGETS} numbers can be predicted at once. The most that was "
            f"measured is {most}: give until, or fewer workers"
        )
    asked = check_workers(numbers)
    wanted = np.array(asked, float)
    targets = np.concatenate([[1.0], wanted])
    mixture = condition(FAMILIES, known.workers, known.throughput, targets, known.variance)
    low, (one, *middle), high = mixture.quantiles([(1 - level) / 2, 0.5, (1 + level) / 2])
    reasons = {family.limit: float(w) for family, w in zip(FAMILIES, mixture.weights, strict=True)}
    likely = max(reasons, key=reasons.__getitem__)
    return Prediction(
        tuple(
            Forecast(
                n, float(x), float(a), float(b), float(x / one),
                NO_LIMIT if x >= NEARLY_LINEAR * n * one else likely,
            )
            for n, x, a, b in zip(asked, middle, low[1:], high[1:], strict=True)
        ),
        level, reasons, most, known.notes,
    )  # fmt: skip
