"""Where the time of a worker's step goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from labkit.analysis.scaling import configuration, settled
from labkit.trials.nodes import slowdowns
from labkit.trials.strategies import STRATEGIES

if TYPE_CHECKING:
    import pandas as pd

BUSY = 0.9
"""From which share of a step on a worker counts as busy all the time, a server likewise."""

BYTES = 4
"""Of a weight, or of its part in a gradient."""

PARTS = ("input", "computing", "sending", "waiting")
"""Of a step, in the order in which they are shown."""

WORTH_SAYING = 0.01
"""The share of a step from which on input and evaluations are mentioned."""

BESIDE = {
    "input": "Preparing its batch takes {} % of a step.",
    "evaluating": "Evaluations are no part of a step; they cost the worker that evaluates another "
    "{} % of one, averaged over its steps.",
}


def step_times(table: pd.DataFrame) -> pd.DataFrame:
    """Say how long a worker's step takes, and where its time goes.

    A step lasts the number of workers divided by their throughput. A worker's CPU time in it is
    input, which is preparing a batch, computing, and its part in pushing gradients and pulling
    weights. Only slow nodes, which were calibrated, tell the latter two apart: elsewhere
    ``sending`` is part of ``computing``, as input is in scripts and in runs of earlier versions.
    The rest is waiting: for servers, for messages, for others in lock step, or, oversubscribed,
    for a core. Evaluations are in none of it: rates leave them out.

    Parameters
    ----------
    table : DataFrame
        One row per trial.

    Returns
    -------
    DataFrame
        One row per configuration that has a rate: its columns, then the means over its repeats:
        ``step``, ``input``, ``computing``, ``sending`` and ``waiting``, in milliseconds, of which
        the last four add up to the first, ``input`` being NaN where nobody measured it;
        ``evaluating``, what evaluations add to a step of the worker that evaluates; ``serving``,
        the CPU seconds per second of all servers, and ``busiest``, the share of these that one of
        several servers takes; ``megabytes``, which a worker sends to the servers in a step and
        fetches from them, at most (some frameworks send no zeros); ``sent`` and ``received``, the
        megabytes that were measured to leave and to reach its pod in a step, all of these NaN
        where they are not known; and ``n``, the repeats.
    """
    import pandas as pd

    rows = settled(table)
    rows = rows[rows["batches_per_second"].notna() & rows["cpu_ms_per_step"].notna()]
    by = configuration(rows)

    def column(name: str, default: float) -> pd.Series:
        return rows[name].astype(float) if name in rows else pd.Series(default, rows.index)

    step = 1000 * rows["workers"] / rows["batches_per_second"]
    # One thread prepares batches; as many as a trial has compute.
    known = column("input_ms_per_step", float("nan"))
    known = known.clip(upper=rows["cpu_ms_per_step"]).clip(upper=step)
    read = known.fillna(0.0)
    cpu = (rows["cpu_ms_per_step"] - read) / column("threads", 1.0).fillna(1.0)
    core = column("compute_ms", float("nan"))
    computing = (core * rows.apply(_slowdown, axis="columns")).fillna(cpu).clip(upper=step - read)
    sending = (cpu - core).fillna(0.0).clip(lower=0.0, upper=step - read - computing)
    found = rows[by].assign(
        step=step,
        input=known,
        computing=computing,
        sending=sending,
        waiting=step - read - computing - sending,
        evaluating=column("evaluation_ms_per_step", float("nan")),
        serving=column("server_cpu_ms_per_update", float("nan"))
        * rows["batches_per_second"]
        / 1000,
        busiest=column("busiest_server", float("nan")),
        megabytes=rows.apply(_megabytes, axis="columns"),
        sent=column("sent_mb_per_step", float("nan")),
        received=column("received_mb_per_step", float("nan")),
    )
    groups = found.groupby(by, dropna=False, sort=True)
    means = groups[
        ["step", *PARTS, "evaluating", "serving", "busiest", "megabytes", "sent", "received"]
    ].mean()
    return means.assign(n=groups.size()).reset_index()


def _slowdown(row: pd.Series) -> float:
    """Return how many times as long computing takes in a worker's step, on average over steps.

    In lock step all workers take equally many, else each as many as it is fast.
    """
    slow, spread = (row.get(name) for name in ("slowdown", "slowdown_spread"))
    if slow is None or np.isnan(slow):
        return 1.0
    spread = 1.0 if spread is None or np.isnan(spread) else spread
    each = np.array(slowdowns(slow, spread, int(row["workers"])))
    lock_step = row["strategy"] in STRATEGIES and STRATEGIES[row["strategy"]].lock_step
    return float(each.mean() if lock_step else 1 / np.mean(1 / each))


def _megabytes(row: pd.Series) -> float:
    """Return the size of the gradient of all variables, which is that of the weights."""
    variables = row.get("variables")
    if not isinstance(variables, str) or not row["servers"]:
        return float("nan")
    return BYTES * sum(map(int, variables.split())) / 1e6


def explained(row: pd.Series) -> str:
    """Say what holds up the workers of a row of `step_times`, and what is known beside it."""
    said = [f"{bottleneck(row)}."]
    for part, words in BESIDE.items():
        if (share := row[part] / row["step"]) >= WORTH_SAYING:
            said.append(words.format(f"{100 * share:.0f}"))
    if np.isfinite(row["sent"]):
        said.append(
            f"A step sends {row['sent']:.3g} MB to other pods and receives {row['received']:.3g} "
            "MB, as measured."
        )
    elif np.isfinite(row["megabytes"]):
        said.append(
            f"A step sends up to {row['megabytes']:.3g} MB of gradients, and fetches as much of "
            "weights."
        )
    if np.isfinite(row["busiest"]):
        said.append(
            f"Of {row['servers']:.0f} servers the busiest does {100 * row['busiest']:.0f} % of "
            "the work."
        )
    return " ".join(said)


def bottleneck(row: pd.Series) -> str:
    """Say in a sentence what holds up the workers of a row of `step_times`."""
    waiting, serving = 100 * row["waiting"] / row["step"], 100 * row["serving"]
    held_up = f"{waiting:.0f} % of a step is waiting"
    if row["oversubscribed"]:
        return (
            f"{held_up}, mostly for a core: all share {row['cores']:g}, so this says nothing "
            "about more machines"
        )
    if row["servers"] == 1 and serving >= 100 * BUSY:
        return (
            f"{held_up}, and the server is busy for {serving:.0f} % of the time: more workers do "
            "not help, more servers or larger batches may"
        )
    if waiting <= 100 * (1 - BUSY):
        return f"{100 - waiting:.0f} % of a step is the worker's own work: nothing holds it up yet"
    return f"{held_up}, for servers, messages or other workers"
