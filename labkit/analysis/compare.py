"""Two sets of measurements compared: faster, slower, no difference seen, or not comparable."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.analysis.comparison import (
    ALIKE,
    FASTER,
    NOT_COMPARABLE,
    SLOWER,
    Compared,
    Comparison,
)
from labkit.analysis.equations import MetricError
from labkit.analysis.intervals import Interval, contrast, exponential
from labkit.analysis.scaling import CIRCUMSTANCES, configuration, plain

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.99
"""Of confidence: of 100 comparisons of what is the same, one sees a difference."""

ROUNDING = 1e-9
"""How near to 1 a ratio is that differs from it by the rounding of floating-point numbers."""

MOST_VALUES = 4
"""Of a column, that a reason names."""

COMES_ALONG = {
    "framework": ("servers",), "model": ("dataset",), "strategy": ("servers",),
    "batch_size": ("steps",),
}  # fmt: skip
"""Fields that usually differ if the one does by which is compared."""


def compare_tables(
    before: pd.DataFrame,
    after: pd.DataFrame,
    names: tuple[str, str] = ("before", "after"),
    *,
    units: tuple[str, str] = ("", ""),
    by: str | None = None,
    level: float = LEVEL,
    drift: float = 0.0,
) -> Comparison:
    """Compare the throughputs of two tables.

    What both tables say of the trial tells settings apart; where and with what it was run does
    not: it may be what is compared, so it is only named. Within each set, though, it has to be the
    same for all repeats of a setting. A setting's ratio is that of the geometric means, with an
    interval as of `speedup_interval`. The whole is the geometric mean of the settings' ratios,
    each counting the same, with one interval from all repeats: to call it slower if any setting
    is would be wrong the oftener the more settings there are.

    Parameters
    ----------
    before, after : DataFrame
        One row per repeat; ``workers`` and ``throughput``, and columns as of a table of trials.
    names : tuple of str
        What the sets are called.
    units : tuple of str
        Of the throughputs; empty if it is not known.
    by : str, optional
        The column in which the sets differ, if that is what is compared.
    level : float
        Of confidence.
    drift : float
        How far, relatively, all rates of a set may be off together: a standard deviation.

    Raises
    ------
    MetricError
        If the level is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise MetricError(f"level: {level!r}; allowed: between 0 and 1, such as 0.99")
    keys = _keys(before, after, by)
    sides = [_Side(name, table) for name, table in zip(names, (before, after), strict=True)]
    rows, parts = [], []
    unlike = _unlike(units, names)
    for setting, pair in [] if unlike else _pairs(sides, keys):
        reason = _why_not(pair) or _why_not_slow(pair, by)
        repeats = tuple(len(side.rates) for side in pair)
        if reason:
            found = _NONE
        else:
            logs = [np.log(side.rates) for side in pair]
            parts.append(logs)
            found = exponential(contrast([(-1, logs[0]), (1, logs[1])], level, 2 * drift**2))
        shared = any(side.only("oversubscribed") for side in pair)
        rows.append(_compared(setting, found, repeats, reason, shared))
    sums = tuple(sum(len(logs[i]) for logs in parts) for i in (0, 1))
    if parts:
        share = 1 / len(parts)
        weighted = [(sign * share, logs[i]) for logs in parts for i, sign in enumerate((-1, 1))]
        # All settings of a set are off together, so more of them do not help.
        overall = _compared({}, exponential(contrast(weighted, level, 2 * drift**2)), sums)
    else:
        why = unlike or _why_none(rows, sides, keys)
        overall = _compared({}, _NONE, sums, why)
    return Comparison(
        *names, tuple(rows), overall, level, _differences(before, after, (*keys, by))
    )


_NONE = Interval(math.nan, math.nan, math.nan, 0)


@dataclass(frozen=True)
class _Side:
    """One of the two sets, or its rows of one setting."""

    name: str
    table: pd.DataFrame

    @property
    def rates(self) -> np.ndarray:
        return self.table["throughput"].dropna().to_numpy(float)

    def only(self, column: str) -> Any:
        """Return the value of a column that is the same for all rows; None if nobody says."""
        there = column in self.table and len(self.table)
        return plain(self.table[column].iloc[0]) if there else None


def _compared(
    setting: Mapping[str, Any],
    found: Interval,
    repeats: tuple[int, ...],
    reason: str = "",
    shared: bool = False,
) -> Compared:
    verdict = ALIKE
    if reason:
        verdict = NOT_COMPARABLE
    elif found.low > 1 + ROUNDING:
        verdict = FASTER
    elif found.high < 1 - ROUNDING:
        verdict = SLOWER
    return Compared(setting, found.mean, found.low, found.high, repeats, verdict, reason, shared)


def _keys(before: pd.DataFrame, after: pd.DataFrame, by: str | None) -> list[str]:
    """Return the columns that tell settings apart, as both sets say them."""
    aside = {*CIRCUMSTANCES, "launcher", "oversubscribed", by, *COMES_ALONG.get(by or "", ())}
    both = [c for c in configuration(before) if c in configuration(after) and c not in aside]
    if "series" in both and before["series"].nunique() == after["series"].nunique() == 1:
        both.remove("series")  # it is what the sets are called
    return both


