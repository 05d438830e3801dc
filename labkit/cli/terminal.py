"""The terminal that is written to: how wide it is, and lines that fit."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap


def terminal_width() -> int | None:
    """Return the columns of the terminal that is written to; None if it is none."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return None


def fitted(line: str, width: int | None) -> str:
    """Return a line broken into such as have so many columns; as it is where nobody looks."""
    return textwrap.fill(line, width) if width and len(line) > width else line
