"""A run on disk."""

from __future__ import annotations

import contextlib
import functools
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from labkit import analysis
from labkit.analysis import Progress, Window
from labkit.errors import LabkitError
from labkit.replicas import events
from labkit.replicas.events import Barrier, Computed, Evaluation, Event, Start, Step
from labkit.runs.reported import reported
from labkit.runs.sequence import read, since_barrier
from labkit.runs.slow_nodes import (
    idle_share,
    is_held_up,
    is_saturated,
    other_share,
    throttled_share,
)
from labkit.trials import ScriptTrial, Trial
from labkit.trials.demand import cores_needed, is_slow
from labkit.trials.script import KEPT

SHORTEST_JUDGED = 1.0
"""Seconds that a window must have to be judged: CPU times may be read 0.05 s late at either end,
and of a second that is the tenth from which other programs count as having kept it busy."""


class RunError(LabkitError):
    """Events that do not add up to a run."""


@dataclass(frozen=True, repr=False)
class Run:
    """A run on disk.

    Attributes
    ----------
    trial : Trial or ScriptTrial
        What was run.
    directory : Path
        Where it is kept.
    record : dict
        The content of ``run.json``; its ``status`` is finished, diverged or failed.
    """

    trial: Trial | ScriptTrial
    directory: Path
    record: dict[str, Any]

    @classmethod
    def read(cls, directory: Path) -> Run:
        """Read a run's description; its events are read when they are asked for.

        Raises
        ------
        FileNotFoundError
            If there is no run.
        TrialError
            If it is of a labkit that knew other fields, models or frameworks.
        RunError
            If it is damaged.
        """
        return cls(*_description(directory))

    def __repr__(self) -> str:
        return f"Run({self.directory.name}, {self.record['status']}, {self.launcher})"

    @functools.cached_property
    def identity(self) -> str:
        """The trial's identity when it was run: the code may have changed since."""
        return json.loads((self.directory / "trial.json").read_text())["identity"]

    @property
    def current(self) -> bool:
        """Whether the trial would be run with the same code, model and data today."""
        return self.identity == self.trial.identity

    @property
    def launcher(self) -> str:
        """Where it was run."""
        return self.record.get("launcher", "local")

    @property
    def finished(self) -> bool:
        """Whether the run may yield numbers."""
        return self.record["status"] == "finished"

    @property
    def oversubscribed(self) -> bool:
        """Whether more needed a core than there were; slow nodes wait, and need none each."""
        record = self.record
        if is_slow(self.trial):
            return False
        default = record.get("time_shared", cores_needed(self.trial) > record["machine"]["cores"])
        return record.get("oversubscribed", default)

    @functools.cached_property
    def overloaded(self) -> bool | None:
        """Whether other programs held it up, so that it has no rate; None where nobody can tell.

        Of an oversubscribed run it is not asked: that says more about its rate, and anyway others
        held it up only as much as its own replicas did. Nor can it be told in a window shorter
        than `SHORTEST_JUDGED`. Slow nodes were held up, by whomever, where the machine could not
        keep up with them or a pod not make up for what others took.
        """
        if not self.finished or self.oversubscribed:
            return False
        if self.record.get("calibration", {}).get("overloaded"):
            return True
        if is_slow(self.trial):
            record = self.record
            return is_saturated(self.late_share, idle_share(record)) or is_held_up(
                throttled_share(record), other_share(record)
            )
        if self.window.end - self.window.begin < SHORTEST_JUDGED:
            return None
        return bool(self.record.get("overloaded"))

    @functools.cached_property
    def late_share(self) -> float:
        """Share of a slow node's gradients that took longer than their stretched time."""
        timed = [event for events in self.workers for event in events if type(event) is Computed]
        return sum(event.late for event in timed) / sum(event.gradients for event in timed)

    @functools.cached_property
    def reported(self) -> bool:
        """Whether its rate is one that a script has printed, rather than one that was measured."""
        # Only a script may do without a barrier: labkit's own trainers always meet.
        met = (type(event) is Barrier for events in self.workers for event in events)
        return self.trial.metric is None and not any(met)

    @functools.cached_property
    def window(self) -> Window:
        """The time in which all workers trained, and their rates in it.

        Raises
        ------
        RunError
            If the events are not whole.
        MetricError
            If there is no such time.
        """
        return analysis.window(self.progress(), self.record.get("limited_s", 0.0))

    @functools.cached_property
    def start(self) -> Start | None:
        """What the first worker, or else another replica, told when it started."""
        return _start(self.directory)

    @functools.cached_property
    def workers(self) -> list[list[Event]]:
        """The events of each worker, in the order of their index."""
        return [self.events("worker", index) for index in range(self.trial.workers)]

    def events(self, role: str, index: int) -> list[Event]:
        """Return one replica's events, a whole sequence.

        Raises
        ------
        RunError
            If they are not, naming the line.
        """
        path = self.directory / f"{role}-{index}.log"
        try:
            return read(path.read_text(errors="replace"), role, index)
        except FileNotFoundError:
            raise RunError(f"{role} {index}: {path} is missing") from None
        except events.EventError as error:
            raise RunError(f"{role} {index}: {error}") from None

    def progress(self) -> list[Progress]:
        """Return each worker's progress since its barrier: times, samples, pauses."""
        return _together(self)

    def evaluations(self) -> list[tuple[float, Evaluation]]:
        """Return the evaluations, each with its seconds since the barrier; none without one."""
        if self.reported:
            return []
        return [found for worker in self.workers for found in since_barrier(worker, Evaluation)]


