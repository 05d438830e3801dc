"""The terminal that is written to: how wide it is, and text that fits."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from typing import TextIO

import click


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the columns of the terminal that a stream writes to; None if it is none.

    Without a stream, standard output is meant, which has those of COLUMNS wherever it goes.
    """
    if stream is None and "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    stream = stream or sys.stdout
    if not stream.isatty():
        return None
    return os.get_terminal_size(stream.fileno()).columns or shutil.get_terminal_size().columns


def fitted(text: str, width: int | None, hang: int = 0) -> str:
    """Return a text whose lines have at most so many columns; as it is where nobody looks.

    What follows of a line that is broken is indented as the line is, and by `hang` columns more.
    """
    if not width:
        return text
    lines = text.split("\n")
    return "\n".join(_broken(line, width, hang) if len(line) > width else line for line in lines)


def _broken(line: str, width: int, hang: int) -> str:
    indent = " " * (len(line) - len(line.lstrip()) + hang)
    return textwrap.fill(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def echo(text: str, err: bool = False, hang: int = 0) -> None:
    """Print a text for people, on standard output or error: broken where that is a terminal."""
    width = terminal_width(sys.stderr if err else None)
    click.echo(fitted(text, width, hang), err=err)
