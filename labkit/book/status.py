"""The status line of a notebook that runs."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from labkit.progress import duration

INTERVAL = 10.0
"""Seconds between two lines of progress where lines cannot be rewritten."""


class StatusLine:
    """One line on how far a notebook is: rewritten in a terminal, else printed now and then.

    Parameters
    ----------
    echo : callable
        Prints a line where none can be rewritten.
    """

    def __init__(self, echo: Callable[[str], object]) -> None:
        self.echo = echo
        self.terminal = sys.stderr.isatty()
        self.last = ""
        self.printed = time.monotonic()

    def show(self, label: str, progress: Path) -> None:
        """Show the last line of a notebook's progress file."""
        *_, last, _ = ["", *progress.read_text().split("\n")]
        text = f"{label}: starts"
        if last:
            report = json.loads(last)
            which, _, trial = report["text"].partition(": ")
            if report["left"] is not None:
                which += f", about {duration(report['left'])} left"
            text = f"{label}: {which}: {trial}, {report['state']}"
        if self.terminal:
            width = shutil.get_terminal_size().columns - 1
            text = textwrap.shorten(text, width, placeholder="…")
            print(f"\r{text:{width}}", end="", file=sys.stderr, flush=True)
        elif text != self.last and time.monotonic() - self.printed >= INTERVAL:
            self.echo(text)
            self.last, self.printed = text, time.monotonic()

    def clear(self) -> None:
        """Erase the line."""
        if self.terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
