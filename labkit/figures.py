"""Figures 6.1 to 6.10: one function each, from tidy tables to a matplotlib figure.

All speak one visual language. A framework has the same colour, marker and line style everywhere.
Bars and bands are 95 % intervals over repeats. Hollow points are time-shared: more workers than
the machine has cores, so they say nothing about scaling, and no line joins them. What is not
measured is not drawn but named under the axes.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from labkit import metrics
from labkit.errors import LabkitError, nearest
from labkit.trainers import FRAMEWORKS

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
MOST_CELLS = 40

X_LABELS = {
    "updates": "updates of the weights, by all workers",
    "samples": "samples trained on, by each worker",
    "t": "time since the barrier [s]",
}
SHARED = "time-shared: more workers than cores"


class FigureError(LabkitError):
    """A figure that cannot be drawn from what was given."""


# --- the figures ----------------------------------------------------------------------------

X = Literal["updates", "samples", "t"]


def figure_6_1a(steps: pd.DataFrame, trials: pd.DataFrame, x: X = "updates") -> Figure:
    """Draw TensorFlow's accuracy on the training batches while it learns."""
    return _learning("6.1a", steps, _only(trials, framework="tensorflow"), x)


def figure_6_1b(steps: pd.DataFrame, trials: pd.DataFrame, x: X = "updates") -> Figure:
    """Draw MXNet's accuracy on the training batches while it learns."""
    return _learning("6.1b", steps, _only(trials, framework="mxnet"), x)


def figure_6_2a(steps: pd.DataFrame, trials: pd.DataFrame, x: X = "updates") -> Figure:
    """Draw how MXNet learns from very small batches with one worker."""
    return _learning("6.2a", steps, _only(trials, framework="mxnet", workers=1), x)


def figure_6_2b(steps: pd.DataFrame, trials: pd.DataFrame, x: X = "updates") -> Figure:
    """Draw how MXNet learns from very small batches with several workers."""
    mxnet = _only(trials, framework="mxnet")
    several = _only(mxnet, workers=mxnet.loc[mxnet["workers"] > 1, "workers"].unique())
    return _learning("6.2b", steps, several, x)


def figure_6_3(trials: pd.DataFrame) -> Figure:
    """Draw the throughput of the CNN over workers, batch 512."""
    return _throughput("6.3", trials)


def figure_6_4a(trials: pd.DataFrame) -> Figure:
    """Draw the throughput of the CNN over workers, batch 256."""
    return _throughput("6.4a", trials)


def figure_6_4b(trials: pd.DataFrame) -> Figure:
    """Draw how long one worker takes for an epoch of the CNN, batches 256 and 512."""
    return _epoch_time("6.4b", _only(trials, workers=1), x="batch_size")


def figure_6_5a(trials: pd.DataFrame) -> Figure:
    """Draw the throughput of the CNN over workers, batch 128."""
    return _throughput("6.5a", trials)


def figure_6_5b(trials: pd.DataFrame) -> Figure:
    """Draw how long one worker takes for an epoch of the CNN, batches 128 to 512."""
    return _epoch_time("6.5b", _only(trials, workers=1), x="batch_size")


def figure_6_6(trials: pd.DataFrame) -> Figure:
    """Draw the speedup of the CNN over workers, batch 128."""
    return _speedup("6.6", trials)


def figure_6_7(trials: pd.DataFrame) -> Figure:
    """Draw the speedup of the RNN over workers, batch 20."""
    return _speedup("6.7", trials)


def figure_6_8a(trials: pd.DataFrame) -> Figure:
    """Draw the throughput of the RNN over workers, batch 20."""
    return _throughput("6.8a", trials)


def figure_6_8b(trials: pd.DataFrame) -> Figure:
    """Draw how long an epoch of the RNN takes over workers, batch 20."""
    return _epoch_time("6.8b", trials, x="workers")


def figure_6_9(trials: pd.DataFrame) -> Figure:
    """Draw the speedup of the RNN over workers, batch 5."""
    return _speedup("6.9", trials)


