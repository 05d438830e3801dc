"""The events of a replica, which must be a whole sequence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from labkit.replicas.events import Barrier, End, Error, Evaluation, Event, EventError, decode


def read(text: str, role: str, index: int) -> list[Event]:
    """Return all events of a replica, which must be a whole sequence.

    Parameters
    ----------
    text : str
        All that the replica printed; lines of others are passed over.
    role, index
        Whose events these must be.

    Raises
    ------
    EventError
        Naming the line, if one is cut off or garbled, the numbering has a gap or a repetition,
        time runs backwards, an event is another replica's, or ``end`` is missing or not the last.
    """
    found: list[Event] = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            event = decode(line)
        except EventError as error:
            raise EventError(f"line {number} is {error}") from None
        if event is not None:
            _check_order(event, found, role, index, number)
            found.append(event)
    if not found:
        raise EventError("no events")
    if not isinstance(found[-1], End):
        raise EventError(f"the events stop at {found[-1].kind}, without end")
    return found


def _check_order(
    event: Event, before: list[Event], role: str, index: int, number: int
) -> None:
    """Make sure that an event may come after those before it."""
    where = f"line {number}"
    if (event.role, event.index) != (role, index):
        raise EventError(f"{where} is an event of {event.role} {event.index}")
    if event.seq != len(before):
        what = "twice" if event.seq < len(before) else "after a gap"
        raise EventError(f"{where} has event {event.seq} {what}; due was {len(before)}")
    if not before:
        return
    last = before[-1]
    if event.t < last.t:
        raise EventError(f"{where}: time runs backwards")
    if isinstance(last, (End, Error)):
        raise EventError(f"{where}: {event.kind} after {last.kind}")


def evaluating(events: Iterable[Event]) -> float:
    """Return the seconds that a worker spent on evaluations."""
    return sum(event.pause for event in events if isinstance(event, Evaluation))


def since_barrier(events: Iterable[Event], kind: type[Event]) -> list[tuple[float, Any]]:
    """Return the events of a kind after a worker's barrier, each with its seconds since then."""
    events = list(events)
    barrier = next(event.t for event in events if isinstance(event, Barrier))
    return [(event.t - barrier, event) for event in events if isinstance(event, kind)]
