"""What is modelled: what a step demands, and the machines that it demands it of."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import LabkitError, nearest
from labkit.simulation.placement import PLACEMENTS
from labkit.trials.nodes import slowdowns

STRATEGIES = ("async-ps", "sync-ps")

KEY_BYTES = 300_000
"""Bytes as which it counts, in a server's work, that it is one more key.

In MXNet on real cores a server spent 0.63 ms on a key of few weights and 3.85 ms on LeNet-5's of
1.6 MB (ten workers, a key each on eight of ten servers), so 0.6 ms a key and 2 ns a byte.
"""

FRAMING = 1514 / 1448
"""Bytes that a link passes for each byte of a message, as there are headers: 1514 bytes of a full
frame of Ethernet hold 14 of its own, 20 of IP, 32 of TCP, and 1448 of the message."""


def passing(size: Any, bandwidth: float | None) -> Any:
    """Return the seconds for which a message keeps a link busy that passes nothing else.

    Parameters
    ----------
    size : float or array of float
        Bytes of the message.
    bandwidth : float or None
        Bits per second, headers included; None for a network that takes no time.
    """
    return 8 * FRAMING * size / (bandwidth or math.inf)


@dataclass(frozen=True)
class Demands:
    """What one step of a worker demands, as a trial with one worker measures it.

    Attributes
    ----------
    compute : float
        Seconds of CPU that the gradient takes.
    client : float
        Seconds of CPU in which the worker sends gradients and receives weights.
    server : float
        Seconds of CPU in which all servers together receive and apply the gradient and answer, if
        others came right before.
    cooling : tuple of pairs of float
        Pauses since the last gradient, in seconds, ever longer, and the seconds of CPU that this
        takes longer after each: servers' caches fill with other things. In between it grows
        evenly, from nothing, and beyond the longest no further. Not in lock step.
    variables : tuple of int
        Bytes of each variable, in the order in which the framework places them.
    latency : float
        Seconds in which a lone worker waits although nothing works.
    hidden : float
        Share of what servers do that goes on while the worker does, after it has been answered.
    per_step : float
        Seconds of `server` that workers in lock step need once a step of all of them, instead of
        once for each gradient.
    compute_cv, server_cv : float
        Coefficients of variation of single services.
    """

    compute: float
    client: float = 0.0
    server: float = 0.0
    cooling: tuple[tuple[float, float], ...] = ()
    variables: tuple[int, ...] = (4,)
    latency: float = 0.0
    hidden: float = 0.0
    per_step: float = 0.0
    compute_cv: float = 0.0
    server_cv: float = 0.0

    def on(self, cpu: float) -> Demands:
        """Return the demands where all but computing gradients gets a fraction of a core.

        Parameters
        ----------
        cpu : float
            The fraction.

        Raises
        ------
        LabkitError
            If it is none.
        """
        if not 0 < cpu <= 1:
            raise LabkitError(f"cpu: {cpu!r}; allowed: a fraction of a core, such as 0.5")
        return replace(self.serving(1 / cpu), client=self.client / cpu)

    def serving(self, times: float) -> Demands:
        """Return the demands where servers take so many times as long for everything.

        Parameters
        ----------
        times : float
        """
        cooling = tuple((pause, times * seconds) for pause, seconds in self.cooling)
        return replace(
            self, server=times * self.server, cooling=cooling, per_step=times * self.per_step
        )


@dataclass(frozen=True)
class System:
    """A trial on its machines.

    Attributes
    ----------
    demands : Demands
    workers, servers : int
    strategy : str
        ``async-ps``, or ``sync-ps``: then a step of all workers ends when the servers have all
        gradients and all workers have the weights.
    placement : str
        ``hash`` as in MXNet, ``round-robin`` as in TensorFlow.
    threads : bool
        Whether a server receives in eight threads, of which each has some of the workers, and
        applies gradients in one more, as TensorFlow's; else it serves one worker after the other.
        Not of a server beside a worker.
    beside : bool
        Whether server i runs on the node of worker i, instead of one of its own.
    slowdown : float
        How many times longer computing takes, measured from its beginning; all else is as fast as
        ever, and the core is free in the rest of that time.
    slowdown_spread : float
        How many times as slow as the first worker the last one is, the others evenly in between.
    bandwidth : float or None
        Bits per second of a node, in each direction, headers included; None for a network that
        takes no time.
    cores : float or None
        Cores of one machine that all processes share evenly, such as 1.9 of two where other
        programs take a tenth; None for a core on each node. A worker and the server beside it are
        held to one of them, in turn, unless there is a slowdown: then whoever computes takes one
        that is free.
    share : float
        Of a core of its own, which each server with threads has in slices: at full speed until
        that share of a period is used up (`labkit.simulation.stations.PERIOD`). A worker and the
        server beside it have one share together, and may use it up at the same time, each at the
        full speed of a core. What `demands` says is what work would take if the share were given
        evenly, as `Demands.on` has it.

    Raises
    ------
    LabkitError
        If there can be no such system; it names all that is wrong.
    """

    demands: Demands
    workers: int = 1
    servers: int = 1
    strategy: str = "async-ps"
    placement: str = "round-robin"
    threads: bool = False
    beside: bool = False
    slowdown: float = 1.0
    slowdown_spread: float = 1.0
    bandwidth: float | None = None
    cores: float | None = None
    share: float = 1.0

    def __post_init__(self) -> None:
        if wrong := list(self._mistakes()):
            raise LabkitError("this system cannot be: " + "; ".join(wrong))

    def _mistakes(self) -> Iterator[str]:
        for name in ("workers", "servers"):
            value = getattr(self, name)
            if not (isinstance(value, Integral) and value >= 1):
                yield f"{name}: {value!r}; allowed: whole numbers from 1 on"
        if self.cores is not None and not 0 < self.cores < math.inf:
            yield f"cores: {self.cores!r}; allowed: more than 0"
        if not 0 < self.share <= 1:
            yield f"share: {self.share!r}; allowed: a fraction of a core, such as 0.5"
        elif self.share < 1 and (self.cores is not None or not (self.threads or self.beside)):
            yield (
                f"share: {self.share!r}; allowed: only of servers with threads or beside workers, "
                "and own cores"
            )
        for name, known in (("strategy", STRATEGIES), ("placement", PLACEMENTS)):
            value = getattr(self, name)
            if value not in known:
                yield f"{name}: {value!r}{nearest(value, known)}; allowed: {', '.join(known)}"
        if self.beside and self.servers != self.workers:
            yield f"beside: {self.servers} servers with {self.workers} workers; allowed: as many"
        if self.beside and self.threads:
            yield "threads: servers beside workers; allowed: only of servers with their own nodes"
        for name in ("slowdown", "slowdown_spread"):
            if not 1 <= (value := getattr(self, name)) < math.inf:
                yield f"{name}: {value!r}; allowed: 1 or more"
        if self.bandwidth is not None and not self.bandwidth > 0:
            yield f"bandwidth: {self.bandwidth!r}; allowed: more than 0 bit/s"
        demands = vars(self.demands)
        sizes = self.demands.variables
        if not sizes or min(sizes) <= 0:
            yield f"variables: {sizes!r}; allowed: bytes of each, at least one"
        for name, value in demands.items():
            if name not in ("variables", "cooling") and not 0 <= value < math.inf:
                yield f"{name}: {value!r}; allowed: 0 or more"
        if not self.demands.compute + self.demands.server > 0:
            yield "compute, server: 0; a step has to take some time"
        if self.demands.hidden > 1:
            yield f"hidden: {self.demands.hidden!r}; allowed: a share, such as 0.5"
        pauses = [0.0, *(pause for pause, _ in self.demands.cooling), math.inf]
        if any(a >= b for a, b in pairwise(pauses)) or any(
            not 0 <= seconds < math.inf for _, seconds in self.demands.cooling
        ):
            yield f"cooling: {self.demands.cooling!r}; allowed: longer and longer pauses, seconds"
        if self.demands.per_step > self.demands.server:
            yield f"per_step: {self.demands.per_step!r}; allowed: at most server"

    @property
    def alone(self) -> System:
        """The same with one worker, and one server if each worker brings one."""
        return replace(self, workers=1, servers=1 if self.beside else self.servers)

    @property
    def numberings(self) -> dict[int, float]:
        """How likely it is that server 0 is beside a worker, by the worker; the others follow.

        MXNet numbers the servers of one machine as their ports happen to be. It matters where the
        busiest one comes to lie if one core has more nodes than another: on such a core, or not.
        """
        if not self.beside or self.cores is None or self.slowdown > 1:
            return {0: 1.0}
        n, cores = self.workers, math.ceil(self.cores)
        crowded = n % cores  # the first ones: nodes are held to each in turn
        if n < cores or not crowded:
            return {0: 1.0}
        busiest = int(self.placed()[1].argmax())
        chance = crowded * math.ceil(n / cores) / n
        return {-busiest % n: chance, (cores - 1 - busiest) % n: 1 - chance}

    @property
    def slowdowns(self) -> list[float]:
        """How many times longer computing takes, of each worker."""
        return slowdowns(self.slowdown, self.slowdown_spread, self.workers)

    def placed(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return each server's bytes, and its share of the work of an update.

        Returns
        -------
        sizes, work : array of float, shape (servers,)
        """
        sizes, keys = PLACEMENTS[self.placement](self.demands.variables, self.servers)
        # A split key costs every server its message, beside its part of the bytes.
        work = (sizes + KEY_BYTES * keys).sum(axis=0)
        alone = (np.array(self.demands.variables) + KEY_BYTES).sum()
        return sizes.sum(axis=0), work / alone


def for_keys(system: System) -> NDArray[np.float64]:
    """Return which share of each server's work is for keys, whatever their size.

    Returns
    -------
    array of float, shape (servers,)
        0 of a server that keeps nothing.
    """
    sizes, keys = PLACEMENTS[system.placement](system.demands.variables, system.servers)
    messages = KEY_BYTES * keys.sum(axis=0)
    work = sizes.sum(axis=0) + messages
    return np.divide(messages, work, out=np.zeros_like(work), where=work > 0)