def figure_6_10a(trials: pd.DataFrame) -> Figure:
    """Draw the throughput of the RNN over workers, batch 5."""
    return _throughput("6.10a", trials)


def figure_6_10b(trials: pd.DataFrame) -> Figure:
    """Draw how long an epoch of the RNN takes over workers, batch 5."""
    return _epoch_time("6.10b", trials, x="workers")


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


# --- the visual language --------------------------------------------------------------------


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
def _page(
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


# --- what several figures share -------------------------------------------------------------


def _throughput(number: str, trials: pd.DataFrame) -> Figure:
    return _points(
        number, "Throughput", trials, "batches_per_second", "workers", "batches per second"
    )


def _epoch_time(number: str, trials: pd.DataFrame, x: str) -> Figure:
    title = "Duration" if x == "workers" else "Duration with 1 worker"
    label = "time for one epoch [s]\n(from the measured rate)"
    return _points(number, title, trials, "epoch_s", x, label)


def _points(
    number: str, title: str, trials: pd.DataFrame, metric: str, x: str, label: str
) -> Figure:
    """Draw one metric over workers or batch sizes, a line a framework."""
    _check(trials, metric, x, "framework", "workers", "time_shared", "status", "overloaded")
    summary = metrics.summarise(trials, metric)
    _check_one_value_a_point(summary, x)
    values = sorted(summary[x].unique())
    # Batch sizes are compared, not measured along an axis: they stand side by side.
    at = {value: value if x == "workers" else i for i, value in enumerate(values)}
    fixed = ["model"] if x == "batch_size" else ["model", "batch_size"]
    with _page(number, [title, *_fixed(trials, fixed)], x.replace("_", " "), label) as page:
        figure, axes, notes = page
        for framework, style, aside in _side_by_side(summary["framework"]):
            rows = summary[summary["framework"] == framework]
            shared = rows["time_shared"].astype(bool)
            place = rows[x].map(at)
            name = NAMES.get(framework, framework)
            _errorbar(axes, place[~shared], rows[~shared], style, aside, name)
            _errorbar(axes, place[shared], rows[shared], style, aside)
        _frame(axes, at)
        shared = summary["time_shared"].astype(bool).any()
        _legend(axes, [_HOLLOW] if shared else [])
        notes += _repeats(summary, "bars")
        if shared:
            notes.append("Time-shared points say nothing about scaling: no line joins them.")
        notes += _not_measured(trials, trials[metric].isna(), ["framework", x])
    return figure


def _speedup(number: str, trials: pd.DataFrame) -> Figure:
    """Draw the speedup over workers, a line a framework, beside the ideal one."""
    rate = "batches_per_second"
    _check(trials, rate, "framework", "workers", "time_shared", "status", "overloaded")
    summary = metrics.speedups(trials, rate).rename(columns={"speedup": "mean"})
    _check_one_value_a_point(summary, "workers")
    with _page(
        number, ["Speedup", *_fixed(trials, ["model", "batch_size"])], "workers", "speedup"
    ) as page:
        figure, axes, notes = page
        most = summary["workers"].max() if len(summary) else 1
        ideal = {"color": "0.45", "linewidth": 1, "linestyle": (0, (6, 3)), "zorder": 1}
        for framework, style, aside in _side_by_side(summary["framework"]):
            rows = summary[summary["framework"] == framework]
            name = NAMES.get(framework, framework)
            _errorbar(axes, rows["workers"], rows, style, aside, name)
        if summary["mean"].notna().any():
            axes.plot([1, most], [1, most], label="ideal", **ideal)
        _frame(axes, {value: value for value in sorted(summary["workers"].unique())})
        _legend(axes)
        notes += _repeats(summary[summary["workers"] > 1], "bars")
        shared = trials[trials["time_shared"].astype(bool)]
        if len(shared):
            numbers = ", ".join(map(str, sorted(shared["workers"].unique())))
            notes.append(f"Left out, time-shared (more workers than cores): {numbers} workers.")
        notes += _not_measured(trials, trials[rate].isna(), ["framework", "workers"])
        for framework, rows in trials.groupby("framework"):
            if not rows.loc[rows["workers"] == 1, rate].notna().any():
                name = NAMES.get(framework, framework)
                notes.append(f"No speedup of {name}: its rate with one worker is not measured.")
    return figure


def _learning(number: str, steps: pd.DataFrame, trials: pd.DataFrame, x: str) -> Figure:
    """Draw accuracy on the training batches, a line a configuration."""
    if x not in X_LABELS:
        raise FigureError(f"x: {x!r}{nearest(x, X_LABELS)}; allowed: {', '.join(X_LABELS)}")
    _check(trials, "trial", "framework", "workers", "time_shared", "status", "overloaded")
    _check(steps, "trial", "worker", "steps", "accuracy", x)
    varying = _varying(trials)
    lost = (trials["status"] != "finished") | ~trials["trial"].isin(steps["trial"])
    if x == "t":  # Updates and samples are counted rightly even on an overloaded machine.
        lost |= trials["overloaded"].astype(bool)
    title = ["framework", "model", "batch_size", "learning_rate", "workers"]
    with _page(
        number,
        ["Learning curve", *_fixed(trials, [c for c in title if c not in varying])],
        X_LABELS[x],
        "accuracy on training batches [%]",
    ) as page:
        figure, axes, notes = page
        curves = _curves(steps, trials[~lost], varying, x)
        if len(curves):
            _draw_curves(axes, curves, x)
            notes += _repeats(
                curves.groupby("line")["trial"].nunique().rename("n").reset_index(), "bands"
            )
        axes.set_ylim(0, 100)
        axes.set_xlim(left=0)
        shared = trials[~lost & trials["time_shared"].astype(bool)]
        if len(shared):
            numbers = ", ".join(map(str, sorted(shared["workers"].unique())))
            notes.append(
                f"Time-shared: {numbers} workers on fewer cores; these are not the seconds of as "
                "many machines."
                if x == "t"
                else f"{numbers} workers: valid on a time-shared machine: counts {x}, not seconds."
            )
        others = [column for column in varying if column not in ("framework", "workers")]
        notes += _not_measured(trials, lost, ["framework", *others, "workers"])
    return figure


def _curves(steps: pd.DataFrame, trials: pd.DataFrame, varying: list[str], x: str) -> pd.DataFrame:
    """Return the learning curves: a row a trial and cell of x, with the line it belongs to."""
    parts = []
    for _, repeats in trials.groupby(varying or ["framework"], dropna=False, sort=True):
        first = repeats.iloc[0]
        runs = [steps[steps["trial"] == trial].sort_values("t") for trial in repeats["trial"]]
        runs = [run for run in runs if run["accuracy"].notna().any()]
        if not runs:
            continue
        # Only as far as all repeats reach, and no finer than the worker that reported most
        # seldom: a jump where a repeat ends, or detail between two reports, would be made up.
        end = min(run[x].max() for run in runs)
        cells = min(MOST_CELLS, *(run.groupby("worker").size().min() for run in runs))
        edges = np.linspace(0, end, cells + 1)
        for run in runs:
            part = pd.DataFrame({x: (edges[1:] + edges[:-1]) / 2})
            part["accuracy"] = _cells(run, x, edges)
            part["trial"] = run["trial"].iloc[0]
            part["framework"] = first["framework"]
            part["line"] = _describe(first, varying or ["framework"])
            parts.append(part.dropna())
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _cells(run: pd.DataFrame, x: str, edges: np.ndarray) -> np.ndarray:
    """Return the mean accuracy of all workers' steps in each cell of x.

    Each reported value is a mean over a window of steps, so what is shared out to the cells is
    the sum over the steps: none counts twice, none gets lost.
    """
    taken, gained = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    for _, worker in run.groupby("worker"):
        place = np.append(0, worker[x])
        done = np.append(0, worker["steps"])
        sums = np.append(0, np.cumsum(np.diff(done) * worker["accuracy"]))
        taken += np.diff(np.interp(edges, place, done))
        gained += np.diff(np.interp(edges, place, sums))
    return np.divide(gained, taken, out=np.full_like(gained, math.nan), where=taken > 0)


def _draw_curves(axes: Axes, curves: pd.DataFrame, x: str) -> None:
    """Draw one line a configuration: shades of its framework's colour, each with its marker."""
    palette, markers, dashes = {}, {}, {}
    for framework, style in styles(curves["framework"]).items():
        lines = list(curves.loc[curves["framework"] == framework, "line"].unique())
        for line, colour in zip(lines, _shades(style.colour, len(lines)), strict=True):
            palette[line] = colour
            dashes[line] = style.dashes
            first = MARKERS.index(style.marker)
            markers[line] = MARKERS[(first + lines.index(line)) % len(MARKERS)]
    order = [line for line in curves["line"].unique()]
    sns.lineplot(
        curves,
        x=x,
        y="accuracy",
        hue="line",
        hue_order=order,
        style="line",
        style_order=order,
        palette=palette,
        markers=markers,
        dashes=dashes,
        errorbar=lambda values: _ends(metrics.interval(values)),
        err_kws={"alpha": 0.15, "linewidth": 0},
        markevery=0.1,
        ax=axes,
    )
    axes.set(xlabel=X_LABELS[x], ylabel="accuracy on training batches [%]")
    axes.legend(title=None)


def _ends(found: metrics.Interval) -> tuple[float, float]:
    return found.low, found.high


def _shades(colour: tuple[float, float, float], n: int) -> list[tuple[float, float, float]]:
    """Return n shades of a colour, light to dark; the colour itself if it is one."""
    if n == 1:
        return [colour]
    light = tuple(1 - 0.6 * (1 - part) for part in colour)
    dark = tuple(0.4 * part for part in colour)
    return sns.blend_palette([light, colour, dark], n)


# --- pieces of a figure ---------------------------------------------------------------------

_HOLLOW = Line2D(
    [], [], color="0.3", marker="o", markerfacecolor="white", linestyle="none", label=SHARED
)


def _side_by_side(frameworks: pd.Series) -> Iterator[tuple[str, Style, float]]:
    """Yield the frameworks of a figure in order, each with its style and its place aside."""
    drawn = [item for item in styles(frameworks).items() if item[0] in set(frameworks)]
    for i, (framework, style) in enumerate(drawn):
        yield framework, style, ASIDE * (i - (len(drawn) - 1) / 2)


def _errorbar(
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


def _frame(axes: Axes, at: Mapping[Any, float]) -> None:
    """Put a tick at each value, and rates and times on an axis that starts at zero."""
    axes.set_xticks(list(at.values()), [str(value) for value in at])
    if at:
        low, high = min(at.values()), max(at.values())
        margin = 0.06 * (high - low) or 0.5
        axes.set_xlim(low - margin, high + margin)
    axes.set_ylim(bottom=0)
    axes.grid(False, axis="x")


def _legend(axes: Axes, more: Iterable[Line2D] = ()) -> None:
    """Explain what was measured first, then all else."""
    handles, _ = axes.get_legend_handles_labels()
    handles = sorted(handles, key=lambda handle: isinstance(handle, Line2D))
    if handles or more:
        axes.legend(handles=[*handles, *more])


def _repeats(summary: pd.DataFrame, what: str) -> list[str]:
    """Say of how many repeats the points are, and what their bars or bands are."""
    counts = sorted(set(summary.loc[summary["n"] > 0, "n"]))
    if not counts:
        return []
    if counts == [1]:
        return ["One run each (n = 1): no intervals."]
    n = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    none = "; none where n = 1" if counts[0] == 1 else ""
    return [f"Means of n = {n} repeats; {what}: 95 % intervals{none}."]


def _not_measured(trials: pd.DataFrame, lost: pd.Series, by: list[str]) -> list[str]:
    """Name what is missing in the figure, and why; values of the last column in one list."""
    *head, last = by
    found: dict[tuple[str, str], list[Any]] = {}
    for _, group in trials.groupby(by, dropna=False, sort=True):
        gone = group[lost[group.index]]
        if gone.empty:
            continue
        overloaded = (gone["status"] == "finished") & gone["overloaded"].astype(bool)
        reasons = gone["status"].mask(overloaded, "overloaded")
        reasons = sorted(set(reasons.replace("finished", "no number")))
        some = f"{len(gone)} of {len(group)} repeats " if len(gone) < len(group) else ""
        why = f"{some}{', '.join(reasons)}"
        first = group.iloc[0]
        found.setdefault((_describe(first, head), why), []).append(first[last])
    parts = [
        f"{what}, {last.replace('_', ' ')} {', '.join(map(str, values))} ({why})"
        for (what, why), values in found.items()
    ]
    return [f"Not measured: {'; '.join(parts)}."] if parts else []


def _describe(trial: pd.Series, columns: list[str]) -> str:
    """Return some values of a trial as people say them."""
    said = []
    for column in columns:
        value = trial[column]
        if column in ("framework", "model"):
            said.append(NAMES.get(value, value))
        elif column == "workers":
            said.append(f"{value} worker{'s' if value > 1 else ''}")
        else:
            word = {"batch_size": "batch", "learning_rate": "rate"}.get(column, column)
            said.append(f"{word.replace('_', ' ')} {value}")
    return ", ".join(said)


def _fixed(trials: pd.DataFrame, columns: list[str]) -> list[str]:
    """Return what is the same in all trials, for a title."""
    columns = [c for c in columns if c in trials and trials[c].nunique(dropna=False) == 1]
    return [_describe(trials.iloc[0], [column]) for column in columns]


def _varying(trials: pd.DataFrame) -> list[str]:
    """Return the columns that tell the lines of a learning curve apart."""
    varying = [
        column
        for column in metrics.configuration(trials)
        if column != "time_shared" and trials[column].nunique(dropna=False) > 1
    ]
    for column in ("servers", "steps", "epochs"):
        others = [other for other in varying if other != column]
        if column in varying and others:
            # Servers that come with the workers, say, tell nothing that the workers do not.
            follows = trials.groupby(others, dropna=False)[column].nunique(dropna=False) == 1
            varying = others if follows.all() else varying
    return varying


def _only(trials: pd.DataFrame, **values: Any) -> pd.DataFrame:
    """Return the trials with these values, or with one of several."""
    _check(trials, *values)
    for column, value in values.items():
        kept = trials[trials[column].isin(np.atleast_1d(value))]
        if kept.empty:
            there = ", ".join(map(str, sorted(trials[column].unique())))
            raise FigureError(
                f"{column}: the table has only {there}, which this figure does not show; "
                "give it the trials that it shows"
            )
        trials = kept
    return trials


def _check(table: pd.DataFrame, *columns: str) -> None:
    missing = [column for column in columns if column not in table]
    if missing and len(table.columns):
        raise FigureError(f"the table has no column {', '.join(missing)}: is it another table?")
    if table.empty:
        raise FigureError("the table is empty: there is nothing to draw; run the trials first")


def _check_one_value_a_point(summary: pd.DataFrame, x: str) -> None:
    """Refuse tables in which several configurations would fall on one point."""
    for (framework, value), rows in summary.groupby(["framework", x]):
        varying = [c for c in metrics.configuration(rows) if rows[c].nunique(dropna=False) > 1]
        if varying:
            values = ", ".join(map(str, rows[varying[0]].unique()))
            raise FigureError(
                f"{varying[0]}: {values}, of {NAMES.get(framework, framework)} with {x} {value}: "
                "a point shows one configuration; select one"
            )
