"""What figures say in words: titles, labels, and what is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from labkit import analysis
from labkit.figures.style import NAMES, FigureError


def describe_repeats(summary: pd.DataFrame, what: str) -> list[str]:
    """Say of how many repeats the points are, and what their bars or bands are."""
    counts = sorted(set(summary.loc[summary["n"] > 0, "n"]))
    if not counts:
        return []
    if counts == [1]:
        return ["One run each (n = 1): no intervals."]
    n = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    none = "; none where n = 1" if counts[0] == 1 else ""
    return [f"Means of n = {n} repeats; {what}: 95 % intervals{none}."]


def describe_missing(trials: pd.DataFrame, lost: pd.Series, by: list[str]) -> list[str]:
    """Name what is missing in the figure, and why; values of the last column in one list."""
    *head, last = by
    found: dict[tuple[str, str], list[Any]] = {}
    for _, group in trials.groupby(by, dropna=False, sort=True):
        gone = group[lost[group.index]]
        if gone.empty:
            continue
        overloaded = (gone["status"] == "finished") & gone["overloaded"].astype(bool)
        reasons = gone["status"].mask(overloaded, "overloaded")
        reasons = sorted(set(reasons.replace("finished", "no number")))
        some = f"{len(gone)} of {len(group)} repeats " if len(gone) < len(group) else ""
        why = f"{some}{', '.join(reasons)}"
        first = group.iloc[0]
        found.setdefault((describe(first, head), why), []).append(first[last])
    parts = [
        f"{what}, {last.replace('_', ' ')} {', '.join(map(str, values))} ({why})"
        for (what, why), values in found.items()
    ]
    return [f"Not measured: {'; '.join(parts)}."] if parts else []


def describe(trial: pd.Series, columns: list[str]) -> str:
    """Return some values of a trial as people say them."""
    said = []
    for column in columns:
        value = trial[column]
        if column in ("framework", "model"):
            said.append(NAMES.get(value, value))
        elif column == "workers":
            said.append(f"{value} worker{'s' if value > 1 else ''}")
        else:
            word = {"batch_size": "batch", "learning_rate": "rate"}.get(column, column)
            said.append(f"{word.replace('_', ' ')} {value}")
    return ", ".join(said)


def describe_fixed(trials: pd.DataFrame, columns: list[str]) -> list[str]:
    """Return what is the same in all trials, for a title."""
    columns = [c for c in columns if c in trials and trials[c].nunique(dropna=False) == 1]
    return [describe(trials.iloc[0], [column]) for column in columns]


def varying_columns(trials: pd.DataFrame) -> list[str]:
    """Return the columns that tell the lines of a learning curve apart."""
    varying = [
        column
        for column in analysis.configuration(trials)
        if column != "oversubscribed" and trials[column].nunique(dropna=False) > 1
    ]
    for column in ("servers", "steps", "epochs"):
        others = [other for other in varying if other != column]
        if column in varying and others:
            # Servers that come with the workers, say, tell nothing that the workers do not.
            follows = trials.groupby(others, dropna=False)[column].nunique(dropna=False) == 1
            varying = others if follows.all() else varying
    return varying


def only(trials: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """Return the trials with these values, or with one of several."""
    check_columns(trials, *values)
    for column, value in values.items():
        kept = trials[trials[column].isin(np.atleast_1d(value))]
        if kept.empty:
            there = ", ".join(map(str, sorted(trials[column].unique())))
            raise FigureError(
                f"{column}: the table has only {there}, which this figure does not show; "
                "give it the trials that it shows"
            )
        trials = kept
    return trials


def check_columns(table: pd.DataFrame, *columns: str) -> None:
    missing = [column for column in columns if column not in table]
    if missing and len(table.columns):
        raise FigureError(f"the table has no column {', '.join(missing)}: is it another table?")
    if table.empty:
        raise FigureError("the table is empty: there is nothing to draw; run the trials first")


def check_one_value_per_point(summary: pd.DataFrame, x: str) -> None:
    """Refuse tables in which several configurations would fall on one point."""
    for (framework, value), rows in summary.groupby(["framework", x]):
        varying = [c for c in analysis.configuration(rows) if rows[c].nunique(dropna=False) > 1]
        if varying:
            values = ", ".join(map(str, rows[varying[0]].unique()))
            raise FigureError(
                f"{varying[0]}: {values}, of {NAMES.get(framework, framework)} with {x} {value}: "
                "a point shows one configuration; select one"
            )
