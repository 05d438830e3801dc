"""Chapter 2.2: its figures, and the mathematics in the notebook's cells."""

import numpy as np
import pytest
from lessons import is_drawn, names_of, words
from scipy.signal import correlate2d

from labkit.course import convolution, lenet
from labkit.figures.page import title_of

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def lesson():
    """Return what the notebook has computed, with fewer steps of training."""
    return names_of("2-2-convolution", steps=30)


# --- the mathematics ------------------------------------------------------------------------


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_its_convolution_is_that_of_scipy(lesson, stride):
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(9, 8)), rng.normal(size=(3, 2))
    found = lesson["convolve"](x, w, b=0.5, stride=stride)
    assert found == pytest.approx(correlate2d(x, w, mode="valid")[::stride, ::stride] + 0.5)
    assert found.shape == (lesson["fields"](9, 3, stride), lesson["fields"](8, 2, stride))


def test_the_thesis_s_example_gives_its_result(lesson):
    assert lesson["convolve"](
        np.array([[22, 15, 1, 3], [42, 5, 38, 39], [28, 9, 4, 66], [0, 2, 25, 12]]), lesson["w"]
    ).tolist() == [[85, 82], [41, 79]]
    assert (lesson["by_loop"] == lesson["at_once"]).all()
    assert (lesson["shared"], lesson["full"]) == (7_500, 122_880_000)


def test_weights_and_work_are_those_of_the_network(lesson):
    assert sum(lesson["weights"].values()) == 431_080
    shapes = lesson["shapes"]
    for name, count in lesson["work"].items():  # neurons times what each of them reads
        reads = lesson["theta"][name][0].size if "conv" in name else len(lesson["theta"][name])
        assert count == np.prod(shapes[name]) * reads
    assert lesson["most"] == ("hidden", "conv2")


def test_patches_are_what_a_neuron_sees(lesson):
    """Computed from a patch alone, a neuron has its largest activation again."""
    theta, found = lesson["trained"], lesson["found"]
    for layer, neuron in (("conv1", 1), ("conv2", 2)):
        best, _ = lesson["strongest"](layer, neuron)
        for image, patch in zip(best, lesson["patches"](layer, neuron), strict=True):
            seen = np.float32(patch)[None, None]
            net = np.tanh(lenet.convolve(seen, theta["conv1"]) + _bias(theta, "conv1"))
            if layer == "conv2":
                pooled = lenet.pool(net)
                net = np.tanh(lenet.convolve(pooled, theta["conv2"]) + _bias(theta, "conv2"))
            assert net.shape[2:] == (1, 1)
            strongest = found[layer][image, neuron].max()
            assert net[0, neuron, 0, 0] == pytest.approx(strongest, abs=1e-4)


def _bias(theta, name):
    return theta[f"{name}_bias"][:, None, None]


# --- the figures ----------------------------------------------------------------------------


def test_one_neuron_sees_what_its_fields_add_up_to():
    figure = convolution.fields(28, [("5", 5, 1), ("2", 2, 2), ("5", 5, 1), ("2", 2, 2)])
    # 2, then 2 + 4, then twice that, then 12 + 4
    assert title_of(figure) == "2.7 One neuron sees 16 of 28 inputs in a row"
    marked = sum(patch.get_facecolor()[2] < 0.9 for patch in figure.axes[0].patches)
    assert marked == 1 + 2 + 6 + 12 + 16
    assert is_drawn(figure)


@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("kernel", [1, 5])
def test_a_sliding_window_is_drawn_with_its_means(kernel, stride, padding):
    image = np.random.default_rng(5).integers(0, 10, (6, 6))
    figure = convolution.sliding("2.8a", image, kernel, stride, padding)
    size = (6 + 2 * padding - kernel) // stride + 1
    assert f"6 × 6 become {size} × {size}" in title_of(figure)
    first = np.pad(image, padding)[:kernel, :kernel].mean()
    assert f"{first:.1f}" in words(figure) and is_drawn(figure)


def test_filters_and_pooling_are_drawn_with_their_numbers():
    rng = np.random.default_rng(6)
    x, w = rng.integers(0, 9, (4, 4)), rng.integers(-1, 2, (3, 3))
    figure = convolution.frobenius(x, w)
    assert str((x[:3, :3] * w).sum()) in words(figure) and is_drawn(figure)
    below, kernel = rng.integers(0, 9, (3, 4, 4)), rng.integers(-1, 2, (3, 3, 3))
    figure = convolution.channels(below, kernel, bias=100)
    assert str((below[:, :3, :3] * kernel).sum() + 100) in words(figure) and is_drawn(figure)
    figure = convolution.pooling(np.arange(16).reshape(4, 4), np.array([[5, 7], [13, 15]]))
    assert len(figure.axes[0].patches) == 16 + 4 and is_drawn(figure)


def test_lenet_is_drawn_with_its_shapes_and_shares():
    figure = convolution.lenet({"images": (1, 28, 28), "conv1": (20, 24, 24), "hidden": (500,)})
    assert {"28×28\npixels", "20 maps\n24×24", "500\nneurons"} <= set(words(figure))
    assert is_drawn(figure)
    parts = {"weights": {"a": 1, "b": 3}, "work": {"a": 9, "b": 1}}
    figure = convolution.shares(parts)
    assert {"25 %", "75 %", "90 %", "10 %"} <= set(words(figure)) and is_drawn(figure)
    with_one = convolution.shares({"weights": {"a": 1}})
    assert "100 %" in words(with_one)
