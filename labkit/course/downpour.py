"""Chapter 7.1: one process against several workers, plain against adaptive learning rates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from labkit import analysis
from labkit.course.diagrams import COLOURS, sheet
from labkit.figures.page import Figure
from labkit.figures.scaling import errorbar
from labkit.figures.selection import LENGTHS, tables
from labkit.figures.style import style
from labkit.figures.words import describe_fixed, name_of
from labkit.thesis.rates import Finding
from labkit.trials import Sweep

ALONE = "alone"
"""What stands in place of a number of workers where one process trains without servers."""

IMAGES = 1000
"""The last images over which the accuracy is a mean: fewer would reach a target by chance."""

REACHED = ["updates to target", "seconds to target"]

COLUMNS = {
    "duration_s": "seconds in all",
    "inference_per_second": "images/s judged",
    "accuracy": "accuracy [%]",
}
"""Of a table of trials, by the names that they have in the comparison."""

PANELS = {
    "seconds to target": "training time [s]",
    "images/s judged": "inference [images/s]",
    "accuracy [%]": "test accuracy [%]",
}
"""Of the figure: what is drawn, and what it is called there."""

HOLLOW = {"color": "0.3", "marker": "o", "markerfacecolor": "white", "linestyle": "none"}

BY = ["framework", "optimizer", "learning_rate"]


def sweep(
    rates: Mapping[str, float], updates: int, workers: Sequence[int], **grid: Any
) -> Sweep:
    """Return trials that share the same number of updates among their workers.

    Parameters
    ----------
    rates : mapping of str to float
        The learning rate of each optimizer.
    updates : int
        Of the weights, by all workers together.
    workers : sequence of int
    **grid
        The other arguments of `Sweep.grid`: a list is an axis of the grid.
    """
    return Sweep(
        [
            trial
            for optimizer, rate in rates.items()
            for count in workers
            for trial in Sweep.grid(
                optimizer=optimizer, learning_rate=rate, workers=count, steps=updates // count,
                **grid,
            )
        ]
    )  # fmt: skip


# --- how long until it is good enough -----------------------------------------------------


def reached(steps: pd.DataFrame, target: float, images: int = IMAGES) -> pd.DataFrame:
    """Return after how many updates and seconds trials first have an accuracy.

    It is that on training batches, as a mean over the last images of all workers together.

    Parameters
    ----------
    steps : DataFrame
        One row per report of a worker; empty if no trial reported anything.
    target : float
        Percent.
    images : int

    Returns
    -------
    DataFrame
        By ``trial``: ``updates to target`` and ``seconds to target``; NaN where it was missed.
    """
    rows = {}
    for name, run in steps.groupby("trial") if len(steps) else ():
        run = run.sort_values("t")
        taken = run.groupby("worker")["samples"].diff().fillna(run["samples"])
        done = np.append(0, taken.cumsum())
        right = np.append(0, (taken * run["accuracy"]).cumsum())
        # Of each report, where the images begin of which the accuracy is the mean.
        begin = np.searchsorted(done, done[1:] - images, side="right") - 1
        whole = begin >= 0
        mean = (right[1:] - right[begin]) / (done[1:] - done[begin])
        hits = np.flatnonzero(whole & (mean >= target))
        first = run.iloc[hits[0]] if len(hits) else {"updates": math.nan, "t": math.nan}
        rows[name] = [first["updates"], first["t"]]
    found = pd.DataFrame.from_dict(rows, orient="index", columns=REACHED, dtype=float)
    return found.rename_axis("trial")


def _judged(results: Any, target: float) -> pd.DataFrame:
    """Return the table of trials with what they are compared by."""
    chosen = tables(results)
    found = chosen.table.join(reached(chosen.steps, target), on="trial")
    for column, name in COLUMNS.items():
        found[name] = found.get(column, math.nan)
    overloaded = found["overloaded"].astype(bool)
    found.loc[overloaded, ["seconds to target", "seconds in all"]] = math.nan
    return found


def _place(table: pd.DataFrame) -> pd.Series:
    """Return the number of workers; 0 without servers."""
    return table["workers"].where(table["strategy"] != "single", 0)


def compared(results: Any, target: float) -> Finding:
    """Return training time, inference and accuracy side by side.

    Parameters
    ----------
    results : object
        What `measure` returned.
    target : float
        The accuracy on training batches whose seconds count, in percent.
    """
    judged = _judged(results, target)
    judged = judged.assign(place=_place(judged))
    means = judged.groupby([*BY, "place"])[[*REACHED, *COLUMNS.values()]].mean()
    shared = judged.groupby([*BY, "place"])["oversubscribed"].any()
    table = means.round(1).assign(cores=np.where(shared.astype(bool), "shared", "own"))
    table.index = pd.MultiIndex.from_tuples(
        [(name_of(framework), *how, place or ALONE) for framework, *how, place in table.index],
        names=[*BY, "workers"],
    )  # fmt: skip
    missed = table[REACHED[0]].isna().sum()
    return Finding(
        f"How long until {target:g} % of the training images are right, and how good in the end?",
        table,
        f"{ALONE}: one process without servers. Where cores are shared there were more workers "
        "and servers than cores: seconds are those of this machine, not of so many machines; "
        "updates and accuracies are valid."
        + f" {missed} of {len(table)} did not reach the target." * bool(missed),
    )


def figure(title: str, results: Any, target: float) -> Figure:
    """Draw training time, inference and accuracy over the number of workers: figure 7.1.

    Parameters
    ----------
    title : str
        With its number; ``{}`` in it stands for what is the same in all trials.
    results : object
        What `measure` returned.
    target : float
        As of `compared`.
    """
    judged = _judged(results, target)
    places = sorted(_place(judged).unique())
    at = {place: i for i, place in enumerate(places)}
    same = ["model", "dataset", "batch_size"]
    same += ["slowdown"] if judged["slowdown"].notna().any() else []
    title = title.replace("{}", ", ".join(describe_fixed(judged, same)))
    with sheet(title, 2.9, list(PANELS.values()), plots=True) as (drawn, panels):
        for axes, column in zip(panels, PANELS, strict=True):
            _panel(axes, judged, column, at)
            axes.set_xticks(list(at.values()), [str(place or ALONE) for place in at])
            highest = 100 if PANELS[column].endswith("[%]") else None
            axes.set(xlabel="workers", xlim=(-0.4, len(at) - 0.6), ylim=(0, highest))
        panels[0].set_title(f"seconds until {target:g} %", fontsize=9)
        handles, _ = panels[0].get_legend_handles_labels()
        if judged["oversubscribed"].astype(bool).any():
            handles.append(Line2D([], [], label="hollow: shared cores", **HOLLOW))
        drawn.legend(handles=handles, loc="outside lower center", ncols=2)
    return drawn


def _panel(axes: Axes, judged: pd.DataFrame, column: str, at: Mapping[int, int]) -> None:
    """Draw a column: points of one line are joined where each worker had a core."""
    groups = list(judged.groupby(BY))
    for i, (key, rows) in enumerate(groups):
        summary = analysis.summarise(rows, column)
        shared = summary["oversubscribed"].astype(bool)
        place = _place(summary).map(at)
        unsaid = ("workers", "servers", "strategy", "launcher", *LENGTHS)
        fields = [each for each in analysis.configuration(summary)
                  if each not in (*unsaid, *analysis.CIRCUMSTANCES, "oversubscribed")]  # fmt: skip
        how = style(summary.iloc[0][fields].to_dict())
        framework, optimizer, rate = key
        label = f"{name_of(framework)}, {optimizer}, rate {rate:g}"
        aside = 3 * (i - (len(groups) - 1) / 2)
        order = place[~shared].sort_values().index
        errorbar(axes, place[order], summary.loc[order], how, aside, label)
        errorbar(axes, place[shared], summary[shared], how, aside)


# --- guess and measurement ----------------------------------------------------------------


def beside(results: Any, guess: Mapping[int, float], target: float) -> Finding:
    """Return how much sooner more workers reach a target, beside a guess, and why.

    Parameters
    ----------
    results : object
        What `measure` returned.
    guess : mapping of int to float
        Number of workers to the factor that somebody expects.
    target : float
        As of `compared`.
    """
    judged = _judged(results, target)
    means = judged.groupby([*BY, "workers"])[REACHED].mean()
    rows = {}
    for (*group, workers), row in means.iterrows():
        if workers > 1 and (*group, 1) in means.index:
            updates, seconds = means.loc[(*group, 1)] / row
            key = (name_of(group[0]), *group[1:], workers)
            rows[key] = [workers, seconds, seconds / updates, updates]
    columns = ["workers alone", "measured", "updates per second", "updates needed"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns, dtype=float)
    if rows:
        table.index = pd.MultiIndex.from_tuples(rows, names=[*BY, "workers"])
        if guess:
            table.insert(0, "guess", [guess.get(workers, math.nan) for *_, workers in rows])
    return Finding(
        f"How many times sooner than one worker do more reach {target:g} %?",
        table.round(2),
        "Workers alone is what they would gain if each update were worth as much as one "
        "worker's. Measured is the product of the two factors behind it: how many times as many "
        "updates a second they make, and how many times as many one worker needs."
        if rows else "Nothing with one worker and with more was measured.",
    )  # fmt: skip


# --- two learning rates on one error ------------------------------------------------------


def descend(
    curvature: ArrayLike, rate: float, adaptive: bool, steps: int = 60
) -> np.ndarray:
    """Return the error of gradient descent on a bowl, from ones, after each step.

    Parameters
    ----------
    curvature : array_like
        Of each parameter.
    rate : float
        The learning rate.
    adaptive : bool
        Whether it is divided, for each parameter, by the root of the sum of its squared gradients.
    steps : int

    Returns
    -------
    ndarray, shape (steps + 1,)
    """
    curvature = np.asarray(curvature, float)
    weights, squares = np.ones_like(curvature), np.zeros_like(curvature)
    errors = [curvature @ weights**2 / 2]
    for _ in range(steps):
        gradient = curvature * weights
        squares += gradient**2
        weights = weights - rate * gradient / (np.sqrt(squares) if adaptive else 1)
        errors.append(curvature @ weights**2 / 2)
    return np.array(errors)


def errors(title: str, lines: Mapping[str, ArrayLike]) -> Figure:
    """Draw errors over steps, on a logarithmic axis.

    Parameters
    ----------
    title : str
    lines : mapping of str to array_like
        By name: the error before the first step and after each.
    """
    with sheet(title, 2.65, plots=True) as (drawn, [axes]):
        for (name, values), colour in zip(lines.items(), COLOURS, strict=False):
            axes.plot(values, color=colour, label=name)
        highest = max(float(np.asarray(values)[0]) for values in lines.values())
        axes.set(xlabel="step", ylabel="error", yscale="log", ylim=(1e-6, 1000 * highest))
        axes.legend()
    return drawn
