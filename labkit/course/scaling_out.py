"""Chapter 2.4: nets on several machines, what they send each other, and stale gradients."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from labkit.analysis import staleness
from labkit.course.diagrams import (
    BLUE,
    COLOURS,
    GREEN,
    INK,
    ORANGE,
    RED,
    SMALL,
    arrow,
    box,
    circle,
    sheet,
)
from labkit.errors import LabkitError
from labkit.runs.basis import of_one_machine
from labkit.runs.demands import measured
from labkit.runs.tables import published
from labkit.settings import REPOSITORY

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from labkit.figures.page import Figure
    from labkit.simulation import Demands

NET = (3, 4, 4, 2)
"""Units of the layers of the net that is split in the figure."""

CURVE = np.linspace(-2.3, 2.3, 101)
"""Weights at which the error curve of the figure on stale gradients is drawn."""


# --- model parallelism and data parallelism -----------------------------------------------


def split() -> Figure:
    """Draw a net on one machine, split by layers, and split through every layer (figure 2.17)."""
    cuts = {
        "(a) one machine": lambda layer, place: 0,
        "(b) split by layers": lambda layer, place: int(layer >= len(NET) / 2),
        "(c) split through layers": lambda layer, place: int(place > 0),
    }
    title = "2.17 Model parallelism: a net on two machines"
    with sheet(title, 2.7, list(cuts)) as (figure, panels):
        for axes, machine in zip(panels, cuts.values(), strict=True):
            messages = _net(axes, machine)
            said = f"{messages} values cross" if messages else "nothing to send"
            axes.text(0, -0.75, said, ha="center", size=SMALL)
            axes.set(xlim=(-2, 2), ylim=(-1.1, len(NET) - 0.5))
    return figure


def _net(axes: Axes, machine) -> int:
    """Draw a net from its inputs upwards; return how many values machines send each other."""
    place = [[(i - (units - 1) / 2, k) for i in range(units)] for k, units in enumerate(NET)]
    sent = set()
    for layer, (below, above) in enumerate(zip(place, place[1:], strict=False)):
        for begin in below:
            for end in above:
                here, there = machine(layer, begin[0]), machine(layer + 1, end[0])
                crosses = here != there
                sent |= {(begin, there)} if crosses else set()
                axes.plot(
                    *zip(begin, end, strict=True), color="0.1" if crosses else "0.7",
                    linestyle=(0, (3, 2)) if crosses else "-", linewidth=0.9, zorder=1,
                )  # fmt: skip
    for layer, neurons in enumerate(place):
        for x, y in neurons:
            circle(axes, (x, y), colour=COLOURS[machine(layer, x)], radius=0.22)
    return len(sent)


def data_parallel(machines: int = 3) -> Figure:
    """Draw machines that compute gradients from data of their own (figure 2.18a)."""
    title = "2.18a Data parallelism: the same net everywhere, other data"
    with sheet(title, 2.7) as (figure, [axes]):
        middle = 2.6 * (machines - 1) / 2
        box(axes, (middle, 4.0), 2.6 * machines - 0.4, 0.7, "new weights = weights − learning "
            "rate · mean of all gradients", GREEN)  # fmt: skip
        for k in range(machines):
            x = 2.6 * k
            box(axes, (x, 0), 2.0, 0.6, f"batch {k + 1}", ORANGE)
            box(axes, (x, 1.7), 2.0, 1.2, f"machine {k + 1}:\nthe whole net", BLUE)
            arrow(axes, (x, 0.33), (x, 1.07))
            arrow(axes, (x - 0.55, 2.33), (x - 0.55, 3.62), "gradient", colour=RED)
            arrow(axes, (x + 0.55, 3.62), (x + 0.55, 2.33), "weights", colour=BLUE)
        axes.set(xlim=(-1.3, 2.6 * machines - 0.7), ylim=(-0.4, 4.5))
    return figure


# --- synchronous and asynchronous ---------------------------------------------------------


def rounds(durations: NDArray[np.float64]) -> Figure:
    """Draw the same steps of some workers with synchronous and with asynchronous updates.

    Parameters
    ----------
    durations : ndarray, shape (workers, steps)
        Seconds that each worker computes in each step.
    """
    ends = durations.max(axis=0).cumsum()
    begins = np.append(0, ends[:-1])
    free = durations.cumsum(axis=1)
    panels = [
        f"synchronous: {ends[-1]:.1f} s",
        f"asynchronous: {free[:, -1].mean():.1f} s on average",
    ]
    longer = ends[-1] / free[:, -1].mean() - 1
    title = f"2.18b Waiting makes the same {durations.shape[1]} steps {100 * longer:.0f} % longer"
    with sheet(title, 2.25, panels, plots=True) as (figure, [left, right]):
        for worker, times in enumerate(durations):
            _steps(left, worker, begins, times)
            _steps(right, worker, free[worker] - times, times)
        for x in ends:
            left.axvline(x, color=INK, linewidth=1.2, zorder=3)
        for axes in (left, right):
            axes.set(xlim=(0, ends[-1] * 1.02), xlabel="time [s]")
            _lanes(axes, len(durations))
    return figure


def _steps(axes: Axes, worker: int, begins: ArrayLike, lengths: ArrayLike, height=0.6) -> None:
    axes.barh(
        np.full(len(begins), worker), lengths, left=begins, height=height,
        color=COLOURS[worker % len(COLOURS)], alpha=0.55, edgecolor="white", zorder=2,
    )  # fmt: skip


def _lanes(axes: Axes, workers: int) -> None:
    axes.set_yticks(range(workers), [f"worker {k + 1}" for k in range(workers)])
    axes.set_ylim(workers - 0.45, -0.55)
    axes.grid(False, axis="y")


# --- stale gradients ----------------------------------------------------------------------


def stale(learning_rate: float = 0.6, workers: int = 3) -> Figure:
    """Draw how workers that have pulled the same weights move them in turn (figure 2.19a).

    The error is half the square of the weight, so its gradient is the weight itself. All have
    computed it at the weight -2, so that the last of them applies the stalest.
    """
    pulled = -2.0
    path = pulled - learning_rate * pulled * np.arange(workers + 1)
    before, after = path[-2:]
    fresh = before - learning_rate * before
    with sheet("2.19a A stale gradient", 2.85, plots=True) as (figure, [axes]):
        axes.plot(CURVE, CURVE**2 / 2, color="0.5", zorder=1)
        axes.plot(path, path**2 / 2, "o", color=BLUE, zorder=4)
        for begin, end in zip(path, path[1:], strict=False):
            last = end == after
            arrow(axes, (begin, begin**2 / 2), (end, end**2 / 2), bend=0.25,
                  colour=RED if last else BLUE, shrinkA=4, shrinkB=4)  # fmt: skip
        axes.plot(fresh, fresh**2 / 2, "s", color=GREEN, zorder=5)
        _say(axes, pulled, "all pull here", (10, 8))
        _say(axes, before, f"moved meanwhile\nby {workers - 1} others", (-8, 38), ha="center")
        _say(axes, after, "here the stale\ngradient leads", (-50, 26), RED, ha="center")
        _say(axes, fresh, "here a fresh\none would", (0, -26), GREEN, ha="center")
        axes.set(xlabel="weight", ylabel="error", ylim=(-0.75, 2.9))
    return figure


def _say(axes: Axes, x: float, text: str, aside, colour=INK, ha: str = "left") -> None:
    axes.annotate(
        text, (x, x**2 / 2), xytext=aside, textcoords="offset points", color=colour, ha=ha,
        size=SMALL, zorder=6, arrowprops={"arrowstyle": "-", "color": colour, "alpha": 0.4},
    )  # fmt: skip


@dataclass(frozen=True)
class Trace:
    """When each step of each worker ended, in a run that was measured.

    Attributes
    ----------
    name : str
        Of the run.
    where : str
        The machine, and the versions it was run with.
    ends : list of ndarray
        For each worker, seconds since the barrier.
    """

    name: str
    where: str
    ends: list[NDArray[np.float64]]

    @property
    def staleness(self) -> NDArray[np.int_]:
        """Of each gradient that counts: updates of others since the weights were pulled."""
        return staleness(self.ends)


MOST_MISSED = 3
"""Steps of a worker that may lie between two of its reports, for their order to be known."""


def step(framework: str, batch_size: int = 128) -> Demands:
    """Return what one step of LeNet-5 demanded in the published runs with one worker.

    All steps are those of one machine: they are compared.

    Raises
    ------
    NoDemands
        If there is no such run.
    """
    return measured(of_one_machine(published()), framework, "lenet5", batch_size).demands


def trace(framework: str, workers: int) -> Trace:
    """Return an asynchronous run of the published ones, of which it is known when steps ended.

    Workers report twice a second at most, so these are runs on slow nodes, whose steps take about
    as long. Where there were several between two reports, their ends are spread evenly, as a
    stretched step always takes the same time.

    Raises
    ------
    LabkitError
        If none was published.
    """
    rows, steps = published(), published("steps")
    rows = rows[
        (rows.framework == framework) & (rows.workers == workers) & (rows.strategy == "async-ps")
        & rows.slowdown.notna()
    ].sort_values("trial")  # fmt: skip
    for row in rows.itertuples():
        mine = steps[steps.trial == row.trial].sort_values("t")
        reports = [report for _, report in mine.groupby("worker")]
        missed = max((each.steps.diff().max() for each in reports), default=math.inf) - 1
        if missed <= MOST_MISSED:
            where = f"{row.cpu_model}, {row.cores} cores, {row.versions}"
            return Trace(row.trial, where, list(map(_ends, reports)))
    raise LabkitError(
        f"framework: {framework!r}, workers: {workers!r}: of no such asynchronous run is it "
        "published when its steps ended"
    )


def _ends(reports: pd.DataFrame) -> NDArray[np.float64]:
    """Return when each step of a worker ended, those between reports evenly spread."""
    reported, times = (np.append(0, reports[name]) for name in ("steps", "t"))
    return np.interp(np.arange(1, reported[-1] + 1), reported, times)


def uneven() -> Trace:
    """Return a run of two asynchronous workers, the second of which is 1.7 times as slow.

    It is kept in ``data/two-workers.json``, which says where it comes from.
    """
    kept = json.loads((REPOSITORY / "data" / "two-workers.json").read_text())
    return Trace(kept["name"], kept["where"], [np.array(ends) for ends in kept["ends"]])


def timeline(run: Trace) -> Figure:
    """Draw when the workers of a run computed, and how stale each gradient was (figure 2.19b).

    A vertical line is an update; it has the colour of the worker whose gradient it applies. Drawn
    until the first worker has finished.
    """
    workers = len(run.ends)
    title = f"2.19b Steps of {workers} workers, and the staleness of their gradients"
    first = min(each[-1] for each in run.ends)
    # The lines of others pass behind the numbers.
    around = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none"}
    with sheet(title, 1.15 + 0.45 * workers, plots=True) as (figure, [axes]):
        for worker, ends in enumerate(run.ends):
            begins = np.append(0, ends[:-1])
            _steps(axes, worker, begins, ends - begins)
            axes.vlines(ends, -0.5, workers - 0.5, color=COLOURS[worker % len(COLOURS)], zorder=1)
            others = np.sort(np.concatenate([e for k, e in enumerate(run.ends) if k != worker]))
            counts = np.diff(np.searchsorted(others, np.append(0, ends), side="right"))
            for begin, end, count in zip(begins[1:], ends[1:], counts[1:], strict=True):
                if end <= first:
                    axes.text((begin + end) / 2, worker, count, ha="center", va="center",
                              size=10, bbox=around, zorder=5)  # fmt: skip
        _lanes(axes, workers)
        axes.set(xlabel="time since all began [s]", xlim=(0, 1.03 * first))
    return figure


# --- what a delay does --------------------------------------------------------------------


def bound(delay: ArrayLike) -> NDArray[np.float64]:
    """Return the learning rate times curvature below which delayed descent converges.

    On a quadratic with gradients that are ``delay`` updates old; from Levin and May (1976).
    """
    return 2 * np.sin(np.pi / (2 * (2 * np.asarray(delay) + 1)))


def delayed(learning_rate: float, delay: int, steps: int = 60) -> NDArray[np.float64]:
    """Return the weights of gradient descent on half a square, with gradients of old weights.

    Returns
    -------
    ndarray, shape (steps + 1,)
        They begin at 1, as do those that the first gradients are of.
    """
    weights = np.ones(delay + steps + 1)
    for t in range(delay, delay + steps):
        weights[t + 1] = weights[t] - learning_rate * weights[t - delay]
    return weights[delay:]


def explore_delay(learning_rate: float = 0.5, delay: int = 2) -> Figure:
    """Draw what a delay does to descent, and where that lies on the map of what converges."""
    steps = 60
    verdict = "converges" if learning_rate < bound(delay) else "does not converge"
    panels = [f"delay {delay}, rate {learning_rate:g}: {verdict}", "below the line it converges"]
    title = "2.19c Delayed gradients on a quadratic"
    with sheet(title, 2.65, panels, plots=True) as (figure, [left, right]):
        fresh, old = (delayed(learning_rate, d, steps) for d in (0, delay))
        left.plot(fresh, color="0.6", label="fresh gradients")
        left.plot(old, color=BLUE, label=f"{delay} updates old")
        left.set(xlabel="update", ylabel="weight (best: 0)", ylim=(-2, 2), xlim=(0, steps))
        left.legend(loc="upper right")
        delays = np.arange(13)
        right.plot(delays, bound(delays), "o-", color=INK, markersize=3)
        right.fill_between(delays, bound(delays), color=GREEN, alpha=0.2, linewidth=0)
        right.plot(delay, learning_rate, "D", color=BLUE, zorder=5)
        right.set(xlabel="delay [updates]", ylabel="learning rate x curvature",
                  ylim=(0, 2.1), xlim=(-0.3, 12.3))  # fmt: skip
    return figure


# --- what it costs ------------------------------------------------------------------------


def costs(counts: Sequence[int], seconds: dict[str, ArrayLike], computing: float) -> Figure:
    """Draw the seconds that communication takes in each step, beside those of computing.

    Parameters
    ----------
    counts : sequence of int
        Numbers of workers.
    seconds : dict of str to array_like, shape (len(counts),)
        Of each way to communicate.
    computing : float
        Seconds that a gradient takes.
    """
    with sheet("2.18c Seconds of communication in a step", 2.65, plots=True) as (figure, [axes]):
        for (name, values), colour, mark in zip(seconds.items(), COLOURS, "os^Dv", strict=False):
            axes.plot(counts, values, marker=mark, color=colour, label=name)
        axes.axhline(computing, color=INK, linestyle=(0, (4, 2)), label="computing a gradient")
        axes.set(xlabel="workers", ylabel="seconds", xscale="log", yscale="log")
        axes.set_xticks(counts, list(map(str, counts)))
        axes.minorticks_off()
        axes.legend()
    return figure


def speedups(
    counts: Sequence[int], lines: dict[str, ArrayLike], points: dict[str, ArrayLike]
) -> Figure:
    """Draw speedups that equations allow, and speedups of a simulation.

    Parameters
    ----------
    counts : sequence of int
        Numbers of workers.
    lines, points : dict of str to array_like, shape (len(counts),)
        Speedups by name; points have the colours of lines, in order.
    """
    with sheet("2.18d What one server's link allows", 2.65, plots=True) as (figure, [axes]):
        axes.plot(counts, counts, color="0.6", linestyle=(0, (1, 1.5)), label="ideal")
        for (name, values), colour in zip(lines.items(), COLOURS, strict=False):
            axes.plot(counts, values, color=colour, label=name)
        for (name, values), colour in zip(points.items(), COLOURS, strict=False):
            axes.plot(counts, values, "D", color=colour, markersize=5, label=name)
        highest = max(float(np.max(values)) for values in (*lines.values(), *points.values()))
        axes.set(xlabel="workers", ylabel="speedup", xlim=(0, None), ylim=(0, 1.9 * highest))
        axes.legend()
    return figure
