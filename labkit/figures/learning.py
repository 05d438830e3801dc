"""Learning curves."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from labkit import analysis
from labkit.errors import nearest
from labkit.figures.style import MARKERS, FigureError, canvas, ends, shades, styles
from labkit.figures.words import (
    check_columns,
    describe,
    describe_fixed,
    describe_missing,
    describe_repeats,
    varying_columns,
)

MOST_CELLS = 40


X_LABELS = {
    "updates": "updates of the weights, by all workers",
    "samples": "samples trained on, by each worker",
    "t": "time since the barrier [s]",
}


X = Literal["updates", "samples", "t"]


def learning_curve(number: str, steps: pd.DataFrame, trials: pd.DataFrame, x: str) -> Figure:
    """Draw accuracy on the training batches, a line a configuration."""
    if x not in X_LABELS:
        raise FigureError(f"x: {x!r}{nearest(x, X_LABELS)}; allowed: {', '.join(X_LABELS)}")
    check_columns(trials, "trial", "framework", "workers", "oversubscribed", "status", "overloaded")
    check_columns(steps, "trial", "worker", "steps", "accuracy", x)
    varying = varying_columns(trials)
    lost = (trials["status"] != "finished") | ~trials["trial"].isin(steps["trial"])
    if x == "t":  # Updates and samples are counted rightly even on an overloaded machine.
        lost |= trials["overloaded"].astype(bool)
    title = ["framework", "model", "batch_size", "learning_rate", "workers"]
    with canvas(
        number,
        ["Learning curve", *describe_fixed(trials, [c for c in title if c not in varying])],
        X_LABELS[x],
        "accuracy on training batches [%]",
    ) as page:
        figure, axes, notes = page
        curves = _curves(steps, trials[~lost], varying, x)
        if len(curves):
            _draw_curves(axes, curves, x)
            notes += describe_repeats(
                curves.groupby("line")["trial"].nunique().rename("n").reset_index(), "bands"
            )
        axes.set_ylim(0, 100)
        axes.set_xlim(left=0)
        shared = trials[~lost & trials["oversubscribed"].astype(bool)]
        if len(shared):
            numbers = ", ".join(map(str, sorted(shared["workers"].unique())))
            notes.append(
                f"Oversubscribed: {numbers} workers on fewer cores; these are not the seconds of as "
                "many machines."
                if x == "t"
                else f"{numbers} workers: valid on a oversubscribed machine: counts {x}, not seconds."
            )
        others = [column for column in varying if column not in ("framework", "workers")]
        notes += describe_missing(trials, lost, ["framework", *others, "workers"])
    return figure


def _curves(steps: pd.DataFrame, trials: pd.DataFrame, varying: list[str], x: str) -> pd.DataFrame:
    """Return the learning curves: a row a trial and cell of x, with the line it belongs to."""
    parts = []
    for _, repeats in trials.groupby(varying or ["framework"], dropna=False, sort=True):
        first = repeats.iloc[0]
        runs = [steps[steps["trial"] == trial].sort_values("t") for trial in repeats["trial"]]
        runs = [run for run in runs if run["accuracy"].notna().any()]
        if not runs:
            continue
        # Only as far as all repeats reach, and no finer than the worker that reported most
        # seldom: a jump where a repeat ends, or detail between two reports, would be made up.
        end = min(run[x].max() for run in runs)
        cells = min(MOST_CELLS, *(run.groupby("worker").size().min() for run in runs))
        edges = np.linspace(0, end, cells + 1)
        for run in runs:
            part = pd.DataFrame({x: (edges[1:] + edges[:-1]) / 2})
            part["accuracy"] = _cells(run, x, edges)
            part["trial"] = run["trial"].iloc[0]
            part["framework"] = first["framework"]
            part["line"] = describe(first, varying or ["framework"])
            parts.append(part.dropna())
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _cells(run: pd.DataFrame, x: str, edges: np.ndarray) -> np.ndarray:
    """Return the mean accuracy of all workers' steps in each cell of x.

    Each reported value is a mean over a window of steps, so what is shared out to the cells is
    the sum over the steps: none counts twice, none gets lost.
    """
    taken, gained = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    for _, worker in run.groupby("worker"):
        place = np.append(0, worker[x])
        done = np.append(0, worker["steps"])
        sums = np.append(0, np.cumsum(np.diff(done) * worker["accuracy"]))
        taken += np.diff(np.interp(edges, place, done))
        gained += np.diff(np.interp(edges, place, sums))
    return np.divide(gained, taken, out=np.full_like(gained, math.nan), where=taken > 0)


def _draw_curves(axes: Axes, curves: pd.DataFrame, x: str) -> None:
    """Draw one line a configuration: shades of its framework's colour, each with its marker."""
    palette, markers, dashes = {}, {}, {}
    for framework, style in styles(curves["framework"]).items():
        lines = list(curves.loc[curves["framework"] == framework, "line"].unique())
        for line, colour in zip(lines, shades(style.colour, len(lines)), strict=True):
            palette[line] = colour
            dashes[line] = style.dashes
            first = MARKERS.index(style.marker)
            markers[line] = MARKERS[(first + lines.index(line)) % len(MARKERS)]
    order = [line for line in curves["line"].unique()]
    sns.lineplot(
        curves,
        x=x,
        y="accuracy",
        hue="line",
        hue_order=order,
        style="line",
        style_order=order,
        palette=palette,
        markers=markers,
        dashes=dashes,
        errorbar=lambda values: ends(analysis.interval(values)),
        err_kws={"alpha": 0.15, "linewidth": 0},
        markevery=0.1,
        ax=axes,
    )
    axes.set(xlabel=X_LABELS[x], ylabel="accuracy on training batches [%]")
    axes.legend(title=None)
