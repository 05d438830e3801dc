"""Guess, prediction and measurement of a speedup, side by side.

The notebooks that measure how throughput grows ask for a guess first. Afterwards it stands beside
what the runs with one worker predict, and both beside what was measured, with the parts of a step
that explain the difference.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from labkit import analysis
from labkit.analysis.breakdown import bottleneck
from labkit.analysis.scaling import plain
from labkit.figures import forecast, select
from labkit.figures.page import Figure
from labkit.figures.selection import Tables, tables
from labkit.figures.words import describe, name_of
from labkit.runs.demands import NoDemands, measured_of, shared_cores
from labkit.runs.whatif import WhatIf, what_if
from labkit.thesis.rates import Finding, Findings
from labkit.trials.frameworks import FRAMEWORKS
from labkit.trials.nodes import NODE

OFF = "{} off [%]"
"""The column that says by how much something is above what was measured."""


class Guess(dict[int, float]):
    """Speedups that somebody expects, by numbers of workers; empty if nobody has guessed."""

    def __repr__(self) -> str:
        words = [f"{value:g} with {workers} workers" for workers, value in self.items()]
        return f"guessed speedups: {', '.join(words)}" if words else "no guess yet"


def of(workers: Sequence[int], guess: Sequence[float] | None) -> Guess:
    """Return the speedups that a reader expects, by numbers of workers.

    Parameters
    ----------
    workers : sequence of int
        Those of the sweep.
    guess : sequence of float or None
        One for each of them that is above one, in their order.
    """
    return Guess(zip([n for n in workers if n > 1], guess, strict=True) if guess else ())


@dataclass(frozen=True)
class Side:
    """What one framework was expected to do, and what it did.

    Attributes
    ----------
    framework : str
    trials : Tables
    predicted : WhatIf or None
        From the runs with one worker, for all numbers above one; None if that cannot be.
    """

    framework: str
    trials: Tables
    predicted: WhatIf | None

    @cached_property
    def speedups(self) -> pd.DataFrame:
        """``predicted`` and ``measured`` speedups, by the number of workers above one.

        Both are multiples of the measured throughput with one worker, as in the figure.
        """
        more = pd.Index(_more(self.trials.table), name="workers")
        expected = {}
        if self.predicted:
            one = analysis.geometric_interval(self.predicted.measured.rates).mean
            expected = {f.workers: f.throughput / one for f in self.predicted.forecasts}
        found = analysis.speedups(self.trials.table).set_index("workers")["speedup"]
        return pd.DataFrame(
            {"predicted": pd.Series(expected, dtype=float).reindex(more),
             "measured": found.reindex(more)}
        )  # fmt: skip

    @cached_property
    def steps(self) -> pd.DataFrame:
        """Where the time of a step goes, in milliseconds, by the number of workers.

        A ``step`` is the worker's ``own work`` (input, computing, pushing and pulling) and
        ``waiting``; ``predicted`` is how long it was expected to take. ``batches/s`` is the
        throughput, and ``1/D`` what the busiest server allows. ``why`` says what holds the
        workers up.
        """
        rows = analysis.step_times(self.trials.table).set_index("workers")
        forecasts = self.predicted.forecasts if self.predicted else ()
        expected = {f.workers: 1000 * f.workers / f.throughput for f in forecasts}
        return pd.DataFrame(
            {
                "step": rows["step"],
                "own work": rows["step"] - rows["waiting"],
                "waiting": rows["waiting"],
                "predicted": [expected.get(n, math.nan) for n in rows.index],
                "batches/s": 1000 * rows.index / rows["step"],
                "1/D": [self._bound(n) for n in rows.index],
                "why": [bottleneck(row) for _, row in rows.iterrows()],
            }
        )

    def _bound(self, workers: int) -> float:
        """Return the batches per second at which the busiest server is never idle."""
        if not self.predicted:
            return math.nan
        system = self.predicted.measured.system(workers, **self.predicted.asked)
        _, shares = system.placed()
        seconds = system.demands.server * shares.max()
        return 1 / seconds if seconds else math.nan


@dataclass(frozen=True, repr=False)
class Compared:
    """Guess, predictions and measurements of some frameworks.

    Attributes
    ----------
    guess : mapping of int to float
    sides : tuple of Side
        One for each framework.
    """

    guess: Mapping[int, float]
    sides: tuple[Side, ...]

    def figures(self, number: str) -> Iterator[tuple[Figure, Tables, str]]:
        """Yield what `labkit.show` takes: a figure of each framework, its trials and its name.

        Parameters
        ----------
        number : str
            Of the thesis's figure beside which they stand.
        """
        for side in self.sides:
            found = {"predicted": side.predicted} if side.predicted else {}
            figure = forecast(side.trials, found, self.guess, title=f"{number} {{}}")
            yield figure, side.trials, f"{number}-prediction-{side.framework}"

    @property
    def findings(self) -> Findings:
        """How near guess and prediction came, and where the time of a step goes."""
        return Findings([self._near(), *self._steps()])

    def __repr__(self) -> str:
        return repr(self.findings)

    def _repr_html_(self) -> str:
        return self.findings._repr_html_()

    def _near(self) -> Finding:
        table = self._each({side.framework: side.speedups for side in self.sides})
        if self.guess:
            table.insert(0, "guess", [self.guess.get(n, math.nan) for _, n in table.index])
        for column in list(table)[:-1]:
            table[OFF.format(column)] = 100 * (table[column] / table["measured"] - 1)
        table["efficiency [%]"] = 100 * table["measured"] / table.index.get_level_values("workers")
        unpredicted = [name_of(side.framework) for side in self.sides if not side.predicted]
        return Finding(
            "How near did they come? Speedups:",
            table.round(2),
            " ".join(filter(None, [
                "The prediction knows the runs with one worker alone. What is off is too high, or "
                "too low if negative." if len(table) else
                "Only one worker was measured: there is nothing to predict.",
                f"No prediction of {' or '.join(unpredicted)}: no run with one worker and its "
                "servers, on whole cores, was measured." if unpredicted and len(table) else "",
                _not_measured(table),
            ])),
        )  # fmt: skip

    def _steps(self) -> Iterator[Finding]:
        steps = {side.framework: side.steps for side in self.sides if len(side.steps)}
        if steps:
            yield Finding(
                "Where does the difference come from? A step in milliseconds, and rates:",
                self._each(steps).drop(columns="why").round(2),
                " ".join(f"{name_of(name)}, {_explained(rows)}" for name, rows in steps.items()),
            )

    @staticmethod
    def _each(parts: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
        named = {name_of(framework): rows for framework, rows in parts.items()}
        return pd.concat(named, names=["framework"]) if named else pd.DataFrame()


def compare(results: Any, guess: Mapping[int, float]) -> Compared:
    """Predict each framework's speedups from its runs with one worker.

    Parameters
    ----------
    results : object or DataFrame
        What `measure` returned: trials that differ in framework and number of workers alone.
    guess : mapping of int to float
        Number of workers to the speedup that somebody expects.

    Returns
    -------
    Compared
    """
    there = tables(results).table["framework"].unique()
    chosen = {name: select(results, framework=name) for name in FRAMEWORKS if name in there}
    return Compared(
        guess, tuple(Side(name, some, _predict(some.table)) for name, some in chosen.items())
    )


def _predict(trials: pd.DataFrame) -> WhatIf | None:
    """Return what one worker's runs predict, on the same machines as all others'."""
    first = {name: plain(value) for name, value in trials.iloc[0].items()}
    asked = {name: first[name] for name in NODE if first.get(name)}
    if any(trials["servers"] != trials["workers"].map(FRAMEWORKS[first["framework"]].servers_for)):
        asked["servers"] = first["servers"]
    try:
        one = measured_of(trials)
    except NoDemands:
        return None
    cores = shared_cores(trials)
    more = _more(trials)
    return what_if(one, more, strategy=first["strategy"], cores=cores, **asked) if more else None


def _more(trials: pd.DataFrame) -> list[int]:
    return sorted({int(n) for n in trials["workers"]} - {1})


def _explained(rows: pd.DataFrame) -> str:
    """Say of the most workers what became of a step, and what holds them up."""
    most = rows.index.max()
    last = rows.loc[most]
    said = f"{describe({'workers': most}, ['workers'])}: {last['why']}."
    if most == 1 or 1 not in rows.index:
        return said
    more = last[["step", "own work", "waiting"]] - rows.loc[1, ["step", "own work", "waiting"]]
    grown = (
        f"Compared with one worker, a step changes by {more['step']:+.1f} ms: own work by "
        f"{more['own work']:+.1f}, waiting by {more['waiting']:+.1f}"
    )
    if not math.isnan(last["predicted"]):
        grown += f"; predicted were {last['predicted'] - rows.loc[1, 'step']:+.1f}"
    return f"{said} {grown}."


def _not_measured(table: pd.DataFrame) -> str:
    """Name what there is no measured speedup of, and say why that may be."""
    lost = table[table["measured"].isna()].index if len(table) else ()
    named = ", ".join(f"{framework} with {n}" for framework, n in lost)
    return (
        f"No measured speedup of {named} (workers): oversubscribed, or without a rate."
        if named else ""
    )  # fmt: skip
