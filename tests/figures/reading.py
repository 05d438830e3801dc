"""What is in a figure, for tests to ask."""

import math
from types import SimpleNamespace

import numpy as np
from matplotlib.colors import to_hex
from matplotlib.text import Text
from tidy_tables import steps


def results(table, **kinds):
    """Return a table of trials as `measure` returns it: with its steps."""
    return SimpleNamespace(table=table, steps=steps(table, **kinds))


def series(figure, panel=0):
    """Return what is drawn with error bars: a list of (label, line, bars), in order."""
    found = []
    for container in figure.axes[panel].containers:
        line, _, (bars,) = container.lines
        if len(line.get_xdata()):
            ends = np.array([s[:, 1] if len(s) else (math.nan,) * 2 for s in bars.get_segments()])
            found.append((container.get_label(), line, ends))
    return found


def heights(line):
    return line.get_ydata(orig=False)


def labels(figure):
    legends = [*figure.legends, *filter(None, (axes.get_legend() for axes in figure.axes))]
    return [text.get_text() for legend in legends for text in legend.get_texts()]


def note(figure):
    return " ".join(figure.get_supxlabel().split())


def middle(figure):
    """Return what is said in the middle of axes in which nothing is drawn."""
    return " ".join(" ".join(t.get_text().split()) for axes in figure.axes for t in axes.texts)


def texts(figure):
    return [t for t in figure.findobj(Text) if t.get_text() and t.get_visible()]


def look(line):
    return to_hex(line.get_color()), line.get_marker(), line._unscaled_dash_pattern
