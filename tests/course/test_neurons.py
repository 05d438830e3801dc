"""Chapter 2.1: its figures, and the mathematics in the notebook's cells."""

import math

import numpy as np
import pytest
from lessons import is_drawn, names_of, words

from labkit.course import neurons
from labkit.figures.page import title_of

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def lesson():
    """Return what the notebook has computed before its last sections."""
    return names_of("2-1-neurons-and-training", before="## How many images", steps=200)


# --- the mathematics ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sigmoid", "tanh", "ReLU", "identity"])
def test_the_gradient_is_that_of_finite_differences(lesson, kind):
    rng = np.random.default_rng(2)
    x, y = rng.random((7, 784)), rng.integers(10, size=7)
    theta = {name: rng.normal(0, 0.1, value.shape) for name, value in lesson["begin"].items()}
    found = lesson["gradient"](theta, x, y, kind)
    assert {k: v.shape for k, v in found.items()} == {k: v.shape for k, v in theta.items()}
    # Along a random direction all parameters count at once.
    way = {name: rng.normal(size=value.shape) for name, value in theta.items()}
    up, down = (
        lesson["loss"]({name: theta[name] + h * way[name] for name in theta}, x, y, kind)
        for h in (1e-6, -1e-6)
    )
    along = sum((found[name] * way[name]).sum() for name in theta)
    assert along == pytest.approx((up - down) / 2e-6, rel=1e-4)


def test_the_graph_is_derived_rightly(lesson):
    a, b = 2.0, 1.0
    assert lesson["values"]["e"] == (a + b) * (b + 1)
    assert lesson["slopes"]["a"] == b + 1 and lesson["slopes"]["b"] == (b + 1) + (a + b)


def test_each_derivative_is_that_of_its_function(lesson):
    net, h = np.array([-3.1, -0.4, 0.3, 2.2]), 1e-6
    for name, function in lesson["activations"].items():
        slope = (function(net + h) - function(net - h)) / (2 * h)
        assert lesson["derivatives"][name](net) == pytest.approx(slope, abs=1e-6), name


def test_a_net_that_knows_nothing_has_the_loss_of_guessing(lesson):
    nothing = {name: np.zeros_like(value) for name, value in lesson["begin"].items()}
    x, y = lesson["test_x"][:20], lesson["test_y"][:20]
    assert lesson["loss"](nothing, x, y) == pytest.approx(math.log(10))


def test_it_learns_real_images_and_does_not_at_too_high_a_rate(lesson):
    assert lesson["accuracy"](lesson["begin"]) < 0.3 < 0.6 < lesson["accuracy"](lesson["trained"])
    ends = {name: curve[1, -1] for name, curve in lesson["curves"].items()}
    assert ends["0.1"] < ends["0.01"] < ends["0.001"] < math.log(10) < ends["10"]


def test_a_valley_is_left_from_two_over_its_curvature_on(lesson):
    bound = 2 / lesson["c"]
    for rate, arrives in ((0.98 * bound, True), (1.02 * bound, False)):
        path = lesson["descend"](lesson["slope"], rate, steps=20)
        assert (abs(path[-1]) < abs(path[0])) == arrives
    assert lesson["descend"](lesson["slope"], 1 / lesson["c"])[1] == 0


def test_parameters_are_counted(lesson):
    of_all = sum(value.size for value in lesson["begin"].values())
    assert lesson["parameters_of"]([784, lesson["hidden"], 10]) == of_all


# --- the figures ----------------------------------------------------------------------------


def test_a_neuron_is_drawn_with_what_goes_through_it():
    figure = neurons.neuron([1, 2], [0.5, -1], 0.25, np.tanh)
    assert is_drawn(figure)
    assert f"net\n{-1.25:.2f}" in words(figure) and f"a\n{np.tanh(-1.25):.2f}" in words(figure)


def test_a_bias_moves_the_line():
    figure = neurons.bias_terms(0.5, [-1, 2])
    without, shifted = figure.axes
    assert len(without.lines) == 3 and len(shifted.lines) == 4  # two of them are the axes
    for axes, bias in ((without, 0), (shifted, 2)):
        x, y = axes.lines[0].get_data()
        assert y == pytest.approx(0.5 * x + bias)
    assert is_drawn(figure)


@pytest.mark.parametrize(
    ("layers", "circles", "arrows", "said"),
    [
        ([3, 4, 4, 2], 13, 36, "36 weights, 10 biases"),
        ([784, 32, 10], 18, 72, "25,408 weights, 42 biases"),
    ],
)
def test_a_net_is_drawn_and_counted(layers, circles, arrows, said):
    figure = neurons.network(layers)
    (axes,) = figure.axes
    assert len(axes.patches) == circles
    assert sum(1 for text in axes.texts if hasattr(text, "arrow_patch")) == arrows
    assert said in title_of(figure) and f"output: {layers[-1]}" in words(figure)
    assert is_drawn(figure)


def test_a_descent_is_drawn_on_its_curve():
    figure = neurons.descents("2.4 Both", np.square, {0.1: [-1, -0.8, -0.64], 2.0: [-1, 3, -9]})
    for axes in figure.axes:
        curve, path, start = axes.lines
        assert path.get_ydata() == pytest.approx(np.square(path.get_xdata()))
        assert start.get_xdata() == [-1]
        assert axes.get_ylim()[1] < 9  # the way out of the valley does not flatten the picture
    assert is_drawn(figure) and {"2.4 Both", "learning rate 0.1"} <= set(words(figure))


def test_a_graph_shows_values_and_slopes():
    values = {"a": 2, "b": 1, "c": 3, "d": 2, "e": 6}
    figure = neurons.graph(values, {"e": 1, "a": 2, "b": 5})
    assert is_drawn(figure)
    assert {"6", "3", "c = a + b", "∂e/∂a = 2", "∂e/∂b = 5"} <= set(words(figure))
    assert not any(word.startswith("∂e/∂c") for word in words(figure))


def test_activations_and_losses_are_drawn():
    figure = neurons.activations({"twice": lambda net: 2 * net}, {"twice": np.ones_like})
    function, derivative = (axes.lines[0].get_ydata() for axes in figure.axes)
    assert function[-1] == 8 and set(derivative) == {1} and is_drawn(figure)
    figure = neurons.losses("2.4 Losses", {"0.1": ([0, 10], [2.3, 0.5])}, "images", log=True)
    (axes,) = figure.axes
    assert list(axes.lines[0].get_ydata()) == [2.3, 0.5] and axes.get_yscale() == "log"
    assert is_drawn(figure) and axes.get_xlabel() == "images"
