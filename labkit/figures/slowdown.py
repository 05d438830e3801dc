"""Speedup over how slow the nodes are: simulated from one worker, beside what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from labkit import analysis
from labkit.figures.forecast import DOTTED
from labkit.figures.page import Figure, Page, canvas
from labkit.figures.scaling import MEANS, RATE, errorbar
from labkit.figures.selection import (
    AmbiguousFigure,
    FigureError,
    Split,
    check_columns,
    tables,
)
from labkit.figures.style import style
from labkit.figures.words import NODES, describe, describe_repeats, titled
from labkit.runs.demands import Measured, NoDemands, measured
from labkit.runs.whatif import what_if
from labkit.simulation.system import STRATEGIES

WORKERS = (10, 25, 50)
"""Lines that are drawn if no others are asked for: the thesis's most."""

SLOWDOWNS = (1.0, 1.4, 2.0, 3.0, 5.0, 7.0, 10.0, 14.0, 20.0, 28.0, 40.0)
"""For which is simulated; those that were measured come to them."""

TICKS = (1, 2, 5, 10, 20, 40, 100)

SETTING = ["model", "framework", "batch_size", "strategy", "optimizer"]
"""What is one panel."""


def slowdown(
    results: Any, *, workers: Iterable[int] = WORKERS, title: str | None = None
) -> Figure:
    """Draw the speedup over the slowdown of the nodes: when does computing decide, when serving?

    Parameters
    ----------
    results : object or DataFrame
        What `measure` returned, or a table of trials, with one worker among them.
    workers : iterable of int
        A line for each of these numbers.
    title : str, optional
        Instead of one that says what is the same in all trials; ``{}`` in it stands for that one.

    Returns
    -------
    Figure
        A panel for each model, framework, batch size and strategy. Dotted lines are simulated
        from the runs with one worker, on as many nodes with a core each and a network that takes
        no time. Points are measured on slow nodes, with 95 % intervals over repeats.

    Raises
    ------
    FigureError
        If a number of workers cannot be drawn, or several configurations would share a point.
    NoDemands
        If there is no run with one worker to simulate from.
    """
    counts = sorted(set(workers))
    if not counts or counts[0] < 2:
        raise FigureError(f"workers: {counts}; allowed: numbers from 2 on, such as 10 25 50")
    chosen = tables(results)
    check_columns(chosen.table, RATE, *SETTING)
    trials = _alike(chosen.table)
    served = trials[trials["strategy"].isin(STRATEGIES)]
    varying = [name for name in SETTING if served[name].nunique() > 1]
    found, lost = _demands(trials, Split(served, "slowdown", ["workers"], varying))
    points = _points(served, counts)
    kind, same = "Speedup on slow nodes", served.drop(columns=list(NODES))
    heading = titled(title, kind, same, SETTING[:-2])
    names = [describe(setting, varying) for setting, _ in found]
    with canvas(heading, "slowdown of computing", "speedup", names) as page:
        drawn = [
            _panel(axes, one, setting, _of(points, setting | one.circumstances), counts, varying)
            for axes, (setting, one) in zip(page.panels, found, strict=True)
        ]
        shown = pd.concat(drawn)
        _axis(page, shown, counts)
        page.legend(inside=False)  # lines are wherever there was room for one
        page.notes += _describe([one for _, one in found], shown, points)
        if lost:
            names = "; ".join(describe(setting, varying) for setting in lost)
            page.notes.append(f"No panel, as there is no run with one worker: {names}.")
        page.notes += chosen.notes
    return page.figure


def _alike(table: pd.DataFrame) -> pd.DataFrame:
    """Return the trials whose nodes are slow at computing alone, all alike, with the slowdowns."""
    for name in NODES:
        table = table.assign(**{name: table[name].astype(float) if name in table else None})
    others = [name for name in NODES if name != "slowdown"]
    alike = table[table[others].isna().all(axis="columns")]
    return alike.assign(slowdown=alike["slowdown"].fillna(1.0))


