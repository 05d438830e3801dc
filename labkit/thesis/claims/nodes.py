"""Runs on nodes of one kind: what was measured on them, what is missing, and why."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from labkit import analysis, datasets
from labkit.runs.selection import in_words, there
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
from labkit.thesis.plateaus import plateaus
from labkit.thesis.thresholds import CHANCE, RISEN
from labkit.trials.frameworks import FRAMEWORKS

KIND = ("launcher", "host", "cpu_model", "cores", "slowdown", "cpu", "bandwidth")
"""Columns that tell kinds of nodes apart, as far as a table has them."""

ORIGIN = ("code", "versions")
"""Columns of which, for a framework and a model, the one that ran last is judged."""

THESIS = {
    "strategy": "async-ps", "clip_norm": None, "loss_over_time": "default", "threads": 1,
}  # fmt: skip
"""What all trials of the thesis have in common."""

DATASETS = {"lenet5": "fashion-mnist", "lstm": "ptb"}

ORDER = ("model", "framework", "batch_size", "learning_rate", "initializer", "workers")
"""In which a point's values are looked for, so that the first one missing is the reason."""


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
    """

    values: np.ndarray
    runs: tuple[str, ...] = ()
    oversubscribed: tuple[str, ...] = ()
    missing: str = ""

    @classmethod
    def none(cls, why: str) -> Sample:
        """Return that of a point that was not measured."""
        return cls(np.array([]), missing=why)


class Nodes:
    """The trials that ran as the thesis's did, on nodes of one kind.

    Parameters
    ----------
    table : DataFrame
        One row per trial.
    steps : DataFrame, optional
        One row per report of a worker.
    """

    def __init__(self, table: pd.DataFrame, steps: pd.DataFrame | None) -> None:
        self.table = table
        self._steps = steps
        self._samples: dict[tuple[Point, str], Sample] = {}

    @cached_property
    def description(self) -> str:
        """What they are, in words."""
        row = self.table.iloc[0]
        parts = [str(row[name]) for name in ("host", "cpu_model") if row.get(name)]
        where = "pods" if row.get("launcher") == "kubernetes" else "processes"
        slow = [
            f"{name} {row[name]:g}" if isinstance(row[name], float) else f"{name} {row[name]}"
            for name in ("slowdown", "cpu", "bandwidth")
            if name in row and pd.notna(row[name])
        ]
        kind = ["slow nodes", *slow] if slow else []
        return ", ".join([f"{where} on {row['cores']} cores", *parts, *kind])

    @cached_property
    def plateaus(self) -> pd.DataFrame:
        """Of each trial, the percentages of its training to the plateau's end and of the rise."""
        if self._steps is None or self._steps.empty:
            return pd.DataFrame(columns=[PLATEAU, RISE])
        left = plateaus(self._steps, ["trial"])["share"]
        risen = plateaus(self._steps, ["trial"], below=RISEN)["share"]
        return pd.DataFrame({PLATEAU: left, RISE: risen - left})

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
        rows = self.table
        for name in ORDER:
            if name == "workers" and column in RATES:
                rows = _one_length(rows)
            among, rows = rows, rows[rows[name] == getattr(point, name)]
            if rows.empty:
                return Sample.none(self._absent(name, among))
        if column in RATES:
            return self._rates(rows, column)
        found = rows[rows["total_steps"] == point.steps]
        if found.empty:
            return Sample.none(f"run with steps {in_words(there(rows['total_steps']))} only")
        return self._learning(found, column)

    def _absent(self, name: str, among: pd.DataFrame) -> str:
        if name in ("model", "framework"):
            return "not run"
        if name == "workers":
            return f"not run on these {in_words(there(self.table['cores']))} cores"
        return f"run with {name.replace('_', ' ')} {in_words(there(among[name]))} only"

    def _rates(self, rows: pd.DataFrame, column: str) -> Sample:
        for is_lost, why in LOST:
            lost = is_lost(rows)
            if lost.all():
                return Sample.none(f"run, but {why}")
            rows = rows[~lost]
        if not {column, COMPUTING} <= {*rows, BUSY}:
            return Sample.none("not recorded")
        if column == BUSY:
            return _sample_of(rows, rows[RATE] * rows[COMPUTING] / rows["workers"])
        return _sample_of(rows, rows[column])

    def _learning(self, rows: pd.DataFrame, column: str) -> Sample:
        rows = rows[rows["status"] != "failed"]
        if rows.empty:
            return Sample.none("run, but failed")
        # A seed counts once, however often it was evaluated: with the most images.
        rows = rows.sort_values("eval_samples").drop_duplicates("seed", keep="last")
        if column == ACCURACY:
            found = rows["accuracy"] if "accuracy" in rows else pd.Series(math.nan, rows.index)
            # What has diverged guesses: that is a result about learning, though not about rates.
            values = found.mask(rows["status"] == "diverged", CHANCE)
            return _sample_of(rows, values, "run, but without an evaluation")
        values = rows["trial"].map(self.plateaus[column])
        return _sample_of(rows, values, "run, but without a learning curve")


LOST = (
    (lambda rows: rows["oversubscribed"].astype(bool), "oversubscribed: no scaling"),
    (lambda rows: rows["status"] == "diverged", "diverged"),
    (lambda rows: rows["status"] != "finished", "failed"),
    (lambda rows: rows["overloaded"].eq(True), "overloaded"),
    (lambda rows: ~rows["overloaded"].eq(False), "too briefly to tell whether overloaded"),
)
"""Which runs are no evidence of rates, and why."""


def _one_length(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the trials of a curve that trained equally long, without evaluation if there are any.

    Of several lengths it is the one with the most trials.
    """
    alone = rows[rows["eval_samples"] == 0]
    rows = alone if len(alone) else rows
    counts = rows["total_steps"].value_counts(sort=True)
    return rows[rows["total_steps"] == counts.index[0]] if len(counts) else rows


def _sample_of(rows: pd.DataFrame, values: pd.Series, missing: str = "not recorded") -> Sample:
    there = values.notna()
    if not there.any():
        return Sample.none(missing)
    rows = rows[there]
    shared = rows.loc[rows["oversubscribed"].astype(bool), "trial"]
    return Sample(values[there].to_numpy(float), tuple(rows["trial"]), tuple(shared))


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
        chosen = _latest(group)
        reports = None if steps is None else steps[steps["trial"].isin(chosen["trial"])]
        yield Nodes(chosen, reports)


def _of_the_thesis(table: pd.DataFrame) -> pd.DataFrame:
    kept = table["dataset"] == table["model"].map(DATASETS)
    for name, value in THESIS.items():
        if name in table:
            kept &= table[name].isna() if value is None else table[name] == value
    servers = table["workers"].where(
        table["framework"].map({name: row.servers_per_worker for name, row in FRAMEWORKS.items()}),
        1,
    )
    table = table[kept & (table["servers"] == servers)]
    per_epoch = table["dataset"].map(datasets.samples) // table["batch_size"]
    steps = pd.to_numeric(table["steps"]).fillna(pd.to_numeric(table["epochs"]) * per_epoch)
    return table.assign(total_steps=steps)


def _latest(table: pd.DataFrame) -> pd.DataFrame:
    """Return the trials of each framework and model of the origin that ran last."""
    origin = [name for name in ORIGIN if name in table]
    if not origin or "started" not in table:
        return table
    parts = []
    for _, group in table.groupby(["framework", "model"], sort=False):
        last = group.assign(when=group["started"].fillna("")).sort_values("when").iloc[-1][origin]
        parts.append(group[(group[origin] == last).all(axis=1)])
    return pd.concat(parts)
