"""Chapter 4: the data sets looked at, the published run's numbers, and figures of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from labkit.course.images import CLASSES as NAMES
from labkit.datasets import fetch
from labkit.figures.page import Figure, canvas, theme
from labkit.replicas.arrays import Arrays
from labkit.runs.tables import modernise
from labkit.settings import REFERENCE, data_directory

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

CLASSES, DIGITS = NAMES["fashion-mnist"], NAMES["mnist"]
"""In the order of their labels."""

CELL = 32
"""Pixels of an image and the margin around it."""

COLOURS = ("#0173b2", "#de8f05")


def published(name: str = "trials") -> pd.DataFrame:
    """Return a table of the run that is published with labkit: trials, steps or evals."""
    import pandas as pd

    return modernise(pd.read_parquet(REFERENCE / f"{name}.parquet"))


def arrays(dataset: str) -> Arrays:
    """Return a data set as trainers read it, fetched if it is not here yet.

    Raises
    ------
    DataError
        If it is unknown, or none of its sources has it.
    """
    fetch(dataset)
    return Arrays(dataset, data_directory())


def text(part: str = "train") -> str:
    """Return a text of PTB, one sentence a line: train, valid or test.

    Raises
    ------
    DataError
        If none of its sources has it.
    """
    fetch("ptb")
    return (data_directory() / "ptb" / f"ptb.{part}.txt").read_text(encoding="utf-8")


def gallery(
    data: Mapping[str, Arrays], names: Mapping[str, Sequence[str]], rows: int = 3, seed: int = 1
) -> Figure:
    """Draw some training images of each class, drawn at random: a block per data set.

    Parameters
    ----------
    data : mapping of str to Arrays
        By the title that stands beside a block.
    names : mapping of str to sequence of str
        The classes of each data set, in the order of their labels.
    rows : int
        Images of each class.
    seed : int
    """
    rng = np.random.default_rng(seed)
    with theme():
        figure = Figure(figsize=(6.3, 0.4 + len(data) * (0.4 + 0.6 * rows)), layout="constrained")
        figure.suptitle("4.1 Images of each class", x=0.02, ha="left")
        blocks = figure.subplots(len(data), 1, squeeze=False)[:, 0]
        for axes, (title, own) in zip(blocks, data.items(), strict=True):
            classes = names[title]
            columns = [
                own.train_inputs[rng.choice(np.flatnonzero(own.train_labels == label), rows)]
                for label in range(len(classes))
            ]
            axes.imshow(_mosaic(np.array(columns)), cmap="gray_r", vmin=0, vmax=255)
            places = CELL * np.arange(len(classes)) + CELL / 2
            axes.set_xticks(places, [_wrapped(name) for name in classes], size=8)
            axes.xaxis.tick_top()
            axes.tick_params(length=0)
            axes.set_yticks([])
            axes.set_ylabel(title)
            axes.grid(False)
            axes.spines[:].set_visible(False)
        return figure


def _mosaic(columns: np.ndarray) -> np.ndarray:
    """Lay images of shape (columns, rows, 28, 28) beside each other, with a margin around each."""
    margin = (CELL - columns.shape[-1]) // 2
    padded = np.pad(columns, [(0, 0), (0, 0), (margin, margin), (margin, margin)])
    return padded.transpose(1, 2, 0, 3).reshape(CELL * columns.shape[1], -1)


def _wrapped(name: str) -> str:
    return name.replace("/", "/\n").replace(" ", "\n")


def histogram(title: str, x: str, y: str, values: ArrayLike, highlight: float) -> Figure:
    """Draw how often each whole number occurs, and a line at one of them."""
    counts = np.bincount(np.asarray(values, int))
    with canvas(title, x, y) as page:
        (axes,) = page.panels
        axes.bar(np.arange(len(counts)), counts, width=1, color=COLOURS[0])
        axes.axvline(highlight, color=COLOURS[1], linewidth=2)
        axes.grid(False, axis="x")
    return page.figure


def ranks(title: str, counts: ArrayLike) -> Figure:
    """Draw counts by their rank, both axes in powers of ten."""
    falling = np.sort(np.asarray(counts))[::-1]
    # Thousands of points would lie on top of each other.
    rank = np.unique(np.geomspace(1, len(falling), 200).astype(int))
    with canvas(title, "rank of the word", "occurrences in the training text") as page:
        (axes,) = page.panels
        axes.loglog(rank, falling[rank - 1], color=COLOURS[0], label="PTB")
        axes.loglog(rank, falling[0] / rank, color=COLOURS[1], linestyle="--", label="1 / rank")
        page.legend()
    return page.figure
