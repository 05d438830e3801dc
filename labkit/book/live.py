"""How far a notebook is, on one line."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.progress import duration

if TYPE_CHECKING:
    pass

QUIET = 10.0
"""Seconds between two lines of progress where these cannot be rewritten."""


class LiveLine:
    """One line that says how far a notebook is: rewritten in a terminal, else now and then."""

    def __init__(self, echo: Callable[[str], object]) -> None:
        self.echo = echo
        self.rewrites = sys.stderr.isatty()
        self.said = ""
        self.at = time.monotonic()

    def show(self, label: str, progress: Path) -> None:
        """Say what stands at the end of a notebook's report."""
        *_, last, _ = ["", *progress.read_text().split("\n")]
        text = f"{label}: starts"
        if last:
            report = json.loads(last)
            which, _, trial = report["text"].partition(": ")
            if report["left"] is not None:
                which += f", about {duration(report['left'])} left"
            text = f"{label}: {which}: {trial}, {report['state']}"
        if self.rewrites:
            width = shutil.get_terminal_size().columns - 1
            text = textwrap.shorten(text, width, placeholder="…")
            print(f"\r{text:{width}}", end="", file=sys.stderr, flush=True)
        elif text != self.said and time.monotonic() - self.at >= QUIET:
            self.echo(text)
            self.said, self.at = text, time.monotonic()

    def clear(self) -> None:
        """Make the line free."""
        if self.rewrites:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
