"""Chapter 4: a text to count the words of, and figures of what was counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from labkit.course.diagrams import BLUE, ORANGE
from labkit.datasets import fetch
from labkit.figures.page import Figure, canvas
from labkit.settings import data_directory

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def text(part: str = "train") -> str:
    """Return a text of PTB, one sentence a line: train, valid or test.

    Raises
    ------
    DataError
        If none of its sources has it.
    """
    fetch("ptb")
    return (data_directory() / "ptb" / f"ptb.{part}.txt").read_text(encoding="utf-8")


def histogram(title: str, x: str, y: str, values: ArrayLike, highlight: float) -> Figure:
    """Draw how often each whole number occurs, and a line at one of them."""
    counts = np.bincount(np.asarray(values, int))
    with canvas(title, x, y) as page:
        (axes,) = page.panels
        axes.bar(np.arange(len(counts)), counts, width=1, color=BLUE)
        axes.axvline(highlight, color=ORANGE, linewidth=2)
        axes.grid(False, axis="x")
    return page.figure


def ranks(title: str, counts: ArrayLike) -> Figure:
    """Draw counts by their rank, both axes in powers of ten."""
    falling = np.sort(np.asarray(counts))[::-1]
    # Thousands of points would lie on top of each other.
    rank = np.unique(np.geomspace(1, len(falling), 200).astype(int))
    with canvas(title, "rank of the word", "occurrences in the training text") as page:
        (axes,) = page.panels
        axes.loglog(rank, falling[rank - 1], color=BLUE, label="PTB")
        axes.loglog(rank, falling[0] / rank, color=ORANGE, linestyle="--", label="1 / rank")
        page.legend()
    return page.figure