def _start(directory: Path) -> Start | None:
    logs = sorted(directory.glob("*-*.log"))
    for path in sorted(logs, key=lambda path: path.stem != "worker-0"):
        with path.open("rb") as file, contextlib.suppress(events.EventError):
            for line in file:
                if isinstance(event := events.decode(line), Start):
                    return event
    return None


def _together(run: Run) -> list[Progress]:
    if run.reported:
        known = run.record.get("clocks", {})  # of the nodes of a cluster; a machine has one clock
        zeros = [known.get(f"worker-{i}", 0.0) for i in range(run.trial.workers)]
        printing = run.trial.printing
        found = reported(run.workers[:printing], zeros, run.workers[printing:])
        if len(found) == run.trial.workers:
            return found
        share = run.trial.workers if run.trial.rates == "total" else 1
        return [replace(found[0], samples=found[0].samples / share)] * run.trial.workers
    workers = [_progress(worker) for worker in run.workers]
    return analysis.waiting_together(workers) if run.trial.lock_step else workers


def _description(directory: Path) -> tuple[Trial | ScriptTrial, Path, dict[str, Any]]:
    """Return a trial, where its run is kept, and the record of how it went."""
    try:
        described = json.loads((directory / "trial.json").read_text())
        record = json.loads((directory / "run.json").read_text())
        values, _, _ = described["values"], described["identity"], record["status"]
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(f"it is damaged: {type(error).__name__}, {error}") from None
    return _trial(values, directory), directory, record


def _trial(values: dict[str, Any], directory: Path) -> Trial | ScriptTrial:
    """Return what was run; a script, or a model's file from elsewhere, was kept with the run."""
    if "script" in values:
        return ScriptTrial(**values | {"script": str(directory / KEPT / values["script"])})
    if values["model"].endswith(".py"):
        values = values | {"model": str(directory / values["model"])}
    return Trial(**values)


def _progress(worker: list[Event]) -> Progress:
    steps = since_barrier(worker, Step)
    ((_, barrier),) = since_barrier(worker, Barrier)
    evaluated = [(t - e.pause, t) for t, e in since_barrier(worker, Evaluation)]
    return Progress(
        t=np.array([0.0, *(t for t, _ in steps)]),
        samples=np.array([0, *(step.samples for _, step in steps)]),
        pauses=[(0.0, barrier.turn), *evaluated] if barrier.turn else evaluated,
    )
