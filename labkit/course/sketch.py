"""What diagrams are drawn with: a sheet in the style of all figures, boxes, neurons, arrows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyBboxPatch

from labkit.figures.page import SIZE, Figure, theme

COLOURS = tuple(sns.color_palette("colorblind"))
"""In the order in which things are told apart: blue, orange, green, red, …"""

INK = "0.25"
SMALL = 8.5
"""Points: the smallest type."""


@contextmanager
def sheet(
    title: str, panels: Sequence[str] = ("",), height: float = 3.0, plots: bool = False,
    columns: int | None = None,
) -> Iterator[tuple[Figure, list[Axes]]]:  # fmt: skip
    """Give panels to draw on, side by side; each has axes of its own, or none.

    Parameters
    ----------
    title : str
        Of the figure; it begins with its number.
    panels : sequence of str
        The title of each panel.
    height : float
        Inches; the width is that of all figures.
    plots : bool
        Whether the panels have axes; a diagram has none, and its units are as wide as high.
    columns : int, optional
        Panels in a row; all of them by default.
    """
    wide = columns or len(panels)
    with theme():
        figure = Figure(figsize=(SIZE[0], height), layout="constrained")
        found = list(figure.subplots(-(-len(panels) // wide), wide, squeeze=False).flat)
        for axes, name in zip(found, panels, strict=True):
            axes.set_title(name, fontsize=9)
            if not plots:
                axes.set_axis_off()
                axes.set_aspect("equal")
        figure.suptitle(title, x=0.02, ha="left")
        yield figure, found
        # Ticks are made when they are first drawn: now, while the theme holds.
        figure.draw_without_rendering()


def box(
    axes: Axes, x: float, y: float, width: float, height: float, text: str = "",
    colour: Any = "white", **more: Any,
) -> None:  # fmt: skip
    """Draw a box around a middle, with a text in it; the colour fills it lightly."""
    look = {"edgecolor": INK, "linewidth": 0.9, "zorder": 2} | more
    axes.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - height / 2), width, height,
            boxstyle="round,pad=0,rounding_size=0.08", facecolor=light(colour), **look,
        )
    )  # fmt: skip
    axes.text(x, y, text, ha="center", va="center", fontsize=SMALL, zorder=5)
    axes.update_datalim([(x - width / 2, y - height / 2), (x + width / 2, y + height / 2)])


def neuron(
    axes: Axes, x: float, y: float, text: str = "", colour: Any = "white", radius: float = 0.3
) -> None:
    """Draw a neuron."""
    axes.add_patch(
        Circle((x, y), radius, facecolor=light(colour), edgecolor=INK, linewidth=0.9, zorder=3)
    )
    axes.text(x, y, text, ha="center", va="center", fontsize=SMALL, zorder=5)


def arrow(
    axes: Axes, begin: tuple[float, float], end: tuple[float, float], text: str = "",
    colour: Any = INK, bend: float = 0.0, **more: Any,
) -> None:  # fmt: skip
    """Draw an arrow from point to point, with a text beside its middle."""
    look = {
        "arrowstyle": "-|>", "color": colour, "linewidth": 1.1, "shrinkA": 0, "shrinkB": 0,
        "mutation_scale": 9, "connectionstyle": f"arc3,rad={bend}", "zorder": 4,
    }  # fmt: skip
    axes.annotate("", xy=end, xytext=begin, arrowprops=look | more)
    if text:
        x, y = (begin[0] + end[0]) / 2, (begin[1] + end[1]) / 2
        axes.annotate(
            text, (x, y), xytext=(4, 0), textcoords="offset points", va="center", color=colour,
            fontsize=SMALL, zorder=5,
        )  # fmt: skip


def light(colour: Any) -> Any:
    """Return a colour as it fills what has a text on it."""
    return colour if colour == "white" else sns.light_palette(colour, 5)[1]
