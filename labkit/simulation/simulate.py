"""A trial as discrete events: each step of each worker goes through its stations."""

from __future__ import annotations

import numpy as np

from labkit.errors import LabkitError
from labkit.replicas.pace import LATE
from labkit.simulation.answer import Answer
from labkit.simulation.nodes import Nodes
from labkit.simulation.serving import Serving, scatter
from labkit.simulation.stations import Clock
from labkit.simulation.system import System

STEPS = 200
SEED = 1

WARM_UP = 0.1
"""Share of a worker's steps that is left out: all begin at the same moment."""


def simulate(system: System, steps: int = STEPS, seed: int = SEED) -> Answer:
    """Simulate a trial on its machines.

    A worker computes, pushes its gradients, and goes on when it has all weights. Each server
    serves one worker after the other, or has threads in which it receives from eight at once, and
    one in which it applies what has been received; servers work at the same time. Cores are shared
    evenly by the processes on them, and links, in each direction, by the messages on them (both
    are processor sharing). With ``sync-ps`` no server answers before it has added up the gradients
    of all workers, which is half of what it does for each; the other half is sending the weights.

    Parameters
    ----------
    system : System
    steps : int
        Of each worker; the more, the less the answer depends on chance. Faster workers go on
        until the slowest has made its own.
    seed : int
        The same one gives the same answer.

    Returns
    -------
    Answer

    Raises
    ------
    LabkitError
        If there are fewer than 2 steps.

    Examples
    --------
    >>> from labkit.simulation import Demands, System
    >>> lenet = Demands(compute=0.116, server=0.0077, variables=(2_000, 100_000, 1_600_000))
    >>> answer = simulate(System(lenet, workers=50, slowdown=10))
    >>> answer.bottleneck
    'no single station'
    """
    if steps < 2:
        raise LabkitError(f"steps: {steps!r}; allowed: 2 or more")
    numberings = system.numberings
    trials = [_Trial(system, steps, seed, numbering) for numbering in numberings]

    def mean(values: list[float]) -> float:
        return float(np.average(values, weights=list(numberings.values())))

    throughput = alone = mean([trial.throughput() for trial in trials])
    if system != system.alone:
        alone = _Trial(system.alone, steps, seed).throughput()
    busy = [trial.utilisation() for trial in trials]
    stale = [trial.staleness() for trial in trials]
    return Answer(
        throughput,
        throughput / alone,
        {name: mean([each[name] for each in busy]) for name in busy[0]},
        {n: mean([each.get(n, 0.0) for each in stale]) for n in sorted(set().union(*stale))},
        mean([trial.late / trial.gradients for trial in trials]),
    )


class _Trial:
    """One run of the model.

    Attributes
    ----------
    ends : list of list of float
        When each worker ended its steps.
    serving : Serving
        What servers do for it.
    gradients, late : int
        That were computed, and of these that took longer than their stretched time.
    """

    def __init__(self, system: System, steps: int, seed: int, numbering: int = 0) -> None:
        self.system, self.steps = system, steps
        demands, n = system.demands, system.workers
        random = np.random.default_rng(seed)
        self.clock = Clock()
        self.nodes = Nodes(system, self.clock, numbering)
        self.serving = Serving(system, self.nodes, random, steps, self._pulled)
        compute = self.nodes.turns * demands.compute
        self.client = self.nodes.turns * demands.client
        self.compute = scatter(random, compute, demands.compute_cv, (n, steps)).tolist()
        self.stretched = [slow * demands.compute * (slow > 1) for slow in system.slowdowns]
        self.begun, self.open = [0.0] * n, [0] * n
        self.ends: list[list[float]] = [[] for _ in range(n)]
        self.gradients = self.late = 0
        self.warm_up = max(1, int(WARM_UP * steps))
        self.cold = self.unfinished = n
        self.marks: list[tuple[float, dict[str, float]]] = []

    def _step(self, worker: int) -> int:
        """Return which of its times a worker's step takes: they begin anew after the last one."""
        return len(self.ends[worker]) % self.steps

    # A worker's step, in the order of its events.

    def _begin(self, worker: int) -> None:
        self.begun[worker] = self.clock.now
        seconds = self.compute[worker][self._step(worker)]
        self.nodes.cores[worker].run(seconds, self._computed, worker)

    def _computed(self, worker: int) -> None:
        self.gradients += 1
        begun, stretched = self.begun[worker], self.stretched[worker]
        if stretched and self.clock.now > begun + LATE * stretched:
            self.late += 1
        self.clock.at(max(begun + stretched, self.clock.now), self._stretched, worker)

    def _stretched(self, worker: int) -> None:
        self.nodes.cores[worker].run(self.client / 2, self._push, worker)

    def _push(self, worker: int) -> None:
        self.open[worker] = len(self.serving.visits)
        self.serving.push(worker, self._step(worker))

    def _pulled(self, worker: int) -> None:
        self.open[worker] -= 1
        if not self.open[worker]:
            self.clock.at(self.clock.now + self.system.demands.latency, self._receive, worker)

    def _receive(self, worker: int) -> None:
        self.nodes.cores[worker].run(self.client / 2, self._end, worker)

    def _end(self, worker: int) -> None:
        ends = self.ends[worker]
        ends.append(self.clock.now)
        if len(ends) == self.warm_up:
            self.cold -= 1
            if not self.cold:
                self.serving.staleness.clear()
                self._mark()
        self.unfinished -= len(ends) == self.steps
        if self.unfinished:
            self._begin(worker)
        else:
            self._mark()
            self.clock.running = False

    # What is seen of it: until the slowest worker's last step, from its warm-up on.

    def _mark(self) -> None:
        """Note the time, and for how long each station has been busy until now."""
        self.marks.append((self.clock.now, self.nodes.busy()))

    def throughput(self) -> float:
        """Let the trial run, and return steps per second of all workers together."""
        # Slow nodes one after the other, as `labkit.replicas.pace` has it.
        apart = (self.system.strategy == "async-ps") / self.system.workers
        for worker, stretched in enumerate(self.stretched):
            self.clock.at(worker * stretched * apart, self._begin, worker)
        self.clock.run()
        # Of each from end to end of whole steps: of a slow one's, few fit between two moments.
        warm = (ends[self.warm_up - 1 :] for ends in self.ends)
        return sum((len(ends) - 1) / (ends[-1] - ends[0]) for ends in warm)

    def staleness(self) -> dict[int, float]:
        """Return the share of gradients by the updates that others had made meanwhile."""
        found = self.serving.staleness
        return {updates: size / sum(found.values()) for updates, size in found.items()}

    def utilisation(self) -> dict[str, float]:
        """Return the share of the time in which each shared station was busy."""
        (begin, before), (end, after) = self.marks
        return {name: (after[name] - before[name]) / (end - begin) for name in after}
