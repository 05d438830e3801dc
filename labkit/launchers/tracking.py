"""How far the replicas of a trial came, and why one failed."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path

from labkit.launchers.protocol import TrialDiverged, TrialFailed
from labkit.replicas.events import (
    Barrier,
    End,
    Error,
    Evaluation,
    Event,
    Rate,
    Ready,
    Start,
    Step,
)
from labkit.trials import Trial

PHASES: dict[type[Event] | None, str] = {
    None: "before its first event",
    Start: "before all were ready",
    Ready: "at the barrier",
    Barrier: "while training",
    Step: "while training",
    Rate: "while training",
    Evaluation: "while training",
    End: "at the end",
}
"""Where a replica is after an event, in the order in which it gets there."""

DIVERGED = "Diverged"
"""The type of error of a worker whose loss is no longer a number."""


class Tracker:
    """How far the replicas of a trial came, by their events.

    Parameters
    ----------
    trial : Trial

    Attributes
    ----------
    names : list of str
        ``<role>-<index>`` of each.
    last : dict of str to Event
        The last event of each that has had any.
    """

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.names = [f"{role}-{i}" for role, n in trial.replicas.items() for i in range(n)]
        self._workers = [name for name in self.names if name.startswith("worker")]
        self.last: dict[str, Event] = {}
        self._reached: dict[str, type[Event]] = {}

    def update(self, event: Event) -> None:
        """Take the next event of a replica."""
        self.last[event.replica] = event
        if type(event) in PHASES:
            self._reached[event.replica] = type(event)

    def finished(self, name: str) -> bool:
        """Whether a replica has said that it has done all it had to do."""
        return isinstance(self.last.get(name), End)

    def ready(self, name: str) -> bool:
        """Whether a worker is at the barrier, or has passed it."""
        return self.phase(name) not in (PHASES[None], PHASES[Start])

    def phase(self, name: str) -> str:
        """Say how far a replica had come; one that serves is as far as the foremost worker."""
        reached = self._reached.get(name)
        if reached in (Ready, End) and name not in self._workers:
            phases = [self._reached.get(worker, Start) for worker in self._workers]
            reached = max(phases, key=list(PHASES).index)
        if reached is Start and name in self._workers[self.trial.printing :]:
            return self.phase(self._workers[0])  # it has nothing to say of its own training
        return PHASES[reached]

    @property
    def starting(self) -> int:
        """How many replicas share the start; none when all workers are ready."""
        return 0 if all(self.ready(worker) for worker in self._workers) else len(self.names)

    def training(self) -> bool:
        """Whether all workers train."""
        return all(self.phase(worker) == PHASES[Step] for worker in self._workers)

    def first_cause(self, bad: Iterable[str]) -> str:
        """Return the replica that failed by itself rather than because another had gone."""

        def rank(name: str) -> tuple[int, float]:
            event = self.last.get(name)
            if isinstance(event, Error):
                return (0 if event.type == DIVERGED else 2), event.t
            return 1, 0.0

        return min(bad, key=rank)

    def failure(self, name: str, code: int, lines: str = "", cause: str = "") -> TrialFailed:
        """Return the error of a replica that failed.

        Parameters
        ----------
        name : str
            Which.
        code : int
            Its exit code, negative for a signal.
        lines : str
            The last lines it printed.
        cause : str
            What ended it, where its code does not say; ``{phase}`` stands for how far it came.
        """
        role, _, index = name.rpartition("-")
        event, phase = self.last.get(name), self.phase(name)
        where = f"{self.trial.name}: {role} {index}"
        if isinstance(event, Error) and event.type == DIVERGED:
            return TrialDiverged(f"{where}: {event.message}")
        if isinstance(event, Error):
            cause = f"failed {phase}: {event.type}: {event.message}"
        elif cause:
            cause = cause.replace("{phase}", phase)
        elif code < 0:
            cause = f"was ended by {signal.Signals(-code).name} {phase}"
        elif code:
            cause = f"left with code {code} {phase}"
        else:
            cause = f"left with code 0 {phase}, without having finished"
        return TrialFailed(f"{where} {cause}." + (f" Its last lines:\n{lines}" if lines else ""))


def tail(path: Path, lines: int = 12) -> str:
    """Return a file's last lines, indented; nothing if there is no such file."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])
