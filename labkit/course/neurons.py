"""Chapter 2.1, drawn: a neuron, a net of them, and how it learns from the slope of its error."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import seaborn as sns

from labkit.course.diagrams import (
    BLUE,
    GREEN,
    ORANGE,
    RED,
    SMALL,
    Point,
    arrow,
    circle,
    sheet,
)
from labkit.figures.page import Figure, canvas

Function = Callable[[np.ndarray], np.ndarray]

MOST_DRAWN = 6
"""Neurons of a layer; of more, the first and last ones are drawn."""

CALLED = {"a": "a", "b": "b", "one": "", "c": "c = a + b", "d": "d = b + 1", "e": "e = c · d"}
"""The nodes of the computational graph, and what they compute."""

PLACES: Mapping[str, Point] = {
    "a": (0.8, 3.4), "b": (0.8, 2.05), "one": (0.8, 0.7),
    "c": (3.1, 2.7), "d": (3.1, 1.3), "e": (5.3, 2.0),
}  # fmt: skip

EDGES = ("a c", "b c", "b d", "one d", "c e", "d e")


def neuron(
    inputs: Sequence[float], weights: Sequence[float], bias: float, activation: Function
) -> Figure:
    """Draw a neuron with the numbers that go through it: figure 2.1.

    Parameters
    ----------
    inputs, weights : sequence of float
        As many weights as inputs.
    bias : float
    activation : callable
        Gives the activation from the net input.
    """
    net = float(np.dot(inputs, weights) + bias)
    rows = len(inputs) + 1
    height = 0.85 * rows
    middle, last = height / 2, 5.75
    title = "2.1 A neuron: a weighted sum, then an activation function"
    with sheet(title, height) as (figure, [axes]):
        for row, (x, weight) in enumerate(zip([*inputs, 1], [*weights, bias], strict=True)):
            at = (0.5, height - 0.85 * (row + 0.5))
            of_bias = row == rows - 1
            text = "1" if of_bias else f"$x_{{{row + 1}}}$\n{x:g}"
            circle(axes, at, text, ORANGE if of_bias else BLUE, 0.33)
            name = "b" if of_bias else f"w_{{{row + 1}}}"
            arrow(axes, at, (2.9, middle), f"${name}$ = {weight:g}", 0.33, 0.42)
        circle(axes, (2.9, middle), "Σ", GREEN, 0.33, 13)
        circle(axes, (4.35, middle), "$\\phi$", GREEN, 0.33, 13)
        circle(axes, (last, middle), f"a\n{float(activation(net)):.2f}", BLUE, 0.33)
        arrow(axes, (2.9, middle), (4.35, middle), gap=0.33)
        arrow(axes, (4.35, middle), (last, middle), gap=0.33)
        axes.text(3.62, middle + 0.12, f"net\n{net:.2f}", ha="center", va="bottom", size=SMALL)
        below = {2.9: "weighted\nsum", 4.35: "activation\nfunction", last: "activation"}
        for x, words in below.items():
            axes.text(x, middle - 0.42, words, ha="center", va="top", size=8, color="0.35")
    return figure


def bias_terms(weight: float, biases: Sequence[float]) -> Figure:
    """Draw the net input of a neuron with one input, without and with biases: figure 2.2.

    Parameters
    ----------
    weight : float
        Of the one input.
    biases : sequence of float
    """
    x = np.linspace(-4, 4, 41)
    panels = ["a) without a bias", "b) with one"]
    different = sorted({0, *biases}, reverse=True)
    colours = dict(zip(different, _colours(len(different)), strict=True))
    with canvas("2.2 A bias shifts the net input", "input x", "net input", panels) as page:
        for axes, chosen in zip(page.panels, ([0], sorted(biases, reverse=True)), strict=True):
            for bias in chosen:
                axes.plot(x, weight * x + bias, color=colours[bias], label=f"b = {bias:g}")
            axes.axhline(0, color="0.5", linewidth=0.8)
            axes.axvline(0, color="0.5", linewidth=0.8)
            axes.legend(loc="upper left")
    return page.figure


def network(layers: Sequence[int], title: str | None = None) -> Figure:
    """Draw a fully connected net: figure 2.3a.

    Parameters
    ----------
    layers : sequence of int
        The number of neurons of each layer, from the inputs to the outputs.
    title : str, optional
    """
    pairs = list(zip(layers, layers[1:], strict=False))
    weights, biases = sum(a * b for a, b in pairs), sum(layers[1:])
    title = title or f"2.3a A fully connected net: {weights:,} weights, {biases:,} biases"
    radius, gap = 0.2, 0.52
    height = gap * (min(max(layers), MOST_DRAWN + 1) - 0.4) + 0.75
    across = np.linspace(0.8, 5.5, len(layers))
    columns = [_column(count, x, (height + 0.5) / 2, gap)
               for x, count in zip(across, layers, strict=True)]  # fmt: skip
    with sheet(title, height) as (figure, [axes]):
        for left, right in zip(columns, columns[1:], strict=False):
            for start in left:
                for end in right:
                    arrow(axes, start, end, gap=radius, linewidth=0.6, mutation_scale=6)
        for place, (column, count) in enumerate(zip(columns, layers, strict=True)):
            x = column[0][0]
            kind = "input" if not place else "output" if place == len(layers) - 1 else "hidden"
            for at in column:
                circle(axes, at, "", GREEN if kind == "hidden" else BLUE, radius)
            if count > len(column):
                axes.text(x, (height + 0.5) / 2, "⋮", ha="center", va="center", size=14)
            axes.text(x, 0.22, f"{kind}: {count:,}", ha="center", va="center")
    return figure


def _column(count: int, x: float, middle: float, gap: float) -> list[Point]:
    """Return where the neurons of a layer are; in the middle of many, one place stays free."""
    drawn = min(count, MOST_DRAWN + 1)
    free = drawn // 2 if count > MOST_DRAWN else None
    rows = [row for row in range(drawn) if row != free]
    return [(x, middle + gap * ((drawn - 1) / 2 - row)) for row in rows]


def descents(title: str, error: Function, paths: Mapping[float, Sequence[float]]) -> Figure:
    """Draw the way down the curve of an error, for one learning rate or several: figure 2.4.

    Parameters
    ----------
    title : str
    error : callable
        Of one parameter.
    paths : mapping of float to sequence of float
        By learning rate: the parameter at the beginning and after each step.
    """
    reach = 1.6 * max(abs(path[0]) for path in paths.values())
    theta = np.linspace(-reach, reach, 201)
    curve = error(theta)
    room = 0.06 * (curve.max() - curve.min())
    panels = [f"learning rate {rate:g}" for rate in paths]
    # One below the other: side by side they would be too small for a phone.
    with sheet(title, 1.4 + 1.6 * len(paths), panels, columns=1, plots=True) as (figure, found):
        for axes, path in zip(found, paths.values(), strict=True):
            axes.plot(theta, curve, color="0.6")
            steps = np.asarray(path, float)
            axes.plot(steps, error(steps), color=BLUE, marker="o", markersize=4, linewidth=0.9,
                      label="each step")  # fmt: skip
            axes.plot(steps[0], error(steps[0]), color=ORANGE, marker="o", linestyle="none",
                      label="where it begins")  # fmt: skip
            # A way that leads up leaves the picture.
            axes.set(xlim=(-reach, reach), ylim=(curve.min() - room, curve.max() + room))
            axes.set(ylabel="error E(Θ)")
            axes.tick_params(labelbottom=axes is found[-1])
        found[0].legend(loc="upper center")
        found[-1].set_xlabel("parameter Θ")
    return figure


def graph(values: Mapping[str, float], slopes: Mapping[str, float]) -> Figure:
    """Draw the computational graph of e = (a + b)(b + 1) with what was computed: figure 2.5.

    Parameters
    ----------
    values : mapping of str to float
        Of the nodes a, b, c, d and e, from the way forward.
    slopes : mapping of str to float
        How e changes with each of them, from the way back.
    """
    values = {**values, "one": 1}
    with sheet("2.5 A computational graph, forward and back", 4.1) as (figure, [axes]):
        for edge in EDGES:
            start, end = edge.split()
            arrow(axes, PLACES[start], PLACES[end], gap=0.36)
        for node, (x, y) in PLACES.items():
            inner = node in "cde"
            circle(axes, (x, y), f"{values[node]:g}", GREEN if inner else BLUE, 0.36, 11)
            axes.text(x, y + 0.42, CALLED[node], ha="center", va="bottom", size=SMALL)
            if node in slopes:
                words = f"∂e/∂{node} = {slopes[node]:g}"
                axes.text(x, y - 0.41, words, ha="center", va="top", color=RED, size=SMALL)
    return figure


def activations(functions: Mapping[str, Function], derivatives: Mapping[str, Function]) -> Figure:
    """Draw activation functions and their derivatives: figure 2.6.

    Parameters
    ----------
    functions, derivatives : mapping of str to callable
        By name, in the same order.
    """
    net = np.linspace(-4, 4, 401)
    title, panels = "2.6 Activation functions", ["a) functions", "b) derivatives"]
    with canvas(title, "net input", "value", panels) as page:
        for axes, drawn in zip(page.panels, (functions, derivatives), strict=True):
            for place, (name, function) in enumerate(drawn.items()):
                colour = _colours(len(functions))[place]
                dashes = ("-", "--", "-.", ":")[place % 4]
                axes.plot(net, function(net), dashes, color=colour, label=name, zorder=9 - place)
            axes.set_ylim(-1.3, 2.3)
        page.legend()
    return page.figure


def losses(
    title: str, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], x: str = "updates",
    log: bool = False,
) -> Figure:  # fmt: skip
    """Draw how a loss falls, or does not.

    Parameters
    ----------
    title : str
    curves : mapping of str to (sequence of float, sequence of float)
        By name: where the loss was taken, and the loss.
    x : str
        What the first are.
    log : bool
        Give the loss an axis of powers of ten, where the curves lie far apart.
    """
    with canvas(title, x, "loss on test images") as page:
        (axes,) = page.panels
        colours = _colours(len(curves))
        for colour, (name, (where, loss)) in zip(colours, curves.items(), strict=True):
            axes.plot(where, loss, color=colour, label=name)
        if log:
            axes.set_yscale("log")
        axes.axhline(math.log(10), color="0.4", linestyle=":", label="guessing: ln 10")
        page.legend()
    return page.figure


def _colours(count: int) -> list[str]:
    return sns.color_palette("colorblind", count).as_hex()
