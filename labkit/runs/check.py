"""From the lines that replicas print to checked events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.errors import LabkitError
from labkit.replicas.events import PREFIX

if TYPE_CHECKING:
    pass

class RunError(LabkitError):
    """Events that do not add up to a run."""


def parse(text: str, role: str, index: int) -> list[dict[str, Any]]:
    """Return a replica's events, checked.

    Parameters
    ----------
    text : str
        All that the replica printed; lines of others are passed over.
    role, index
        Whose events these must be.

    Raises
    ------
    RunError
        If a line is cut off or garbled, the numbering has a gap or a repetition, time runs
        backwards, events are another replica's, or ``end`` is missing or not the last.
    """
    who = f"{role} {index}"
    events: list[dict[str, Any]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        _, found, rest = line.partition(PREFIX)
        if not found:
            continue
        event = _event(rest)
        if event is None:
            raise RunError(f"{who}: line {number} is cut off or garbled: {line[:120]!r}")
        if (event["role"], event["index"]) != (role, index):
            raise RunError(f"{who}: line {number} is an event of {event['role']} {event['index']}")
        seq, last = event["seq"], events[-1] if events else None
        if seq != len(events):
            what = "twice" if seq < len(events) else "after a gap"
            raise RunError(f"{who}: line {number} has event {seq} {what}; due was {len(events)}")
        if last and event["t"] < last["t"]:
            raise RunError(f"{who}: line {number}: time runs backwards")
        if last and last["kind"] in ("end", "error"):
            raise RunError(f"{who}: line {number}: {event['kind']} after {last['kind']}")
        events.append(event)
    if not events:
        raise RunError(f"{who}: no events")
    if events[-1]["kind"] != "end":
        raise RunError(f"{who}: the events stop at {events[-1]['kind']}, without end")
    return events


def _event(text: str | bytes) -> dict[str, Any] | None:
    """Return the event that follows the prefix of a line, None if it is not whole."""
    try:
        event = json.loads(text)
        shape = [type(event[name]) for name in ("seq", "role", "index", "kind")]
        whole = shape == [int, str, int, str] and isinstance(event["t"], int | float)
    except (ValueError, TypeError, KeyError):
        return None
    return event if whole else None


def event_in(line: bytes) -> dict[str, Any] | None:
    """Return the event in a line, None if there is no whole one."""
    _, found, rest = line.partition(PREFIX.encode())
    return _event(rest) if found else None


class LogReader:
    """Follows a replica's log while it is written, for showing what goes on.

    Parameters
    ----------
    path : Path
        Of the log; need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def new(self) -> list[dict[str, Any]]:
        """Return the events that have come since the last call; broken lines are left out."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                fresh = file.read()
        except FileNotFoundError:
            return []
        self._offset += len(fresh)
        *lines, self._rest = (self._rest + fresh).split(b"\n")
        return [event for line in lines if (event := event_in(line))]
