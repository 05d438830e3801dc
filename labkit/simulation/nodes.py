"""The machines of a system: cores, links and servers, and what passes between nodes."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from typing import Any

from labkit.simulation.stations import Clock, Cores, Done, Link, OwnCore, Slices
from labkit.simulation.system import System, passing

INTERFERENCE = 0.7
"""How much more a server's work costs, as a share, for each doubling of those that share a core,
if gradients take no time; docs/simulation.md says what this and the next three were taken from."""

COLD = 0.008
"""Seconds of computing a gradient after which a server has lost half of its caches anyway: so much
of the interference is in what its work costs beside one worker."""

TURNS = 0.04
"""How much more a worker's own work costs, as a share, for each doubling beyond two on a core."""

CROWD = 6.0
"""Processes of a core of which each finds nothing of its own in the caches; more are no worse."""

BEHIND = 8
"""Gradients of one worker that a server with threads may still be working on after its answers:
without a bound it would fall ever further behind, where it has more to do than time for it."""

RECEIVING = 8
"""Threads in which TensorFlow's server receives, each the gradients of some of the workers, one
after the other: `kGrpcWorkerCacheThreadCount` in TensorFlow's `grpc_worker_cache.cc`. In lock step
the same ones send the weights."""

APPLYING = RECEIVING
"""The number of the thread that applies gradients, after those that receive."""


def interference(compute: float, sharing: float) -> float:
    """Return how much more a server's work costs, as a share, than beside a single worker.

    Parameters
    ----------
    compute : float
        Seconds that a gradient takes.
    sharing : float
        Processes for each core, which find its caches full of each other's data.
    """
    return INTERFERENCE * _doublings(sharing) / (1 + compute / COLD)


def turns(sharing: float) -> float:
    """Return how many times as much a worker's work costs as beside one other process.

    However long a gradient takes: its worker gives up the core every few milliseconds, and finds
    less of its own in the caches the more others have had their turn.

    Parameters
    ----------
    sharing : float
        Processes for each core.
    """
    return 1 + TURNS * (_doublings(sharing) - 1)


def _doublings(sharing: float) -> float:
    return math.log2(min(max(2.0, sharing), CROWD))


class Server:
    """Serves requests in the order in which they come, or in threads.

    Parameters
    ----------
    clock : Clock
    core : Cores or OwnCore
    interference : float
        How much more its work costs, as a share, when its core has something else to do.
    always : bool
        Whether that is so all the time.
    threads : bool
        Whether it works on all requests that it has, instead of one after the other.

    Attributes
    ----------
    open : list of int
        The workers for which it is working.
    updates : int
        That it has made.
    """

    def __init__(
        self,
        clock: Clock,
        core: Cores | OwnCore,
        interference: float = 0.0,
        always: bool = False,
        threads: bool = False,
    ) -> None:
        self.clock, self.core, self.interference = clock, core, interference
        self.always, self.threads = always, threads
        self.waiting: deque[tuple[int, float, Done, Any]] = deque()
        self.open: list[int] = []
        self.updates = 0
        self._turns: dict[int, deque[tuple[float, Done, Any]]] = defaultdict(deque)
        self._used = self._since = self._asked = 0.0

    def asked(self) -> float:
        """Return how many seconds ago it was asked for something, and note that it is now."""
        before, self._asked = self._asked, self.clock.now
        return self._asked - before

    def take(self, worker: int, seconds: float, done: Done, what: Any) -> None:
        """Note what a worker asks for, which waits for its turn."""
        if not (self.open or self.waiting):
            self._since = self.clock.now
        self.waiting.append((worker, seconds, done, what))

    def serve(self) -> None:
        """Begin with what has waited for its turn, if it has come."""
        if self.threads:
            for asked in tuple(self.waiting):
                if self.open.count(asked[0]) < BEHIND:
                    self.waiting.remove(asked)
                    self._begin(*asked)
        elif self.waiting and not self.open:
            self._begin(*self.waiting.popleft())

    def _begin(self, worker: int, seconds: float, done: Done, what: Any) -> None:
        self.open.append(worker)
        if self.threads:
            self.work_in(worker % RECEIVING, seconds, done, what)
        else:
            self.work(seconds, done, what)

    def receiving(self, worker: int) -> int:
        """Return how many threads receive if a worker's gradient has just come."""
        busy = {thread for thread, turns in self._turns.items() if turns} - {APPLYING}
        return len(busy | {worker % RECEIVING})

    def end(self, worker: int) -> None:
        """Note that all that a worker asked for has been done, and go on."""
        self.open.remove(worker)
        if not (self.open or self.waiting):
            self._used += self.clock.now - self._since
        self.serve()

    def work(self, seconds: float, done: Done, what: Any) -> None:
        """Compute for so many seconds of CPU time, or more where others want the core."""
        if self.always or self.core.occupied:
            seconds *= 1 + self.interference
        if seconds:
            self.core.run(seconds, done, what)
        else:  # not from here: of many who wait each would be served from within the one before
            self.clock.at(self.clock.now, done, what)

    def work_in(self, thread: int, seconds: float, done: Done, what: Any) -> None:
        """Work in one of the threads, when it has done all that it was given before."""
        turns = self._turns[thread]
        turns.append((seconds, done, what))
        if len(turns) == 1:
            self.work(seconds, self._next, turns)

    def _next(self, turns: deque[tuple[float, Done, Any]]) -> None:
        _, done, what = turns.popleft()
        if turns:
            self.work(turns[0][0], self._next, turns)
        done(what)

    def busy(self) -> float:
        """Return for how many seconds it has had something to do until now."""
        working = self.open or self.waiting
        return self._used + (self.clock.now - self._since if working else 0.0)


