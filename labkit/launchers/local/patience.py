"""How long a trial is waited for."""

from __future__ import annotations

import math
import time
from pathlib import Path

from labkit.launchers.limits import stall
from labkit.launchers.tracking import Tracker

LINGER = 30.0
"""Seconds that a script's servers may stay after the last worker has left."""


class Patience:
    """Says when a trial has taken too long.

    Parameters
    ----------
    tracker : Tracker
    directory : Path
        Where its logs are.
    launched : float
        When the launch began, in monotonic seconds.
    deadline : float
        Seconds that it may take.
    """

    def __init__(
        self, tracker: Tracker, directory: Path, launched: float, deadline: float
    ) -> None:
        self._tracker, self._launched, self._deadline = tracker, launched, deadline
        self._progressed = time.monotonic()
        # A script need not give another sign of life than that it prints, nor use its servers.
        self._files, self._linger = [], math.inf
        if tracker.trial.total_steps is None:
            self._linger = LINGER
            ends = (".log", ".err")
            self._files = [directory / f"{n}{end}" for n in tracker.names for end in ends]
        self._printed = 0

    def exhausted(self, progress: bool, workers_left: float | None) -> str:
        """Return what takes too long, in words; nothing as long as nothing does.

        Parameters
        ----------
        progress : bool
            Whether an event has come since the last call.
        workers_left : float or None
            When the last worker had left, in monotonic seconds.
        """
        now = time.monotonic()
        if progress or self._has_printed():
            self._progressed = now
        if now - self._launched > self._deadline:
            return f"did not finish within its deadline of {self._deadline:g} s"
        if now - self._progressed > (seconds := stall(self._tracker.starting)):
            return f"has shown no sign of life for {seconds:g} s"
        if workers_left is not None and now - workers_left > self._linger:
            return (
                f"has ended but for its servers, which stay {LINGER:g} s after the last worker "
                "has left. Do the workers use them? If not, ask for 0 servers"
            )
        return ""

    def _has_printed(self) -> bool:
        before = self._printed
        self._printed = sum(file.stat().st_size for file in self._files if file.exists())
        return self._printed > before
