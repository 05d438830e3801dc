"""What may stand in a column of a table that is a field of a trial."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

from labkit.trials.trial import Trial


@dataclass(frozen=True)
class Column:
    """What may stand in a column; unless it is of numbers, any text.

    Attributes
    ----------
    number, whole : bool
        Whether it is of numbers, and of whole ones.
    optional : bool
        Whether a trial may lack it.
    least, above : float
        Ends of the numbers: included, and not included.
    """

    number: bool = False
    whole: bool = False
    optional: bool = False
    least: float = -math.inf
    above: float = -math.inf

    def has(self, number: float) -> bool:
        """Return whether a number may stand there; NaN may not."""
        inside = number >= self.least and number > self.above
        return inside and (not self.whole or number == int(number))

    @property
    def allowed(self) -> str:
        """The numbers that may stand there, in words."""
        ends = f" from {self.least:g} on" if self.least > -math.inf else ""
        ends += f" above {self.above:g}" if self.above > -math.inf else ""
        return f"{'whole ' * self.whole}numbers{ends}"


def columns(names: Iterable[str]) -> dict[str, Column]:
    """Return what may stand in columns that are fields of a trial."""
    found = {}
    for name in names:
        field = Trial.model_fields[name]
        types = {field.annotation, *get_args(field.annotation)}
        ends = {end: getattr(each, end) for each in field.metadata for end in ("ge", "gt")
                if hasattr(each, end)}  # fmt: skip
        found[name] = Column(
            number=bool(types & {int, float}),
            whole=int in types,
            optional=type(None) in types,
            least=ends.get("ge", -math.inf),
            above=ends.get("gt", -math.inf),
        )
    return found
