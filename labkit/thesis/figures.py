"""Figures 6.1 to 6.10 of the thesis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from labkit.errors import nearest
from labkit.figures.learning import X, learning_curve
from labkit.figures.scaling import epoch_time, speedup, throughput
from labkit.figures.style import FigureError
from labkit.figures.words import only


def figure_6_1a(steps: pd.DataFrame, trials: pd.DataFrame, x: X = "updates") -> Figure:
    """Draw TensorFlow's accuracy on the training batches while it learns."""
    return learning_curve("6.1a", steps, only(trials, framework="tensorflow"), x)


def figure_6_1b(steps: pd.DataFrame, trials: pd.DataFrame, x: X = "updates") -> Figure:
    """Draw MXNet's accuracy on the training batches while it learns."""
    return learning_curve("6.1b", steps, only(trials, framework="mxnet"), x)


def figure_6_2a(steps: pd.DataFrame, trials: pd.DataFrame, x: X = "updates") -> Figure:
    """Draw how MXNet learns from very small batches with one worker."""
    return learning_curve("6.2a", steps, only(trials, framework="mxnet", workers=1), x)


def figure_6_2b(steps: pd.DataFrame, trials: pd.DataFrame, x: X = "updates") -> Figure:
    """Draw how MXNet learns from very small batches with several workers."""
    mxnet = only(trials, framework="mxnet")
    several = only(mxnet, workers=mxnet.loc[mxnet["workers"] > 1, "workers"].unique())
    return learning_curve("6.2b", steps, several, x)


def figure_6_3(trials: pd.DataFrame) -> Figure:
    """Draw the throughput of the CNN over workers, batch 512."""
    return throughput("6.3", trials)


def figure_6_4a(trials: pd.DataFrame) -> Figure:
    """Draw the throughput of the CNN over workers, batch 256."""
    return throughput("6.4a", trials)


def figure_6_4b(trials: pd.DataFrame) -> Figure:
    """Draw how long one worker takes for an epoch of the CNN, batches 256 and 512."""
    return epoch_time("6.4b", only(trials, workers=1), x="batch_size")


def figure_6_5a(trials: pd.DataFrame) -> Figure:
    """Draw the throughput of the CNN over workers, batch 128."""
    return throughput("6.5a", trials)


def figure_6_5b(trials: pd.DataFrame) -> Figure:
    """Draw how long one worker takes for an epoch of the CNN, batches 128 to 512."""
    return epoch_time("6.5b", only(trials, workers=1), x="batch_size")


def figure_6_6(trials: pd.DataFrame) -> Figure:
    """Draw the speedup of the CNN over workers, batch 128."""
    return speedup("6.6", trials)


def figure_6_7(trials: pd.DataFrame) -> Figure:
    """Draw the speedup of the RNN over workers, batch 20."""
    return speedup("6.7", trials)


def figure_6_8a(trials: pd.DataFrame) -> Figure:
    """Draw the throughput of the RNN over workers, batch 20."""
    return throughput("6.8a", trials)


def figure_6_8b(trials: pd.DataFrame) -> Figure:
    """Draw how long an epoch of the RNN takes over workers, batch 20."""
    return epoch_time("6.8b", trials, x="workers")


def figure_6_9(trials: pd.DataFrame) -> Figure:
    """Draw the speedup of the RNN over workers, batch 5."""
    return speedup("6.9", trials)


def figure_6_10a(trials: pd.DataFrame) -> Figure:
    """Draw the throughput of the RNN over workers, batch 5."""
    return throughput("6.10a", trials)


def figure_6_10b(trials: pd.DataFrame) -> Figure:
    """Draw how long an epoch of the RNN takes over workers, batch 5."""
    return epoch_time("6.10b", trials, x="workers")


@dataclass(frozen=True)
class Row:
    """What there is to know of a figure.

    Attributes
    ----------
    function : callable
        Draws it.
    tables : tuple of str
        What the function takes: names of the tables of a store.
    title : str
    where : mapping of str to tuple
        The trials it shows, of a store that holds others too: a column's allowed values.
    """

    function: Callable[..., Figure]
    tables: tuple[str, ...]
    title: str
    where: Mapping[str, tuple[Any, ...]]

    def select(self, trials: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of a table of trials that this figure shows."""
        for column, values in self.where.items():
            if column in trials:
                trials = trials[trials[column].isin(values)]
        return trials


def _row(function: Callable[..., Figure], title: str, model: str, *batch_sizes: int, **where: Any):
    learning = title.startswith("Learning curve")
    return Row(
        function,
        ("steps", "table") if learning else ("table",),
        title,
        {"model": (model,), "strategy": ("async-ps",), "batch_size": batch_sizes, **where},
    )


_AT = {"learning_rate": (0.025,)}


FIGURES: dict[str, Row] = {
    "6.1a": _row(figure_6_1a, "Learning curve, CNN, batch 512, TensorFlow", "lenet5", 512, **_AT),
    "6.1b": _row(figure_6_1b, "Learning curve, CNN, batch 512, MXNet", "lenet5", 512, **_AT),
    "6.2a": _row(figure_6_2a, "Learning curve, MXNet, CNN, batch 5, 1 worker", "lenet5", 5),
    "6.2b": _row(figure_6_2b, "Learning curve, MXNet, CNN, batch 5, more workers", "lenet5", 5),
    "6.3": _row(figure_6_3, "Throughput, CNN, batch 512", "lenet5", 512),
    "6.4a": _row(figure_6_4a, "Throughput, CNN, batch 256", "lenet5", 256),
    "6.4b": _row(figure_6_4b, "Duration, CNN, batch 256 to 512", "lenet5", 256, 512),
    "6.5a": _row(figure_6_5a, "Throughput, CNN, batch 128", "lenet5", 128),
    "6.5b": _row(figure_6_5b, "Duration, CNN, batch 128 to 512", "lenet5", 128, 256, 512),
    "6.6": _row(figure_6_6, "Speedup, CNN, batch 128", "lenet5", 128),
    "6.7": _row(figure_6_7, "Speedup, RNN, batch 20", "lstm", 20),
    "6.8a": _row(figure_6_8a, "Throughput, RNN, batch 20", "lstm", 20),
    "6.8b": _row(figure_6_8b, "Duration, RNN, batch 20", "lstm", 20),
    "6.9": _row(figure_6_9, "Speedup, RNN, batch 5", "lstm", 5),
    "6.10a": _row(figure_6_10a, "Throughput, RNN, batch 5", "lstm", 5),
    "6.10b": _row(figure_6_10b, "Duration, RNN, batch 5", "lstm", 5),
}
"""The figures of chapter 6 by their numbers."""


def find(number: str) -> Row:
    """Return the row of `FIGURES` with this number.

    Raises
    ------
    FigureError
        If there is none; it names the nearest one.
    """
    if number not in FIGURES:
        raise FigureError(
            f"figure {number!r}: no such figure{nearest(number, FIGURES)} "
            f"(known: {', '.join(FIGURES)})"
        )
    return FIGURES[number]
