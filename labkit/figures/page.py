"""The paper that figures are drawn on: size, type, axes, legend, notes, and the files."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import seaborn as sns
from matplotlib import figure as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Text

THEME = {
    **sns.axes_style("whitegrid"),
    **sns.plotting_context("paper"),
    # matplotlib brings this font along, so that a figure is the same on every machine.
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "figure.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.edgecolor": "0.3",
    "grid.color": "0.9",
    "legend.frameon": True,
    "legend.framealpha": 0.9,
    "legend.handlelength": 3.4,
    "lines.linewidth": 1.5,
    "lines.markersize": 6,
    "svg.hashsalt": "labkit",
}

SIZE = (6.3, 4.2)
"""Inches: the text width of a printed page."""

PANEL = (3.1, 2.9)
"""Inches of each panel, where there are several."""

MOST_PANELS = 3
"""In a row."""

PANEL_TITLE = 31
"""Characters in a line of a panel's title."""

MOST_INSIDE = 7
"""Entries of a legend that still leave room for the lines beside which they stand."""

BESIDE = 36
"""Characters in a line of a legend that stands to the right of the axes."""

GAP = 0.2
"""Inches above, between and below a legend beside the axes and the notes."""

CLOSEST = 0.018
"""Of the width of a single panel: two labels nearer to each other would be one."""

NOTE_SIZE = 8
NOTE_WIDTH = 100
"""Characters in a line of notes, in a figure of `SIZE`."""

HOLLOW = Line2D(
    [], [], color="0.3", marker="o", markerfacecolor="white", linestyle="none",
    label="oversubscribed: more workers and dedicated servers than cores",
)  # fmt: skip


class Figure(mpl.Figure):
    """A matplotlib figure that Jupyter shows as it would be saved.

    Attributes
    ----------
    empty : str
        Why nothing is drawn in it; empty if something is.
    """

    empty = ""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        with theme():
            self.savefig(content, format="png", dpi=100)
        return content.getvalue()


@dataclass
class Page:
    """A figure that is being drawn.

    Attributes
    ----------
    figure : Figure
    panels : list of Axes
    notes : list of str
        What is to be said below the axes.
    why : str
        What is to be said in the middle of axes in which nothing is drawn.
    """

    figure: Figure
    panels: list[Axes]
    notes: list[str] = field(default_factory=list)
    why: str = "no trial is shown here"

    def legend(self, more: Iterable[Artist] = (), inside: bool = True) -> None:
        """Explain what was measured first, then all else; each once, whatever the panel.

        Inside the axes if that is allowed and there is room, else to the right of them.
        """
        found: dict[str, Any] = {}
        for axes in self.panels:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                found.setdefault(label, handle)
        handles = sorted(found.values(), key=lambda handle: isinstance(handle, Line2D))
        handles += more
        if not handles:
            return
        if inside and len(self.panels) == 1 and len(handles) <= MOST_INSIDE:
            self.panels[0].legend(handles=handles)
        else:
            labels = [
                textwrap.fill(str(handle.get_label()), BESIDE, break_on_hyphens=False)
                for handle in handles
            ]
            self.figure.legend(handles, labels, loc="outside right upper")


def theme() -> Any:
    """Return the context in which figures are drawn: ours, whatever has been set elsewhere."""
    return matplotlib.style.context([THEME], after_reset=True)


