"""Runs on nodes of one kind: what was measured on them, what is missing, and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from labkit import analysis, datasets
from labkit.figures.words import NODES, describe
from labkit.runs.selection import in_words
from labkit.thesis.claims.checks import (
    ACCURACY,
    BUSY,
    COMPUTING,
    PLATEAU,
    RATE,
    RATES,
    RISE,
    Point,
)
from labkit.thesis.plateaus import WHOLE, plateaus
from labkit.thesis.thresholds import CHANCE, RISEN
from labkit.trials.frameworks import FRAMEWORKS
from labkit.trials.models import MODELS

MACHINE = ("launcher", "host", "cpu_model", "cores", "congestion_control")
"""Columns that tell machines apart, as far as a table has them."""

KIND = (*MACHINE, *NODES)
"""Columns that tell kinds of nodes apart, as far as a table has them."""

ORIGIN = ("code", "versions")
"""Columns of which, for a framework and a model, the one that ran last is judged."""

THESIS = {
    "strategy": "async-ps", "clip_norm": None, "loss_over_time": "default", "threads": 1,
    "optimizer": "sgd",
}  # fmt: skip
"""What all trials of the thesis have in common."""

ORDER = ("model", "framework", "batch_size", "learning_rate", "initializer", "workers")
"""In which a point's values are looked for, so that the first one missing is the reason."""


Row = dict[str, Any]
"""A row of the table of trials."""


@dataclass(frozen=True)
class Sample:
    """What was measured of a point.

    Attributes
    ----------
    values : ndarray, shape (n,)
        One per repeat; none if it is missing.
    runs : tuple of str
        The names of their runs.
    oversubscribed : tuple of str
        Those of them that shared cores.
    missing : str
        Why there are none.
    calibration : str
        Of slow nodes, whose rates are all multiples of the same one; else empty.
    """

    values: np.ndarray = field(default_factory=lambda: np.array([]))
    runs: tuple[str, ...] = ()
    oversubscribed: tuple[str, ...] = ()
    missing: str = ""
    calibration: str = ""


class Nodes:
    """The trials that ran as the thesis's did, on nodes of one kind.

    Parameters
    ----------
    table : DataFrame
        One row per trial, with ``total_steps``; at least one.
    steps : DataFrame, optional
        One row per report of a worker.
    """

    def __init__(self, table: pd.DataFrame, steps: pd.DataFrame | None) -> None:
        self.table = table
        self._rows: list[Row] = table.to_dict("records")
        self._steps = steps
        self._samples: dict[tuple[Point, str], Sample] = {}

    @cached_property
    def description(self) -> str:
        """What they are, in words."""
        row = {name: value for name, value in self._rows[0].items() if not pd.isna(value)}
        where = "pods" if row.get("launcher") == "kubernetes" else "processes"
        machine = [row[name] for name in ("host", "cpu_model") if row.get(name)]
        where = ", ".join([f"{where} on {row['cores']} cores", *machine])
        slow = [name for name in NODES if name in row]
        return f"{describe(row, slow)}, {where}" if slow else where

    @cached_property
    def plateaus(self) -> dict[str, dict[str, int]]:
        """Of each trial, the percentages of its training to the plateau's end and of the rise.

        A rise whose end was not seen is none.
        """
        if self._steps is None:
            return {PLATEAU: {}, RISE: {}}
        left = plateaus(self._steps, ["trial"])["share"]
        risen = plateaus(self._steps, ["trial"], below=RISEN)["share"]
        risen = risen[risen < WHOLE]
        return {PLATEAU: left.to_dict(), RISE: (risen - left[risen.index]).to_dict()}

    def sample(self, point: Point, column: str) -> Sample:
        """Return what was measured of a point.

        Parameters
        ----------
        point : Point
        column : str
            A column of the table of trials, or what `claims.checks` names beside them.
        """
        key = point, column
        if key not in self._samples:
            self._samples[key] = self._sample(point, column)
        return self._samples[key]

    def _sample(self, point: Point, column: str) -> Sample:
        rows = curve = self._rows
        for name in ORDER:
            if name == "batch_size" and column not in RATES:
                rows = [row for row in rows if row["eval_samples"] != 0] or rows
            if name == "workers" and column in RATES:
                curve, rows = rows, _one_length(rows)
            among, rows = rows, [row for row in rows if row[name] == getattr(point, name)]
            if not rows:
                others = [row for row in curve if row["workers"] == point.workers]
                if name == "workers" and others:
                    return Sample(missing=_of_other_steps(others))
                return Sample(missing=self._absent(name, among))
        if column in RATES:
            return _rates(rows, column)
        found = [row for row in rows if row["total_steps"] == point.steps]
        if not found:
            return Sample(missing=_of_other_steps(rows))
        return self._learning(found, column)

    def _absent(self, name: str, among: list[Row]) -> str:
        if name in ("model", "framework"):
            return "not run"
        if name == "workers":
            slow = any(pd.notna(self._rows[0].get(column)) for column in NODES)
            cores = f"{_values(self._rows, 'cores')} cores"
            return f"not run on these {'slow nodes' if slow else cores}"
        return f"run with {name.replace('_', ' ')} {_values(among, name)} only"

    def _learning(self, rows: list[Row], column: str) -> Sample:
        rows = [row for row in rows if row["status"] != "failed"]
        if not rows:
            return Sample(missing="run, but failed")
        # A seed counts once, however often it was evaluated: with the most images.
        rows = list({row["seed"]: row for row in sorted(rows, key=_images)}.values())
        if column == ACCURACY:
            # What has diverged guesses: that is a result about learning, though not about rates.
            values = [
                CHANCE if row["status"] == "diverged" else row.get("accuracy", math.nan)
                for row in rows
            ]
            return _sample_of(rows, values, "run, but without an evaluation")
        values = [self.plateaus[column].get(row["trial"], math.nan) for row in rows]
        seen = "the end of a rise" if column == RISE else "a learning curve"
        return _sample_of(rows, values, f"run, but without {seen}")


