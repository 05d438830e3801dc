"""What if there were more workers, other servers, another network: simulated from few workers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import harmonic_mean
from typing import Any

import numpy as np
from scipy import stats

from labkit.errors import LabkitError
from labkit.prediction.forecast import (
    LEVEL,
    NEARLY_LINEAR,
    NO_LIMIT,
    Forecast,
    Forecasts,
    check_level,
    check_workers,
)
from labkit.prediction.mixture import DISCREPANCY
from labkit.runs.demands import Measured
from labkit.simulation import Answer, simulate
from labkit.simulation.answer import NO_STATION

UPDATES = 2000
"""Of the weights, by all workers together, in a simulation."""

LEAST_STEPS = 20
"""Of each worker in it."""

MOST_REQUESTS = 10_000_000
"""Of all servers in a simulation: more take minutes, and gigabytes."""

ALONE = 0.05
"""How far, relatively, a single run without repeats may be from the next."""

SLOWEST = "slower workers"
"""What limits those of which no station is busy, but the last are slower than the first."""


SELDOM = " A server that one worker seldom asks takes longer: measure 2 and 5 workers, too."
"""What there is to know where slow servers were looked at beside one worker alone."""


def _steps(workers: int) -> int:
    """Return how many steps of each worker are simulated."""
    return max(UPDATES // workers, LEAST_STEPS)


def simulated_trial(measured: Measured, workers: int, served: float = 1.0, **asked: Any) -> Answer:
    """Return what a trial would do, simulated for as long as forecasts take.

    Parameters
    ----------
    measured : Measured
        What runs say of a step.
    workers : int
    served : float
        How many times as long as was measured the servers take.
    **asked
        Other arguments of `Measured.system`.
    """
    system = measured.system(workers, **asked)
    system = replace(system, demands=system.demands.serving(served))
    return simulate(system, steps=_steps(workers))


@dataclass(frozen=True, repr=False)
class WhatIf(Forecasts):
    """Forecasts from what a step demands of a worker and of the servers.

    Attributes
    ----------
    forecasts, level
        As of `Forecasts`.
    measured : Measured
    asked : mapping of str to value
        The arguments of `Measured.system` that were asked about, beside the number of workers.
    """

    measured: Measured
    asked: Mapping[str, Any]

    @property
    def note(self) -> str:
        """Where they come from, in a sentence."""
        rates, where = self.measured.rates, self.measured.circumstances
        runs = f"{len(rates)} runs" if len(rates) > 1 else "one run"
        machine = f" on {where['host']} ({where['cpu_model']})" if "host" in where else ""
        *fewer, most = map(str, self.measured.served or (1,))
        beside = f"{', '.join(fewer)} and {most}" if fewer else most
        servers = f"; what servers take, from those with {beside}" * (beside != "1")
        return (
            f"{100 * self.level:g}% intervals, simulated from {runs} of one worker{machine}, "
            f"{sum(rates) / len(rates):.4g} batches/s{servers}."
            + SELDOM * (self.measured.served == (1,) and self.asked.get("cpu", 1) < 1)
        )

    def worth(self, efficiency: float) -> int:
        """Return the most workers whose speedup is at least this share of their number.

        Looked for between the numbers asked for, too, and below them: one is always worth it.
        """
        low = super().worth(efficiency) or 1
        more = [f.workers for f in self.forecasts if f.workers > low]
        if not more:
            return low
        high = min(more)
        while high - low > 1:
            middle = (low + high) // 2
            if self._forecast(middle).speedup >= efficiency * middle:
                low = middle
            else:
                high = middle
        return low

    def cost(self, workers: int, price: float) -> float:
        """Return what a pass of all workers together over the training set costs.

        Parameters
        ----------
        workers : int
            One of those that were asked for.
        price : float
            Of a node for an hour. Servers that are not beside workers have nodes of their own.

        Returns
        -------
        float
            In the currency of the price.
        """
        forecast = next(f for f in self.forecasts if f.workers == workers)
        system = self.measured.system(workers, **self.asked)
        nodes = workers + (0 if system.beside else system.servers)
        batches = self.measured.samples_per_epoch / self.measured.batch_size
        return price * nodes * batches / forecast.throughput / 3600

    def _check(self, workers: int) -> None:
        """Refuse so many workers, or servers, that simulating them would take too much."""
        system = self.measured.system(workers, **self.asked)
        requests = _steps(workers) * max(workers, system.servers)
        if requests <= MOST_REQUESTS:  # else it takes too much to place variables
            requests = _steps(workers) * workers * np.count_nonzero(system.placed()[0])
        if requests > MOST_REQUESTS:
            raise LabkitError(
                f"workers: {workers} with {system.servers} servers; simulating them would take "
                f"{requests:,} requests or more; allowed: at most {MOST_REQUESTS:,}"
            )

    def _forecast(self, workers: int) -> Forecast:
        answer = self._simulated(workers)
        speedup = answer.throughput / self._one
        low, high = self._interval(workers, answer.throughput)
        limit = NO_LIMIT if speedup >= NEARLY_LINEAR * workers else answer.bottleneck
        if limit == NO_STATION and self.asked.get("slowdown_spread", 1) > 1:
            limit = SLOWEST
        return Forecast(workers, answer.throughput, low, high, speedup, limit)

    @cached_property
    def _one(self) -> float:
        return self._simulated(1).throughput

    def _simulated(self, workers: int, served: float = 1.0) -> Answer:
        """Return what is simulated if servers take so many times as long as was measured."""
        return simulated_trial(self.measured, workers, served, **self.asked)

    def _real(self, workers: int, throughput: float) -> float:
        """Return the share of a step that is not a slow node's wait, which is as long as it is."""
        system = self.measured.system(workers, **self.asked)
        in_step = system.strategy == "sync-ps"
        slow = max(system.slowdowns) if in_step else harmonic_mean(system.slowdowns)
        waited = (slow - 1) * system.demands.compute
        return max(0.0, 1 - waited * throughput / workers)

    def _interval(self, workers: int, throughput: float) -> tuple[float, float]:
        """Return the limits of an interval: of repeats, and of what the model does not know."""
        tail = (1 + self.level) / 2
        normal = stats.norm.ppf(tail)
        logs, n = np.log(self.measured.rates), len(self.measured.rates)
        repeats = normal * ALONE
        if n > 1:
            repeats = stats.t.ppf(tail, n - 1) * logs.std(ddof=1)
        unknown = normal * DISCREPANCY * math.log2(workers)
        model = unknown * self._real(workers, throughput)
        spread = math.exp(math.hypot(repeats * math.sqrt(1 + 1 / n), model))
        low, high = throughput / spread, throughput * spread
        system = self.measured.system(workers, **self.asked)
        if system.threads or system.bandwidth is not None:
            # A little more for each gradient, and they come in convoys, or others meet at a link.
            slow, fast = (
                self._simulated(workers, times).throughput
                for times in (math.exp(unknown), math.exp(-unknown))
            )
            low, high = min(low, slow), max(high, fast)
        return low, high


def what_if(
    measured: Measured, workers: Iterable[int], level: float = LEVEL, **asked: Any
) -> WhatIf:
    """Predict throughput on machines that nobody has at hand, from runs with one worker.

    Parameters
    ----------
    measured : Measured
        What runs say of a step.
    workers : iterable of int
        For which numbers.
    level : float
        How often the intervals are to hold the truth: they have the spread of the repeats in
        them, and 3 % per doubling for what the model does not know, of the part of a step that is
        not a slow node's wait. Where servers have threads, whose convoys a little more or less
        work may bring about, or links a bandwidth, at which others then meet, they have in them
        what 3 % per doubling of that would do.
    **asked
        Further arguments of `Measured.system`: ``servers``, ``cpu``, ``strategy``, ``slowdown``,
        ``slowdown_spread``, ``bandwidth``, ``cores``.

    Returns
    -------
    WhatIf

    Raises
    ------
    LabkitError
        If a value cannot be used.
    """
    wanted = check_workers(workers)
    check_level(level)
    found = WhatIf((), level, measured, asked)
    found._check(wanted[-1])
    return replace(found, forecasts=tuple(found._forecast(n) for n in wanted))
