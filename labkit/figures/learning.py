"""Learning curves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from labkit import analysis
from labkit.errors import nearest
from labkit.figures.page import Figure, canvas
from labkit.figures.scaling import Columns
from labkit.figures.selection import FigureError, Split, check_columns, tables
from labkit.figures.style import Style, style
from labkit.figures.words import describe, describe_missing, describe_repeats, titled, why_missing

MOST_CELLS = 40
"""Points of a curve, at most."""

X_LABELS = {
    "updates": "updates of the weights, by all workers",
    "samples": "samples trained on, by each worker",
    "t": "time since the barrier [s]",
}

Y_LABEL = "accuracy on training batches [%]"


def learning_curve(
    results: Any,
    *,
    x: str = "updates",
    lines: Columns = None,
    panels: Columns = None,
    title: str | None = None,
) -> Figure:
    """Draw the accuracy on training batches while a model learns.

    Parameters
    ----------
    results : object
        What `measure` returned: with ``table`` and ``steps``.
    x : str
        ``updates`` of the weights by all workers, ``samples`` of each worker, or ``t``, seconds
        since the barrier.
    lines, panels : str or sequence of str, optional
        The fields that tell lines apart, beside the framework, and panels. By default whatever
        varies is a line.
    title : str, optional
        Instead of one that says what is the same in all trials; ``{}`` in it stands for that one.

    Returns
    -------
    Figure
        Lines are means over workers and repeats, bands 95 % intervals over repeats.

    Raises
    ------
    FigureError
        If there is nothing to draw, a column does not exist, or several configurations would
        share a line.
    """
    if x not in X_LABELS:
        raise FigureError(f"x: {x!r}{nearest(x, X_LABELS)}; allowed: {', '.join(X_LABELS)}")
    chosen = tables(results)
    trials, steps = chosen.table, chosen.steps
    if len(steps):
        check_columns(steps, "trial", "worker", "steps", "accuracy", x)
    split = Split.of(trials, None, lines, panels)
    known = steps[["accuracy", x]].notna().all(axis="columns") if len(steps) else None
    reported = set(steps.loc[known, "trial"]) if len(steps) else set()
    lost = (trials["status"] != "finished") | ~trials["trial"].isin(reported)
    if x == "t":  # Updates and samples are counted rightly even on an overloaded machine.
        lost |= trials["overloaded"].astype(bool)
    named = [c for c in split.lines if trials[c].nunique(dropna=False) > 1] or ["framework"]
    fixed = ["framework", "model", "batch_size", "learning_rate", "workers"]
    heading = titled(title, "Learning curve", trials, [c for c in fixed if c not in named])
    panel_titles = [describe(values, list(values)) for values, _ in split.parts()]
    with canvas(heading, X_LABELS[x], Y_LABEL, panel_titles) as page:
        counts = []
        for axes, (_, part) in zip(page.panels, split.parts(), strict=True):
            for values, repeats in split.curves(part[~lost[part.index]]):
                curve = _curve(steps[steps["trial"].isin(repeats["trial"])], x)
                how = style(split.configuration(repeats))
                _draw(axes, curve, how, describe(values, named))
                counts.append(len(repeats))
            axes.set_ylim(0, 100)
            axes.set_xlim(left=0)
        page.legend()
        page.why = why_missing(trials, lost)
        page.notes += describe_repeats(pd.DataFrame({"n": counts}), "bands") if counts else []
        page.notes += _oversubscribed(trials[~lost], x)
        others = [c for c in (*split.panels, *split.lines) if c not in ("framework", "workers")]
        page.notes += describe_missing(trials, lost, ["framework", *others, "workers"])
        page.notes += chosen.notes
    return page.figure


def _oversubscribed(trials: pd.DataFrame, x: str) -> Iterator[str]:
    """Say what oversubscribed trials can tell in this figure."""
    shared = trials[trials["oversubscribed"].astype(bool)]
    counts = ", ".join(map(str, sorted(shared["workers"].unique())))
    if counts and x == "t":
        yield (
            f"Oversubscribed (more workers and dedicated servers than cores): {counts} workers; "
            "these are not the seconds of as many machines."
        )
    elif counts:
        yield f"{counts} workers: valid on an oversubscribed machine: counts {x}, not seconds."


def _curve(steps: pd.DataFrame, x: str) -> pd.DataFrame:
    """Return one line: x, and the mean over repeats with the ends of its interval.

    It goes only as far as all repeats reach, and is no finer than the reports of the worker that
    has the fewest: a jump where a repeat ends, or detail between two reports, would be made up.
    """
    runs = [run.sort_values("t") for _, run in steps.groupby("trial", sort=True)]
    end = min(run[x].max() for run in runs)
    cells = min(MOST_CELLS, *(run.groupby("worker").size().min() for run in runs))
    edges = np.linspace(0, end, cells + 1)
    values = np.array([_cells(run, x, edges) for run in runs])
    rows = [
        (place, found.mean, found.low, found.high)
        for place, column in zip((edges[1:] + edges[:-1]) / 2, values.T, strict=True)
        if np.isfinite(column).all()
        for found in [analysis.interval(column)]
    ]
    return pd.DataFrame(rows, columns=["x", "mean", "low", "high"])


def _cells(run: pd.DataFrame, x: str, edges: np.ndarray) -> np.ndarray:
    """Return the mean accuracy of all workers' steps in each cell of x.

    Each reported value is a mean over a window of steps, so what is shared out to the cells is
    the sum over the steps: none counts twice, none gets lost.

    Parameters
    ----------
    run : DataFrame
        The step windows of a trial's workers, in the order of time.
    x : str
    edges : array of float, shape (cells + 1,)
        In the unit of x.

    Returns
    -------
    array of float, shape (cells,)
        Percent; NaN where no step was taken.
    """
    taken, gained = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    for _, worker in run.groupby("worker"):
        place = np.append(0, worker[x])
        done = np.append(0, worker["steps"])
        sums = np.append(0, np.cumsum(np.diff(done) * worker["accuracy"]))
        taken += np.diff(np.interp(edges, place, done))
        gained += np.diff(np.interp(edges, place, sums))
    return np.divide(gained, taken, out=np.full_like(gained, math.nan), where=taken > 0)


def _draw(axes: Axes, curve: pd.DataFrame, how: Style, label: str) -> None:
    axes.plot(
        curve["x"],
        curve["mean"],
        color=how.colour,
        linestyle=how.line,
        linewidth=how.width,
        marker=how.marker,
        markevery=0.1 if len(curve) > 1 else None,
        markeredgecolor="white",
        markeredgewidth=0.6,
        label=label,
    )
    if curve["low"].notna().any():
        axes.fill_between(curve["x"], curve["low"], curve["high"], color=how.colour, alpha=0.15,
                          linewidth=0)  # fmt: skip
