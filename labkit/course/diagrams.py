"""What diagrams are drawn with: a sheet in the style of all figures, circles, boxes, arrows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Circle, FancyBboxPatch

from labkit.figures.page import SIZE, Figure, theme

COLOURS = tuple(sns.color_palette("colorblind").as_hex())
"""In the order in which things are told apart."""

BLUE, ORANGE, GREEN, RED, *_ = COLOURS

INK = "0.3"
SMALL = 8.5
"""Points: the smallest type."""

HEADING = 0.35
"""Inches that the title of a figure takes."""

Point = tuple[float, float]


def pale(colour: str) -> str:
    """Return a colour as it fills what has a text on it."""
    return to_hex(1 - 0.18 * (1 - np.array(to_rgb(colour))))


@contextmanager
def sheet(
    title: str, height: float, panels: Sequence[str] = ("",), columns: int | None = None,
    plots: bool = False,
) -> Iterator[tuple[Figure, list[Axes]]]:  # fmt: skip
    """Give a figure with panels to draw on, for diagrams or for plots of different kinds.

    Parameters
    ----------
    title : str
        Of the figure; it begins with its number.
    height : float
        Inches below the title; the width is that of all figures.
    panels : sequence of str
        The title of each panel.
    columns : int, optional
        Panels in a row; all of them by default.
    plots : bool
        Whether the panels have axes. A diagram has none: its units are as wide as high, about an
        inch each and counted from the bottom left, unless limits are set.
    """
    wide = columns or len(panels)
    rows = -(-len(panels) // wide)
    with theme():
        figure = Figure(figsize=(SIZE[0], height + HEADING), layout="constrained")
        found = list(figure.subplots(rows, wide, squeeze=False).flat)
        for axes, name in zip(found, panels, strict=True):
            axes.set_title(name, fontsize=9)
            if not plots:
                axes.set_axis_off()
                axes.set(xlim=(0, SIZE[0] / wide), ylim=(0, height / rows), aspect="equal")
        figure.suptitle(title, x=0.02, ha="left")
        yield figure, found
        # Ticks are made when they are first drawn: now, while the theme holds.
        figure.draw_without_rendering()


def circle(
    axes: Axes, at: Point, text: str = "", colour: str = BLUE, radius: float = 0.3,
    size: float = SMALL,
) -> None:  # fmt: skip
    """Draw a circle with a text in it."""
    look = {"facecolor": pale(colour), "edgecolor": colour, "linewidth": 1.2, "zorder": 3}
    axes.add_patch(Circle(at, radius, **look))
    axes.text(*at, text, ha="center", va="center", size=size, zorder=5)


def box(
    axes: Axes, at: Point, width: float, height: float, text: str = "", colour: str = BLUE
) -> None:
    """Draw a box around a point, with a text in it."""
    corner = (at[0] - width / 2, at[1] - height / 2)
    look = {"facecolor": pale(colour), "edgecolor": colour, "linewidth": 1.2, "zorder": 3}
    round_off = "round,pad=0,rounding_size=0.08"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=round_off, **look))
    axes.text(*at, text, ha="center", va="center", size=SMALL, zorder=5)


def arrow(
    axes: Axes, start: Point, end: Point, text: str = "", gap: float = 0, place: float = 0.5,
    colour: str = INK, bend: float = 0, **look: Any,
) -> None:  # fmt: skip
    """Draw an arrow from point to point, or between the edges of two shapes.

    Parameters
    ----------
    axes : Axes
    start, end : (float, float)
    text : str
        Written on the arrow.
    gap : float
        What is left out at either end: the radius of shapes, if the points are their middles.
    place : float
        How far along the arrow the text is, from 0 to 1.
    colour : str
    bend : float
        How far the arrow leans to its right, as a share of its length.
    **look
        More of it, as matplotlib has it.
    """
    first, last = np.array(start, float), np.array(end, float)
    step = (last - first) / np.hypot(*(last - first))
    first, last = first + gap * step, last - gap * step
    style = {
        "arrowstyle": "-|>", "color": colour, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0,
        "mutation_scale": 9, "connectionstyle": f"arc3,rad={bend}",
    }  # fmt: skip
    axes.annotate("", last, first, arrowprops=style | look, zorder=2)
    if text:
        around = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        where = first + place * (last - first)
        axes.text(*where, text, ha="center", va="center", size=SMALL, color=colour, bbox=around,
                  zorder=5)  # fmt: skip
