"""From a table of trials to rates and speedups by configuration."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from labkit.analysis.equations import MetricError
from labkit.analysis.intervals import (
    Interval,
    geometric_interval,
    interval,
    speedup_interval,
)

if TYPE_CHECKING:
    import pandas as pd

POSITIVE = frozenset(
    {
        "batches_per_second", "samples_per_second", "inference_per_second", "throughput",
        "epoch_s", "duration_s", "window_s", "startup_s", "cpu_ms_per_step", "peak_memory_mb",
        "perplexity",
    }
)  # fmt: skip
"""Columns of rates, times and the like, which are averaged as `geometric_interval` does."""


CIRCUMSTANCES = ("host", "cpu_model", "cores", "congestion_control", "code", "versions")
"""Columns of a table of trials that say where and with what each was run."""


def configuration(table: pd.DataFrame) -> list[str]:
    """Return the columns of a table of trials that tell configurations, not repeats, apart.

    These are all fields of a trial but its seed, the series in a table of one's own, where and
    with what it was run, whether its workers had to share cores, and whether its rate is one that
    a script reported: what differs in any of them is never averaged.
    """
    from labkit.trials import FIELDS

    fields = ("series", *FIELDS, "launcher", *CIRCUMSTANCES, "oversubscribed", "reported")
    return [field for field in dict.fromkeys(fields) if field in table and field != "seed"]


def plain(value: Any) -> Any:
    """Return a value of a table as Python's own: tables say NaN for what is not set."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and math.isnan(value) else value


def settled(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which runs that ended before they told their versions have the others'.

    Where all others of the same framework agree, that is: a failed repeat belongs beside those
    that did not fail.
    """
    if not {"framework", "versions"} <= set(table):
        return table
    known = table["versions"].where(table["versions"] != "")
    by = known.groupby(table["framework"])
    only = by.transform("first").where(by.transform("nunique") == 1)
    return table.assign(versions=known.fillna(only).fillna(""))


def latest(table: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
    """Return the rows that agree, in some columns, with the one that started last.

    Columns that an earlier version did not have are left out; of runs that do not say when they
    started, any other is later.
    """
    names = [name for name in columns if name in table]
    if not names or "started" not in table or table.empty:
        return table
    started = table["started"].fillna("").to_numpy()
    last = table[names].iloc[max(range(len(table)), key=lambda i: (started[i], i))]
    alike = (table[names] == last) | (table[names].isna() & last.isna())
    return table[alike.all(axis="columns")]


def unevaluated(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of trials that were not evaluated if there are any, else all.

    These were run for their rates; what else was run in the same setting was run to see what it
    learns, often much longer and somewhere else.
    """
    if "eval_samples" not in table:
        return table
    without = table[table["eval_samples"] == 0]
    return without if len(without) else table


def summarise(
    table: pd.DataFrame, metric: str = "batches_per_second", level: float = 0.95
) -> pd.DataFrame:
    """Average one column of a table of trials over repeats.

    Parameters
    ----------
    table : DataFrame
        One row per trial.
    metric : str
        The column.
    level : float
        Of confidence.

    Returns
    -------
    DataFrame
        One row per configuration, sorted: its columns, then ``mean``, ``low``, ``high``, and
        ``n``, the number of repeats that yielded a number. Without any, the three are NaN. The
        mean of a rate or a time is the geometric one; no interval reaches below zero.

    Raises
    ------
    MetricError
        If the table has no such column.
    """
    import pandas as pd

    _need(table, metric, "workers")
    table, by = settled(table), configuration(table)
    rows = []
    for key, group in _groups(table, by):
        values = group[metric].dropna().to_numpy(float)
        if not values.size:
            found = _NOTHING
        elif metric in POSITIVE:
            found = geometric_interval(values, level)
        else:
            found = interval(values, level, least=0.0 if values.min() >= 0 else -math.inf)
        rows.append((*key, *_row(found)))
    return pd.DataFrame(rows, columns=[*by, "mean", "low", "high", "n"])


def speedups(
    table: pd.DataFrame, metric: str = "batches_per_second", level: float = 0.95
) -> pd.DataFrame:
    """Compare each configuration's throughput with that of the same with one worker.

    Oversubscribed configurations are left out: with fewer cores than workers and servers need, a
    machine cannot show how a job scales.

    Parameters
    ----------
    table : DataFrame
        One row per trial.
    metric : str
        The column that holds the rate.
    level : float
        Of confidence.

    Returns
    -------
    DataFrame
        One row per configuration, sorted: its columns, then ``speedup``, ``low``, ``high`` and
        ``n``, the repeats of the rarer of the two. Of one worker it is 1, by definition. The
        three are NaN where either of the two rates was not measured.

    Raises
    ------
    MetricError
        If the table lacks a column, or has one worker with several numbers of servers, so that
        it is not clear with which to compare.
    """
    import pandas as pd

    _need(table, metric, "workers", "oversubscribed")
    table, by = settled(table), configuration(table)
    # Servers come with the workers in some frameworks, so they do not tell two curves apart.
    same = [column for column in by if column not in ("workers", "servers")]
    rows = []
    for _, curve in _groups(table[~table["oversubscribed"].astype(bool)], same):
        ones = curve[curve["workers"] == 1]
        if "servers" in ones and ones["servers"].nunique() > 1:
            raise MetricError(
                f"servers: {sorted(ones['servers'].unique())} with one worker; "
                "keep the trials of one of them, to compare the others with"
            )
        rates_of_one = ones[metric].dropna().to_numpy(float)
        for key, group in _groups(curve, by):
            rates = group[metric].dropna().to_numpy(float)
            if not (rates.size and rates_of_one.size):
                found = _NOTHING
            elif group["workers"].iloc[0] == 1:
                found = Interval(1.0, 1.0, 1.0, rates.size)
            else:
                found = speedup_interval(rates, rates_of_one, level)
            rows.append((*key, *_row(found)))
    return pd.DataFrame(rows, columns=[*by, "speedup", "low", "high", "n"])


_NOTHING = Interval(math.nan, math.nan, math.nan, 0)


def _row(found: Interval) -> tuple[float, float, float, int]:
    return found.mean, found.low, found.high, found.n


def _groups(table: pd.DataFrame, by: list[str]):
    # A field that was not set (None) is a value like any other.
    return table.groupby(by, dropna=False, sort=True)


def _need(table: pd.DataFrame, *columns: str) -> None:
    missing = [column for column in columns if column not in table]
    if missing:
        raise MetricError(
            f"the table has no column {', '.join(missing)}; give the table of trials"
        )