LOST = {
    "oversubscribed: no scaling": lambda row: row["oversubscribed"],
    "diverged": lambda row: row["status"] == "diverged",
    "failed": lambda row: row["status"] != "finished",
    "too briefly to tell whether overloaded": lambda row: pd.isna(row["overloaded"]),
    "overloaded": lambda row: bool(row["overloaded"]),
}
"""Which runs are no evidence of rates, and why."""


def _images(row: Row) -> float:
    """Return how many images were evaluated; all of them where nothing is said."""
    return math.inf if pd.isna(row["eval_samples"]) else row["eval_samples"]


def _rates(rows: list[Row], column: str) -> Sample:
    lost = [next((why for why, of in LOST.items() if of(row)), "") for row in rows]
    kept = [row for row, why in zip(rows, lost, strict=True) if not why]
    if not kept:
        return Sample(missing=f"run, but {', or '.join(dict.fromkeys(lost))}")
    if column in (BUSY, COMPUTING) and pd.notna(kept[0].get("slowdown")):
        return Sample(missing="run, but on slow nodes, which wait instead of computing")
    if column == BUSY:
        values = [
            row[RATE] * row.get(COMPUTING, math.nan) / (1000 * row["workers"]) for row in kept
        ]
    else:
        values = [row.get(column, math.nan) for row in kept]
    found = _sample_of(kept, values)
    slow = pd.notna(kept[0].get("slowdown"))
    name = describe(kept[0], ["framework", "model", "batch_size"]) if slow else ""
    return replace(found, calibration=name)


def _one_length(rows: list[Row]) -> list[Row]:
    """Return the trials of a curve that trained equally long, without evaluation if there are any.

    Of several lengths it is the one with the most trials.
    """
    rows = [row for row in rows if row["eval_samples"] == 0] or rows
    most = Counter(row["total_steps"] for row in rows).most_common(1)[0][0]
    return [row for row in rows if row["total_steps"] == most]


def _sample_of(
    rows: list[Row], values: Sequence[float], missing: str = "run, but not recorded"
) -> Sample:
    there = [pair for pair in zip(rows, values, strict=True) if not math.isnan(pair[1])]
    return Sample(
        np.array([value for _, value in there], float),
        tuple(row["trial"] for row, _ in there),
        tuple(row["trial"] for row, _ in there if row["oversubscribed"]),
        "" if there else missing,
    )


def _of_other_steps(rows: list[Row]) -> str:
    return f"run with steps {_values(rows, 'total_steps')} only"


def _values(rows: list[Row], name: str) -> str:
    return in_words(sorted({row[name] for row in rows}))


def kinds(table: pd.DataFrame, steps: pd.DataFrame | None) -> Iterator[Nodes]:
    """Yield the nodes of each kind on which trials of the thesis ran.

    Of a framework's trials of several versions or states of the code, those of the one that ran
    last are taken; of a curve's trials of several lengths, those of the most frequent one,
    without evaluation if there are any: nothing that differs is ever averaged.
    """
    if table.empty:
        return
    table = _of_the_thesis(analysis.settled(table))
    by = [name for name in KIND if name in table]
    for _, group in table.groupby(by, dropna=False, sort=True):
        parts = group.groupby(["framework", "model"], sort=False)
        chosen = pd.concat(analysis.latest(part, ORIGIN) for _, part in parts)
        reported = steps is not None and not steps.empty
        yield Nodes(chosen, steps[steps["trial"].isin(chosen["trial"])] if reported else None)


def _of_the_thesis(table: pd.DataFrame) -> pd.DataFrame:
    learned = {name: row.datasets[0] for name, row in MODELS.items()}
    kept = table["dataset"] == table["model"].map(learned)
    for name, value in THESIS.items():
        if name in table:
            kept &= table[name].isna() if value is None else table[name] == value
    table = table[kept]  # no scripts any more, which have frameworks of their own
    usual = [
        FRAMEWORKS[framework].servers_for(workers)
        for framework, workers in zip(table["framework"], table["workers"], strict=True)
    ]
    table = table[table["servers"] == usual]
    per_epoch = table["dataset"].map(datasets.samples).astype(int) // table["batch_size"]
    steps = pd.to_numeric(table["steps"]).fillna(pd.to_numeric(table["epochs"]) * per_epoch)
    return table.assign(total_steps=steps)