class Nodes:
    """The machines: those of workers come first, then those of servers, if they have their own.

    Parameters
    ----------
    system : System
    clock : Clock
    numbering : int
        Beside which worker server 0 is, if they are beside workers; the others follow.

    Attributes
    ----------
    cores : list of Cores or OwnCore
        Of each node.
    servers : list of Server
    turns : float
        How many times as much a worker's work costs as beside one other process on its core.
    """

    def __init__(self, system: System, clock: Clock, numbering: int = 0) -> None:
        self.system, self.numbering = system, numbering
        count = system.workers + (0 if system.beside else system.servers)
        self.shared: list[Cores] = []
        number = count if system.cores is None else math.ceil(system.cores)
        held = system.beside and (system.cores is None or system.slowdown == 1)
        if held and system.share < 1:
            self.cores = [Slices(clock, system.share, math.inf) for _ in range(count)]
        elif held:
            # Worker and server of a node are held to a core; of too few, to each in turn.
            cores = [Cores(clock, (system.cores or number) / number) for _ in range(number)]
            self.cores = [cores[node % len(cores)] for node in range(count)]
        elif system.cores is not None:
            cores = [Cores(clock, system.cores)]
            self.cores = cores * count
        elif system.threads:
            apart = [Slices(clock, system.share) for _ in range(count - system.workers)]
            self.cores = [OwnCore(clock)] * system.workers + apart
        else:
            self.cores = [OwnCore(clock)] * count
        if system.cores is not None:
            self.shared = cores
        self.out = [Link(clock) for _ in range(count)]
        self.into = [Link(clock) for _ in range(count)]
        self.first = 0 if system.beside else system.workers
        # Servers of their own have lost the core that they had beside a single worker.
        alone = bool(self.shared) and not system.beside and system.slowdown == 1
        crowded = alone and count > number
        dearer, self.turns = 0.0, 1.0
        if held or crowded:
            sharing = (system.workers + system.servers) / number
            dearer, self.turns = interference(system.demands.compute, sharing), turns(sharing)
        self.servers = [
            Server(clock, self.cores[self.node(s)], dearer, crowded, system.threads)
            for s in range(system.servers)
        ]

    def node(self, server: int) -> int:
        """Return the node of a server; that of a worker has the worker's number."""
        return self.first + (server + self.numbering) % self.system.servers

    def send(self, sender: int, receiver: int, size: float, done: Done, what: Any) -> None:
        """Let a message pass from node to node, then call `done` with `what`."""
        if self.system.bandwidth is None or sender == receiver:
            done(what)
        else:
            seconds = passing(size, self.system.bandwidth)
            self.out[sender].send(seconds, self.into[receiver], done, what)

    def busy(self) -> dict[str, float]:
        """Return for how many seconds each shared station has been busy until now."""
        found = {}
        if self.shared:
            found["cores"] = sum(core.busy() for core in self.shared) / len(self.shared)
        found |= {f"server {s}": server.busy() for s, server in enumerate(self.servers)}
        if self.system.bandwidth is not None:
            for way, links in (("from", self.out), ("to", self.into)):
                found |= {
                    f"link {way} {self._name(n)}": link.busy() for n, link in enumerate(links)
                }
        return found

    def _name(self, node: int) -> str:
        if node >= self.system.workers:
            return f"server {node - self.first}"
        return f"{'node' if self.system.beside else 'worker'} {node}"
