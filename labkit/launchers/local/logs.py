"""A replica's log, followed while it is written."""

from __future__ import annotations

import contextlib
from pathlib import Path

from labkit.replicas.events import Event, EventError, decode


class LogReader:
    """Reads the events of a log as they come, for showing what goes on.

    Parameters
    ----------
    path : Path
        Of the log; need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._rest = b""

    def new(self) -> list[Event]:
        """Return the events that have come since the last call; garbled ones are passed over."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                fresh = file.read()
        except FileNotFoundError:
            return []
        self._offset += len(fresh)
        *lines, self._rest = (self._rest + fresh).split(b"\n")
        events = []
        for line in lines:
            with contextlib.suppress(EventError):
                if event := decode(line):
                    events.append(event)
        return events
