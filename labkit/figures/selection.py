"""Which trials a figure shows, and which of their fields tell its lines and panels apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labkit import analysis, rates
from labkit.errors import LabkitError, nearest
from labkit.runs.selection import SelectionError, in_words, matching
from labkit.trials.frameworks import FRAMEWORKS

OWN = "throughput"
"""The column of a table of one's own that has the rates, in whatever unit."""

LENGTHS = ("steps", "epochs", "eval_samples")
"""How long a trial trains and is evaluated: no difference that a figure would show unasked."""


FOLLOWS = {
    "cpu_model": ("host",),
    "cores": ("host",),
    "code": ("framework", "model", "dataset"),
    "versions": ("framework",),
}
"""Circumstances, and the columns whose every combination has one value of it, usually."""


class FigureError(LabkitError):
    """A figure that cannot be drawn from what was given."""


class AmbiguousFigure(FigureError):
    """Several configurations in one place.

    Attributes
    ----------
    column : str
        Of the table: what they differ in.
    values : list
        Of this column, the most frequent first.
    """

    def __init__(self, column: str, values: Sequence[Any], where: str) -> None:
        self.column, self.values = column, [None if pd.isna(value) else value for value in values]
        self.found = f"{column}: {in_words(self.values)}{where}, but one line shows one"
        super().__init__(
            f"{self.found}; select(results, {column}={self.values[0]!r}) keeps one of them, and "
            f"lines={column!r} draws a line for each"
        )


