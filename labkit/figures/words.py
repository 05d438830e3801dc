"""What figures say in words: titles, labels, and what is missing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import pandas as pd

from labkit.trials.frameworks import FRAMEWORKS
from labkit.trials.models import MODELS
from labkit.trials.trial import Trial

NODES: dict[str, tuple[Callable[[float], str], str]] = {
    "slowdown": ("slow nodes (computing takes {:g} times as long)".format, "nodes of today"),
    "slowdown_spread": ("the last {:g} times as slow as the first".format, "all alike"),
    "cpu": ("{:g} of a core each".format, "whole cores"),
    "bandwidth": (lambda bits: f"{bits / 1e6:g} Mbit/s each", "the network as it is"),
}
"""Columns that say how slow nodes are: what a value is in words, and none."""


def name_of(value: str) -> str:
    """Return what figures call a framework or a model: its title; of a model's file the stem."""
    row = FRAMEWORKS.get(value) or MODELS.get(value)
    return row.title if row else PurePath(value).stem


NAMES = ("series", "strategy", "optimizer", "launcher", "dataset", "cpu_model", "versions")
"""Columns whose values say by themselves what they are."""


def describe(values: pd.Series | dict[str, Any], columns: list[str]) -> str:
    """Return some values of a trial in words."""
    words = []
    for column in columns:
        value = values[column]
        if column in ("framework", "model"):
            words.append(name_of(value))
        elif column in NODES:
            words.append(NODES[column][1] if pd.isna(value) else NODES[column][0](value))
        elif column in ("workers", "servers"):
            words.append(f"{value} {column if value != 1 else column[:-1]}")
        elif column in NAMES:
            words.append(str(value))
        else:
            word = {"batch_size": "batch", "learning_rate": "rate"}.get(column, column)
            said = "none" if pd.isna(value) else value if value != "" else "unknown"
            words.append(f"{word.replace('_', ' ')} {said}")
    return ", ".join(words)


def describe_fixed(trials: pd.DataFrame, columns: list[str]) -> list[str]:
    """Return what is the same in all trials, for a title."""
    columns = [c for c in columns if c in trials and trials[c].nunique(dropna=False) == 1]
    unknown = {name for name in ("batch_size", "optimizer") if name in trials}  # as a script's
    columns = [c for c in columns if c not in unknown or trials[c].notna().any()]
    return [describe(trials.iloc[0], [column]) for column in columns]


def titled(title: str | None, kind: str, trials: pd.DataFrame, columns: list[str]) -> str:
    """Return a figure's title: the one that was asked for, with what is fixed for ``{}``.

    Slow nodes are named in any case: nobody is to take their rates for those of today's. A
    strategy or an optimizer goes without saying only if it is the one that trials have by default.
    """
    for name in ("strategy", "optimizer"):
        if name in trials and Trial.model_fields[name].default not in set(trials[name]):
            columns = [*columns, name]
    derived = ", ".join([kind, *describe_fixed(trials, columns)])
    title = derived if title is None else title.replace("{}", derived)
    slow = describe_fixed(trials.dropna(axis="columns", how="any"), list(NODES))
    return "\n".join([title, *filter(None, [", ".join(slow)])])


def describe_repeats(summary: pd.DataFrame, what: str, means: str = "Means") -> list[str]:
    """Say of how many repeats the points are means, and what their bars or bands are."""
    counts = sorted(set(summary.loc[summary["n"] > 0, "n"]))
    if not counts:
        return []
    if counts == [1]:
        return ["One run each (n = 1): no intervals."]
    n = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    none = "; none where n = 1" if counts[0] == 1 else ""
    return [f"{means} of n = {n} repeats; {what}: 95 % intervals{none}."]


def describe_reported(trials: pd.DataFrame) -> list[str]:
    """Name the scripts whose rates are their own words."""
    if "reported" not in trials:
        return []
    names = sorted(map(name_of, trials.loc[trials["reported"].astype(bool), "model"].unique()))
    return [f"Not measured, but reported by the script: {', '.join(names)}."] if names else []


def describe_missing(trials: pd.DataFrame, lost: pd.Series, by: list[str]) -> list[str]:
    """Name what is missing in the figure, and why; values of the last column in one list."""
    *head, last = by
    found: dict[tuple[str, str], list[Any]] = {}
    for _, group in trials.groupby(by, dropna=False, sort=True):
        gone = group[lost[group.index]]
        if gone.empty:
            continue
        reasons = sorted(set(_reasons(gone)))
        some = f"{len(gone)} of {len(group)} repeats " if len(gone) < len(group) else ""
        why = f"{some}{', '.join(reasons)}"
        first = group.iloc[0]
        found.setdefault((describe(first, head), why), []).append(first[last])
    parts = [
        f"{what}, {last.replace('_', ' ')} {', '.join(map(str, values))} ({why})"
        for (what, why), values in found.items()
    ]
    return [f"Not measured: {'; '.join(parts)}."] if parts else []


CAUSES = {
    "overloaded": "the machine was too busy",
    "diverged": "the loss was no longer a number",
    "failed": "the trials failed",
    "no number": "the trials reported no number",
}


def why_missing(trials: pd.DataFrame, lost: pd.Series) -> str:
    """Say why there is nothing to draw, where all trials are lost."""
    reasons = dict.fromkeys(_reasons(trials[lost]))
    return "; ".join(CAUSES.get(reason, reason) for reason in reasons)


def _reasons(gone: pd.DataFrame) -> pd.Series:
    overloaded = (gone["status"] == "finished") & gone["overloaded"].astype(bool)
    return gone["status"].mask(overloaded, "overloaded").replace("finished", "no number")
