"""How long a trial would take, and how much memory and disk: from kept runs that are like it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from labkit.analysis import MetricError
from labkit.errors import LabkitError
from labkit.replicas.events import Barrier, Evaluation, Event
from labkit.runs import Run, RunError, Store
from labkit.runs.circumstances import machine_difference
from labkit.runs.sequence import evaluating
from labkit.trials import Trial
from labkit.trials.demand import cores_needed, is_slow
from labkit.trials.nodes import NODE

SAME = (
    "framework", "model", "dataset", "strategy", "threads", *NODE, "arguments", "python",
)  # fmt: skip
"""Fields in which a run must be like a trial to say anything about it."""

NEAR = ("batch_size", "workers", "servers")
"""Those by whose nearness runs are chosen, the first counting most."""

MOST_RUNS = 5
"""The newest of equally near runs that are read."""

STATED = "its duration; its start is not counted, as none was timed"
"""What is known of a script that is ended after some time, before the first run of it."""

NOTHING = "nothing alike has been measured here"


@dataclass(frozen=True)
class Cost:
    """What a trial would take; None is unknown.

    Attributes
    ----------
    seconds : float or None
        From its launch to its end.
    memory : float or None
        Bytes, the peaks of all its replicas added up.
    disk : float or None
        Bytes of what is kept of it.
    source : str
        From which runs that is known.
    at_least : bool
        Whether the seconds lack its evaluations, or a script's start, as nobody has timed such.
    """

    seconds: float | None
    memory: float | None
    disk: float | None
    source: str
    at_least: bool = False


class Experience:
    """What the runs that are kept of a machine say about trials that are like them.

    A worker's training is taken to last in proportion to the samples it trains on, and to how
    many of what needs a core there are for each core; starting and evaluating as long as then.

    Parameters
    ----------
    runs : iterable of Run
        Of the machine on which the trials would run; those that have not finished say nothing.
    """

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs: dict[tuple[Any, ...], list[Run]] = {}
        for run in runs:
            if run.finished:
                self._runs.setdefault(_kind(run.trial), []).append(run)

    @classmethod
    def of(cls, store: Store, cluster: str = "") -> Experience:
        """Return what a store's runs say: of this machine, or of a cluster."""
        try:
            runs = list(store.runs())
            if store.launcher == "local":
                runs = [run for run in runs if not machine_difference(run)]
            else:
                runs = [run for run in runs if run.record["machine"]["host"] == cluster]
        except (LabkitError, OSError, ValueError, KeyError):
            runs = []  # a damaged run is no reason not to measure others
        return cls(runs)

    def cost(self, trial: Trial) -> Cost:
        """Return what a trial would take, by the nearest runs: the middle one of these."""
        seconds, memory, disk, near = [], [], [], []
        for run in _nearest(trial, self._runs.get(_kind(trial), ())):
            try:
                seconds.append(self._seconds(trial, run))
                memory.append(_memory(trial, run))
                disk.append(_disk(trial, run))
                near.append(run)
            except (RunError, MetricError, OSError):  # what is not whole says nothing
                continue
        if not near and trial.duration:
            return Cost(trial.duration, None, None, STATED, at_least=True)
        if not near:
            return Cost(None, None, None, NOTHING)
        source, pause = _source(trial, near), 0.0
        if trial.evaluations:
            pause = self._pause(trial)
            source += "; evaluations are not counted, as none was timed" * (pause is None)
        total = median(seconds) + (trial.evaluations or 0) * (pause or 0.0)
        return Cost(total, median(memory), median(disk), source, at_least=pause is None)

    def _seconds(self, trial: Trial, run: Run) -> float:
        """Return how long a trial would take by one run, without its evaluations."""
        if trial.duration:
            whole = max(map(_whole, run.workers))
            if whole < run.trial.duration:  # it has ended by itself
                return min(whole, trial.duration)
            return whole + trial.duration - run.trial.duration
        if trial.total_steps is None:  # of a script: how much it does nobody knows but itself
            return max(map(_whole, run.workers)) * _crowd(trial, run) / _crowd(run.trial, run)
        steps = run.trial.total_steps * run.trial.batch_size
        # In lock step the first one's evaluations hold up all, whose times are alike otherwise.
        workers = run.workers[:1] if run.trial.lock_step else run.workers
        training = max(map(_training, workers)) / steps * _crowd(trial, run)
        training *= trial.total_steps * trial.batch_size / _crowd(run.trial, run)
        return (run.record.get("startup_s") or 0.0) + training

    def _pause(self, trial: Trial) -> float | None:
        """Return how long an evaluation takes; None if that is not known of so many samples."""
        whole = trial.eval_samples is None  # whose size is known of no other part
        able = [
            run
            for run in self._runs[_kind(trial)]
            if run.trial.evaluations and (run.trial.eval_samples is None) is whole
        ]
        pauses = [
            event.pause * (trial.eval_samples or 1) / (run.trial.eval_samples or 1)
            for run in _nearest(trial, able)
            for event in run.workers[0]
            if isinstance(event, Evaluation)
        ]
        return median(pauses) if pauses else None