@contextmanager
def canvas(title: str, x: str, y: str, panels: Sequence[str] = ("",)) -> Iterator[Page]:
    """Give axes to draw on, and set the type around them.

    Parameters
    ----------
    title : str
    x, y : str
        Labels of the axes.
    panels : sequence of str
        The title of each panel; a single one needs none.
    """
    columns = min(len(panels), MOST_PANELS)
    rows = -(-len(panels) // columns)
    wide = max(SIZE[0], PANEL[0] * columns + 1)
    size = SIZE if len(panels) == 1 else (wide, PANEL[1] * rows + 1)
    with theme():
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat
        for axes in grid[len(panels) :]:
            axes.remove()
        page = Page(figure, list(grid[: len(panels)]))
        for place, (axes, name) in enumerate(zip(page.panels, panels, strict=True)):
            lowest, leftmost = place + columns >= len(panels), place % columns == 0
            axes.set(
                title=textwrap.fill(name, PANEL_TITLE) if name else title,
                xlabel=x if lowest else "", ylabel=y if leftmost else "",
            )  # fmt: skip
            axes.tick_params(labelbottom=lowest, labelleft=leftmost)
        if len(panels) > 1:
            figure.suptitle(title, x=0.02, ha="left")
        yield page
        bare = [axes for axes in page.panels if not _has_data(axes)]
        for axes in bare:
            why = textwrap.fill(f"not measured: {page.why}", 50 if len(panels) == 1 else 26)
            axes.text(0.5, 0.5, why, transform=axes.transAxes, ha="center", size=11)
            if len(panels) == 1:
                axes.set_yticks([])
        figure.empty = page.why if len(bare) == len(panels) else ""
        width = int(NOTE_WIDTH * size[0] / SIZE[0])
        text = "\n".join(textwrap.fill(note, width) for note in page.notes)
        # The only text below the axes for which the layout makes room by itself.
        notes = figure.supxlabel(text, x=0.02, ha="left", size=NOTE_SIZE, color="0.25")
        for words in figure.findobj(Text):
            if "$" in words.get_text():  # a price or a variable, in somebody's own words
                words.set_parse_math(False)
        # Ticks are made when they are first drawn: now, while the theme holds.
        figure.draw_without_rendering()
        for legend in figure.legends:  # beside the axes, and above the notes
            heights = [artist.get_window_extent().height for artist in (legend, notes)]
            figure.set_figheight(max(figure.get_figheight(), sum(heights) / figure.dpi + GAP))
            figure.draw_without_rendering()


def _has_data(axes: Axes) -> bool:
    """Whether there is a line with a point on it, or a bar."""
    points = [np.asarray(line.get_ydata(), float) for line in axes.lines]
    return bool(axes.patches) or any(np.isfinite(values).any() for values in points)


def title_of(figure: mpl.Figure) -> str:
    """Return the title of a figure, with one panel or with several."""
    return figure.get_suptitle() or figure.axes[0].get_title("left")


def frame(panels: Sequence[Axes], at: Mapping[Any, float]) -> None:
    """Put a tick at each value, and rates and times on an axis that starts at zero.

    Only when all panels are drawn: they share their axes.
    """
    for axes in panels:
        axes.set_xticks(list(at.values()), [str(value) for value in at])
        axes.set_ylim(bottom=0)
        axes.grid(False, axis="x")
        if not at:
            continue
        low, high = min(at.values()), max(at.values())
        margin = 0.06 * (high - low) or 0.5
        axes.set_xlim(low - margin, high + margin)
        room = CLOSEST * axes.get_gridspec().ncols * (high - low)
        last = -math.inf
        # Panels that have others below them have no labels.
        for place, label in zip(at.values(), axes.get_xticklabels(), strict=False):
            label.set_visible(place - last >= room)
            last = place if label.get_visible() else last


def save(
    figure: mpl.Figure, path: str | Path, formats: Iterable[str] = ("svg", "png")
) -> list[Path]:
    """Write a figure to files; the same figure always gives the same bytes.

    Parameters
    ----------
    figure : Figure
    path : str or Path
        Without a suffix: ``figures/6.3`` gives ``figures/6.3.svg`` and ``figures/6.3.png``.
        Its directory is made if need be.
    formats : iterable of str

    Returns
    -------
    list of Path
        One for each format.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A number such as 6.3 ends in what looks like a suffix: append, do not replace.
    paths = [path.with_name(f"{path.name}.{suffix}") for suffix in formats]
    with theme():
        for each in paths:
            figure.savefig(each, dpi=150, metadata={"Date": None} if each.suffix == ".svg" else {})
    return paths
