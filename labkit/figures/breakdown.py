"""Where the time of a step goes, as stacked bars over the number of workers."""

from __future__ import annotations

from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from labkit import analysis
from labkit.figures.page import Figure, canvas, frame
from labkit.figures.scaling import RATE, Columns
from labkit.figures.selection import (
    LENGTHS,
    FigureError,
    Split,
    check_columns,
    tables,
    varying_columns,
)
from labkit.figures.words import describe, describe_missing, titled, why_missing
from labkit.runs.selection import in_words

HUES = sns.husl_palette(3, h=0.66, s=0.6, l=0.62)

COLOURS = {
    "input": HUES[2],
    "computing": HUES[0],
    "sending": HUES[1],
    "waiting": (0.86, 0.86, 0.86),
}

TIME = "Where the time goes"

HATCH = ".."

SHARED = Patch(facecolor="0.75", edgecolor="white", hatch=HATCH, label="oversubscribed")

MOST = 9
"""Panels in a figure."""

VISIBLE = 0.5
"""Percent of a step from which on a part is drawn."""

WIDTH = 0.7
"""Of a bar, as a share of the distance between two."""


def breakdown(results: Any, *, panels: Columns = None, title: str | None = None) -> Figure:
    """Draw where the time of a worker's step goes: its own work, and waiting.

    Parameters
    ----------
    results : object or DataFrame
        What `measure` returned, or a table of trials.
    panels : str or sequence of str, optional
        The fields that tell panels apart. By default whatever varies beside the workers.
    title : str, optional
        Instead of one that says what is the same in all trials; ``{}`` in it stands for that one.

    Returns
    -------
    Figure
        The shares are those of `labkit.step_times`. Above each bar the time of a step; below, in
        a sentence for each panel, what holds up the most workers that have cores of their own.

    Raises
    ------
    FigureError
        If there is nothing to draw, or several configurations would share a bar.
    """
    chosen = tables(results)
    trials = chosen.table
    check_columns(trials, RATE, "cpu_ms_per_step")
    varying = [name for name in varying_columns(trials) if name not in ("workers", *LENGTHS)]
    split = Split.of(trials, "workers", None, panels or varying)
    rows = analysis.step_times(trials)
    at = {value: place for place, value in enumerate(sorted(trials["workers"].unique()))}
    parts = list(split.parts())
    if len(parts) > MOST:
        raise FigureError(
            f"{len(parts)} panels, for all that differs in {in_words(varying)}: more than {MOST} "
            "cannot be read; select some of these trials"
        )
    fixed = [name for name in ("framework", "model", "batch_size") if name not in varying]
    names = [describe(values, list(values)) for values, _ in parts] if len(parts) > 1 else [""]
    with canvas(titled(title, TIME, trials, fixed), "workers", "share of a step [%]",
                names) as page:  # fmt: skip
        for axes, (values, _) in zip(page.panels, parts, strict=True):
            here = rows
            for column, value in values.items():
                here = here[here[column].isin([value])]
            if here["workers"].duplicated().any():
                raise FigureError(
                    f"{describe(values, list(values))}: several configurations have the same "
                    "number of workers; select some of them, or name what differs in panels"
                )
            _bars(axes, here, at)
            if len(here):
                most = here.sort_values(["oversubscribed", "workers"], ascending=[False, True])
                last = most.iloc[-1]
                who = describe(last, [*values, "workers"])
                page.notes.append(f"{who}: {analysis.explained(last)}")
        frame(page.panels, at)
        for axes in page.panels:
            axes.set(xlim=(-0.6, len(at) - 0.4), ylim=(0, 112))
            axes.set_yticks(range(0, 101, 20))
        shared = bool(rows["oversubscribed"].any())
        page.legend([SHARED] * shared)
        page.notes += ["Oversubscribed: more workers and dedicated servers than cores."] * shared
        page.why = why_missing(trials, trials[RATE].isna())
        if (rows["sending"] == 0).all():
            unknown = rows["input"].isna()
            rest = "" if unknown.all() else "other "
            page.notes.append(
                f"Computing is the worker's {rest}CPU time, with its part in sending."
            )
            if unknown.any() and not unknown.all():
                page.notes.append("Where input was not measured, it is part of computing.")
        page.notes += [*describe_missing(trials, trials[RATE].isna(), [*values, "workers"])]
        page.notes += chosen.notes
    return page.figure


def _bars(axes: Axes, rows: pd.DataFrame, at: dict[Any, int]) -> None:
    """Draw a bar for each number of workers, with the time of a step above it."""
    places = [at[value] for value in rows["workers"]]
    below = 0.0 * rows["step"]
    for part in analysis.PARTS:
        share = (100 * rows[part] / rows["step"]).fillna(0.0)
        if (share >= VISIBLE).any():
            axes.bar(places, share, WIDTH, bottom=below, color=COLOURS[part], label=part,
                     hatch=[HATCH if shared else "" for shared in rows["oversubscribed"]],
                     edgecolor="white")  # fmt: skip
        below = below + share
    for place, step in zip(places, rows["step"], strict=True):
        words = f"{step:.3g} ms" if step < 999.5 else f"{step / 1000:.3g} s"
        axes.text(place, 102, words, ha="center", va="bottom", size=8, color="0.25")
