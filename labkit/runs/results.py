"""Results: some runs, and the tables made from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.runs import tables
from labkit.runs.run import Run
from labkit.trials import FIELDS

if TYPE_CHECKING:
    import pandas as pd

SHOWN = (
    "status", "batches_per_second", "reported", "oversubscribed", "overloaded", "accuracy",
    "perplexity",
)  # fmt: skip
"""What a short table says of each trial, beside the fields in which trials differ."""


class Results:
    """Some runs, and the tables made from them.

    Parameters
    ----------
    runs : iterable of Run
    note : str
        What is to be said of them in a line.
    left_out : mapping of Path to str
        The directories of runs that cannot be read, each with why.

    Attributes
    ----------
    runs : sequence of Run
    """

    def __init__(
        self, runs: Iterable[Run], note: str = "", left_out: Mapping[Path, str] | None = None
    ) -> None:
        self.runs: Sequence[Run] = tuple(runs)
        self.left_out = left_out or {}
        self.note = note or _count(len(self.runs), "run")
        if self.left_out:
            self.note += f"; {len(left_out)} more cannot be read (left_out says why)"

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per trial: its values, its rates, how it went and where."""
        return tables.trials(self.runs)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row per step window of a worker, ``t`` in seconds since the barrier."""
        return tables.steps(self.runs)

    @cached_property
    def evals(self) -> pd.DataFrame:
        """One row per evaluation on the test set."""
        return tables.evaluations(self.runs)

    @property
    def short(self) -> pd.DataFrame:
        """The fields in which the trials differ, the host if they do in that, and what came."""
        if self.table.empty:
            return self.table
        fields = [name for name in (*FIELDS, "host") if name in self.table and name != "seed"]
        differ = [name for name in fields if self.table[name].nunique(dropna=False) > 1]
        judged = [{None: "not judged"}.get(value, value) for value in self.table["overloaded"]]
        table = self.table.assign(overloaded=judged)
        shown = [name for name in SHOWN if table[name].notna().any()]
        if not table["reported"].any():
            shown.remove("reported")
        return table[[*(differ or fields[:2]), "seed", *shown]]

    def __repr__(self) -> str:
        if self.table.empty:
            return self.note
        text = self.short.to_string(index=False, na_rep="-", float_format="{:.4g}".format)
        return f"{text}\n{self.note}"

    def _repr_html_(self) -> str:
        if self.table.empty:
            return f"<p>{self.note}</p>"
        html = self.short.to_html(index=False, na_rep="-", float_format="{:.4g}".format, border=0)
        return f"{html}<p>{self.note}</p>"


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