class Tables:
    """Some trials of a table, with what was reported of them.

    Parameters
    ----------
    table : DataFrame
        One row per trial.
    source : object, optional
        Has ``steps`` and ``evals``, DataFrames with a column ``trial``; of more trials, maybe.
    notes : sequence of str
        What a figure of these trials has to say of others.

    Attributes
    ----------
    unit : str
        Of the throughput in a table of one's own, if it says so.
    """

    def __init__(
        self, table: pd.DataFrame, source: Any = None, notes: Sequence[str] = ()
    ) -> None:
        self.table = table
        self.notes = tuple(notes)
        self.unit = getattr(source, "unit", "")
        self._source = source

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row per step window of a worker."""
        return self._of_these("steps")

    @cached_property
    def evals(self) -> pd.DataFrame:
        """One row per evaluation."""
        return self._of_these("evals")

    def _of_these(self, name: str) -> pd.DataFrame:
        if self._source is None:
            raise FigureError(
                f"a table of trials has no {name}; give the figure what `measure` returned"
            )
        if isinstance(self._source, rates.Rates):
            raise FigureError(f"{self._source.name}: a table of throughputs has no {name}")
        table = getattr(self._source, name)
        return table[table["trial"].isin(self.table["trial"])] if len(table) else table


def tables(results: Any) -> Tables:
    """Return what a figure is drawn from: what `measure` returned, or a table.

    Or a table of one's own, or the path of a csv file: see `labkit.rates.read`. The rows are put
    in one order, so that a figure does not depend on theirs: not even a mean of floating-point
    numbers does.

    Raises
    ------
    FigureError
        If there is no trial.
    """
    own = isinstance(results, pd.DataFrame) and OWN in results and "trial" not in results
    if own or isinstance(results, (str, Path)):
        results = rates.read(results)
    source = None if isinstance(results, pd.DataFrame) else results
    table = results if source is None else source.table
    if table.empty:
        raise FigureError("the table is empty: there is nothing to draw; run the trials first")
    check_columns(table, "trial", lead(table), "workers", "status", "overloaded", "oversubscribed")
    table = analysis.settled(table.sort_values("trial", ignore_index=True))
    return Tables(table, source, getattr(source, "notes", ()))


def lead(table: pd.DataFrame) -> str:
    """Return the column that always tells lines apart, and by which families are drawn."""
    return "series" if "series" in table and "framework" not in table else "framework"


def select(results: Any, **values: Any) -> Tables:
    """Keep the trials with some values.

    Parameters
    ----------
    results : object or DataFrame
        What `measure` returned, or a table of trials.
    **values
        Columns of the table: a value, or a list of those to keep; None for what was not set.

    Returns
    -------
    Tables
        With ``table``, ``steps`` and ``evals`` of these trials, for figures and for more of this.

    Raises
    ------
    FigureError
        If no trial is left, or the table has no such column.

    Examples
    --------
    >>> throughput(select(results, framework="mxnet", batch_size=[128, 256]))
    """
    chosen = tables(results)
    for column in values:
        check_known(column, chosen.table.columns, "select")
    wanted = {column: np.atleast_1d(value).tolist() for column, value in values.items()}
    try:
        table = matching(chosen.table, wanted)
    except SelectionError as error:
        raise FigureError(str(error)) from None
    return Tables(table.reset_index(drop=True), chosen, chosen.notes)


def check_columns(table: pd.DataFrame, *columns: str) -> None:
    """Refuse tables of something else."""
    missing = [column for column in columns if column not in table]
    if missing:
        raise FigureError(f"the table has no column {', '.join(missing)}: is it another table?")


def check_known(name: str, known: Any, where: str) -> None:
    """Refuse the name of a column that does not exist; name the nearest."""
    known = list(known)
    if name not in known:
        raise FigureError(
            f"{where}: no column {name!r}{nearest(name, known) or ': ' + ', '.join(known)}"
        )


def varying_columns(trials: pd.DataFrame) -> list[str]:
    """Return the fields that tell the configurations of a table apart."""
    varying = [
        column
        for column in analysis.configuration(trials)
        if column != "oversubscribed" and trials[column].nunique(dropna=False) > 1
    ]
    for column, of in FOLLOWS.items():
        of = [each for each in of if each in trials]
        if column in varying and of:
            values = trials.groupby(of, dropna=False)[column].nunique(dropna=False)
            varying = [each for each in varying if each != column or (values > 1).any()]
    for column in ("servers", "dataset", *LENGTHS):
        others = [other for other in varying if other != column]
        if column in varying and others:
            # Servers that come with the workers, say, tell nothing that the workers do not.
            follows = trials.groupby(others, dropna=False)[column].nunique(dropna=False) == 1
            varying = others if follows.all() else varying
    return varying


@dataclass(frozen=True)
class Split:
    """How trials are shared out to panels and lines.

    Attributes
    ----------
    trials : DataFrame
    x : str or None
        The column along the horizontal axis, if it is a field of a trial.
    lines, panels : list of str
        The columns that tell lines apart, and panels.
    """

    trials: pd.DataFrame
    x: str | None
    lines: list[str]
    panels: list[str]

    @classmethod
    def of(
        cls,
        trials: pd.DataFrame,
        x: str | None,
        lines: str | Sequence[str] | None,
        panels: str | Sequence[str] | None,
    ) -> Split:
        """Choose lines and panels: what was asked for, else a line for whatever varies.

        Raises
        ------
        FigureError
            If a column that was asked for does not exist.
        AmbiguousFigure
            If something varies that neither was asked for nor may have a line unasked.
        """
        fields = analysis.configuration(trials)
        asked = {"lines": _names(lines), "panels": _names(panels)}
        for what, names in asked.items():
            for name in names:
                check_known(name, fields, what)
                if name == x:
                    raise FigureError(f"{what}: {name!r} is along the horizontal axis already")
        varying = [column for column in varying_columns(trials) if column != x]
        free = [column for column in varying if column not in asked["panels"]]
        drawn = asked["lines"] or [column for column in free if column not in LENGTHS]
        first = lead(trials)
        left = [column for column in free if column not in (*drawn, first)]
        if left:
            values = trials[left[0]].value_counts(dropna=False).index
            raise AmbiguousFigure(left[0], values, "")
        drawn = [name for name in drawn if name not in asked["panels"]]
        if first not in (*drawn, *asked["panels"]):
            drawn = [first, *drawn]
        return cls(trials, x, drawn, asked["panels"])

    def parts(self) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
        """Yield the panels: the values that a panel stands for, and its trials."""
        yield from _parts(self.trials, self.panels)

    def curves(self, trials: pd.DataFrame) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
        """Yield the lines among some trials: the values of a line, and its trials."""
        yield from _parts(trials, self.lines)

    def configuration(self, trials: pd.DataFrame) -> dict[str, Any]:
        """Return the values of one line, by which it is drawn.

        What differs along the line or is said by the panel is left out, and so is what goes
        without saying: servers that come with the workers, and how long was trained.
        """
        unsaid = [*LENGTHS, *analysis.CIRCUMSTANCES, "servers", "oversubscribed"]
        unsaid += [self.x, *self.panels]
        fields = [
            field
            for field in analysis.configuration(trials)
            if field in self.lines or field not in unsaid
        ]
        return trials.iloc[0][fields].to_dict()


def _names(columns: str | Sequence[str] | None) -> list[str]:
    return [columns] if isinstance(columns, str) else list(columns or ())


def _parts(
    trials: pd.DataFrame, columns: list[str]
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    if not columns:
        yield {}, trials
        return
    parts = [
        (dict(zip(columns, key, strict=True)), group)
        for key, group in trials.groupby(columns, dropna=False, sort=True)
    ]
    known = list(FRAMEWORKS)  # in the order of their table, others after them
    yield from sorted(
        parts, key=lambda part: (*known, part[0].get("framework")).index(part[0].get("framework"))
    )