def _pairs(
    sides: Sequence[_Side], keys: list[str]
) -> Iterator[tuple[dict[str, Any], list[_Side]]]:
    """Yield what differs between settings, and both sides' rows of each."""
    found: dict[tuple[Any, ...], list[_Side]] = {}
    for i, side in enumerate(sides):
        for key, rows in side.table.groupby(keys, dropna=False, sort=True):
            empty = [_Side(each.name, each.table.iloc[:0]) for each in sides]
            found.setdefault(tuple(map(plain, key)), empty)[i] = _Side(side.name, rows)
    varying = [
        i for i, name in enumerate(keys) if name == "workers" or len({key[i] for key in found}) > 1
    ]
    for i in [i for i in varying if keys[i] in ("servers", "dataset")]:
        others = [other for other in varying if other != i]
        if len({tuple(key[other] for other in others) for key in found}) == len(found):
            varying = others  # it goes without saying: so many servers come with the workers
    for key in sorted(found, key=lambda key: [(v is not None, str(type(v)), v) for v in key]):
        yield {keys[i]: key[i] for i in varying if key[i] is not None}, found[key]


def _unlike(units: tuple[str, str], names: tuple[str, str]) -> str:
    """Say that units differ, or that only one is known."""
    if units[0] == units[1]:
        return ""
    said = [
        f"{name} is in {unit or 'an unknown unit'}"
        for name, unit in zip(names, units, strict=True)
    ]
    return " and ".join(said)


def _why_not(pair: Sequence[_Side]) -> str:
    """Say why the rates of one setting cannot be compared; nothing if they can."""
    for side, other in (pair, pair[::-1]):
        if side.table.empty:
            return f"only in {other.name}"
    for side in pair:
        lost = side.table["throughput"].isna()
        if lost.all():
            return f"no rate in {side.name} ({_list(_why_lost(side.table))})"
    pair = [_Side(side.name, side.table.dropna(subset=["throughput"])) for side in pair]
    for side in pair:
        for column in configuration(side.table):
            values = side.table[column].drop_duplicates()
            if len(values) > 1:
                return f"{side.name} has {column} {_list(values)}"
    before, after = pair
    few = [side.name for side in pair if len(side.rates) < 2]
    if few:
        return "one repeat each" if len(few) == 2 else f"one repeat in {few[0]}"
    shared = [side.name for side in pair if side.only("oversubscribed")]
    if len(shared) == 1:
        return f"oversubscribed in {shared[0]} alone"
    if shared and any(before.only(name) != after.only(name) for name in ("host", "cores")):
        return "oversubscribed, on different hosts or cores"
    return ""


def _why_lost(table: pd.DataFrame) -> np.ndarray:
    """Return why trials have no rate."""
    why = table["status"]
    if "overloaded" in table:
        why = why.mask((why == "finished") & table["overloaded"].eq(True), "overloaded")
    return why.unique()


def _why_not_slow(pair: Sequence[_Side], by: str | None) -> str:
    """Say why rates of slow nodes cannot be compared: these are multiples of a calibration."""
    if not any((side.only("slowdown") or 1) > 1 for side in pair):
        return ""
    if len({side.only("host") for side in pair}) > 1:
        return "slow nodes of different hosts, multiples of different times"
    times = {
        round(time, 2)
        for side in pair if "compute_ms" in side.table
        for time in side.table["compute_ms"].dropna()
    }  # fmt: skip
    # Another framework, say, has a calibration of its own in any case.
    if len(times) > 1 and by in (None, "launcher", *CIRCUMSTANCES):
        return f"slow nodes of different calibrations: a gradient takes {_list(times)} ms"
    return ""


def _why_none(rows: Sequence[Compared], sides: Sequence[_Side], keys: list[str]) -> str:
    """Say why no setting could be compared."""
    reasons = list(dict.fromkeys(row.reason for row in rows if not row.reason.startswith("only")))
    if reasons:
        return "; ".join(reasons[:MOST_VALUES])
    apart = []
    for key in keys:
        before, after = (list(map(plain, side.table[key].unique())) for side in sides)
        if not set(before) & set(after):
            there = (f"{_list(before)} in {sides[0].name}", f"{_list(after)} in {sides[1].name}")
            apart.append(f"{key} {', '.join(there)}")
    return f"no setting in common{': ' * bool(apart)}{'; '.join(apart)}"


def _differences(
    before: pd.DataFrame, after: pd.DataFrame, said: Sequence[str | None]
) -> dict[str, tuple[str, str]]:
    """Return what is not compared and yet differs, as it is part of the answer."""
    found = {}
    for column in configuration(before):
        if column in said or column in ("series", "oversubscribed") or column not in after:
            continue
        values = [_list(table[column].drop_duplicates()) for table in (before, after)]
        if values[0] != values[1]:
            found[column] = (values[0], values[1])
    return found


def _list(values: Any) -> str:
    """Return the first few of some values, in words."""
    words = sorted("unset" if v is None else f"{v:g}" if isinstance(v, float) else str(v)
                   for v in map(plain, values))  # fmt: skip
    comma = "; " if any("," in word for word in words) else ", "
    return comma.join(words[:MOST_VALUES] + ["…"] * (len(words) > MOST_VALUES))
