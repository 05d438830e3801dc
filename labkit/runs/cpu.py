"""What CPU time a run's replicas say that they took: of workers per step, of servers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from labkit.replicas.events import Barrier, Evaluation, Event, Ready, Step
from labkit.replicas.loop import WARM_UP_STEPS
from labkit.runs.run import Run


def training_cpu(events: Sequence[Event]) -> float:
    """Return the CPU seconds a worker spent between its barrier and its steps' ends."""
    return sum(seconds for seconds, _ in _spent(events))


def input_cpu(workers: Sequence[Sequence[Event]]) -> float:
    """Return the CPU seconds in which all workers prepared batches; NaN if unknown."""
    return sum(math.nan if end.input is None else end.input for *_, end in workers)


def cpu_variation(workers: Sequence[Sequence[Event]]) -> float:
    """Return the coefficient of variation of the CPU time of a worker's steps.

    From the differences of neighbouring means over some steps each, so that a machine that grows
    slower counts for little; NaN if no worker reported twice.
    """
    squares, windows, means = 0.0, 0, []
    for events in workers:
        found = [(seconds / steps, steps) for seconds, steps in _spent(events) if steps]
        means += [mean for mean, _ in found]
        for (one, n), (other, m) in itertools.pairwise(found):
            # The variance of a single step, of which means over n and m steps show 1/n + 1/m.
            squares += (one - other) ** 2 / (1 / n + 1 / m)
            windows += 1
    return float(np.sqrt(squares / windows) / np.mean(means)) if windows else math.nan


def server_cpu(run: Run) -> float:
    """Return the CPU seconds of all servers for a step of a worker; NaN if unknown, or no servers.

    Where nobody looked while all workers trained, as in earlier versions, what servers took since
    they were ready counts, of which that of the warm-up, whose steps take the same path, is left
    out in proportion.
    """
    steps = run.trial.total_steps
    if steps is None:  # a script warms up as it likes
        return math.nan
    if "serving" not in run.record:
        return (sum(_served(run)) or math.nan) / run.trial.workers / (steps + WARM_UP_STEPS)
    progress = run.progress()
    end = min(float(worker.t[-1]) for worker in progress)
    done = sum(float(worker.trained_on(end)) for worker in progress) / run.trial.batch_size
    seconds = (run.record["serving"] or {}).get("seconds", math.nan)  # too short to tell
    return sum(_served(run)) / seconds * end / done if done else math.nan


def busiest_server(run: Run) -> float:
    """Return the share of all servers' CPU time that is one's; NaN if they are not several."""
    served = _served(run)
    return max(served) / sum(served) if len(served) > 1 and sum(served) else math.nan


def _served(run: Run) -> list[float]:
    """Return the CPU seconds of each server: while all trained, or since it was ready."""
    if "serving" in run.record:
        return (run.record["serving"] or {}).get("cpu", [])
    found = []
    for index in range(run.trial.replicas.get("server", 0)):
        events = run.events("server", index)
        ready = next(event for event in events if isinstance(event, Ready))
        found.append(events[-1].cpu - ready.cpu)
    return found


def _spent(events: Sequence[Event]) -> Iterator[tuple[float, int]]:
    """Yield the CPU seconds and the number of steps between the reports of a worker."""
    marks = [event for event in events if isinstance(event, Barrier | Step | Evaluation)]
    for before, after in itertools.pairwise(marks):
        if isinstance(after, Step):
            yield after.cpu - before.cpu, after.steps - getattr(before, "steps", 0)
