"""Chapter 7.2: what the measurements say, where they come from, and what is open."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from labkit import analysis
from labkit.course import downpour
from labkit.course.diagrams import BLUE, GREEN, ORANGE, sheet
from labkit.figures.page import Figure
from labkit.figures.selection import Tables
from labkit.runs import Store
from labkit.runs.tables import published
from labkit.thesis.claims import VERDICTS, Verdicts
from labkit.thesis.rates import Finding

HERE, PUBLISHED = "measured here", "the published run"

COLOURS = dict(zip(VERDICTS, (GREEN, ORANGE, BLUE, "0.85"), strict=True))
"""Of the verdicts."""

SETTING = ["model", "dataset", "batch_size", "initializer", "updates"]
"""What is the same in all trials of one comparison of optimizers."""


@dataclass(frozen=True)
class Evidence:
    """What findings rest on.

    Attributes
    ----------
    source : str
        Where it comes from.
    table, steps : DataFrame
        One row per trial, and one per report of a worker.
    left_out : int
        Runs that could not be read.
    """

    source: str
    table: pd.DataFrame
    steps: pd.DataFrame
    left_out: int = 0

    def __repr__(self) -> str:
        machines = self.table.groupby(["cpu_model", "cores"]).size()
        said = ", ".join(f"{n} on {cpu}, {cores} cores" for (cpu, cores), n in machines.items())
        unread = f"; {self.left_out} more cannot be read" if self.left_out else ""
        return f"{self.source}: {len(self.table)} trials, {said}{unread}"


def evidence(launcher: str = "local") -> Evidence:
    """Return all that was measured here; if nothing was, the published run."""
    kept = Store(launcher=launcher).results()
    if len(kept.table):
        return Evidence(HERE, kept.table, kept.steps, len(kept.left_out))
    return Evidence(PUBLISHED, published("trials"), published("steps"))


def tally(title: str, verdicts: Verdicts) -> Figure:
    """Draw how many claims of each section have which verdict: figure 7.2.

    Parameters
    ----------
    title : str
    verdicts : Verdicts
    """
    table = verdicts.table
    section = table["claim"].str.extract(r"^(p|[\d.]+)", expand=False)
    counts = pd.crosstab(section, table["verdict"]).reindex(columns=VERDICTS, fill_value=0)
    counts = counts.rename(index={"p": "later paper"})[::-1]
    with sheet(title, 2.9, plots=True) as (figure, [axes]):
        left = pd.Series(0, counts.index)
        for verdict in VERDICTS:
            axes.barh(counts.index, counts[verdict], left=left, color=COLOURS[verdict],
                      label=verdict)  # fmt: skip
            left += counts[verdict]
        axes.set(xlabel="claims", ylabel="section")
        axes.grid(False, axis="y")
        figure.legend(loc="outside lower center", ncols=len(VERDICTS))
    return figure


def demands(verdicts: Verdicts) -> pd.Series:
    """Return how many claims need so many workers at most, by that number."""
    most = [max((point.workers for point in each.claim.needs), default=1) for each in verdicts]
    return pd.Series(most, dtype=int).value_counts().sort_index().rename_axis("workers")


def adaptive(found: Evidence, target: float) -> Finding:
    """Return the comparison of chapter 7.1, of the trials with AdaGrad that were run last.

    Parameters
    ----------
    found : Evidence
    target : float
        The accuracy on training batches whose seconds count, in percent.
    """
    table = found.table
    if "optimizer" in table:
        table = table.assign(updates=table["steps"] * table["workers"])
        table = table[table["slowdown"].isna() & table["updates"].notna()]
        last = analysis.latest(table[table["optimizer"] == "adagrad"], SETTING)
        table = table.merge(last[SETTING].drop_duplicates())
    if "optimizer" not in table or table.empty:
        return Finding(f"Not in {found.source} yet: 7.1 runs what it takes.", pd.DataFrame())
    return downpour.compared(Tables(table, found), target)
