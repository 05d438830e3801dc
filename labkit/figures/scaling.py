"""Throughput, time per epoch, and speedup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.transforms import ScaledTranslation

from labkit import analysis
from labkit.figures.page import HOLLOW, Figure, Page, canvas, frame
from labkit.figures.selection import (
    OWN,
    AmbiguousFigure,
    Split,
    Tables,
    check_columns,
    check_known,
    lead,
    tables,
)
from labkit.figures.style import Style, style
from labkit.figures.words import (
    describe,
    describe_missing,
    describe_repeats,
    describe_reported,
    titled,
    why_missing,
)

RATE = "batches_per_second"
SAMPLES = "samples_per_second"

ASIDE = 3
"""Points (1/72 inch) between two lines at one x."""

ROOM = 1.5
"""How far an axis reaches for intervals at most, as a multiple of the highest point."""

MEANS = "Geometric means"

Columns = str | Sequence[str] | None


def throughput(
    results: Any, *, lines: Columns = None, panels: Columns = None, title: str | None = None
) -> Figure:
    """Draw the throughput over the number of workers.

    Parameters
    ----------
    results : object, DataFrame or path
        What `measure` returned, or a table of trials: in batches per second. Or a table of one's
        own, with the columns workers and throughput, or the path of such a csv file.
    lines, panels : str or sequence of str, optional
        The fields that tell lines apart, beside the framework, and panels. By default whatever
        varies is a line.
    title : str, optional
        Instead of one that says what is the same in all trials; ``{}`` in it stands for that one.

    Returns
    -------
    Figure
        Points are geometric means over repeats, bars 95 % intervals. Hollow points are
        oversubscribed; they say nothing about scaling, so no line joins them.

    Raises
    ------
    FigureError
        If there is nothing to draw, a column does not exist, or several configurations would
        share a point.
    """
    chosen = tables(results)
    metric, label = rate_of(chosen)
    return _points("Throughput", chosen, metric, "workers", label, lines, panels, title)


def epoch_time(
    results: Any,
    *,
    x: str = "workers",
    lines: Columns = None,
    panels: Columns = None,
    title: str | None = None,
) -> Figure:
    """Draw how long one epoch takes in seconds, computed from the measured rate.

    Parameters
    ----------
    results, lines, panels, title
        As of `throughput`.
    x : str
        The field along the horizontal axis: ``workers``, or another such as ``batch_size``.

    Raises
    ------
    FigureError
        As `throughput` does.
    """
    label = "time per epoch [s]\n(from the measured rate)"
    return _points("Time per epoch", results, "epoch_s", x, label, lines, panels, title)


def speedup(
    results: Any, *, lines: Columns = None, panels: Columns = None, title: str | None = None
) -> Figure:
    """Draw the throughput as a multiple of that of one worker, beside the ideal.

    Parameters
    ----------
    results, lines, panels, title
        As of `throughput`.

    Returns
    -------
    Figure
        Without oversubscribed trials: more workers and dedicated servers than cores show no
        speedup.

    Raises
    ------
    FigureError
        As `throughput` does.
    """
    chosen = tables(results)
    trials = chosen.table
    metric, _ = rate_of(chosen)
    split = Split.of(trials, "workers", lines, panels)
    summary = analysis.speedups(trials, metric).rename(columns={"speedup": "mean"})
    by = ["model", "batch_size"]
    with canvas(titled(title, "Speedup", trials, _fixed(by, split)), "workers", "speedup",
                _titles(split)) as page:  # fmt: skip
        for axes, rows in _panels(page.panels, split, summary):
            for configuration, line, label, aside in _lines(split, rows):
                errorbar(axes, line["workers"], line, configuration, aside, label)
            if rows["mean"].notna().any():
                ideal(axes, rows["workers"].max())
        frame(page.panels, {value: value for value in sorted(summary["workers"].unique())})
        limit(page, summary, highest=summary["workers"].max())
        page.legend()
        page.notes += describe_repeats(summary[summary["workers"] > 1], "bars", MEANS)
        page.notes += [*left_out(trials), *_missing(trials, metric, split)]
        page.notes += [*describe_reported(trials), *chosen.notes]
        page.notes += without_one(trials, metric)
        page.why = why_no_speedup(trials)
    return page.figure


def rate_of(chosen: Tables) -> tuple[str, str]:
    """Return the column that has the rates, and what they are called."""
    trials = chosen.table
    if OWN in trials:
        return OWN, f"throughput [{chosen.unit}]" if chosen.unit else "throughput"
    check_columns(trials, RATE)
    if trials[RATE].isna().all() and SAMPLES in trials and trials[SAMPLES].notna().any():
        return SAMPLES, "samples per second"  # of a script that does not say its batch size
    return RATE, "batches per second"


def without_one(trials: pd.DataFrame, metric: str) -> list[str]:
    """Name the frameworks or series that have no speedup, for want of a rate with one worker."""
    first = lead(trials)
    alone = trials[(trials["workers"] == 1) & trials[metric].notna()]
    return [
        f"No speedup of {describe({first: value}, [first])}: its rate with one worker is not "
        "measured."
        for value in sorted(set(trials[first]) - set(alone[first]))
    ]


def left_out(trials: pd.DataFrame) -> list[str]:
    """Name the oversubscribed trials, which show no speedup."""
    shared = trials[trials["oversubscribed"].astype(bool)]
    counts = ", ".join(map(str, sorted(shared["workers"].unique())))
    what = "Left out, oversubscribed (more workers and dedicated servers than cores)"
    return [f"{what}: {counts} workers."] if counts else []


def why_no_speedup(trials: pd.DataFrame) -> str:
    """Say why there is nothing to draw, where no speedup could be computed."""
    if trials["oversubscribed"].astype(bool).all():
        return "all trials are oversubscribed"
    return "there is no rate with one worker to compare with"


def ideal(axes: Axes, most: int) -> None:
    """Draw the speedup that equals the number of workers."""
    axes.plot([1, most], [1, most], label="ideal", color="0.45", linewidth=1,
              linestyle=(0, (6, 3)), zorder=1)  # fmt: skip


def _points(
    kind: str,
    results: Any,
    metric: str,
    x: str,
    y_label: str,
    lines: Columns,
    panels: Columns,
    title: str | None,
) -> Figure:
    """Draw one metric over a field of the trials."""
    chosen = tables(results)
    trials = chosen.table
    check_columns(trials, metric)
    check_known(x, analysis.configuration(trials), "x")
    split = Split.of(trials, x, lines, panels)
    summary = analysis.summarise(trials, metric)
    values = sorted(summary[x].unique())
    # Batch sizes, say, are compared, not measured along an axis: they stand side by side.
    at = {value: value if x == "workers" else i for i, value in enumerate(values)}
    by = ["model", "batch_size", *(["workers"] if x != "workers" else [])]
    hollow = summary["oversubscribed"].astype(bool).any()
    with canvas(titled(title, kind, trials, _fixed(by, split)), x.replace("_", " "), y_label,
                _titles(split)) as page:  # fmt: skip
        for axes, rows in _panels(page.panels, split, summary):
            for configuration, line, label, aside in _lines(split, rows):
                shared = line["oversubscribed"].astype(bool)
                place = line[x].map(at)
                errorbar(axes, place[~shared], line[~shared], configuration, aside, label)
                errorbar(axes, place[shared], line[shared], configuration, aside)
        frame(page.panels, at)
        limit(page, summary)
        page.why = why_missing(trials, trials[metric].isna())
        page.legend([HOLLOW] if hollow else [])
        page.notes += describe_repeats(summary, "bars", MEANS)
        if hollow:
            page.notes.append(
                "Oversubscribed points say nothing about scaling: no line joins them."
            )
        page.notes += [*_missing(trials, metric, split)]
        page.notes += [*describe_reported(trials), *chosen.notes]
    return page.figure


def limit(page: Page, summary: pd.DataFrame, highest: float = 0.0) -> None:
    """End the axis where points end, if an interval reaches far beyond: it must not rule them."""
    top = ROOM * max(summary["mean"].max(), highest)
    if (summary["high"] > top).any():
        page.panels[0].set_ylim(top=top)  # the other panels share it
        page.notes.append("Bars that end at the upper edge reach beyond it.")


def _fixed(by: list[str], split: Split) -> list[str]:
    """Return what the title may name: not the single framework that the legend names already."""
    return [lead(split.trials), *by] if len(split.lines) > 1 else by


def _titles(split: Split) -> list[str]:
    return [describe(values, list(values)) for values, _ in split.parts()]


def _missing(trials: pd.DataFrame, metric: str, split: Split) -> list[str]:
    by = dict.fromkeys([lead(trials), *split.panels, *split.lines, split.x])
    return describe_missing(trials, trials[metric].isna(), list(by))


def _panels(panels: list[Axes], split: Split, summary: pd.DataFrame) -> Any:
    """Yield the axes of each panel with its rows of the summary."""
    for axes, (values, _) in zip(panels, split.parts(), strict=True):
        rows = summary
        for column, value in values.items():
            rows = rows[rows[column].isin([value])]
        yield axes, rows


def _lines(split: Split, summary: pd.DataFrame) -> Any:
    """Yield style, rows, label and shift of each line of a panel, in order."""
    lines = list(split.curves(summary))
    only = len(split.lines) == 1
    named = [c for c in split.lines if only or split.trials[c].nunique(dropna=False) > 1]
    for i, (values, rows) in enumerate(lines):
        for value, same in rows.groupby(split.x):
            fields = analysis.configuration(same)
            varying = [field for field in fields if same[field].nunique(dropna=False) > 1]
            if varying:
                where = f" of {describe(values, split.lines)}, {split.x} {value}"
                raise AmbiguousFigure(varying[0], same[varying[0]].unique(), where)
        aside = ASIDE * (i - (len(lines) - 1) / 2)
        yield style(split.configuration(rows)), rows, describe(values, named), aside


def errorbar(
    axes: Axes,
    place: pd.Series,
    rows: pd.DataFrame,
    how: Style,
    aside: float,
    label: str | None = None,
) -> ErrorbarContainer:
    """Draw points with their intervals: joined if they have a label, else hollow and alone."""
    drawn = axes.errorbar(
        place,
        rows["mean"],
        yerr=[rows["mean"] - rows["low"], rows["high"] - rows["mean"]],
        color=how.colour,
        marker=how.marker,
        linewidth=how.width,
        linestyle=how.line if label else "none",
        markerfacecolor=how.colour if label else "white",
        markeredgecolor="white" if label else how.colour,
        markeredgewidth=0.6 if label else 1.2,
        capsize=2.5,
        capthick=1,
        elinewidth=1,
        label=label,
    )
    # Moved on the paper, not in the data: bars at the same x must not hide each other.
    moved = axes.transData + ScaledTranslation(aside / 72, 0, axes.figure.dpi_scale_trans)
    for artist in drawn.get_children():
        artist.set_transform(moved)
    return drawn
