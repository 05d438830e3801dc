"""The status line of a notebook that runs."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from labkit.progress import duration

INTERVAL = 60.0
"""Seconds between two lines of progress where lines cannot be rewritten."""


class StatusLine:
    """One line on how far a notebook is: rewritten in a terminal, else printed now and then.

    Elsewhere each trial's end is printed as well.

    Parameters
    ----------
    echo : callable
        Prints a line where none can be rewritten.
    quiet : bool
        Show nothing.
    """

    def __init__(self, echo: Callable[[str], object], quiet: bool = False) -> None:
        self.echo, self.quiet = echo, quiet
        self.terminal = sys.stderr.isatty() and not quiet
        self.begin("")

    def begin(self, label: str) -> None:
        """Begin with another notebook, whose progress file is empty."""
        self.label = label
        self.begun = self.printed = time.monotonic()
        self.seen = 0

    def show(self, progress: Path) -> None:
        """Show what is new in a notebook's progress file."""
        if self.quiet:
            return
        lines = map(json.loads, progress.read_text().split("\n")[:-1])
        reports = [line for line in lines if "text" in line]
        if self.terminal:
            width = shutil.get_terminal_size().columns - 1
            minutes, seconds = divmod(int(time.monotonic() - self.begun), 60)
            text = f"{minutes}:{seconds:02d} {self._text(*reports[-1:])}"
            text = textwrap.shorten(text, width, placeholder="…")
            print(f"\r{text:{width}}", end="", file=sys.stderr, flush=True)
            return
        for report in reports[self.seen :]:
            if report["ended"]:
                self.echo(self._text(report))
        self.seen = len(reports)
        if time.monotonic() - self.printed >= INTERVAL:
            self.echo(self._text(*reports[-1:]))
            self.printed = time.monotonic()

    def _text(self, report: Mapping[str, Any] | None = None) -> str:
        if report is None:
            return f"{self.label}: starts"
        which, _, trial = report["text"].partition(": ")
        if report["left"]:
            which += f", about {duration(report['left'])} left"
        return f"{self.label}: {which}: {trial}, {report['state']}"

    def clear(self) -> None:
        """Erase the line."""
        if self.terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
