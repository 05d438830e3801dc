"""What "linear", "near ideal", "flat" and the like mean: each word once, with its reason.

A word accepts a range of one quantity. The thesis says such words of curves; here they are bounds
that were set before any run was judged by them, from what the words mean in the field, from how
precisely the notebooks measure, and from the data sets. They are not changed afterwards.

A verdict needs the whole 95 % interval of the quantity on one side of the bound. So no word has
a margin for noise in it: noise makes a verdict inconclusive, not another one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

LEVEL = 0.95
"""Of confidence, of every interval that decides: that which the figures show, so that what a
reader sees in one is what decides."""

CHANCE = 10.0
"""Percent: what guessing hits of ten classes."""

LOW = 2 * CHANCE
"""Percent: below it a trial is on its plateau, or has not learnt. Reports of few images scatter
around chance, by 5 points in batches of 32; twice chance is out of their reach, and far below
what a linear classifier has on Fashion-MNIST (about 84)."""

RISEN = 60.0
"""Percent: where the rise after a plateau ends. From there curves bend towards their best
accuracy, and a slope would mix the bend in."""


CALIBRATION = 0.05
"""By what share of itself a calibration scatters (standard deviation), which no repeat shows: all
rates of one framework, net and batch size on slow nodes are multiples of the same one. Those of
two published runs of one day differ by 7.3 %: ten pairs, which is 5.1 % each. Without it
one verdict on the second of these runs was the opposite of that on the first."""


@dataclass(frozen=True)
class Word:
    """A word, the quantity that it is said of, and the range in which it is true.

    Attributes
    ----------
    name : str
    quantity : str
        With its unit, if it has one.
    reason : str
        Why this range.
    low, high : float
        The range.
    strict : bool
        Whether the lower end itself, where there is no difference at all, is outside.
    """

    name: str
    quantity: str
    reason: str
    low: float = -math.inf
    high: float = math.inf
    strict: bool = False

    def holds(self, low: float, high: float) -> bool:
        """Return whether the word is true in a whole interval."""
        return high <= self.high and (low > self.low if self.strict else low >= self.low)

    def fails(self, low: float, high: float) -> bool:
        """Return whether the word is false in a whole interval."""
        return low > self.high or (high <= self.low if self.strict else high < self.low)

    @property
    def range(self) -> str:
        """The range in words."""
        if math.isinf(self.high):
            return f"{'more than' if self.strict else 'at least'} {self.low:g}"
        if math.isinf(self.low):
            return f"at most {self.high:g}"
        return f"{self.low:g} to {self.high:g}"


EFFICIENCY = "speedup / workers"
DOUBLING = "throughput after / before the workers are doubled"
RATIO = "ratio"
POINTS = "difference in percentage points"
SHARE = "percent of the training"

NEAR_IDEAL = Word(
    "near ideal", EFFICIENCY, low=0.9,
    reason="An efficiency of 90 % is what the field reports as near-ideal scaling (Goyal et al. "
    "2017; Sergeev and Del Balso 2018).",
)  # fmt: skip
LINEAR = Word(
    "linear", DOUBLING, low=1.8,
    reason="A line has no bend, so each stretch between neighbouring points is judged, not the "
    "last point: an ideal start would hide a flat end. At 1.8, 80 % of what a doubling can add "
    "is there. A line may lie below the ideal one: whatever is near ideal is linear, too, but "
    "not the reverse.",
)  # fmt: skip
FLAT = Word(
    "flat", DOUBLING, high=1.2,
    reason="The counterpart of linear: at most 20 % of what a doubling can add is left. A curve "
    "that falls does not grow either.",
)  # fmt: skip
RISING = Word(
    "rising", DOUBLING, low=1.2,
    reason="Not flat.",
)  # fmt: skip
HIGHER = Word(
    "higher", RATIO, low=1.0, strict=True,
    reason="The claim names a direction and no size, so any difference decides that the interval "
    "can tell from none.",
)  # fmt: skip
ABOUT_EQUAL = Word(
    "about equal", RATIO, low=0.8, high=1.25,
    reason="0.80 to 1.25 is the range of tests of bioequivalence (FDA, EMA), symmetric in logs. "
    "The notebooks repeat until a rate is known to 15 %, a ratio of two to about 20 %: a "
    "narrower range could never be shown.",
)  # fmt: skip
CLEARLY_HIGHER = Word(
    "clearly higher", RATIO, low=1.25,
    reason="More than about equal.",
)  # fmt: skip
NOT_BEHIND = Word(
    "not clearly lower", RATIO, low=0.8,
    reason="About equal, or more.",
)  # fmt: skip
MUCH_SHORTER = Word(
    "much shorter", "ratio of the longer to the shorter", low=2.0,
    reason="At most half as long: the least that nobody would call a little.",
)  # fmt: skip
LEARNS = Word(
    "learns", "test accuracy in percent", low=LOW,
    reason="Twice chance. The claim is whether a trial learns at all, not how well: one that "
    "fails stays at 10 %, or its loss is no longer a number, which counts as 10 %.",
)  # fmt: skip
LEARNS_NOT = Word(
    "does not learn", "test accuracy in percent", high=LOW,
    reason="The counterpart of learns.",
)  # fmt: skip
CLEARLY_BETTER = Word(
    "clearly better", POINTS, low=2.0,
    reason="On 10,000 test images an accuracy of 85 % has a standard error of 0.36 points, the "
    "difference of two 0.5: four of these do not come from which images were drawn.",
)  # fmt: skip
NOT_WORSE = Word(
    "not clearly worse", POINTS, low=-2.0,
    reason="The counterpart of clearly better.",
)  # fmt: skip
LONG_PLATEAU = Word(
    "a plateau of more than half", SHARE, low=50.0,
    reason="As the thesis says it. The plateau ends with the last report below 20 %.",
)  # fmt: skip
NO_PLATEAU = Word(
    "from the start", SHARE, high=12.5,
    reason="Within the first of the thesis's eight epochs: the curves of chapter 6 cannot show "
    "less.",
)  # fmt: skip
LONGER = Word(
    "longer", "difference in percent of the training", low=0.0, strict=True,
    reason="A direction and no size, as with higher; a difference, because a plateau may have no "
    "length at all.",
)  # fmt: skip

WORDS = (
    NEAR_IDEAL, LINEAR, FLAT, RISING, HIGHER, CLEARLY_HIGHER, ABOUT_EQUAL, NOT_BEHIND, LEARNS,
    LEARNS_NOT, CLEARLY_BETTER, NOT_WORSE, LONG_PLATEAU, NO_PLATEAU, MUCH_SHORTER, LONGER,
)  # fmt: skip
"""All of them, in the order of the documentation."""
