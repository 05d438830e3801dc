"""What a comparison of two sets of measurements says: verdicts, with what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

FASTER, SLOWER, ALIKE = "faster", "slower", "no difference seen"
NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Compared:
    """One setting in both sets, or all of them together.

    Attributes
    ----------
    setting : mapping of str to value
        What both measured; empty for all settings together.
    ratio, low, high : float
        Throughput after in that before, and the ends of its interval; NaN if there is none.
    repeats : tuple of int
        With a rate, before and after.
    verdict : str
        faster, slower, no difference seen, or not comparable.
    reason : str
        Why it is not comparable; else empty.
    oversubscribed : bool
        Whether workers shared cores: a rate of this machine alone, and not of so many.
    """

    setting: Mapping[str, Any]
    ratio: float
    low: float
    high: float
    repeats: tuple[int, int]
    verdict: str
    reason: str = ""
    oversubscribed: bool = False

    def __str__(self) -> str:
        words = (
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in self.setting.items()
        )
        return ", ".join(words) or "overall"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two sets of measurements, setting by setting and as a whole.

    Attributes
    ----------
    before, after : str
        What the sets are called.
    settings : tuple of Compared
        All that were measured in either set.
    overall : Compared
        The geometric mean of the ratios of all settings that are comparable.
    level : float
        Of confidence, of each interval by itself.
    differences : mapping of str to tuple of str
        In what else the sets differ, such as the host: the values before and after.
    notes : tuple of str
        How the sets were read.
    """

    before: str
    after: str
    settings: tuple[Compared, ...]
    overall: Compared
    level: float
    differences: Mapping[str, tuple[str, str]]
    notes: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """The verdict on the whole in a sentence, with what it rests on."""
        if self.overall.verdict == NOT_COMPARABLE:
            return f"{self.after} is not comparable with {self.before}: {self.overall.reason}."
        seen = {
            FASTER: f"{self.after} is faster than {self.before}",
            SLOWER: f"{self.after} is slower than {self.before}",
            ALIKE: f"No difference seen between {self.before} and {self.after}",
        }[self.overall.verdict]
        whole = self.overall
        low, high = (f"{100 * (end - 1):+.1f}" for end in (whole.low, whole.high))
        used = sum(row.verdict != NOT_COMPARABLE for row in self.settings)
        of = len(self.settings)
        count = f"{used} of {of} settings" if of > 1 else "one setting"
        return (
            f"{seen}: throughput {100 * (whole.ratio - 1):+.1f} % ({100 * self.level:g}% "
            f"interval {low} to {high} %), over {count}."
        )

    @property
    def table(self) -> pd.DataFrame:
        """One row per setting, then all together as setting ``overall``."""
        import pandas as pd

        rows = []
        for row in (*self.settings, self.overall):
            before, after = row.repeats
            rows.append(
                {
                    "setting": str(row), "ratio": row.ratio, "low": row.low,
                    "high": row.high, "repeats_before": before, "repeats_after": after,
                    "verdict": row.verdict, "reason": row.reason,
                }
            )  # fmt: skip
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        table = self.table.to_string(index=False, float_format="{:.3f}".format)
        return "\n".join([table, *self.notes, self.note])

    def _repr_html_(self) -> str:
        table = self.table.to_html(index=False, float_format="{:.3f}".format, border=0)
        return f"{table}<p>{'<br>'.join([*self.notes, self.note])}</p>"
