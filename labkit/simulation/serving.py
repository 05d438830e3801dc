"""What servers do with the gradients that reach them: one by one, or those of a step together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import numpy as np

from labkit.simulation.nodes import Nodes, Server
from labkit.simulation.stations import Done
from labkit.simulation.system import System

NEGLIGIBLE = 1e-6
"""A coefficient of variation below which times do not scatter."""


def scatter(random: np.random.Generator, mean: float, cv: float, shape: tuple[int, ...]):
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
        self.nodes, self.pulled, self.workers = nodes, pulled, system.workers
        self.in_step = system.strategy == "sync-ps"
        demands = system.demands
        sizes, shares = system.placed()
        used = np.flatnonzero(sizes)
        self.visits = [(int(s), float(sizes[s])) for s in used]
        work = scatter(random, 1.0, demands.server_cv, (system.workers, steps, len(used)))
        per_step = demands.per_step if self.in_step else 0.0
        self.work = (work * (demands.server - per_step) * shares[used]).tolist()
        self.last = (per_step * shares[used]).tolist()
        self.hidden = demands.hidden_share
        self.seen = [[0] * system.servers for _ in range(system.workers)]
        self.held: list[list[tuple[int, int, int]]] = [[] for _ in range(system.servers)]
        self.staleness: dict[int, float] = defaultdict(float)

    def push(self, worker: int, step: int) -> None:
        """Let a worker's gradients of a step be on their way."""
        for visit, (number, size) in enumerate(self.visits):
            node = self.nodes.node(number)
            self.nodes.send(worker, node, size, self._arrive, (worker, visit, step))

    def _arrive(self, gradient: tuple[int, int, int]) -> None:
        if self.in_step:
            self._ask(gradient, 0.5, self._add)
        else:
            self._ask(gradient, 1.0, self._apply)

    def _ask(self, gradient: tuple[int, int, int], share: float, done: Done) -> None:
        """Have a server do a share of what it has to before it answers."""
        worker, visit, step = gradient
        server = self.nodes.servers[self.visits[visit][0]]
        seconds = self.work[worker][step][visit] * (1 - self.hidden) * share
        server.take((seconds, done, gradient))
        self._serve(server)

    def _serve(self, server: Server) -> None:
        while request := server.due():
            server.work(*request)

    def _served(self, server: Server) -> None:
        server.end()
        self._serve(server)

    # Without waiting for anybody.

    def _apply(self, gradient: tuple[int, int, int]) -> None:
        worker, visit, _ = gradient
        number, size = self.visits[visit]
        server = self.nodes.servers[number]
        self.staleness[server.updates - self.seen[worker][number]] += size
        server.updates += 1
        self.seen[worker][number] = server.updates
        self._send(gradient)

    # In lock step: half of the work for a gradient is adding it up, half is sending the weights.

    def _add(self, gradient: tuple[int, int, int]) -> None:
        _, visit, _ = gradient
        number, size = self.visits[visit]
        self.staleness[0] += size
        self.held[number].append(gradient)
        server = self.nodes.servers[number]
        if len(self.held[number]) == self.workers:
            server.work(self.last[visit] * (1 - self.hidden), self._applied, number)
        else:
            self._served(server)

    def _applied(self, number: int) -> None:
        together, self.held[number] = self.held[number], []
        self._served(self.nodes.servers[number])
        for gradient in together:
            self._ask(gradient, 0.5, self._send)

    def _send(self, gradient: tuple[int, int, int]) -> None:
        """Answer; what is hidden is done after that."""
        worker, visit, step = gradient
        number, size = self.visits[visit]
        server = self.nodes.servers[number]
        self.nodes.send(self.nodes.node(number), worker, size, self.pulled, worker)
        seconds = self.work[worker][step][visit] + self.last[visit] / self.workers
        server.work(seconds * self.hidden, self._served, server)
