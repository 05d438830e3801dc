"""Chapter 2.2, drawn: convolution, feature maps, pooling, and LeNet-5 made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.patches import Circle, Rectangle

from labkit.course.diagrams import BLUE, GREEN, ORANGE, SMALL, Point, arrow, pale, sheet
from labkit.course.lenet import convolve
from labkit.figures.page import SIZE, Figure, canvas

CELL = 0.36
"""Inches of the side of a cell that holds a number."""

PLAIN, ZERO = "white", "#e8e8e8"


def fields(width: int, layers: Sequence[tuple[str, int, int]]) -> Figure:
    """Draw which neurons reach one of the last layer, in a net seen from the side: figure 2.7.

    Parameters
    ----------
    width : int
        Inputs in a row.
    layers : sequence of (str, int, int)
        The name of each layer, the width of its receptive fields, and its stride.
    """
    counts, centres = [width], [np.linspace(0, 1, width)]
    for _, field, stride in layers:
        counts.append((counts[-1] - field) // stride + 1)
        below = centres[-1]
        centres.append(np.array([below[i * stride : i * stride + field].mean()
                                 for i in range(counts[-1])]))  # fmt: skip
    seen = [{counts[-1] // 2}]
    for _, field, stride in reversed(layers):
        seen.insert(0, {i * stride + u for i in seen[0] for u in range(field)})
    gap, left, across = 0.6, 1.25, SIZE[0] - 1.4
    title = f"2.7 One neuron sees {len(seen[0])} of {width} inputs in a row"
    with sheet(title, gap * len(counts)) as (figure, [axes]):
        for row, (centre, chosen) in enumerate(zip(centres, seen, strict=True)):
            y = gap * (row + 0.5)
            name = layers[row - 1][0] if row else "input"
            axes.text(0.05, y, name, va="center", size=SMALL)
            for i, place in enumerate(centre):
                colour = ORANGE if i in chosen else "0.7"
                fill = pale(ORANGE) if i in chosen else "white"
                at = (left + across * place, y)
                axes.add_patch(Circle(at, 0.075, facecolor=fill, edgecolor=colour, zorder=3))
                if not row:
                    continue
                _, field, stride = layers[row - 1]
                for j in range(i * stride, i * stride + field):
                    x = left + across * centres[row - 1][j]
                    look = {"color": colour, "linewidth": 0.9 if i in chosen else 0.3}
                    axes.plot([x, at[0]], [y - gap, y], zorder=2 if i in chosen else 1, **look)
    return figure


def sliding(
    number: str, image: np.ndarray, kernel: int, stride: int, padding: int
) -> Figure:
    """Draw where receptive fields lie, with the mean of each as its result: figure 2.8.

    Parameters
    ----------
    number : str
        Of the figure.
    image : array, shape (n, n)
    kernel : int
        Width and height of the receptive fields.
    stride, padding : int
        In pixels.
    """
    padded = np.pad(image, padding)
    filters = np.full((1, 1, kernel, kernel), 1 / kernel**2)
    means = convolve(image[None, None].astype(float), filters, stride, padding)[0, 0]
    rows, side = len(padded), min(CELL, 3.4 / len(padded))
    height = side * rows + 0.4
    title = f"{number} Field {kernel} × {kernel}, stride {stride}, padding {padding}: "
    title += f"{len(image)} × {len(image)} become {len(means)} × {len(means)}"
    fill = np.full(padded.shape, ZERO, object)
    fill[padding : rows - padding, padding : rows - padding] = PLAIN
    results = np.full(means.shape, PLAIN, object)
    with sheet(title, height) as (figure, [axes]):
        top = height - 0.05
        start, end = (0.1, top), (4.1, top - side * (rows - len(means)) / 2)
        for place, colour in enumerate([BLUE, ORANGE][: len(means)]):
            results[0, place] = pale(colour)
        _grid(axes, start, padded, side, fill)
        _grid(axes, end, means, side, results, "{:.1f}")
        for place, colour in enumerate([BLUE, ORANGE][: len(means)]):
            x, inset = start[0] + place * stride * side, 0.02 * (1 + place)
            axes.add_patch(Rectangle(
                (x + inset, top - kernel * side + inset),
                kernel * side - 2 * inset, kernel * side - 2 * inset,
                fill=False, edgecolor=colour, linewidth=2.5, zorder=4,
            ))  # fmt: skip
        axes.text(start[0], top - side * rows - 0.08, "input; grey: padding", va="top", size=SMALL)
        below = end[1] - side * len(means) - 0.08
        axes.text(end[0], below, "mean of each field", va="top", size=SMALL)
    return figure


def frobenius(image: np.ndarray, kernel: np.ndarray) -> Figure:
    """Draw a filter laid on an image, and what it gives: figure 2.9.

    Parameters
    ----------
    image, kernel : array of int, shapes (n, n) and (f, f)
    """
    result = convolve(image[None, None], kernel[None, None])[0, 0]
    high, f = max(len(image), len(kernel), len(result)) * CELL, len(kernel)
    shown = ((image, np.s_[:f, :f], "inputs X", "∗"), (kernel, np.s_[:], "weights W", "="),
             (result, np.s_[0, 0], "net inputs", ""))  # fmt: skip
    with sheet("2.9 Multiplied one by one, then added up", high + 0.45) as (figure, [axes]):
        x, middle = 0.4, 0.4 + high / 2
        for values, marked, name, sign in shown:
            fill = np.full(values.shape, PLAIN, object)
            fill[marked] = pale(BLUE)
            rows, columns = values.shape
            _grid(axes, (x, middle + rows * CELL / 2), values, CELL, fill)
            axes.text(x + columns * CELL / 2, 0.1, name, ha="center", size=SMALL)
            x += columns * CELL
            axes.text(x + 0.3, middle, sign, ha="center", va="center", size=15)
            x += 0.6
    return figure


def channels(images: np.ndarray, kernel: np.ndarray, bias: int) -> Figure:
    """Draw one filter on several feature maps, which gives one feature map: figure 2.10.

    Parameters
    ----------
    images, kernel : array of int, shapes (maps, n, n) and (maps, f, f)
    bias : int
    """
    parts = [convolve(i[None, None], k[None, None])[0, 0]
             for i, k in zip(images, kernel, strict=True)]  # fmt: skip
    result = sum(parts) + bias
    side = 0.29
    n, f, r = images.shape[1], kernel.shape[1], len(result)
    row = side * n + 0.22
    title = "2.10 A filter reaches through all maps below"
    with sheet(title, row * len(images) + 0.3) as (figure, [axes]):
        places = (0.2, 0.2 + side * n + 0.45, 0.2 + side * (n + f) + 0.9)
        for k, group in enumerate(zip(images, kernel, parts, strict=True)):
            middle = 0.3 + row * (len(images) - k - 0.5)
            for x, values, sign in zip(places, group, ("∗", "=", ""), strict=True):
                fill = np.full(values.shape, pale((BLUE, ORANGE, GREEN)[k % 3]), object)
                width = side * values.shape[1]
                _grid(axes, (x, middle + side * len(values) / 2), values, side, fill, size=8)
                axes.text(x + width + 0.22, middle, sign, ha="center", va="center", size=13)
        end, middle = SIZE[0] - 0.3 - side * 1.3 * r, 0.3 + row * len(images) / 2
        edge = places[2] + side * r + 0.08
        for k in range(len(images)):
            y = 0.3 + row * (len(images) - k - 0.5)
            arrow(axes, (edge, y), (end, middle), gap=0.05)
        _grid(axes, (end + 0.05, middle + side * 1.3 * r / 2), result, side * 1.3,
              np.full(result.shape, PLAIN, object))  # fmt: skip
        axes.text(end + 0.05 + side * 1.3 * r / 2, middle + side * 1.3 * r / 2 + 0.08,
                  f"sum, and bias {bias:g}", ha="center", size=SMALL)  # fmt: skip
        names = ("maps below", "filter", "of each map")
        for x, count, name in zip(places, (n, f, r), names, strict=True):
            axes.text(x + side * count / 2, 0.08, name, ha="center", size=SMALL)
    return figure


def pooling(maps: np.ndarray, pooled: np.ndarray) -> Figure:
    """Draw a feature map before and after pooling: figure 2.11.

    Parameters
    ----------
    maps, pooled : array of int, shapes (n, n) and (n / 2, n / 2)
    """
    size = len(maps) // len(pooled)
    tints = np.array([[pale(BLUE), pale(ORANGE)], [pale(GREEN), ZERO]], object)
    few = np.indices(pooled.shape) % 2
    after = tints[few[0], few[1]]
    before = after.repeat(size, axis=0).repeat(size, axis=1)
    side = 0.45
    height = side * len(maps) + 0.15
    title = f"2.11 Max pooling: of each {size} × {size} the largest"
    with sheet(title, height) as (figure, [axes]):
        _grid(axes, (1.1, height - 0.05), maps, side, before, size=11)
        right, middle = 1.1 + side * len(maps), height / 2
        arrow(axes, (right, middle), (right + 1.1, middle), gap=0.12)
        corner = (right + 1.1, middle + side * len(pooled) / 2)
        _grid(axes, corner, pooled, side, after, size=11)
    return figure


def lenet(shapes: Mapping[str, tuple[int, ...]]) -> Figure:
    """Draw the layers of LeNet-5 with their shapes: figure 2.12a.

    Parameters
    ----------
    shapes : mapping of str to tuple of int
        By the names of the layers, in their order: (maps, height, width), or (neurons,).
    """
    step, height = (SIZE[0] - 0.2) / len(shapes), 2.0
    with sheet("2.12a LeNet-5, layer by layer", height) as (figure, [axes]):
        for place, (name, shape) in enumerate(shapes.items()):
            x = 0.1 + step * (place + 0.5)
            colour = BLUE if name in ("images", "classes") else GREEN
            if "pool" in name:
                colour = ORANGE
            look = {"facecolor": pale(colour), "edgecolor": colour, "linewidth": 1}
            if len(shape) == 3:
                side, drawn = 0.12 + 0.55 * shape[1] / 28, min(4, shape[0])
                for k in range(drawn):
                    corner = (x - side / 2 - 0.03 * (drawn - 1) + 0.06 * k,
                              1.1 - side / 2 + 0.03 * (drawn - 1) - 0.06 * k)  # fmt: skip
                    axes.add_patch(Rectangle(corner, side, side, **look))
                size = "×".join(map(str, shape[1:]))
                words = f"{shape[0]} maps\n{size}" if shape[0] > 1 else f"{size}\npixels"
            else:
                tall = 0.25 + 0.34 * np.log10(shape[0])
                axes.add_patch(Rectangle((x - 0.08, 1.1 - tall / 2), 0.16, tall, **look))
                words = f"{shape[0]}\nneurons"
            axes.text(x, 0.42, words, ha="center", va="top", size=SMALL)
            axes.text(x, 1.83, name, ha="center", size=9)
    return figure


def shares(parts: Mapping[str, Mapping[str, int]]) -> Figure:
    """Draw which layer holds the weights, and which does the work, as bars of per cent.

    Parameters
    ----------
    parts : mapping of str to mapping of str to int
        By what is shared out: by layer, how much of it.
    """
    title = "2.12b Where the weights are, and where the work is"
    with canvas(title, "share of the whole net, per cent", "") as page:
        (axes,) = page.panels
        colours = sns.color_palette("colorblind", len(next(iter(parts.values()))))
        for row, layers in enumerate(parts.values()):
            begin = 0.0
            for colour, (name, value) in zip(colours, layers.items(), strict=True):
                share = 100 * value / sum(layers.values())
                label = name if not row else None
                axes.barh(row, share, 0.5, begin, color=colour, label=label)
                if share > 8:  # else there is no room
                    axes.text(begin + share / 2, row, f"{share:.0f} %", ha="center", va="center",
                              color="white", weight="bold")  # fmt: skip
                begin += share
        axes.set_yticks(range(len(parts)), list(parts))
        axes.set(ylim=(len(parts) - 0.4, -0.6), xlim=(0, 100))
        axes.grid(False, axis="y")
        page.legend(inside=False)
    return page.figure


def _grid(
    axes: Axes, corner: Point, values: np.ndarray, side: float, fill: np.ndarray,
    words: str = "{:g}", size: float = 9,
) -> None:  # fmt: skip
    """Draw numbers in cells, from the corner at the top left."""
    size = min(size, 28 * side)
    for (row, column), value in np.ndenumerate(values):
        x, y = corner[0] + side * column, corner[1] - side * (row + 1)
        look = {"facecolor": fill[row, column], "edgecolor": "0.4", "linewidth": 0.7}
        axes.add_patch(Rectangle((x, y), side, side, **look))
        text = words.format(value)
        axes.text(x + side / 2, y + side / 2, text, ha="center", va="center", size=size)
