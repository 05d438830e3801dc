"""The experiments of 6.1.3 to 6.2.2: how the throughput grows with the workers.

They differ in model and batch size; what they have in common is said here once: how a rate is
measured, and what is to be seen in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from labkit import analysis, datasets
from labkit.figures.words import name_of
from labkit.trials import Sweep


def sweep(
    model: str, dataset: str, batch_size: int | Sequence[int], epochs: float, **grid: Any
) -> Sweep:
    """Return the trials that measure rates.

    A rate needs no whole training: it is counted in the window in which all workers train, and
    some seconds of it suffice. So `epochs` may be a fraction.

    Parameters
    ----------
    model, dataset : str
    batch_size : int or sequence of int
    epochs : float
        Passes of every worker over the data.
    **grid
        The other arguments of `Sweep.grid`: a list is an axis of the grid.
    """
    sizes = [batch_size] if isinstance(batch_size, int) else batch_size
    return Sweep(
        [
            trial
            for size in sizes
            for trial in Sweep.grid(
                model=model,
                dataset=dataset,
                batch_size=size,
                steps=int(epochs * (datasets.samples(dataset) // size)),
                **grid,
            )
        ]
    )


@dataclass(frozen=True)
class Finding:
    """A question, the numbers that answer it, and how to read them."""

    question: str
    table: pd.DataFrame
    reading: str = ""

    def __repr__(self) -> str:
        numbers = "" if self.table.empty else self.table.to_string(na_rep="-")
        return "\n".join(filter(None, [self.question, numbers, self.reading]))

    def _repr_html_(self) -> str:
        reading = f"<p>{self.reading}</p>" if self.reading else ""
        numbers = "" if self.table.empty else self.table.to_html(border=0, na_rep="-")
        return f"<p><b>{self.question}</b></p>{numbers}{reading}"


class Findings(tuple[Finding, ...]):
    """Some findings, one below the other."""

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self))

    def _repr_html_(self) -> str:
        return "".join(finding._repr_html_() for finding in self)


def findings(results: Any, alone: Any = None) -> Findings:
    """Return what is to be seen in the rates of an experiment.

    Parameters
    ----------
    results : object
        What `measure` returned.
    alone : object, optional
        The same, of one worker with several batch sizes.

    Returns
    -------
    Findings
    """
    found = [lead(results), scaling(results), cost(results), evenness(results)]
    if alone is not None:
        found.insert(1, epochs_alone(alone))
    return Findings(found)


def lead(results: Any) -> Finding:
    """Return which framework is ahead, for each number of workers."""
    rates = analysis.summarise(results.table).groupby(["workers", "framework"])["mean"].mean()
    rates = rates.unstack()
    both = rates.dropna() if rates.shape[1] > 1 else rates.iloc[:0]
    table = pd.DataFrame(
        {
            "ahead": both.idxmax(axis=1).map(name_of) if len(both) else [],
            "times as fast": (both.max(axis=1) / both.min(axis=1)).round(2),
        }
    )
    missing = [
        f"{name_of(framework)} with {', '.join(map(str, lost.index))}"
        for framework, column in rates.items()
        if len(lost := column[column.isna()])
    ]
    return Finding(
        "Which framework is ahead, and by how much?",
        table,
        f"Not compared, as it was not measured: {'; '.join(missing)} (workers)." if missing
        else "" if rates.shape[1] > 1
        else "Only one framework was measured: there is nothing to compare.",
    )  # fmt: skip


def scaling(results: Any) -> Finding:
    """Return the speedups with their intervals."""
    columns = ["framework", "workers", "speedup", "low", "high", "n"]
    return Finding(
        "Does it scale?",
        analysis.speedups(results.table)[columns].set_index(columns[:2]).round(2),
        "The speedup compares with one worker; ideal is the number of workers. low and "
        "high are the ends of the 95 % interval over n repeats: if the ideal lies "
        "between them, the measurement cannot tell the speedup from it.",
    )


def cost(results: Any) -> Finding:
    """Return the CPU time per step of each framework, in milliseconds."""
    table = analysis.summarise(results.table, "cpu_ms_per_step")
    return Finding(
        "How much of it is computing? CPU milliseconds per step, of a worker's own process:",
        table.pivot(index="workers", columns="framework", values="mean").round(1),
        "If the ratio of these times is about that of the throughputs, computing explains the "
        "difference. If not, the rest is waiting: for the servers, the network, or a core.",
    )


def evenness(results: Any) -> Finding:
    """Return how evenly the workers trained, in percent."""
    by = results.table.groupby(["framework", "workers"])[["imbalance", "variation"]]
    return Finding(
        "How even were the runs? In percent, means over the repeats:",
        100 * by.mean().round(3),
        "imbalance is by how much the workers' rates differ within a trial, "
        "variation the coefficient of variation of the rate over the time of a trial. Where "
        "these are large, mistrust small differences between the frameworks.",
    )


def epochs_alone(results: Any) -> Finding:
    """Return how long one worker takes for an epoch with each batch size, in seconds."""
    table = analysis.summarise(results.table, "epoch_s")
    return Finding(
        "Does the batch size change how long an epoch takes with one worker? In seconds:",
        table.pivot(index="framework", columns="batch_size", values="mean").round(1),
    )
