"""How a configuration is drawn: a pure function of its values.

The same configuration has the same colour, marker and dashes in every figure, whatever stands
beside it:

- framework: a family of hues, its dashes, and where its markers begin
- batch size: the hue within the family, and the marker
- workers: from light and thin to dark and thick
- learning rate, initial weights and all else: further turns of hue and marker; dots between dashes
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import seaborn as sns

from labkit.analysis.scaling import plain
from labkit.trials.frameworks import FRAMEWORKS

MARKERS = ">hops<d^Dv"
"""All filled, so that they are told apart small and hollow, too."""


@dataclass(frozen=True)
class Style:
    """How a line is drawn.

    Attributes
    ----------
    colour : tuple of float
        Red, green and blue, 0 to 1.
    marker : str
    dashes : tuple of float
        Lengths on and off, in line widths; empty for a solid line.
    width : float
        Points (1/72 inch).
    """

    colour: tuple[float, float, float]
    marker: str
    dashes: tuple[float, ...]
    width: float

    @property
    def line(self) -> str | tuple[float, tuple[float, ...]]:
        """The dashes as matplotlib's ``linestyle``."""
        return (0, self.dashes) if self.dashes else "-"


@dataclass(frozen=True)
class Family:
    """What all lines of a framework share.

    Attributes
    ----------
    hue : float
        The middle of its hues, in degrees; the hues reach as far to either side as `reach`.
    lightness : float
        Added to every line's, so that families differ in grey, too.
    first : int
        Place among `MARKERS` from which its own are counted.
    dash : float
        Length of its dashes; 0 for solid lines.
    """

    hue: float
    reach: float
    lightness: float
    first: int
    dash: float


FAMILIES = (
    Family(hue=242, reach=36, lightness=-0.02, first=0, dash=0),  # blues
    Family(hue=32, reach=28, lightness=0.05, first=5, dash=4),  # reds and oranges
)
"""Of the frameworks in the order of their table; others get one from their name."""

OTHER_HUES = (120, 150, 315, 340)
"""Middles of the greens and purples that are left for other frameworks."""

NUMBERS: dict[str, dict[Any, int]] = {
    "model": {"lenet5": 0, "lstm": 1},
    "dataset": {"fashion-mnist": 0, "ptb": 0, "mnist": 1},
    "strategy": {"async-ps": 0, "single": 1, "sync-ps": 2},
    "optimizer": {"sgd": 0, "adagrad": 1},
    "initializer": {"default": 0, "xavier": 1, "uniform": 2},
    "loss_over_time": {"default": 0, "mean": 1, "sum": 2},
    "clip_norm": {None: 0},
    "threads": {1: 0},
    "launcher": {"local": 0, "kubernetes": 1},
    "reported": {False: 0, True: 1},
}
"""Small numbers for the usual values of a field, 0 for the most usual; others are hashed."""

DOTS = {
    ("initializer", "uniform"): 1,
    ("optimizer", "adagrad"): 1,
    ("strategy", "single"): 2,
    ("strategy", "sync-ps"): 1,
    ("loss_over_time", "sum"): 2,
}
"""Between the dashes of some values; values that are hashed have up to three."""

TURN_OF_BATCH = 0.642
"""Of the family's hues, from one power of two to the next: neighbours lie far apart."""

MOST_WORKERS = 128
"""From which on lines do not get any darker."""


def style(configuration: Mapping[str, Any]) -> Style:
    """Return how a configuration is drawn.

    Parameters
    ----------
    configuration : mapping
        Fields of a trial by their names. Those that differ along the line (the number of workers
        in a figure over workers) are left out.
    """
    values = {name: plain(value) for name, value in configuration.items()}
    family = _family(values.pop("framework", None), values.pop("series", None))
    batch, workers = values.pop("batch_size", None), values.pop("workers", None)
    rate = values.pop("learning_rate", None)
    if "model" in values:  # a file is the same model wherever it lies
        values["model"] = PurePath(values["model"]).stem
    octave = math.log2(batch) if batch else 0.0
    turn, place, dots = 0.5 if not batch else TURN_OF_BATCH * octave, round(octave), 0
    if rate:
        octaves = math.log2(rate / 0.025)
        turn, place = turn + 0.4 * octaves, place + 3 * round(octaves)
    for name, value in sorted(values.items()):
        number = _number(name, value)
        turn, place = turn + 0.37 * number, place + 3 * number
        dots += DOTS.get((name, value), 0 if name in NUMBERS else number)
    if workers:
        grown = min(math.log2(workers), math.log2(MOST_WORKERS)) / math.log2(MOST_WORKERS)
        lightness, width = 0.62 - 0.42 * grown, 1.5 + 1.2 * grown
    else:
        lightness, width = 0.58 - 0.02 * octave, 1.6
    hue = family.hue + family.reach * (2 * (turn % 1) - 1)
    (colour,) = sns.husl_palette(1, h=hue % 360 / 359, s=0.95, l=lightness + family.lightness)
    marker = MARKERS[(family.first + place) % len(MARKERS)]
    return Style(tuple(colour), marker, _dashes(family.dash, dots % 4), width)


def _family(framework: str | None, series: str | None) -> Family:
    known = list(FRAMEWORKS)[: len(FAMILIES)]
    name = framework or series
    if name is None or name in known:
        return FAMILIES[known.index(name) if name else 0]
    number = zlib.crc32(name.encode())
    if not framework:  # beside other series, so all hues are free
        number, hue = divmod(number, 360)
        number, lightness = divmod(number, 5)
        dash, first = divmod(number, len(MARKERS))
        return Family(hue, 0, 0.06 * (lightness - 2), first, dash % 7)
    hue = OTHER_HUES[number % len(OTHER_HUES)] + number // 8 % 24 - 12
    return Family(hue, 12, 0.0, number // 256 % len(MARKERS), 2 + number // 4096 % 5)


def _number(name: str, value: Any) -> int:
    usual = NUMBERS.get(name, {None: 0})
    return usual[value] if value in usual else 3 + zlib.crc32(f"{name} {value}".encode()) % 97


def _dashes(dash: float, dots: int) -> tuple[float, ...]:
    """Return dashes with some dots between them; a solid line needs dashes to have dots."""
    if not dash and not dots:
        return ()
    return (dash or 10, 1.5, *(1, 1.5) * dots)
