"""SIGTERM and SIGHUP, with which batch systems, hubs and closed terminals end a command."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

NUMBERS = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interrupting() -> Iterator[list[signal.Signals]]:
    """Have them be as a Ctrl-C: a KeyboardInterrupt, so that all that was started is ended.

    Yields
    ------
    list of Signals
        The one that came, if any. Further ones are ignored: they would disturb the clean-up.
    """
    came: list[signal.Signals] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in NUMBERS:
            signal.signal(each, signal.SIG_IGN)
        came.append(signal.Signals(number))
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in NUMBERS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as of nohup
            signal.signal(number, interrupt)
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