def _demands(
    trials: pd.DataFrame, split: Split
) -> tuple[list[tuple[dict[str, Any], Measured]], list[dict[str, Any]]]:
    """Return the setting of each panel with what a step demands there, and those without any.

    From the fastest nodes that ran one worker, so that a line is of one origin.
    """
    found, lost, why = [], [], None
    for _, rows in split.parts():
        setting = rows.iloc[0][SETTING].to_dict()
        alone = rows[
            (rows["workers"] == 1) & rows[RATE].notna() & ~rows["oversubscribed"].astype(bool)
        ]
        slow = alone["slowdown"].min() if len(alone) else 1.0
        try:
            found.append((setting, measured(trials, **setting, slowdown=slow)))
        except NoDemands as error:
            lost.append(setting)
            why = why or error
    if why and not found:
        raise why
    return found, lost


def _points(served: pd.DataFrame, counts: list[int]) -> pd.DataFrame:
    """Return the measured speedups with some numbers of workers."""
    found = analysis.speedups(served[served["workers"].isin([1, *counts])], RATE)
    found = found.rename(columns={"speedup": "mean"})
    return found[(found["workers"] > 1) & found["mean"].notna()]


def _of(points: pd.DataFrame, values: dict[str, Any]) -> pd.DataFrame:
    """Return the points of a panel, made where its line was: other machines are no comparison."""
    for name, value in values.items():
        if name in points:
            points = points[points[name] == value]
    return points


def _panel(
    axes: Axes,
    one: Measured,
    setting: dict[str, Any],
    points: pd.DataFrame,
    counts: list[int],
    panels: list[str],
) -> pd.DataFrame:
    """Draw a panel; return the points that it shows."""
    places = sorted({*SLOWDOWNS, *points["slowdown"]})
    strategy = setting["strategy"]
    lines = [what_if(one, counts, slowdown=place, strategy=strategy) for place in places]
    # In several panels a line has one colour, as the panel says of what it is; but a framework's
    # lines are never drawn in another one's colours.
    said = {k: value for k, value in setting.items() if k == "framework" or k not in panels}
    whose = f"{describe(setting, ['framework'])}, " if "framework" in panels else ""
    for line, count in reversed(list(enumerate(counts))):
        how = style(said | {"workers": count})
        shown = points[points["workers"] == count]
        _check(shown)
        if len(shown):
            drawn = errorbar(axes, shown["slowdown"], shown, how, 0,
                             f"{whose}{count} workers, measured")  # fmt: skip
            drawn.lines[0].set_linestyle("none")
        speedups = [found.forecasts[line].speedup for found in lines]
        axes.plot(places, speedups, label=f"{whose}{count} workers, simulated", color=how.colour,
                  linewidth=how.width, linestyle=(0, DOTTED))  # fmt: skip
    return points


def _check(points: pd.DataFrame) -> None:
    """Refuse several configurations in one place."""
    for place, same in points.groupby("slowdown"):
        for name in analysis.configuration(same):
            if same[name].nunique(dropna=False) > 1:
                where = f" with {same['workers'].iloc[0]} workers and slowdown {place:g}"
                raise AmbiguousFigure(name, same[name].unique(), where)


def _axis(page: Page, points: pd.DataFrame, counts: list[int]) -> None:
    most = max([SLOWDOWNS[-1], *points["slowdown"]])
    for axes in page.panels:
        label = "ideal" if axes is page.panels[-1] else "_"  # last in the legend
        for count in counts:
            axes.plot([SLOWDOWNS[0], most], [count, count], label=label, color="0.45",
                      linewidth=1, linestyle=(0, (6, 3)), zorder=1)  # fmt: skip
        axes.set_xscale("log")
        ticks = [tick for tick in TICKS if tick <= most]
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(False, axis="x")
        axes.set_xlim(0.93, most * 1.08)
        axes.set_ylim(0, 1.06 * max([*counts, *points["mean"]]))


def _describe(
    found: list[Measured], shown: pd.DataFrame, points: pd.DataFrame
) -> Iterator[str]:
    runs = sorted({len(one.rates) for one in found})
    n = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    yield (
        f"Dotted: simulated, from what a step of one worker demands (n = {n} runs) if computing "
        "takes so many times as long. Each node has a core of its own; the network takes no time."
    )
    if shown.empty:
        yield "No points: with these numbers of workers nothing was measured on nodes of its own."
    else:
        said = describe_repeats(shown, "bars", MEANS)
        yield f"Points: measured. {' '.join(said)}"
    if others := len(points) - len(shown):
        yield f"Not shown: {others} of another machine, code or versions than the simulation's."
