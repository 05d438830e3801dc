"""Paper for diagrams, which have no axes: circles and arrows, placed in inches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from labkit.figures.page import SIZE, Figure, theme

BLUE, ORANGE, GREEN, RED, *_ = sns.color_palette("colorblind").as_hex()

PALE = {BLUE: "#dbe9f6", ORANGE: "#fde7c5", GREEN: "#d8efe2"}
"""What a shape is filled with that has an edge of this colour."""

Point = tuple[float, float]


@contextmanager
def sheet(title: str, height: float, width: float = SIZE[0]) -> Iterator[tuple[Figure, Axes]]:
    """Give a figure and axes without a frame, on which one unit is about an inch.

    Parameters
    ----------
    title : str
    height, width : float
        Of what is drawn, from (0, 0) at the bottom left.
    """
    with theme():
        figure = Figure(figsize=(width, height + 0.35), layout="constrained")
        axes = figure.add_subplot()
        axes.set_axis_off()
        axes.set_title(title)
        axes.set(xlim=(0, width), ylim=(0, height), aspect="equal")
        yield figure, axes
        figure.draw_without_rendering()


def circle(
    axes: Axes, at: Point, text: str, colour: str = BLUE, radius: float = 0.3, size: float = 9
) -> None:
    """Draw a circle with a text in it."""
    axes.add_patch(Circle(at, radius, facecolor=PALE[colour], edgecolor=colour, linewidth=1.2))
    axes.text(*at, text, ha="center", va="center", size=size)


def arrow(
    axes: Axes, start: Point, end: Point, text: str = "", gap: float = 0.3, place: float = 0.5,
    **style: object,
) -> None:  # fmt: skip
    """Draw an arrow between the middles of two shapes, from edge to edge.

    Parameters
    ----------
    axes : Axes
    start, end : (float, float)
    text : str
        Written on the arrow.
    gap : float
        Radius of the shapes.
    place : float
        How far along the arrow the text is, from 0 to 1.
    **style
        Of the arrow, as matplotlib has it.
    """
    first, last = np.array(start, float), np.array(end, float)
    step = (last - first) / np.hypot(*(last - first))
    first, last = first + gap * step, last - gap * step
    look = {"arrowstyle": "-|>", "color": "0.4", "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", last, first, arrowprops=look | style)
    if text:
        around = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        where = first + place * (last - first)
        colour = style.get("color", "0.15")
        axes.text(*where, text, ha="center", va="center", size=8.5, color=colour, bbox=around)
