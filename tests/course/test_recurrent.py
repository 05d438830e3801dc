"""What chapter 2.3 computes and draws: memories, gates, and a language with a long memory."""

import math

import nbformat
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from labkit.course import recurrent
from labkit.settings import NOTEBOOKS

pytestmark = pytest.mark.unit

seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def taught():
    """Return the functions that the notebook defines in its cells, of nets with any weights."""
    space = {"np": np}
    names = ("sigmoid", "unroll", "through_time", "gradients")
    for cell in nbformat.read(NOTEBOOKS / "2-3-recurrent-nets.ipynb", as_version=4).cells:
        if cell.cell_type == "code" and cell.source.startswith(tuple(f"def {n}" for n in names)):
            exec(cell.source, space)
    return space


def test_its_backpropagation_through_time_is_the_derivative(taught):
    random = np.random.default_rng(1)
    words, targets = random.integers(0, 5, (2, 3, 7))
    shapes = [(5, 4), (4, 4), (4,), (4, 5), (5,)]
    weights = [random.normal(size=shape) for shape in shapes]
    _, found = taught["gradients"](words, targets, weights)
    little = 1e-6
    for gradient, weight in zip(found, weights, strict=True):
        for place in np.ndindex(weight.shape):
            kept, losses = weight[place], []
            for sign in (1, -1):
                weight[place] = kept + sign * little
                losses.append(taught["gradients"](words, targets, weights)[0])
            weight[place] = kept
            difference = (losses[0] - losses[1]) / (2 * little)
            assert gradient[place] == pytest.approx(difference, abs=1e-7)


def test_its_lstm_is_that_of_the_equations(taught):
    random = np.random.default_rng(1)
    x, a, c = random.normal(size=(3, 2))
    weights, bias = random.normal(size=(4, 8)), random.normal(size=8)
    given_out, cell = taught["lstm"](x, a, c, weights, bias)
    for unit in range(2):
        f, i, g, o = (
            bias[2 * gate + unit]
            + sum(v * weights[row, 2 * gate + unit] for row, v in enumerate([*x, *a]))
            for gate in range(4)
        )
        kept = c[unit] / (1 + math.exp(-f)) + math.tanh(g) / (1 + math.exp(-i))
        assert cell[unit] == pytest.approx(kept)
        assert given_out[unit] == pytest.approx(math.tanh(kept) / (1 + math.exp(-o)))


@pytest.mark.parametrize("name", recurrent.LETTERS)
def test_a_letter_is_a_picture_of_two_states(name):
    picture = recurrent.letter(name)
    assert picture.shape == (64,) and set(picture) == {-1.0, 1.0}


def test_a_few_patterns_are_restored_and_too_many_are_not():
    assert recurrent.remembered(1, noise=0.3) == 1.0
    assert recurrent.remembered(4, noise=0.1) > 0.99
    assert recurrent.remembered(30, noise=0.1) < 0.95


@given(seeds)
def test_the_verb_has_the_number_of_the_first_noun(seed):
    words, chances = recurrent.sentence(np.random.default_rng(seed))
    text = recurrent.in_words(words).split()
    phrases = text.count("near")
    assert len(text) == 4 + 3 * phrases and text[0] == "the" and text[-1] == "."
    assert text[-2].endswith("s") != text[1].endswith("s")
    # A noun is one of four, a verb or "near" comes half the time, a verb is one of two.
    assert math.prod(chances) == pytest.approx(0.25 * (0.5 * 0.25) ** phrases * 0.5 * 0.5)


def test_words_come_as_often_as_their_chances_say():
    words, chances = recurrent.text(np.random.default_rng(1), rows=4000, length=16)
    assert words.shape == chances.shape == (4000, 16)
    # Four bits for the first noun and the verb, three for each phrase: one bit per word.
    assert np.exp(-np.log(chances).mean()) == pytest.approx(2, rel=0.05)
    after_noun = words[:, 2]
    assert (after_noun == 5).mean() == pytest.approx(0.5, abs=0.03)
    assert (words[:, 1] == 3).mean() == pytest.approx(0.25, abs=0.03)


@pytest.mark.parametrize(
    ("noun", "expected"),
    [
        ("cats", "the cats near the dog near the dog"),
        ("cat", "the cat near the dogs near the dogs"),
    ],
)
def test_nouns_in_between_mislead(noun, expected):
    (words,) = recurrent.subject(noun, 2)
    assert recurrent.in_words(words) == expected


def texts(figure):
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def test_diagrams_are_drawn():
    assert len(recurrent.hopfield(6).axes[0].patches) == 6
    assert texts(recurrent.unrolled(3)).count("$x_{(2)}$") == 1
    found = texts(recurrent.uses())
    assert found.count("$y_{(3)}$") == 4 and found.count("$y_{(0)}$") == 2


def test_curves_are_drawn():
    picture = recurrent.letter("T")
    figure = recurrent.restored({"stored": picture, "restored": picture}, [3.0, 2.0])
    assert len(figure.axes) == 3 and figure.axes[-1].lines[0].get_ydata().tolist() == [3, 2]
    (axes,) = recurrent.fading({"one": [1.0, 0.5], "two": [1.0, 2.0]}).axes
    assert len(axes.lines) == 2
    left, right = recurrent.learning([2.0, 1.0], {"best": 2.0}, {"cats": [1.0, 0.5]}).axes
    assert left.lines[0].get_ydata() == pytest.approx(np.exp([2, 1]))
    assert right.lines[0].get_ydata().tolist() == [100, 50]


def test_the_explorer_counts_what_is_restored():
    (axes,) = recurrent.explore_memory(4, 0.1).axes
    _, chosen, _ = axes.lines
    assert chosen.get_ydata()[0] == pytest.approx(100 * recurrent.remembered(4, 0.1))
