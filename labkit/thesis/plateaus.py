"""The plateau with which a learning curve may begin: how long it is, and what makes it so."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pandas as pd

from labkit.figures.words import name_of
from labkit.thesis.rates import Finding
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


def beside(
    table: pd.DataFrame, batch_size: int, workers: Sequence[int], guess: Sequence[float] | None
) -> Finding:
    """Return how long the plateaus of a batch size are, beside a guess and a prediction.

    Predicted is that they take as many updates as with the other batch sizes. Of so many updates
    each worker does its share, in batches: ``updates * batch_size / workers`` images.

    Parameters
    ----------
    table : DataFrame
        What `plateaus` returns, by ``batch_size`` and ``workers``.
    batch_size : int
    workers : sequence of int
        Those of the trials with this batch size.
    guess : sequence of float or None
        One for each of them, in images of each worker.
    """
    left = table[_left(table)]
    sizes = left.index.get_level_values("batch_size")
    updates = left.loc[sizes != batch_size, "updates"].mean()
    found = pd.DataFrame(index=pd.Index(workers, name="workers"))
    if guess:
        found["guess"] = guess
    found["predicted"] = [updates * batch_size / n for n in workers]
    seen = left.loc[sizes == batch_size, "samples"].droplevel("batch_size")
    found["measured"] = [float(seen.get(n, math.nan)) for n in workers]
    for column in list(found)[:-1]:
        found[f"{column} off [%]"] = 100 * (found[column] / found["measured"] - 1)
    lost = ", ".join(map(str, found.index[found["measured"].isna()]))
    return Finding(
        f"After how many images of each worker does the plateau of batch {batch_size} end?",
        found.astype(float).round(1),
        " ".join(filter(None, [
            "No prediction: no trial with another batch size was seen to leave a plateau."
            if math.isnan(updates) else
            f"Predicted from {updates:.0f} updates, the mean of the other batch size.",
            lost and f"Not measured with {lost} (workers): no plateau, or no end of it.",
        ])),
    )  # fmt: skip


def with_more(table: pd.DataFrame, guess: float | None) -> Finding:
    """Return how much longer plateaus are with the most workers than with the fewest, in updates.

    Predicted is that they are equally long: that an old gradient is worth as much as a new one.

    Parameters
    ----------
    table : DataFrame
        What `plateaus` returns, by ``framework`` and ``workers``.
    guess : float or None
        How many times as many updates a reader expects.
    """
    if table.empty:
        return Finding("How much longer are plateaus with more workers?", table, "Not measured.")
    counts = table.index.get_level_values("workers")
    fewest, most = counts.min(), counts.max()
    updates = table["updates"].where(_left(table)).unstack("workers").astype(float)
    found = pd.DataFrame({"guess": guess} if guess else {}, index=updates.index)
    found["predicted"] = 1.0
    found["measured"] = updates[most] / updates[fewest]
    lost = ", ".join(map(name_of, found.index[found["measured"].isna()]))
    return Finding(
        f"How many times as many updates as with {fewest} does the plateau take with {most}?",
        found.astype(float).round(2),
        lost and f"Not measured: {lost}, as not both of its trials were seen to leave a plateau.",
    )


def _left(table: pd.DataFrame) -> pd.Series:
    """Return which trials had a plateau, and left it."""
    return (table["updates"] > 0) & (table["share"] < WHOLE)


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
    left = table[_left(table)]
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
