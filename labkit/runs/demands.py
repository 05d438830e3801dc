"""What a step demands, from the rows of a table of trials: what a model of a trial is fed with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.analysis.scaling import CIRCUMSTANCES, plain
from labkit.errors import LabkitError
from labkit.runs.basis import ALIKE, NoDemands, basis
from labkit.simulation import Demands, System
from labkit.simulation.nodes import RECEIVING
from labkit.simulation.serving import CACHE
from labkit.simulation.stations import PERIOD, in_slices, of_slices
from labkit.simulation.system import passing
from labkit.trials.frameworks import FRAMEWORKS
from labkit.trials.models import MODELS
from labkit.trials.nodes import NODE

if TYPE_CHECKING:
    import pandas as pd

FLOAT = 4
"""Bytes of an element of a variable."""

SHORTER = 1.8
"""How many times shorter the interval between updates has to become, nearly as twice as many
workers make it, to tell what pauses cost servers: busy ones have none to lose, and with less
chance would count for much."""

BUSY = 0.5
"""Share of its time from which on a server receives so much at once that a full cache, which the
simulation adds, may be in what an update took; looked at where the gradients can fill one."""

LEAST = 0.75
"""Of what the shortest interval showed, how much an update at least takes without a pause: where
two measured intervals scatter, the line through them may go anywhere."""


@dataclass(frozen=True)
class Measured:
    """What runs with one worker say of a step; of its servers, also those with more workers.

    Attributes
    ----------
    framework, model : str
    demands : Demands
        Means over the repeats.
    rates : tuple of float
        Batches per second of each repeat.
    samples_per_epoch : int
    batch_size : int
    circumstances : dict
        Where and with what they were run.
    sizes_known : bool
        Whether the bytes of the variables are the model's own.
    served : tuple of int
        The numbers of workers beside which servers were looked at; empty if none were, or runs
        with more workers than one could not say what servers take.
    """

    framework: str
    model: str
    demands: Demands
    rates: tuple[float, ...]
    samples_per_epoch: int
    batch_size: int
    circumstances: dict[str, Any]
    sizes_known: bool
    served: tuple[int, ...]

    def system(
        self, workers: int, servers: int | None = None, cpu: float = 1.0, **values: Any
    ) -> System:
        """Return a trial with these demands, its servers as the framework has them by default.

        Parameters
        ----------
        workers : int
        servers : int, optional
        cpu : float
            The fraction of a core that a node has; of a slow node, whose gradients take
            ``slowdown`` times as long by themselves, for all else.
        **values
            ``strategy``, ``slowdown``, ``slowdown_spread``, ``bandwidth`` and ``cores`` of
            `System`.

        Returns
        -------
        System

        Raises
        ------
        LabkitError
            If there can be no such system, or the sizes that a bandwidth needs are not known.
        """
        row = FRAMEWORKS[self.framework]
        if servers is None:
            servers = row.servers_for(workers)
        if values.get("bandwidth") and not self.sizes_known:
            raise LabkitError(
                f"bandwidth: how large the variables of {self.model} are is not known here; "
                f"leave it out, or take one of {', '.join(MODELS)}"
            )
        beside = row.servers_per_worker and servers == workers
        cores = values.get("cores")
        # A server that has whole cores does not show its threads: what there is only one of has
        # a core to itself.
        threads = row.server_threads and not beside and (cpu < 1 or cores is not None)
        # A gradient on a slow node uses up the node's share of a core for longer, not its wait.
        demands, slowdown = self.demands.on(cpu), values.pop("slowdown", 1.0)
        longer = max(1.0, min(1 / cpu, slowdown))
        within = slowdown * cpu >= 1  # whether gradients come out of the share, too
        return System(
            replace(demands, compute=demands.compute * longer), workers, servers,
            placement=row.placement, threads=threads,
            beside=beside, slowdown=slowdown / longer,
            share=cpu if cores is None and (threads or (beside and within)) else 1.0, **values,
        )  # fmt: skip


def measured(
    table: pd.DataFrame,
    framework: str,
    model: str,
    batch_size: int,
    strategy: str = "async-ps",
    slowdown: float = 1.0,
    optimizer: str = "sgd",
    cpu: float = 1.0,
    known: float = 1,
    bandwidth: float | None = None,
) -> Measured:
    """Return what the runs with one worker of a table say of a step.

    Only runs with parameter servers that kept nobody waiting for a core are taken, on one machine,
    with one code and the same versions, as many servers and the same clipping: where there are
    several of these, the last ones, of those without evaluation if there are any. Those of the
    strategy and on the nodes that are asked for come first, then those of the other strategy, on
    nodes without a limit of the network, with whole cores, and without a slowdown.

    A worker's CPU time is that of computing and of its part in pushing and pulling; the
    calibration of a slow node or a ``single`` run of the same tells the two apart, without them
    all counts as computing. Where a table does not say what the servers took, it is the rest of
    the step's time.

    A server that one worker asks now and then finds its caches full of other things, and takes
    longer than beside many. So what it takes comes from runs with more workers, drawn on to no
    interval between updates, if these may be looked at and had as many servers or one beside each.

    Parameters
    ----------
    table : DataFrame
        One row per trial.
    framework : str
    model : str
        Its name, or its file.
    batch_size : int
    strategy : str
    slowdown : float
    optimizer : str
    cpu : float
        The fraction of a core that a node had.
    known : float
        The most workers of the runs that may say what asynchronous servers take.
    bandwidth : float or None
        Bits per second of a node's network, if it was limited.

    Returns
    -------
    Measured

    Raises
    ------
    NoDemands
        If there are none; it says which trial would do.
    LabkitError
        If there is no such framework or optimizer, or the model's name is nearly another's.
    """
    base = basis(
        table, framework, model, batch_size, strategy, slowdown, optimizer, cpu, known, bandwidth
    )
    served, (stretched, share, network) = base.served, base.node
    model = Path(model).name
    wall = 1 / served["batches_per_second"].mean()
    taken = _mean(served, "cpu_ms_per_step") / 1000
    if math.isnan(taken):
        raise NoDemands(
            f"cpu_ms_per_step: the runs of {framework} {model} at batch size {batch_size} with "
            "one worker do not say what CPU time a step took, so there is nothing to predict from"
        )
    compute = _mean(served, "compute_ms") / 1000
    if math.isnan(compute):
        compute = _mean(base.alone, "cpu_ms_per_step") / 1000
    compute = float(np.fmin(compute, taken))
    # What a gradient took longer than the calibration's comes off a slow node's wait: a worker
    # cannot have sent and received for longer than the step left it.
    sizes = _sizes(served, framework, model)
    variables = tuple(FLOAT * size for size in sizes or (1,))
    sent = 0.0 if _beside(served, framework) else 2 * passing(sum(variables), network)
    left = max(0.0, wall - stretched * compute - sent)
    server, cooling, beside = _server(base.every, served, framework, variables)
    cold = cooling[-1][1] if cooling else 0.0
    # Slices of a server with its own node, and of a node with both, who may work at once.
    own = share if FRAMEWORKS[framework].server_threads else 1.0
    both = share if _beside(served, framework) and stretched * share >= 1 else 1.0
    able = spare = of_slices(left, both)
    if both < 1:
        spare = min(spare, PERIOD * math.ceil(left / PERIOD) - (server + cold) / share)
    client = min(taken - compute, share * max(0.0, spare))
    able = max(0.0, able - client / share)  # for the servers
    if math.isnan(server) or _on_one_core(served, framework):
        # On the worker's own core it cannot have taken more: the rest was before the clock began.
        server = float(np.fmin(server, share * able))
    took = (server + cold) / share
    hidden = max(0.0, 1 - of_slices(able, own) / took) if took else 0.0
    half = client / share / 2
    answered = in_slices(half + in_slices(took * (1 - hidden), own), both)
    demands = Demands(
        compute=compute,
        client=client,
        server=server,
        cooling=cooling,
        variables=variables,
        latency=max(0.0, left - answered - in_slices(half, both)),
        hidden=hidden,
        per_step=_per_step(base.ones, served, server),
        compute_cv=float(np.nan_to_num(_mean(served, "cpu_variation"))),
    )
    return Measured(
        framework, model, demands, tuple(served["batches_per_second"]),
        int(served["samples_per_epoch"].iloc[0]), batch_size, base.circumstances,
        sizes is not None, beside,
    )  # fmt: skip


def measured_of(trials: pd.DataFrame) -> Measured:
    """Return what the runs with one worker say of a step, of trials that are alike in all else.

    Parameters
    ----------
    trials : DataFrame
        One row per trial, at least one; they differ in their workers, and are repeated.

    Returns
    -------
    Measured

    Raises
    ------
    NoDemands
        As `measured`.
    """
    first = {name: plain(value) for name, value in trials.iloc[0].items()}
    return measured(
        trials, first["framework"], first["model"], first["batch_size"],
        first["strategy"], first.get("slowdown") or 1.0, first["optimizer"],
        first.get("cpu") or 1.0, bandwidth=first.get("bandwidth"),
    )  # fmt: skip


def shared_cores(trials: pd.DataFrame) -> int | None:
    """Return how many cores all processes of a trial shared: those of the machine that ran it.

    None where they had nodes of their own, in a cluster. With it as ``cores`` of `Measured.system`
    the same machine is predicted.

    Parameters
    ----------
    trials : DataFrame
        One row per trial, all run by one launcher.
    """
    return int(trials["cores"].max()) if (trials["launcher"] == "local").all() else None


def _per_step(rows: pd.DataFrame, served: pd.DataFrame, server: float) -> float:
    """Return what lock step asks of the servers beyond what each gradient does without it."""
    if (served["strategy"] != "sync-ps").any():
        return 0.0
    one_by_one = _like(served, rows[rows["strategy"] == "async-ps"])
    each = _mean(one_by_one, "server_cpu_ms_per_update") / 1000
    return float(np.nan_to_num(np.clip(server - each, 0.0, server)))


def _server(
    every: pd.DataFrame, served: pd.DataFrame, framework: str, variables: tuple[int, ...]
) -> tuple[float, tuple[tuple[float, float], ...], tuple[int, ...]]:
    """Return what an update takes of all servers, and beside how many workers that was measured.

    First the CPU seconds without a pause between updates, then how many more after the pauses that
    were measured beside one asynchronous worker and more: the first is drawn on from the two
    shortest, down to `LEAST`. A number of workers that hardly shortens the pauses is left out:
    there the server is busy all the time, or they are too few more to tell; so is one that keeps
    the server `BUSY`. The seconds are the busiest server's, over its share.
    """
    row, rows = FRAMEWORKS[framework], served
    if "server_cpu_ms_per_update" not in every:
        return math.nan, (), ()
    async_ps = (served["strategy"] == "async-ps").all()
    alone_says_less = async_ps and not _on_one_core(served, framework)
    if alone_says_less:
        beside = _beside(served, framework)
        like = every[(every["strategy"] == "async-ps") & ~every["oversubscribed"].astype(bool)]
        rows = _like(served, like, but=("servers",) if beside else ())
        rows = rows[rows["servers"] == rows["workers"]] if beside else rows
    points = {}
    looked_at = rows[rows["server_cpu_ms_per_update"].notna()]
    for (workers, servers), group in looked_at.groupby(["workers", "servers"]):
        sizes, works = System(
            Demands(1.0, variables=variables), servers=int(servers), placement=row.placement
        ).placed()
        work = works.max()
        share = _mean(group, "busiest_server")
        share = work if math.isnan(share) else share
        seconds = _mean(group, "server_cpu_ms_per_update") / 1000 * share / work
        pause = 1 / _mean(group, "batches_per_second")
        cpu = group["cpu"].fillna(1.0).iloc[0] if "cpu" in group else 1.0
        overflows = row.server_threads and RECEIVING * sizes.max() > CACHE
        if points and overflows and seconds > BUSY * cpu * pause:
            continue
        points[int(workers)] = (pause, seconds)
    if not points:
        return math.nan, (), ()
    told: list[int] = []
    for workers in sorted(points, reverse=True):
        if not told or points[workers][0] > SHORTER * points[told[-1]][0]:
            told.append(workers)
    (pause, server), *longer = (points[workers] for workers in told)
    if longer:
        per_second = max(0.0, longer[0][1] - server) / (longer[0][0] - pause)
        server = max(LEAST * server, server - per_second * pause)
    cooling = tuple(
        (points[workers][0], max(0.0, points[workers][1] - server)) for workers in told
    )
    return server, cooling if longer else (), tuple(sorted(told)) if alone_says_less else ()


def _like(served: pd.DataFrame, rows: pd.DataFrame, but: Sequence[str] = ()) -> pd.DataFrame:
    """Return the rows that were run where, with what and on such nodes as those of one worker."""
    first = served.iloc[0]
    for name in (*CIRCUMSTANCES, *ALIKE, *NODE):
        if name in rows and name not in but:
            rows = rows.loc[[plain(value) == plain(first[name]) for value in rows[name]]]
    return rows


def _sizes(rows: pd.DataFrame, framework: str, model: str) -> tuple[int, ...] | None:
    """Return the elements of each variable: as workers said, or as is known of the model."""
    said = rows["variables"].dropna() if "variables" in rows else ()
    if len(said):
        return tuple(map(int, said.iloc[0].split()))
    return MODELS[model].variables.get(framework) if model in MODELS else None


def _beside(rows: pd.DataFrame, framework: str) -> bool:
    """Whether the runs are of a worker with its server on the same node."""
    return bool(FRAMEWORKS[framework].servers_per_worker and (rows["servers"] == 1).all())


def _on_one_core(rows: pd.DataFrame, framework: str) -> bool:
    """Whether each server shared a core with its worker, as those of one machine do."""
    local = "launcher" not in rows or (rows["launcher"] == "local").all()
    return bool(local and _beside(rows, framework))


def _mean(rows: pd.DataFrame, column: str) -> float:
    """Return the mean of a column, NaN where an earlier version had none."""
    return float(rows[column].mean()) if column in rows else math.nan
