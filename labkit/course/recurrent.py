"""Chapter 2.3: nets that remember, from Hopfield's to the thesis's, and a language to learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from labkit.course.diagrams import BLUE, COLOURS, INK, RED, SMALL, arrow, box, circle, sheet

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from labkit.figures.page import Figure

LETTERS = {
    "T": ".######. .######. ...##... ...##... ...##... ...##... ...##... ...##...",
    "H": "##....## ##....## ##....## ######## ######## ##....## ##....## ##....##",
    "L": "##...... ##...... ##...... ##...... ##...... ##...... ######## ########",
    "X": "##....## .##..##. ..####.. ...##... ...##... ..####.. .##..##. ##....##",
}
"""Pictures of 8 by 8 pixels, row by row."""

SIDE = 8


# --- Hopfield -------------------------------------------------------------------------------


def letter(name: str) -> NDArray[np.float64]:
    """Return the picture of a letter as states of neurons: 1 where there is ink, else -1.

    Returns
    -------
    ndarray, shape (64,)
    """
    return np.where(np.array(list(LETTERS[name].replace(" ", ""))) == "#", 1.0, -1.0)


def hopfield(neurons: int = 5) -> Figure:
    """Draw a Hopfield net: each neuron is connected with all others (figure 2.14a)."""
    turns = np.pi / 2 + 2 * np.pi * np.arange(neurons) / neurons
    places = np.column_stack([2.2 * np.cos(turns), 1.5 * np.sin(turns)])
    with sheet("2.14a A Hopfield net: all with all, none with itself", 2.7) as (figure, [axes]):
        for i, begin in enumerate(places):
            for end in places[i + 1 :]:
                arrow(axes, begin, end, gap=0.36, colour="0.5", arrowstyle="<|-|>")
            circle(axes, begin, f"$s_{i + 1}$", radius=0.34)
        axes.set(xlim=(-2.8, 2.8), ylim=(-1.8, 2.0))
    return figure


def restored(pictures: Mapping[str, ArrayLike], energies: ArrayLike) -> Figure:
    """Draw pictures, and how the energy fell on the way to the last of them.

    Parameters
    ----------
    pictures : mapping of str to array_like, shape (64,)
        By their titles.
    energies : array_like
        After each neuron that was asked.
    """
    panels = [*pictures, "energy"]
    with sheet("2.14b A memory restored", 1.75, panels, plots=True) as (figure, found):
        for axes, picture in zip(found, pictures.values(), strict=False):
            axes.imshow(np.reshape(picture, (SIDE, SIDE)), cmap="Blues", vmin=-1, vmax=1.4)
            axes.set_axis_off()
        found[-1].plot(energies, color=BLUE)
        found[-1].set(xlabel="neurons asked")
    return figure


def remembered(
    patterns: int, noise: float, neurons: int = 100, tries: int = 20, seed: int = 1
) -> float:
    """Return how much of its random patterns a Hopfield net restores.

    Parameters
    ----------
    patterns : int
        That it stores.
    noise : float
        Share of the neurons that are flipped before it restores.

    Returns
    -------
    float
        Share of neurons that are right in the end, on average over the tries.
    """
    random = np.random.default_rng(seed)
    right = []
    for _ in range(tries):
        stored = random.choice([-1.0, 1.0], (patterns, neurons))
        weights = stored.T @ stored / neurons
        np.fill_diagonal(weights, 0)
        state = stored[0] * np.where(random.random(neurons) < noise, -1, 1)
        for i in np.tile(random.permutation(neurons), 4):
            state[i] = 1.0 if weights[i] @ state >= 0 else -1.0
        right.append((state == stored[0]).mean())
    return float(np.mean(right))


def explore_memory(patterns: int = 10, noise: float = 0.1) -> Figure:
    """Draw how much is restored of more and more patterns, with this share of noise."""
    counts = np.array([1, 4, 7, 10, 13, 16, 20, 25, 30])
    shares = [100 * remembered(int(count), noise) for count in counts]
    here = 100 * remembered(patterns, noise)
    title = f"2.14c A hundred neurons, {100 * noise:g} % of them flipped"
    with sheet(title, 2.7, plots=True) as (figure, [axes]):
        axes.plot(counts, shares, "o-", color="0.5", label="restored")
        axes.plot(patterns, here, "D", color=BLUE, markersize=8,
                  label=f"{patterns} patterns: {here:.1f} %")  # fmt: skip
        axes.axvline(13.8, color=RED, linestyle=(0, (4, 2)),
                     label="Amit et al.: 0.138 per neuron")  # fmt: skip
        axes.set(xlabel="patterns stored", ylabel="neurons that are right [%]", ylim=(48, 102))
        axes.legend(loc="lower left")
    return figure


# --- unrolling, and what it is used for ---------------------------------------------------


def unrolled(steps: int = 4) -> Figure:
    """Draw a recurrent neuron, and the same one unrolled through time (figure 2.15a)."""
    with sheet("2.15a A recurrent neuron, and the same unrolled", 2.25) as (figure, [axes]):
        _step(axes, 0, "$x_{(t)}$", "$a_{(t)}$")
        arrow(axes, (0.3, 0.28), (0.3, -0.28), bend=-1.8, colour=RED)
        for t in range(steps):
            x = 2.6 + 1.7 * t
            _step(axes, x, f"$x_{{({t})}}$", f"$a_{{({t})}}$")
            if t:
                arrow(axes, (x - 1.7, 0), (x, 0), gap=0.43, colour=RED)
        arrow(axes, (2.6, -2.1), (2.6 + 1.7 * (steps - 1), -2.1))
        axes.text(2.6 + 1.7 * (steps - 1) / 2, -1.75, "time", ha="center", size=SMALL)
        axes.set(xlim=(-0.8, 2.6 + 1.7 * steps - 1), ylim=(-2.3, 1.75))
    return figure


def _step(axes: Axes, x: float, below: str = "", above: str = "", square: bool = False) -> None:
    """Draw a net in one step of time, with its input and its output where it has one."""
    if square:
        box(axes, (x, 0), 0.8, 0.8)
    else:
        circle(axes, (x, 0), r"$\Sigma, \phi$", radius=0.4)
    if below:
        arrow(axes, (x, -1.05), (x, -0.42))
        axes.text(x, -1.3, below, ha="center", va="center", size=SMALL)
    if above:
        arrow(axes, (x, 0.42), (x, 1.05))
        axes.text(x, 1.3, above, ha="center", va="center", size=SMALL)


USES = {
    "(a) sequence to sequence": ("1111", "1111"),
    "(b) sequence to vector": ("1111", "0001"),
    "(c) vector to sequence": ("1000", "1111"),
    "(d) delayed": ("1100", "0011"),
}
"""In which of four steps there is an input, and in which an output."""


def uses() -> Figure:
    """Draw the four kinds of use of a recurrent net (figure 2.16)."""
    title = "2.16 What goes in when, and what comes out"
    with sheet(title, 3.85, list(USES), columns=2) as (figure, panels):
        for axes, (inputs, outputs) in zip(panels, USES.values(), strict=True):
            for t, (given, taken) in enumerate(zip(inputs, outputs, strict=True)):
                x = 1.7 * t
                below, above = f"$x_{{({t})}}$" * int(given), f"$y_{{({t})}}$" * int(taken)
                _step(axes, x, below, above, square=True)
                if t:
                    arrow(axes, (x - 1.7, 0), (x, 0), gap=0.43, colour=RED)
            axes.set(xlim=(-0.7, 1.7 * 3 + 0.7), ylim=(-1.6, 1.6))
    return figure


# --- gradients through time ---------------------------------------------------------------


def fading(norms: Mapping[str, ArrayLike]) -> Figure:
    """Draw how large the gradient still is, so many steps back in time.

    Parameters
    ----------
    norms : mapping of str to array_like, shape (steps,)
        By the name of the line.
    """
    with sheet("2.15b What is left of a gradient", 2.7, plots=True) as (figure, [axes]):
        for (name, values), colour, mark in zip(norms.items(), COLOURS, "os^Dv*P", strict=False):
            values = np.asarray(values)
            axes.plot(np.arange(1, 1 + len(values)), values, marker=mark, markevery=4,
                      color=colour, label=name)  # fmt: skip
        axes.set(xlabel="steps back in time", ylabel="gradient, relative", yscale="log")
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1))
    return figure


# --- a language to learn ------------------------------------------------------------------

WORDS = ("the", "cat", "dog", "cats", "dogs", "near", "runs", "sleeps", "run", "sleep", ".")

SINGULAR, PLURAL = (1, 2), (3, 4)
"""Nouns, as places in `WORDS`."""

VERBS = {SINGULAR: (6, 7), PLURAL: (8, 9)}


def sentence(random: np.random.Generator) -> tuple[list[int], list[float]]:
    """Return a sentence of the language, and how probable each of its words was.

    ``the cats near the dog near the cat run .``: the verb has the number of the first noun,
    however many others have come in between.
    """
    number = (SINGULAR, PLURAL)[random.integers(2)]
    words, chances = [0, int(random.choice(number))], [1.0, 0.25]
    while random.random() < 0.5:
        words += [5, 0, int(random.integers(1, 5))]
        chances += [0.5, 1.0, 0.25]
    return [*words, int(random.choice(VERBS[number])), 10], [*chances, 0.25, 1.0]


def text(
    random: np.random.Generator, rows: int, length: int
) -> tuple[NDArray[np.int_], NDArray[np.float64]]:
    """Return words of the language, and how probable each of them was; rows begin with sentences.

    Returns
    -------
    words : ndarray of int, shape (rows, length)
        Places in `WORDS`.
    chances : ndarray, shape (rows, length)
    """
    found = []
    for _ in range(rows):
        words: list[int] = []
        chances: list[float] = []
        while len(words) < length:
            more, likely = sentence(random)
            words, chances = words + more, chances + likely
        found.append((words[:length], chances[:length]))
    words_of_all, chances_of_all = zip(*found, strict=True)
    return np.array(words_of_all), np.array(chances_of_all)


def in_words(words: Sequence[int]) -> str:
    """Return words as one reads them."""
    return " ".join(WORDS[word] for word in words)


def subject(noun: str, between: int) -> NDArray[np.int_]:
    """Return the beginning of a sentence up to its verb: ``the cats near the dog …``.

    The nouns in between have the other number.

    Returns
    -------
    ndarray of int, shape (1, 2 + 3 * between)
    """
    other = "dog" if WORDS.index(noun) in PLURAL else "dogs"
    words = ["the", noun, *["near", "the", other] * between]
    return np.array([[WORDS.index(word) for word in words]])


def learning(
    losses: ArrayLike, levels: Mapping[str, float], right: Mapping[str, ArrayLike]
) -> Figure:
    """Draw the perplexity while a net learns the language, and how long it remembers.

    Parameters
    ----------
    losses : array_like
        Nats per word of each update's batch.
    levels : mapping of str to float
        Perplexities to compare with, by name.
    right : mapping of str to array_like
        Share of the right number among the verbs, for 0, 1, 2, … phrases in between.
    """
    panels = ["perplexity while it learns", "share of verbs that agree"]
    title = "2.15c A net learns a language"
    with sheet(title, 2.7, panels, plots=True) as (figure, [left, other]):
        left.plot(np.exp(losses), color=BLUE, linewidth=0.8)
        for (name, level), colour in zip(levels.items(), COLOURS[1:], strict=False):
            left.axhline(level, color=colour, linestyle=(0, (4, 2)), label=f"{name}: {level:.2f}")
        left.set(xlabel="updates", yscale="log")
        left.set_yticks([2, 3, 5, 10], ["2", "3", "5", "10"])
        left.minorticks_off()
        left.legend(loc="upper right")
        for (name, values), colour in zip(right.items(), COLOURS, strict=False):
            other.plot(100 * np.asarray(values), "o-", color=colour, label=name)
        other.axhline(50, color=INK, linestyle=(0, (1, 1.5)), label="chance")
        other.set(xlabel="phrases in between", ylabel="%", ylim=(0, 103))
        other.legend(loc="lower left")
    return figure
