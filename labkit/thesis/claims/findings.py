"""What becomes of one check: its quantity, with the 95 % interval, against what a word means."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from labkit.analysis import Interval, contrast, exponential
from labkit.thesis.claims.checks import PLATEAU, Check, Point, Terms, over
from labkit.thesis.claims.nodes import Sample
from labkit.thesis.thresholds import CALIBRATION, LEVEL

HOLDS, FAILS, UNCLEAR, MISSING = "holds", "fails", "unclear", "missing"
"""What becomes of a check."""


@dataclass(frozen=True)
class Finding:
    """A check and what the runs say about it.

    Attributes
    ----------
    check : Check
    outcome : str
        Holds, fails, unclear or missing.
    found : Interval or None
        The quantity; None if something of it is missing.
    samples : dict of Point to Sample
    """

    check: Check
    outcome: str
    found: Interval | None
    samples: dict[Point, Sample]

    @classmethod
    def of(cls, check: Check, sample: Callable[[Point, str], Sample]) -> Finding:
        """Return what some runs say about a check, by what they say of a column of a point."""
        samples = {point: sample(point, check.column) for point in check.needs}
        if any(sample.missing for sample in samples.values()):
            return cls(check, MISSING, None, samples)
        found = _quantity(check, samples)
        word = check.word
        outcome = UNCLEAR  # also without an interval, as of one run
        if word.holds(found.low, found.high):
            outcome = HOLDS
        elif word.fails(found.low, found.high):
            outcome = FAILS
        return cls(check, outcome, found, samples)

    @property
    def margin(self) -> float:
        """How many half intervals the quantity is away from the nearest bound of its word."""
        bounds = [b for b in (self.check.word.low, self.check.word.high) if math.isfinite(b)]
        half = (self.found.high - self.found.low) / 2
        distance = min(abs(self.found.mean - bound) for bound in bounds)
        return distance / half if half > 0 else math.inf

    @property
    def record(self) -> dict[str, Any]:
        """The numbers, with None for those that there are not."""
        found = self.found or Interval(math.nan, math.nan, math.nan, 0)
        ends = {"estimate": found.mean, "low": found.low, "high": found.high}
        return {
            "of": self.check.of,
            "word": self.check.word.name,
            "range": self.check.word.range,
            "outcome": self.outcome,
            **{name: value if math.isfinite(value) else None for name, value in ends.items()},
            "n": found.n,
        }

    def __str__(self) -> str:
        word, found = self.check.word, self.found
        if found is None:
            return f"{self.check.of}: not measured"
        interval = f"{found.low:.3g} to {found.high:.3g}, n {found.n}"
        interval = interval if found.n > 1 else "one run, no interval"
        return f"{self.check.of}: {found.mean:.3g} ({interval}); {word.name}: {word.range}"


def _quantity(check: Check, samples: dict[Point, Sample]) -> Interval:
    def value_of(terms: Terms) -> Interval:
        # A point that comes twice is one sample: its errors do not cancel.
        weights: Counter[Point] = Counter()
        calibrations: Counter[str] = Counter()
        for weight, point in terms:
            weights[point] += weight
            calibrations[samples[point].calibration] += weight
        shared = sum(weight**2 for name, weight in calibrations.items() if name)
        parts = [(w, _values(check, samples[p])) for p, w in weights.items()]
        return contrast(parts, LEVEL, shared * CALIBRATION**2)

    def distances(terms: Terms) -> Iterator[tuple[float, Point]]:
        for pair in zip(terms[::2], terms[1::2], strict=True):
            sign = math.copysign(1, value_of(pair).mean)  # whoever is ahead there
            yield from ((sign * weight, point) for weight, point in pair)

    terms = check.terms
    if check.beside:
        terms = over(tuple(distances(terms)), tuple(distances(check.beside)))
    found = value_of(terms)
    if not check.logarithmic:
        return found
    found = exponential(found)
    ends = (end * check.factor for end in (found.mean, found.low, found.high))
    return Interval(*ends, found.n)


def _values(check: Check, sample: Sample) -> np.ndarray:
    if not check.logarithmic:
        return sample.values
    # Shares are known to a percent: no plateau counts as one, so that there is a ratio.
    return np.log(np.maximum(sample.values, 1) if check.column == PLATEAU else sample.values)
