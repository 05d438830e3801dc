"""The thesis's figures by number: rows over the general figures of `labkit.figures`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from labkit import figures
from labkit.errors import nearest
from labkit.figures import FigureError, Tables, select
from labkit.figures.page import Figure
from labkit.figures.selection import tables
from labkit.figures.words import describe
from labkit.runs.selection import in_word, in_words, there
from labkit.trials import Trial


@dataclass(frozen=True)
class Row:
    """What there is to know of a figure.

    Attributes
    ----------
    number : str
        As in the thesis; variants of a figure, which the notebooks add, have a word behind it.
    caption : str
        What the thesis shows in it.
    draw : callable
        One of the general figures.
    shows : mapping of str to value or callable
        What tells its trials from others of the same notebook: a column's value, or a condition.
    ran : mapping of str to tuple
        What the thesis ran for it, which tells its trials from all others that were ever run.
    x : str, optional
        What is along the horizontal axis, if it is not the general figure's first choice.
    """

    number: str
    caption: str
    draw: Callable[..., Figure]
    shows: Mapping[str, Any] = field(default_factory=dict)
    ran: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    x: str | None = None


def _deployment(results: Any, *, title: str) -> Figure:
    """Draw the objects of the first trial."""
    from labkit.thesis.deployment import objects  # whose imports take most of a second

    row = results.table.iloc[0]
    values = {name: row[name] for name in Trial.model_fields if pd.notna(row.get(name))}
    plain = {k: v.item() if hasattr(v, "item") else v for k, v in values.items()}
    # Where some rows have none, as scripts have no number of steps, a column is of floats.
    whole = {k: int(v) for k, v in plain.items() if isinstance(v, float) and v.is_integer()}
    trial = Trial(**plain | whole)
    return figures.deployment(objects(trial), title=title)


TENSORFLOW, MXNET = {"framework": "tensorflow"}, {"framework": "mxnet"}
ONE, MORE = {"workers": 1}, {"workers": lambda workers: workers > 1}

CNN = {"model": ("lenet5",), "strategy": ("async-ps",)}
RNN = {"model": ("lstm",), "strategy": ("async-ps",), "initializer": ("default",)}
LEARNING = CNN | {"batch_size": (512,), "learning_rate": (0.025,)}
OWN = {"tensorflow": {"initializer": ("xavier",)}, "mxnet": {"initializer": ("uniform",)}}
BOTH = {"workers": (50,), "initializer": ("xavier", "uniform")}
HIGHER = {"learning_rate": (0.1, 0.05)}
SMALL = CNN | OWN["mxnet"] | {"batch_size": (5, 512), "learning_rate": (0.025,)}
RATES = CNN | {"initializer": ("default",), "learning_rate": (0.025,)}


def _cnn(*sizes: int) -> dict[str, tuple[Any, ...]]:
    return RATES | {"batch_size": sizes}


def _rnn(size: int) -> dict[str, tuple[Any, ...]]:
    return RNN | {"batch_size": (size,), "learning_rate": (0.05,)}


_curve, _rate = figures.learning_curve, figures.throughput
_time, _speedup = figures.epoch_time, figures.speedup

ROWS = (
    Row("5", "What a trial is in a cluster", _deployment, {},
        LEARNING | {"batch_size": (128,), "workers": (50,)}),
    Row("6.1a", "Learning curves, CNN, batch 512, TensorFlow", _curve, TENSORFLOW,
        LEARNING | OWN["tensorflow"]),
    Row("6.1b", "Learning curves, CNN, batch 512, MXNet", _curve, MXNET,
        LEARNING | OWN["mxnet"]),
    Row("6.1a-initializer", "TensorFlow from two kinds of initial weights", _curve, TENSORFLOW,
        LEARNING | BOTH),
    Row("6.1b-initializer", "MXNet from two kinds of initial weights", _curve, MXNET,
        LEARNING | BOTH),
    Row("6.1a-rate", "TensorFlow at higher learning rates", _curve, TENSORFLOW,
        LEARNING | OWN["tensorflow"] | HIGHER),
    Row("6.1b-rate", "MXNet at higher learning rates", _curve, MXNET,
        LEARNING | OWN["mxnet"] | HIGHER),
    Row("6.2a", "Learning curves, MXNet, CNN, batch 5, 1 worker", _curve, MXNET | ONE,
        SMALL, "samples"),
    Row("6.2b", "Learning curves, MXNet, CNN, batch 5, 10 workers", _curve, MXNET | MORE,
        SMALL | {"workers": (10,)}, "samples"),
    Row("6.2a-updates", "The same as 6.2a, over updates", _curve, MXNET | ONE, SMALL, "updates"),
    Row("6.2b-updates", "The same as 6.2b, over updates", _curve, MXNET | MORE,
        SMALL | {"workers": (10,)}, "updates"),
    Row("6.3", "Throughput, CNN, batch 512", _rate, {}, _cnn(512)),
    Row("6.4a", "Throughput, CNN, batch 256", _rate, {}, _cnn(256)),
    Row("6.4b", "Time per epoch, CNN, 1 worker, batch 256 and 512", _time, ONE,
        _cnn(256, 512), "batch_size"),
    Row("6.5a", "Throughput, CNN, batch 128", _rate, {}, _cnn(128)),
    Row("6.5b", "Time per epoch, CNN, 1 worker, batch 128 to 512", _time, ONE,
        _cnn(128, 256, 512), "batch_size"),
    Row("6.6", "Speedup, CNN, batch 128", _speedup, {}, _cnn(128)),
    Row("6.7", "Speedup, RNN, batch 20", _speedup, {}, _rnn(20)),
    Row("6.8a", "Throughput, RNN, batch 20", _rate, {}, _rnn(20)),
    Row("6.8b", "Time per epoch, RNN, batch 20", _time, {}, _rnn(20)),
    Row("6.9", "Speedup, RNN, batch 5", _speedup, {}, _rnn(5)),
    Row("6.10a", "Throughput, RNN, batch 5", _rate, {}, _rnn(5)),
    Row("6.10b", "Time per epoch, RNN, batch 5", _time, {}, _rnn(5)),
)  # fmt: skip

FIGURES = {row.number: row for row in ROWS}
"""The figures of chapters 5 and 6 by their numbers."""


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


def shown(number: str, results: Any) -> Tables:
    """Return the trials that a figure shows, of what its notebook has measured.

    Parameters
    ----------
    number : str
    results : object or DataFrame
        What `measure` returned, or a table of trials.
    """
    chosen = tables(results)
    for column, value in find(number).shows.items():
        if callable(value):
            there = chosen.table[column].unique()
            value = [each for each in there if value(each)]
            if not value:
                only = ", ".join(map(str, there))
                raise FigureError(f"figure {number}: {column} is {only} in all trials")
        before, chosen = chosen, select(chosen, **{column: value})
        chosen.notes += tuple(_left_out(before.table, chosen.table, column))
    return chosen


def _left_out(before: pd.DataFrame, after: pd.DataFrame, column: str) -> Iterator[str]:
    """Name the configurations of which nothing is shown, as they were run otherwise."""
    fields = ("framework", "batch_size", "learning_rate", "initializer")
    by = [name for name in fields if name != column and before[name].nunique(dropna=False) > 1]
    kept = {tuple(row) for row in after[by].itertuples(index=False)}
    for values, group in before.groupby(by, dropna=False) if by else ():
        if values not in kept and column not in fields:
            ran = in_words(there(group[column]))
            what = describe(dict(zip(by, values, strict=True)), by)
            yield f"Left out: {what}, which was run with {column} {ran} only."


def as_in_the_thesis(number: str, table: pd.DataFrame, but: Collection[str] = ()) -> pd.DataFrame:
    """Return the trials of a figure out of all that were ever run: those with its settings.

    Of the trials of rates these are those without an evaluation, if there are any.

    Parameters
    ----------
    number : str
    table : DataFrame
        One row per trial.
    but : collection of str
        Columns in which they may differ from the thesis's.

    Raises
    ------
    FigureError
        If there are none.
    """
    kept = table
    for column, values in find(number).ran.items():
        if column in but:
            continue
        among, kept = kept, kept[kept[column].isin(values)]
        if kept.empty:
            found = there(among[column])
            raise FigureError(
                f"figure {number}: no trial was run as in the thesis, with {column} "
                f"{' or '.join(map(str, values))}, only with {in_words(found)}; "
                f"--{column.replace('_', '-')} {in_word(found[0])} draws it from those, and "
                "--profile NAME what the notebook of a profile shows"
            )
    # An evaluation changes no rate, so that any trial will do; but the notebooks' have none.
    alone = kept[kept["eval_samples"] == 0]
    rates = find(number).draw in (_rate, _time, _speedup) and "eval_samples" not in but
    return alone if rates and len(alone) else kept


def draw(number: str, results: Any) -> Figure:
    """Draw a figure of the thesis: the one way, for notebooks, the command and what is published.

    Parameters
    ----------
    number : str
        Such as ``6.3``, or ``6.1b-initializer``.
    results : object or DataFrame
        What `measure` returned, or a table of trials.

    Raises
    ------
    FigureError
        If there is no such figure, or nothing to draw.
    """
    row = find(number)
    more = {"x": row.x} if row.x else {}
    return row.draw(shown(number, results), title=f"{number.partition('-')[0]} {{}}", **more)
