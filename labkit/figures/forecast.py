"""Predicted speedups beside the measured ones, and beside what somebody guessed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd
import seaborn as sns

from labkit import analysis
from labkit.figures.page import Figure, canvas, frame
from labkit.figures.scaling import (
    MEANS,
    RATE,
    errorbar,
    ideal,
    left_out,
    limit,
    why_no_speedup,
)
from labkit.figures.selection import FigureError, Split, check_columns, tables, varying_columns
from labkit.figures.style import OTHER_HUES, Style, style
from labkit.figures.words import describe_missing, describe_repeats, titled
from labkit.runs.selection import in_words, there

if TYPE_CHECKING:
    from labkit.prediction import Forecasts

ASIDE = 8
"""Points (1/72 inch) between two markers at one x."""

DOTTED = (1.0, 2.0)
"""The dashes of all that was not measured."""

LOOKS = tuple(
    Style(tuple(sns.husl_palette(1, h=hue / 359, s=0.95, l=0.5)[0]), marker, DOTTED, 1.0)
    for hue, marker in zip((*OTHER_HUES[::2], *OTHER_HUES[1::2]), "DsPX", strict=True)
)
"""Of forecasts, in turn: in hues that no framework has."""

COLUMNS = ["workers", "mean", "low", "high"]
"""Of what is drawn: speedups with the ends of their intervals."""

GUESS = Style((0.15, 0.15, 0.15), "^", DOTTED, 1.0)


def forecast(
    results: Any,
    forecasts: Mapping[str, Forecasts],
    guess: Mapping[int, float] | None = None,
    *,
    title: str | None = None,
) -> Figure:
    """Draw predicted speedups beside the measured ones.

    Parameters
    ----------
    results : object or DataFrame
        What `measure` returned, or a table of trials, which differ in their number of workers
        alone: those that the forecasts were made from, and those that show how good they are.
    forecasts : mapping of str to Forecasts
        By what the legend is to call them; of batches per second.
    guess : mapping of int to float, optional
        Number of workers to the speedup that somebody expects.
    title : str, optional
        Instead of one that says what is the same in all trials; ``{}`` in it stands for that one.

    Returns
    -------
    Figure
        All as multiples of the measured throughput with one worker. Bars of measured points are
        95 % intervals, those of forecasts their own. Without oversubscribed trials.

    Raises
    ------
    FigureError
        If there is nothing to draw, or the trials differ in more than the number of workers.
    """
    chosen = tables(results)
    trials = chosen.table
    check_columns(trials, RATE)
    _check_alike(trials)
    summary = analysis.speedups(trials, RATE).rename(columns={"speedup": "mean"})
    beside = _beside(trials, forecasts, guess or {})
    parts = [summary[COLUMNS], *(rows for _, rows, _ in beside)]
    every = pd.concat([part for part in parts if len(part)] or parts)
    numbers = sorted(every["workers"].unique())
    heading = titled(title, "Prediction", trials, ["framework", "model", "batch_size"])
    with canvas(heading, "workers", "speedup") as page:
        (axes,) = page.panels
        how = style(Split.of(trials, "workers", None, None).configuration(trials))
        errorbar(axes, summary["workers"], summary, how, 0, "measured")
        for place, (name, rows, look) in enumerate(beside):
            errorbar(axes, rows["workers"], rows, look, _aside(place), name)
        if every["mean"].notna().any():
            ideal(axes, numbers[-1])
        frame(page.panels, {number: number for number in numbers})
        limit(page, every, highest=max(numbers, default=0))
        page.legend()
        page.notes += describe_repeats(summary[summary["workers"] > 1], "bars", MEANS)
        page.notes += _describe(forecasts) if beside else []
        page.notes += left_out(trials)
        page.notes += describe_missing(trials, trials[RATE].isna(), ["framework", "workers"])
        page.notes += chosen.notes
        page.why = why_no_speedup(trials)
    return page.figure


def _check_alike(trials: pd.DataFrame) -> None:
    """Refuse trials of which a forecast cannot be all at once."""
    for column in varying_columns(trials):
        if column != "workers":
            values = there(trials[column])
            raise FigureError(
                f"{column}: {in_words(values)}, but a forecast is of one; "
                f"select(results, {column}={values[0]!r}) keeps one of them"
            )


def _beside(
    trials: pd.DataFrame, forecasts: Mapping[str, Forecasts], guess: Mapping[int, float]
) -> list[tuple[str, pd.DataFrame, Style]]:
    """Return what is drawn beside the measured points: name, speedups, and how it is drawn.

    Without a measured rate with one worker there is nothing to be a multiple of.
    """
    ones = trials[(trials["workers"] == 1) & ~trials["oversubscribed"].astype(bool)]
    rates = ones[RATE].dropna()
    if rates.empty:
        return []
    one = analysis.geometric_interval(rates).mean
    found = []
    for place, (name, forecast) in enumerate(forecasts.items()):
        rows = forecast.table.rename(columns={"throughput": "mean"})
        rows[["mean", "low", "high"]] /= one
        found.append((name, rows[COLUMNS], LOOKS[place % len(LOOKS)]))
    if guess:
        rows = [(workers, float(value), math.nan, math.nan) for workers, value in guess.items()]
        found.append(("guess", pd.DataFrame(rows, columns=COLUMNS), GUESS))
    return found


def _aside(place: int) -> int:
    """Return how far from the measured point to draw: left, right, and further to the left."""
    return ASIDE * (place // 2 + 1) * (1 if place % 2 else -1)


def _describe(forecasts: Mapping[str, Forecasts]) -> list[str]:
    """Say what the bars of forecasts are."""
    levels = sorted({f"{100 * found.level:g} %" for found in forecasts.values()})
    return [f"Bars of predictions: {' or '.join(levels)} intervals."] if levels else []
