"""What passes between workers and a parameter server: who works when, and who waits."""

from __future__ import annotations

import contextlib
import heapq
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from labkit.analysis.scaling import plain
from labkit.course.diagrams import COLOURS, INK, arrow, pale, sheet
from labkit.figures.page import Figure
from labkit.figures.words import name_of
from labkit.runs.demands import NoDemands, measured_of


@dataclass(frozen=True)
class Step:
    """A step of a worker; times in the unit in which computing and serving are given.

    Attributes
    ----------
    worker : int
    begin, sent : float
        When it began to compute, and pushed its gradient.
    taken, applied : float
        When the server took the gradient, and answered with the new weights.
    """

    worker: int
    begin: float
    sent: float
    taken: float
    applied: float

    @property
    def waited(self) -> float:
        """How long the gradient waited for its turn."""
        return self.taken - self.sent


def schedule(compute: float, serve: float, workers: int, steps: int) -> list[Step]:
    """Return the steps of asynchronous workers that begin together, in the order of their updates.

    Parameters
    ----------
    compute, serve : float
        How long a worker computes a gradient, and the server applies it and answers. It serves
        one after the other, who comes first is served first; messages take no time.
    workers, steps : int
        How many workers, and steps of each.
    """
    done: list[Step] = []
    taken = Counter[int]()
    coming = [(compute, worker, 0.0) for worker in range(workers)]
    free = 0.0
    while coming:
        sent, worker, begin = heapq.heappop(coming)
        start = max(sent, free)
        free = start + serve
        done.append(Step(worker, begin, sent, start, free))
        taken[worker] += 1
        if taken[worker] < steps:
            heapq.heappush(coming, (free + compute, worker, free))
    return done


def exchange(
    demands: Mapping[str, tuple[float, float]], workers: int = 3, steps: int = 3,
    number: str = "6.0",
) -> Figure:  # fmt: skip
    """Draw the steps of some workers and their one server.

    Parameters
    ----------
    demands : mapping of str to (float, float)
        For each panel, by its title: milliseconds of computing, and of serving.
    workers, steps : int
    number : str
        Of the figure.
    """
    title = f"{number} Computing, waiting and being served"
    height = len(demands) * (0.8 + 0.34 * (workers + 1)) + 0.3
    with sheet(title, height, tuple(demands), columns=1, plots=True) as (figure, panels):
        for axes, (compute, serve) in zip(panels, demands.values(), strict=True):
            _lanes(axes, schedule(compute, serve, workers, steps), workers)
        panels[-1].set_xlabel("time [ms]")
        figure.legend(
            handles=[
                Patch(facecolor=pale(INK), edgecolor=INK, label="computing"),
                Patch(facecolor="white", edgecolor=INK, hatch="////", label="waiting its turn"),
                Patch(facecolor=INK, edgecolor=INK, label="being served"),
            ],
            loc="outside lower center", ncols=3, frameon=False,
        )  # fmt: skip
    return figure


def exchanges(results: Any, number: str) -> Iterator[tuple[Figure, Any, str]]:
    """Yield the picture of what was measured with one worker, as `labkit.show` takes it.

    Parameters
    ----------
    results : Results
        Frameworks without a run with one worker are left out, and the picture if none has any.
    number : str
        Of the figure.
    """
    demands = {}
    for name, trials in results.table.groupby("framework"):
        with contextlib.suppress(NoDemands):
            slow, cpu = (plain(trials[which].iloc[0]) or 1.0 for which in ("slowdown", "cpu"))
            one = measured_of(trials).demands.on(cpu)
            demands[name_of(name)] = 1000 * (slow * one.compute + one.client), 1000 * one.server
    if demands:
        yield exchange(demands, number=number), results, f"{number}-exchange"


def _lanes(axes: Axes, steps: list[Step], workers: int) -> None:
    """Draw a lane for the server, and below it one for each worker."""
    for step in steps:
        colour, lane = COLOURS[step.worker % len(COLOURS)], step.worker + 1
        look = {"height": 0.6, "edgecolor": colour, "linewidth": 1.0}
        axes.barh(lane, step.sent - step.begin, left=step.begin, color=pale(colour), **look)
        if step.waited:
            axes.barh(lane, step.waited, left=step.sent, color="white", hatch="////", **look)
        for place in (0, lane):
            axes.barh(place, step.applied - step.taken, left=step.taken, color=colour, **look)
        arrow(axes, (step.taken, lane - 0.32), (step.taken, 0.32), colour=colour)
        arrow(axes, (step.applied, 0.32), (step.applied, lane - 0.32), colour=colour)
    axes.set_yticks(range(workers + 1), ["server", *(f"worker {n}" for n in range(workers))])
    axes.invert_yaxis()
    axes.set_xlim(0, max(step.applied for step in steps) * 1.02)
    axes.grid(visible=False)
