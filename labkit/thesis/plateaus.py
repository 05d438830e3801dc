"""The plateau with which a learning curve may begin: how long it is, and what makes it so."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from labkit.thesis.thresholds import LOW

WHOLE = 95
"""Percent of a trial from which on its plateau is as long as the trial."""

UNITS = ("updates", "steps", "samples")


def plateaus(steps: pd.DataFrame, by: list[str], below: float = LOW) -> pd.DataFrame:
    """Return how much work passed until the last report of less than 20 %.

    Parameters
    ----------
    steps : DataFrame
        One row per report of a worker; empty if no trial reported anything.
    by : list of str
        The fields that tell trials apart.
    below : float
        Another accuracy than 20, in percent.

    Returns
    -------
    DataFrame
        A row for each group: ``updates``, ``steps`` and ``samples``, which are 0 if no report was
        that low, and ``share`` of the whole trial in percent, 100 if it never left its plateau.
    """
    if steps.empty:
        none = pd.MultiIndex.from_tuples([], names=by)
        return pd.DataFrame(columns=[*UNITS, "share"], index=none, dtype=int)
    groups = steps.groupby(by)
    low = steps[steps["accuracy"] < below].groupby(by)[list(UNITS)].max()
    low = low.reindex(groups.size().index).fillna(0)
    return low.assign(share=100 * low["updates"] / groups["updates"].max()).round().astype(int)


class Said(tuple[str, ...]):
    """Some sentences, one a line."""

    def __repr__(self) -> str:
        return "\n".join(self)


def ratios(table: pd.DataFrame) -> Said:
    """Say by how much the plateaus of trials differ, in each unit of work.

    Parameters
    ----------
    table : DataFrame
        What `plateaus` returns.
    """
    return Said(_ratios(table))


def _ratios(table: pd.DataFrame) -> Iterator[str]:
    began = table[table["updates"] > 0]
    left = began[began["share"] < WHOLE]
    if len(table) > len(began):
        yield f"{len(table) - len(began)} of {len(table)} trials had no plateau at all."
    if len(began) > len(left):
        yield f"{len(began) - len(left)} of {len(table)} trials never left their plateau."
    if len(left) < 2:
        yield f"{len(left)} left one: there are no two plateaus to compare."
        return
    for unit in UNITS:
        times = left[unit].max() / left[unit].min()
        yield f"{unit}: the longest plateau is {times:.1f} times the shortest"