def _kind(trial: Trial) -> tuple[Any, ...]:
    columns = trial.columns
    return trial.duration is None, *(columns.get(name) for name in SAME)


def _nearest(trial: Trial, runs: Sequence[Run]) -> Iterator[Run]:
    """Return the newest of those runs that are as near as any."""

    def far(run: Run) -> list[float]:
        pairs = ((getattr(trial, name), getattr(run.trial, name)) for name in NEAR)
        return [0.0 if a == b else _apart(a, b) for a, b in pairs]

    least = min(map(far, runs), default=None)
    near = [run for run in runs if far(run) == least]
    near.sort(key=lambda run: run.record.get("started") or "", reverse=True)
    return iter(near[:MOST_RUNS])


def _apart(one: int | None, other: int | None) -> float:
    return abs(math.log2(one / other)) if one and other else math.inf


def _source(trial: Trial, runs: Sequence[Run]) -> str:
    """Say of which runs an estimate is: in what they differ from the trial."""
    first = runs[0].trial
    different = [name for name in NEAR if getattr(first, name) != getattr(trial, name)]
    if "workers" in different and "servers" in different:
        different.remove("servers")
    said = ", ".join(f"{name.replace('_', ' ')} {getattr(first, name)}" for name in different)
    count = f"{len(runs)} run{'s' * (len(runs) != 1)}"
    return f"{count} with {said}" if said else f"{count} of this setting"


def _crowd(trial: Trial, run: Run) -> float:
    """Return how many want each core of where a run was: one at least, as slow nodes wait.

    A cluster reserves cores for each pod, on as many nodes as that takes. Only if these did not
    suffice then, as with requests below what a worker needs, a trial is taken to share them too.
    """
    record = run.record
    if is_slow(trial) or (run.launcher != "local" and not run.oversubscribed):
        return 1.0
    machines = record["nodes"].values() if "nodes" in record else [record["machine"]]
    return max(1.0, cores_needed(trial) / sum(machine["cores"] for machine in machines))


def _training(events: Sequence[Event]) -> float:
    """Return the seconds of a worker from its barrier to its end, without its evaluations."""
    begin = next((event.t for event in events if isinstance(event, Barrier)), events[0].t)
    return events[-1].t - begin - evaluating(events)


def _whole(events: Sequence[Event]) -> float:
    """Return the seconds from a worker's first event to its last."""
    return events[-1].t - events[0].t


def _memory(trial: Trial, run: Run) -> float:
    """Return the bytes of all replicas, each with as many as the largest of its role had then."""

    def largest(role: str) -> float:
        count = run.trial.replicas[role]
        return max(run.events(role, index)[-1].peak_bytes for index in range(count))

    return _over_roles(trial, run, largest)


def _disk(trial: Trial, run: Run) -> float:
    """Return the bytes that would be kept: for each replica what one wrote then, and the rest."""
    sizes = {path: path.stat().st_size for path in run.directory.rglob("*") if path.is_file()}

    def mean(role: str) -> float:
        own = sum(size for path, size in sizes.items() if path.name.startswith(f"{role}-"))
        return own / run.trial.replicas[role]

    written = _over_roles(trial, run, mean)
    return written + sum(sizes.values()) - _over_roles(run.trial, run, mean)


def _over_roles(trial: Trial, run: Run, each: Callable[[str], float]) -> float:
    """Add up a number of each role over a trial's replicas, of roles that the run had, too."""
    return sum(
        count * each(role) for role, count in trial.replicas.items() if role in run.trial.replicas
    )
