"""A run on disk."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit import analysis, datasets
from labkit.runs.check import RunError, parse
from labkit.trials import Trial

if TYPE_CHECKING:
    pass

@dataclass(frozen=True)
class Run:
    """A run on disk.

    Attributes
    ----------
    trial : Trial
        What was run.
    directory : Path
        Where it is kept.
    record : dict
        The content of ``run.json``; its ``status`` is finished, diverged or failed.
    """

    trial: Trial
    directory: Path
    record: dict[str, Any]

    @classmethod
    def read(cls, directory: Path) -> Run:
        """Read a run's description; its events are read when they are asked for."""
        values = json.loads((directory / "trial.json").read_text())["values"]
        return cls(Trial(**values), directory, json.loads((directory / "run.json").read_text()))

    @functools.cached_property
    def identity(self) -> str:
        """The trial's identity when it was run: the trainer may have changed since."""
        return json.loads((self.directory / "trial.json").read_text())["identity"]

    @property
    def launcher(self) -> str:
        """Where it was run."""
        return self.record.get("launcher", "local")

    @property
    def finished(self) -> bool:
        """Whether the run may yield numbers."""
        return self.record["status"] == "finished"

    @functools.cached_property
    def workers(self) -> list[list[dict[str, Any]]]:
        """The checked events of each worker, in the order of their index."""
        return [self.events("worker", index) for index in range(self.trial.workers)]

    def events(self, role: str, index: int) -> list[dict[str, Any]]:
        """Return one replica's checked events."""
        path = self.directory / f"{role}-{index}.log"
        try:
            text = path.read_text(errors="replace")
        except FileNotFoundError:
            raise RunError(f"{role} {index}: {path} is missing") from None
        return parse(text, role, index)

    def check(self, roles: dict[str, int]) -> None:
        """Make sure that every replica finished, with the work and the data of the trial.

        Parameters
        ----------
        roles : dict of str to int
            How many replicas each role must have.

        Raises
        ------
        RunError
            Naming the first thing that is not as it should be.
        """
        for role, count in roles.items():
            for index in range(count):
                self.events(role, index)
        for index, events in enumerate(self.workers):
            start, end = events[0], events[-1]
            steps = [event["steps"] for event in events if event["kind"] == "step"]
            for what, found, due in (
                ("event", start["kind"], "start"),
                ("trial", start.get("trial"), self.trial.identity),
                ("data", start.get("data"), datasets.checksum(self.trial.dataset)),
                ("steps", end.get("steps"), self.trial.total_steps),
                ("last step", steps[-1] if steps else 0, self.trial.total_steps),
            ):
                if found != due:
                    raise RunError(f"worker {index}: {what} is {found!r}, should be {due!r}")
            if [e["kind"] for e in events[1:3]] != ["ready", "barrier"]:
                raise RunError(f"worker {index} did not pass the barrier before training")

    def progress(self) -> list[analysis.Progress]:
        """Return each worker's progress since its barrier: times, samples, pauses."""
        return [
            analysis.Progress(
                t=np.array([0.0, *(s["t"] for s in steps)]),
                samples=np.array([0, *(s["samples"] for s in steps)]),
                pauses=[(e["t"] - e["pause"], e["t"]) for e in since_barrier(events, "eval")],
            )
            for events in self.workers
            for steps in [since_barrier(events, "step")]
        ]

    def evaluations(self) -> list[dict[str, Any]]:
        """Return the evaluations, times in seconds since the barrier."""
        return [e for events in self.workers for e in since_barrier(events, "eval")]


def since_barrier(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    barrier = next(e["t"] for e in events if e["kind"] == "barrier")
    return [e | {"t": e["t"] - barrier} for e in events if e["kind"] == kind]
