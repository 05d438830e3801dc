"""One visual language for all figures.

A framework has the same colour, marker and line style everywhere. Bars and bands are 95 %
intervals over repeats. Hollow points are oversubscribed: more workers than the machine has cores, so
they say nothing about scaling, and no line joins them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from labkit import analysis
from labkit.errors import LabkitError
from labkit.trials.frameworks import FRAMEWORKS

NAMES = {"tensorflow": "TensorFlow", "mxnet": "MXNet", "lenet5": "CNN", "lstm": "RNN"}
"""How figures call what tables spell otherwise."""


MARKERS = "osD^vPX*p"


DASHES = ("", (4, 1.5), (1, 1), (3, 1.25, 1.5, 1.25), (5, 1, 1, 1, 1, 1))


THEME = {
    **sns.axes_style("whitegrid"),
    **sns.plotting_context("paper"),
    # matplotlib brings this font along, so that a figure looks alike on every machine.
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "axes.titlelocation": "left",
    "axes.edgecolor": "0.3",
    "grid.color": "0.9",
    "legend.frameon": True,
    "legend.framealpha": 0.9,
    "legend.handlelength": 2.8,
    "lines.linewidth": 1.5,
    "lines.markersize": 5.5,
    "svg.hashsalt": "labkit",
}


SIZE = (6.3, 4.2)
"""Inches: the text width of a printed page."""


ASIDE = 3
"""Points (1/72 inch) between the frameworks at one x."""


NOTE_SIZE = 8


NOTE_WIDTH = 100


SHARED = "oversubscribed: more workers than cores"


class FigureError(LabkitError):
    """A figure that cannot be drawn from what was given."""


def save(figure: Figure, path: str | Path) -> tuple[Path, Path]:
    """Write a figure as SVG and as PNG; the same figure always gives the same bytes.

    Parameters
    ----------
    figure : Figure
    path : str or Path
        Without a suffix: ``figures/6.3`` gives ``figures/6.3.svg`` and ``figures/6.3.png``.
        Its directory is made if need be.

    Returns
    -------
    tuple of Path
        The SVG and the PNG.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A number such as 6.3 ends in what looks like a suffix: append, do not replace.
    svg, png = (path.with_name(f"{path.name}.{suffix}") for suffix in ("svg", "png"))
    with plt.rc_context(THEME):
        figure.savefig(svg, metadata={"Date": None})
        figure.savefig(png, dpi=150)
    return svg, png


@dataclass(frozen=True)
class Style:
    """How a framework is drawn."""

    colour: tuple[float, float, float]
    marker: str
    dashes: str | tuple[float, ...]

    @property
    def line(self) -> str | tuple[float, tuple[float, ...]]:
        """The dashes as matplotlib wants them; seaborn wants them bare."""
        return (0, self.dashes) if self.dashes else "-"


def styles(frameworks: Iterable[str] = ()) -> dict[str, Style]:
    """Return the style of every framework that labkit knows, and of others after them."""
    names = [*FRAMEWORKS, *sorted(set(frameworks) - set(FRAMEWORKS))]
    palette = sns.color_palette("colorblind")
    return {
        name: Style(palette[i % len(palette)], MARKERS[i % len(MARKERS)], DASHES[i % len(DASHES)])
        for i, name in enumerate(names)
    }


@contextmanager
def canvas(
    number: str, title: Iterable[str], x: str, y: str
) -> Iterator[tuple[Figure, Axes, list[str]]]:
    """Give axes to draw on and a list for notes, and set the type around them."""
    with plt.rc_context(THEME):
        figure, axes = plt.subplots(figsize=SIZE, layout="constrained")
        # It is shown where it is returned to, once; pyplot need not keep it as well.
        plt.close(figure)
        notes: list[str] = []
        axes.set(xlabel=x, ylabel=y)
        axes.set_title(f"{number} {', '.join(title)}")
        yield figure, axes, notes
        if not any(np.isfinite(np.asarray(line.get_ydata(), float)).any() for line in axes.lines):
            axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", size=12)
            axes.set_yticks([])
        # The only text under the axes for which the layout makes room by itself.
        text = "\n".join(textwrap.fill(note, NOTE_WIDTH) for note in notes)
        figure.supxlabel(text, x=0.02, ha="left", size=NOTE_SIZE, color="0.25")
        # Ticks are made when they are first drawn: now, while the theme holds.
        figure.draw_without_rendering()


def ends(found: analysis.Interval) -> tuple[float, float]:
    return found.low, found.high


def shades(colour: tuple[float, float, float], n: int) -> list[tuple[float, float, float]]:
    """Return n shades of a colour, light to dark; the colour itself if it is one."""
    if n == 1:
        return [colour]
    light = tuple(1 - 0.6 * (1 - part) for part in colour)
    dark = tuple(0.4 * part for part in colour)
    return sns.blend_palette([light, colour, dark], n)


HOLLOW = Line2D(
    [], [], color="0.3", marker="o", markerfacecolor="white", linestyle="none", label=SHARED
)


def side_by_side(frameworks: pd.Series) -> Iterator[tuple[str, Style, float]]:
    """Yield the frameworks of a figure in order, each with its style and its place aside."""
    drawn = [item for item in styles(frameworks).items() if item[0] in set(frameworks)]
    for i, (framework, style) in enumerate(drawn):
        yield framework, style, ASIDE * (i - (len(drawn) - 1) / 2)


def errorbar(
    axes: Axes,
    place: pd.Series,
    rows: pd.DataFrame,
    style: Style,
    aside: float,
    label: str | None = None,
) -> None:
    """Draw points with their intervals: joined if they have a name, else hollow and alone."""
    drawn = axes.errorbar(
        place,
        rows["mean"],
        yerr=[rows["mean"] - rows["low"], rows["high"] - rows["mean"]],
        color=style.colour,
        marker=style.marker,
        linestyle=style.line if label else "none",
        markerfacecolor=style.colour if label else "white",
        markeredgecolor="white" if label else style.colour,
        markeredgewidth=0.6 if label else 1.2,
        capsize=2.5,
        capthick=1,
        elinewidth=1,
        label=label,
    )
    # Moved on the paper, not in the data: bars at the same x must not hide each other.
    moved = axes.transData + ScaledTranslation(aside / 72, 0, axes.figure.dpi_scale_trans)
    for artist in drawn.get_children():
        artist.set_transform(moved)


def frame(axes: Axes, at: Mapping[Any, float]) -> None:
    """Put a tick at each value, and rates and times on an axis that starts at zero."""
    axes.set_xticks(list(at.values()), [str(value) for value in at])
    if at:
        low, high = min(at.values()), max(at.values())
        margin = 0.06 * (high - low) or 0.5
        axes.set_xlim(low - margin, high + margin)
    axes.set_ylim(bottom=0)
    axes.grid(False, axis="x")


def legend(axes: Axes, more: Iterable[Line2D] = ()) -> None:
    """Explain what was measured first, then all else."""
    handles, _ = axes.get_legend_handles_labels()
    handles = sorted(handles, key=lambda handle: isinstance(handle, Line2D))
    if handles or more:
        axes.legend(handles=[*handles, *more])
