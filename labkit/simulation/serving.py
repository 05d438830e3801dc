"""What servers do with the gradients that reach them: one by one, or those of a step together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.simulation.nodes import APPLYING, Nodes, Server
from labkit.simulation.stations import Done
from labkit.simulation.system import System, for_keys

NEGLIGIBLE = 1e-6
"""A coefficient of variation below which times do not scatter."""


class Phases(NamedTuple):
    """Shares of a threaded server's work; the rest is sending weights.

    Attributes
    ----------
    receiving, applying : float
        Of gradients.
    reading : float
        Of the weights that are asked for, which takes its turn in the thread that applies.
    """

    receiving: float
    applying: float
    reading: float


BYTES, KEYS = Phases(0.6, 0.2, 0.05), Phases(0.2, 0.5, 0.05)
"""Of work for bytes, and of work for keys whatever their size; from profiles of TensorFlow's
server (docs/simulation.md)."""

COLD_START = 1.15
"""How many times as long a server with threads takes for a worker's first gradient, of which it
has nothing in its caches. Workers that begin one after the other might else never meet; as it is,
they do where that keeps the server busy: docs/simulation.md."""

CACHE = 32e6
"""Bytes of gradients that a server's threads receive at the same time and still find in the cache
when they apply them: what server processors of the last years have for each group of cores."""

UNCACHED = 0.3e-9
"""Seconds of CPU that each byte of a gradient takes longer if they do not: docs/simulation.md."""


class Request(NamedTuple):
    """A gradient that has reached a server.

    Attributes
    ----------
    worker, visit : int
    work : float
        Seconds that it asks for.
    hidden : float
        Share of them that is due when it has been answered.
    """

    worker: int
    visit: int
    work: float
    hidden: float


def scatter(
    random: np.random.Generator, mean: float, cv: float, shape: tuple[int, ...]
) -> NDArray[np.float64]:
    """Return times of a gamma distribution, which has any spread and is never negative.

    Their own mean is made exactly that which was asked for, so that less depends on chance.
    """
    if not mean or cv < NEGLIGIBLE:
        return np.full(shape, mean)
    times = random.gamma(1 / cv**2, 1.0, shape)
    return times * (mean / times.mean())


class Serving:
    """The servers of a trial at work.

    Parameters
    ----------
    system : System
    nodes : Nodes
    random : Generator
        Where single services scatter.
    steps : int
        After which the times of services begin anew.
    pulled : callable
        Called with a worker for each server whose weights have reached it.

    Attributes
    ----------
    visits : list of tuple of int and float
        Each server that a step visits, and the bytes that it keeps.
    staleness : dict of int to float
        Bytes of gradients by the updates that others had made meanwhile.
    """

    def __init__(
        self,
        system: System,
        nodes: Nodes,
        random: np.random.Generator,
        steps: int,
        pulled: Callable[[int], None],
    ) -> None:
        self.nodes, self.pulled = nodes, pulled
        self.workers, self.share = system.workers, system.share
        self.in_step = system.strategy == "sync-ps"
        demands = system.demands
        sizes, shares = system.placed()
        used = np.flatnonzero(sizes)
        self.visits = [(int(s), float(sizes[s])) for s in used]
        work = scatter(random, 1.0, demands.server_cv, (system.workers, steps, len(used)))
        per_step = demands.per_step if self.in_step else 0.0
        self.work = (work * (demands.server - per_step) * shares[used]).tolist()
        self.last = (per_step * shares[used]).tolist()
        self.shares, self.hidden = shares[used].tolist(), demands.hidden
        self.phases = [
            Phases(*(k * key + (1 - k) * byte for key, byte in zip(KEYS, BYTES, strict=True)))
            for k in for_keys(system)[used].tolist()
        ]
        cools = demands.cooling and not self.in_step
        self.cooling = tuple(zip((0.0, 0.0), *demands.cooling, strict=True)) if cools else ()
        self.seen = [[0] * len(used) for _ in range(system.workers)]
        self.held: list[list[Request]] = [[] for _ in range(system.servers)]
        self.staleness: dict[int, float] = defaultdict(float)

    def push(self, worker: int, step: int) -> None:
        """Let a worker's gradients of a step be on their way."""
        for visit, (number, size) in enumerate(self.visits):
            node = self.nodes.node(number)
            self.nodes.send(worker, node, size, self._arrive, (worker, visit, step))

    def _arrive(self, gradient: tuple[int, int, int]) -> None:
        worker, visit, step = gradient
        number, size = self.visits[visit]
        server = self.nodes.servers[number]
        work = self.work[worker][step][visit]
        if self.cooling:
            work += float(np.interp(server.asked(), *self.cooling)) * self.shares[visit]
        if server.threads and server.receiving(worker) * size > CACHE:
            work += UNCACHED * size / self.share
        request = Request(worker, visit, work, self.hidden)
        if self.in_step:
            self._ask(request, 0.5, self._add)
        elif server.threads:
            if not self.seen[worker][visit]:
                request = request._replace(work=COLD_START * request.work)
            if not server.core.spare and any(other != worker for other in server.open):
                request = request._replace(hidden=0.0)  # no core is left to hide it on
            self._ask(request, self.phases[visit].receiving, self._received)
        else:
            self._ask(request, 1.0, self._apply)

    def _server(self, request: Request) -> Server:
        return self.nodes.servers[self.visits[request.visit][0]]

    def _seconds(self, request: Request, share: float) -> float:
        """Return how long a share takes of what is to be done before the answer."""
        return request.work * (1 - request.hidden) * share

    def _ask(self, request: Request, share: float, done: Done) -> None:
        """Have a server do a share of what it has to before it answers."""
        server = self._server(request)
        server.take(request.worker, self._seconds(request, share), done, request)
        server.serve()

    def _served(self, request: Request) -> None:
        self._server(request).end(request.worker)

    # Without waiting for anybody.

    def _received(self, request: Request) -> None:
        seconds = self._seconds(request, self.phases[request.visit].applying)
        self._server(request).work_in(APPLYING, seconds, self._apply, request)

    def _apply(self, request: Request) -> None:
        number, size = self.visits[request.visit]
        server, seen = self.nodes.servers[number], self.seen[request.worker]
        self.staleness[server.updates - seen[request.visit]] += size
        server.updates += 1
        seen[request.visit] = server.updates
        if server.threads:
            seconds = self._seconds(request, self.phases[request.visit].reading)
            server.work_in(APPLYING, seconds, self._read, request)
        else:
            self._send(request)

    def _read(self, request: Request) -> None:
        seconds = self._seconds(request, 1 - sum(self.phases[request.visit]))
        self._server(request).work(seconds, self._send, request)

    # In lock step: half of the work for a gradient is adding it up, half is sending the weights.

    def _add(self, request: Request) -> None:
        number, size = self.visits[request.visit]
        self.staleness[0] += size
        self.held[number].append(request)
        server = self.nodes.servers[number]
        if len(self.held[number]) == self.workers:
            server.work(self.last[request.visit] * (1 - self.hidden), self._applied, number)
        else:
            self._served(request)

    def _applied(self, number: int) -> None:
        together, self.held[number] = self.held[number], []
        self._served(together[-1])
        for request in together:
            self._ask(request, 0.5, self._send)

    def _send(self, request: Request) -> None:
        """Answer; what is hidden is done after that."""
        worker, visit, work, hidden = request
        number, size = self.visits[visit]
        self.nodes.send(self.nodes.node(number), worker, size, self.pulled, worker)
        seconds = (work + self.last[visit] / self.workers) * hidden
        if seconds:
            self._server(request).work(seconds, self._served, request)
        else:
            self._served(request)
