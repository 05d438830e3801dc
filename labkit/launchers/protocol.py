"""What a launcher is, and how a trial fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from labkit.errors import LabkitError
from labkit.replicas.events import Event
from labkit.trials import Trial


@dataclass(frozen=True)
class Waiting:
    """A trial cannot start yet.

    Attributes
    ----------
    for_ : str
        What it waits for.
    """

    for_: str


@dataclass(frozen=True)
class Submitted:
    """A trial's objects have been created in a cluster.

    Attributes
    ----------
    name : str
        By which the cluster knows the trial.
    objects : int
        How many there are.
    """

    name: str
    objects: int


@dataclass(frozen=True)
class Pods:
    """How many pods of each kind are how far.

    Attributes
    ----------
    roles : dict of str to dict of str to int
        For each kind of pod the number in each phase.
    """

    roles: dict[str, dict[str, int]]


@dataclass(frozen=True)
class Retrying:
    """A trial starts once more from the beginning.

    Attributes
    ----------
    because : str
        Why what was measured does not count.
    """

    because: str


Notice = Waiting | Submitted | Pods | Retrying

OnEvent = Callable[[Event | Notice], object]
"""Called with every event as it arrives; for showing only, never for results."""


class TrialFailed(LabkitError):
    """A replica died, or the trial took too long; the message names role, cause, last lines.

    Attributes
    ----------
    record : dict
        Where it was run and when it began, as far as its launcher knows better than its caller.
    """

    def __init__(self, message: str = "", record: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.record = dict(record or {})


class TrialDiverged(TrialFailed):
    """The loss of a worker is no longer a number."""


class NoRoomForTrial(TrialFailed):
    """There is no room for a trial now; there may be when others have ended."""


class Launcher(Protocol):
    """Runs trials.

    Attributes
    ----------
    parallel : int
        How many may run at once, each in a thread.
    """

    parallel: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def check(self, trials: Sequence[Trial]) -> None:
        """Make sure, before any is run, that nothing is wrong with trials or missing for them.

        Raises
        ------
        LabkitError
            With all that is.
        """
        ...

    def stop(self) -> None:
        """Make all that run end at once, as failed."""
        ...

    def run(self, trial: Trial, directory: Path, on_event: OnEvent) -> dict[str, Any]:
        """Run a trial to its end.

        Parameters
        ----------
        trial : Trial
            What to run.
        directory : Path
            Where each replica's standard output and error are left, as ``<role>-<index>.log``
            and ``.err``.
        on_event : callable
            Gets the events live.

        Returns
        -------
        dict
            The circumstances of the run, to be kept beside its events.

        Raises
        ------
        TrialFailed
            After everything of the trial has been ended.
        """
        ...
