"""The same without chance: mean value analysis, and the expected maximum of compute times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, stats

from labkit.errors import LabkitError
from labkit.simulation.answer import Answer
from labkit.simulation.serving import NEGLIGIBLE
from labkit.simulation.system import System, passing

Array = NDArray[np.float64]


def analyse(system: System) -> Answer:
    """Return what a closed queueing network says of a trial.

    With ``async-ps`` the workers are its customers. Computing and all else that a worker does
    alone is a delay; each server is a queue, and so is each direction of its link, which messages
    share evenly. Exact where there is one server, whose times of service are exponential, with a
    node of its own, and computing times scatter if there is a bandwidth: then it is mean value
    analysis as M. Reiser and S. S. Lavenberg have it ("Mean-value analysis of closed multichain
    queuing networks", J. ACM 27, 1980). Of several servers, which work at the same time, the one
    that takes longest counts. Workers that are not alike are taken for as many that are, and
    together as fast if they do not meet: a mean value analysis of each by itself would need all
    sets of workers that may wait at a server.

    With ``sync-ps`` workers are sent the weights one after the other, and a step is the time until
    the last gradient has been added up, each arriving when the first, second, ... of so many is to
    be expected.

    Parameters
    ----------
    system : System
        With a core on each node; a server beside a worker is taken to have one of its own, one
        with threads to serve in turn and to have its share of a core evenly, and none to cool.

    Returns
    -------
    Answer

    Raises
    ------
    LabkitError
        If its processes share cores, which only `simulate` knows.
    """
    if system.cores is not None:
        raise LabkitError(
            f"cores: {system.cores} that all share; the analysis knows a core on each node alone. "
            "simulate() knows both"
        )
    found, alone = (
        (_mean_values if each.strategy == "async-ps" else _in_step)(each)
        for each in (system, system.alone)
    )
    throughput, stations = found
    n = system.workers if system.strategy == "async-ps" else 1
    return Answer(throughput, throughput / alone[0], stations, {n - 1: 1.0})


def expected_maximum(mean: float, cv: float, begin: Sequence[float]) -> float:
    """Return when the last of several is to be expected that take times of a gamma distribution.

    Parameters
    ----------
    mean, cv : float
        Of each time: its mean, and its coefficient of variation.
    begin : sequence of float
        When each begins.
    """
    if not mean or cv < NEGLIGIBLE:
        return mean + max(begin)
    times = stats.gamma(1 / cv**2, scale=mean * cv**2)
    starts = np.asarray(begin, dtype=float)
    count, last = len(starts), starts.max()
    most = last + float(times.isf(1e-12 / count))
    # The integral of the probability that the last one is not there yet.
    points = [last, last + mean, last + float(times.ppf(0.5 ** (1 / count)))]
    return integrate.quad(
        lambda t: -np.expm1(times.logcdf(t - starts).sum()), 0, most, points=points, limit=200
    )[0]


def _sending(system: System) -> Array:
    """Return the seconds for which each server's bytes keep a link busy, one way."""
    sizes, _ = system.placed()
    # A server beside one of the workers needs no link to that one.
    remote = 1 - 1 / system.workers if system.beside else 1.0
    return passing(sizes * remote, system.bandwidth)


def _mean_values(system: System) -> tuple[float, dict[str, float]]:
    demands = system.demands
    _, shares = system.placed()
    sending = _sending(system)
    # Of each server: the link to it, itself, the link from it.
    service = np.stack([sending, demands.server * shares, sending])
    # The worker's own link passes the messages of all servers.
    others = 2 * (sending.sum() - sending.max())
    served = service.sum(axis=0).max()
    alone = demands.client + demands.latency - demands.hidden * service[1].max()
    steps = np.array(system.slowdowns) * demands.compute + alone + others + served
    delay = max(0.0, 1 / (1 / steps).mean() - served)  # what is hidden still has to be done
    queue = np.zeros_like(service)
    for customers in range(1, system.workers + 1):
        residence = service * (1 + queue)
        throughput = customers / (delay + residence.sum(axis=0).max())
        queue = throughput * residence
    return float(throughput), _stations(system, throughput * service)


def _in_step(system: System) -> tuple[float, dict[str, float]]:
    demands, n = system.demands, system.workers
    _, shares = system.placed()
    service = (demands.server - demands.per_step) * shares
    last = demands.per_step * shares
    sending = _sending(system)
    hidden = demands.hidden
    # Half of a gradient's work is to add it up, half to send the weights; some follows that.
    adding = service.max() / 2 * (1 - hidden)
    after = (service.max() + last.max() / n) * hidden
    begin = (adding + after) * np.arange(1, n + 1) - after
    if system.slowdown > 1 or system.slowdown_spread > 1:
        arrival = begin + np.array(system.slowdowns) * demands.compute
    else:
        arrival = _arrivals(demands.compute, demands.compute_cv, begin)
    # Until it has answered all, the server adds up nothing.
    arrival = np.maximum(arrival + demands.client + demands.latency, n * (adding + after))
    # From the k-th arrival on, those that come then are still to be added up.
    step = (arrival + np.arange(n, 0, -1) * adding).max() + last.max() * (1 - hidden)
    # A server's link passes the messages of all workers, a worker's own those of all servers.
    step += 2 * max(sending.sum(), n * sending.max())
    throughput = n / step
    work = throughput * np.stack([sending, service + last / n, sending])
    return float(throughput), _stations(system, work)


def _arrivals(mean: float, cv: float, begin: Array) -> Array:
    """Return when the first, second, ... of some that begin and compute is to be expected."""
    if not mean or cv < NEGLIGIBLE:
        return begin + mean
    n = len(begin)
    # Blom's ranks for all but the last (G. Blom, "Statistical estimates", 1958).
    ranks = (np.arange(1, n) - 0.375) / (n + 0.25)
    times = stats.gamma(1 / cv**2, scale=mean * cv**2)
    instants = np.linspace(begin[0], begin[-1] + times.ppf(1 - 0.1 / n), 1000)
    done = times.cdf(instants[:, None] - begin).mean(axis=1)
    return np.append(np.interp(ranks, done, instants), expected_maximum(mean, cv, begin))


def _stations(system: System, busy: Array) -> dict[str, float]:
    """Name the share of the time in which each station is busy."""
    first = "node" if system.beside else "server"
    found = {f"server {s}": float(share) for s, share in enumerate(busy[1])}
    if system.bandwidth is not None:
        for way, shares in zip(("to", "from"), busy[::2], strict=True):
            found |= {f"link {way} {first} {s}": float(u) for s, u in enumerate(shares)}
    return found
