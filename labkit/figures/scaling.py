"""Throughput, time for an epoch, and speedup over workers."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from labkit import analysis
from labkit.figures.style import HOLLOW, NAMES, canvas, errorbar, frame, legend, side_by_side
from labkit.figures.words import (
    check_columns,
    check_one_value_per_point,
    describe_fixed,
    describe_missing,
    describe_repeats,
)


def throughput(number: str, trials: pd.DataFrame) -> Figure:
    return _points(
        number, "Throughput", trials, "batches_per_second", "workers", "batches per second"
    )


def epoch_time(number: str, trials: pd.DataFrame, x: str) -> Figure:
    title = "Duration" if x == "workers" else "Duration with 1 worker"
    label = "time for one epoch [s]\n(from the measured rate)"
    return _points(number, title, trials, "epoch_s", x, label)


def _points(
    number: str, title: str, trials: pd.DataFrame, metric: str, x: str, label: str
) -> Figure:
    """Draw one metric over workers or batch sizes, a line a framework."""
    check_columns(trials, metric, x, "framework", "workers", "oversubscribed", "status", "overloaded")
    summary = analysis.summarise(trials, metric)
    check_one_value_per_point(summary, x)
    values = sorted(summary[x].unique())
    # Batch sizes are compared, not measured along an axis: they stand side by side.
    at = {value: value if x == "workers" else i for i, value in enumerate(values)}
    fixed = ["model"] if x == "batch_size" else ["model", "batch_size"]
    with canvas(number, [title, *describe_fixed(trials, fixed)], x.replace("_", " "), label) as page:
        figure, axes, notes = page
        for framework, style, aside in side_by_side(summary["framework"]):
            rows = summary[summary["framework"] == framework]
            shared = rows["oversubscribed"].astype(bool)
            place = rows[x].map(at)
            name = NAMES.get(framework, framework)
            errorbar(axes, place[~shared], rows[~shared], style, aside, name)
            errorbar(axes, place[shared], rows[shared], style, aside)
        frame(axes, at)
        shared = summary["oversubscribed"].astype(bool).any()
        legend(axes, [HOLLOW] if shared else [])
        notes += describe_repeats(summary, "bars")
        if shared:
            notes.append("Oversubscribed points say nothing about scaling: no line joins them.")
        notes += describe_missing(trials, trials[metric].isna(), ["framework", x])
    return figure


def speedup(number: str, trials: pd.DataFrame) -> Figure:
    """Draw the speedup over workers, a line a framework, beside the ideal one."""
    rate = "batches_per_second"
    check_columns(trials, rate, "framework", "workers", "oversubscribed", "status", "overloaded")
    summary = analysis.speedups(trials, rate).rename(columns={"speedup": "mean"})
    check_one_value_per_point(summary, "workers")
    with canvas(
        number, ["Speedup", *describe_fixed(trials, ["model", "batch_size"])], "workers", "speedup"
    ) as page:
        figure, axes, notes = page
        most = summary["workers"].max() if len(summary) else 1
        ideal = {"color": "0.45", "linewidth": 1, "linestyle": (0, (6, 3)), "zorder": 1}
        for framework, style, aside in side_by_side(summary["framework"]):
            rows = summary[summary["framework"] == framework]
            name = NAMES.get(framework, framework)
            errorbar(axes, rows["workers"], rows, style, aside, name)
        if summary["mean"].notna().any():
            axes.plot([1, most], [1, most], label="ideal", **ideal)
        frame(axes, {value: value for value in sorted(summary["workers"].unique())})
        legend(axes)
        notes += describe_repeats(summary[summary["workers"] > 1], "bars")
        shared = trials[trials["oversubscribed"].astype(bool)]
        if len(shared):
            numbers = ", ".join(map(str, sorted(shared["workers"].unique())))
            notes.append(f"Left out, oversubscribed (more workers than cores): {numbers} workers.")
        notes += describe_missing(trials, trials[rate].isna(), ["framework", "workers"])
        for framework, rows in trials.groupby("framework"):
            if not rows.loc[rows["workers"] == 1, rate].notna().any():
                name = NAMES.get(framework, framework)
                notes.append(f"No speedup of {name}: its rate with one worker is not measured.")
    return figure
