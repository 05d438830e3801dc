"""Real images for small nets: some of a data set, as arrays in memory, and pictures of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from labkit.datasets import DataError, fetch
from labkit.errors import nearest
from labkit.figures.page import SIZE, Figure, theme
from labkit.replicas.arrays import Arrays, as_inputs
from labkit.settings import data_directory

CLASSES = {
    "fashion-mnist": ("T-shirt", "trousers", "pullover", "dress", "coat",
                      "sandal", "shirt", "sneaker", "bag", "ankle boot"),
    "mnist": tuple("0123456789"),
}  # fmt: skip
"""What the labels 0 to 9 stand for."""


@dataclass(frozen=True)
class Images:
    """Some images of a data set.

    Attributes
    ----------
    train, test : array of float, shape (n, 28, 28)
        Brightness of each pixel, from 0 to 1.
    train_labels, test_labels : array of int, shape (n,)
        Classes, 0 to 9.
    names : tuple of str
        Of the classes.
    """

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    names: tuple[str, ...]


def arrays(dataset: str) -> Arrays:
    """Return a data set as trainers read it, fetched if it is not there yet.

    Raises
    ------
    DataError
        If it is unknown, or none of its sources has it.
    """
    fetch(dataset)
    return Arrays(dataset, data_directory())


def load(dataset: str = "fashion-mnist", train: int = 10_000, test: int = 2_000) -> Images:
    """Return the first images of a data set, which is fetched if it is not there yet.

    Parameters
    ----------
    dataset : str
        ``fashion-mnist`` or ``mnist``; the images of both come in no particular order.
    train, test : int
        How many images of the training set and of the test set.

    Raises
    ------
    DataError
        The data set has no such images or not as many, or it cannot be fetched.
    """
    if dataset not in CLASSES:
        known = ", ".join(CLASSES)
        raise DataError(
            f"dataset: {dataset!r} has no images{nearest(dataset, CLASSES)}; allowed: {known}"
        )
    data = arrays(dataset)
    wanted = {"train": (train, len(data.train_labels)), "test": (test, len(data.test_labels))}
    wrong = [
        f"{name}: {count}; allowed: 1 to {most}"
        for name, (count, most) in wanted.items()
        if not 1 <= count <= most
    ]
    if wrong:
        raise DataError(f"images of {dataset} to load: {'; '.join(wrong)}")
    return Images(
        as_inputs(data.train_inputs[:train]).astype(float), data.train_labels[:train].astype(int),
        as_inputs(data.test_inputs[:test]).astype(float), data.test_labels[:test].astype(int),
        CLASSES[dataset],
    )  # fmt: skip


def of_each_class(
    images: np.ndarray, labels: np.ndarray, count: int, seed: int = 1
) -> list[tuple[str, np.ndarray]]:
    """Return rows for `gallery` with an image of each class, drawn at random.

    Parameters
    ----------
    images : array, shape (n, height, width)
    labels : array of int, shape (n,)
        Classes, from 0 on.
    count : int
        Rows.
    seed : int

    Returns
    -------
    list of ("", array of shape (classes, height, width))
    """
    rng = np.random.default_rng(seed)
    drawn = [
        rng.choice(np.flatnonzero(labels == label), count, replace=False)
        for label in range(labels.max() + 1)
    ]
    return [("", images[row]) for row in np.transpose(drawn)]


def gallery(
    title: str, rows: Sequence[tuple[str, Sequence[np.ndarray]]], names: Sequence[str] = (),
    signed: bool = False,
) -> Figure:  # fmt: skip
    """Draw rows of small images.

    Parameters
    ----------
    title : str
    rows : sequence of (str, sequence of array of float, shape (height, width))
        What a row is called, and its images; each is drawn in its own range of values.
    names : sequence of str
        Written above the images of the first row.
    signed : bool
        Draw positive values red, negative ones blue and zero white.
    """
    columns = max(len(images) for _, images in rows)
    label = 0.9 if any(name for name, _ in rows) else 0.1
    side = (SIZE[0] - label - 0.2) / max(columns, 6)
    with theme():
        figure = Figure(figsize=(SIZE[0], side * len(rows) + 0.65))
        top = 1 - (0.5 if names else 0.3) / figure.get_figheight()
        grid = figure.subplots(
            len(rows), columns, squeeze=False,
            gridspec_kw={"left": label / SIZE[0], "right": (label + side * columns) / SIZE[0],
                         "top": top, "bottom": 0.1 / figure.get_figheight(),
                         "wspace": 0.06, "hspace": 0.06},
        )  # fmt: skip
        for (name, images), line in zip(rows, grid, strict=True):
            for axes in line:
                axes.set(xticks=[], yticks=[])
                axes.set_visible(False)
            for axes, image in zip(line, images, strict=False):
                look = {"cmap": "gray"}
                if signed:
                    most = np.abs(image).max() or 1.0
                    look = {"cmap": "RdBu_r", "vmin": -most, "vmax": most}
                axes.imshow(image, **look)
                axes.grid(False)
                axes.set_visible(True)
            line[0].set_ylabel(
                name, rotation=0, ha="right", va="center", size=8.5, labelpad=5
            )
        for axes, name in zip(grid[0], names, strict=False):
            axes.set_title(name, size=8, loc="center", pad=3)
        figure.suptitle(title, x=0.02, y=1 - 0.02 / figure.get_figheight(), ha="left", va="top")
        figure.draw_without_rendering()
    return figure
