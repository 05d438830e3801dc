"""LeNet-5 in numpy: against scipy's convolution, finite differences, and the trials' network."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import correlate2d

from labkit.course import lenet

pytestmark = pytest.mark.unit


@settings(max_examples=40)
@given(
    side=st.integers(1, 9), field=st.integers(1, 5), stride=st.integers(1, 4),
    padding=st.integers(0, 3), maps=st.integers(1, 3), seed=st.integers(0, 99),
)  # fmt: skip
def test_a_convolution_is_that_of_scipy(side, field, stride, padding, maps, seed):
    rng = np.random.default_rng(seed)
    field = min(field, side + 2 * padding)
    images = rng.normal(size=(2, maps, side, side + 1))
    filters = rng.normal(size=(3, maps, field, field))
    found = lenet.convolve(images, filters, stride, padding)
    rows, columns = ((n + 2 * padding - field) // stride + 1 for n in (side, side + 1))
    assert found.shape == (2, 3, rows, columns)
    padded = np.pad(images, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    for n, k in np.ndindex(2, 3):
        parts = [correlate2d(padded[n, c], filters[k, c], mode="valid") for c in range(maps)]
        assert found[n, k] == pytest.approx(sum(parts)[::stride, ::stride])


def test_pooling_takes_the_largest_of_each_square():
    maps = np.arange(2 * 4 * 6.0).reshape(1, 2, 4, 6)
    pooled = lenet.pool(maps)
    for k, i, j in np.ndindex(2, 2, 3):
        assert pooled[0, k, i, j] == maps[0, k, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max()


def test_of_values_that_tie_each_gets_a_share():
    maps = np.array([[3.0, 3.0], [1.0, 0.0]])
    assert lenet.pool_back(maps, np.array([[1.0]])).tolist() == [[0.5, 0.5], [0.0, 0.0]]


def test_it_is_the_network_of_the_trials():
    theta = lenet.begin(1)
    assert sum(value.size for value in theta.values()) == 431_080
    found = lenet.forward(theta, np.zeros((2, 28, 28)))
    assert {name: layer.shape for name, layer in found.items()} == {
        "images": (2, 1, 28, 28), "conv1": (2, 20, 24, 24), "pool1": (2, 20, 12, 12),
        "conv2": (2, 50, 8, 8), "pool2": (2, 50, 4, 4), "hidden": (2, 500), "classes": (2, 10),
    }  # fmt: skip


@pytest.mark.parametrize("name", lenet.begin(1))
def test_its_gradient_is_that_of_finite_differences(name):
    rng = np.random.default_rng(3)
    theta = lenet.begin(2, np.float64)
    theta |= {key: rng.normal(0, 0.05, value.shape)
              for key, value in theta.items() if "bias" in key}  # fmt: skip
    images, labels = rng.random((3, 28, 28)), np.array([0, 7, 7])
    way = rng.normal(size=theta[name].shape)
    up, down = (
        lenet.loss(theta | {name: theta[name] + h * way}, images, labels) for h in (1e-6, -1e-6)
    )
    found = lenet.gradient(theta, images, labels)
    assert found[name].shape == theta[name].shape
    assert (found[name] * way).sum() == pytest.approx((up - down) / 2e-6, rel=1e-3)


def test_it_learns_and_leaves_what_it_began_with():
    rng = np.random.default_rng(4)
    images, labels = rng.random((8, 28, 28)), np.arange(8)
    theta = lenet.begin(1)
    before = {name: value.copy() for name, value in theta.items()}
    how = dict(learning_rate=0.05, batch_size=8, steps=15, seed=1)
    trained = lenet.train(theta, images, labels, **how)
    assert lenet.loss(trained, images, labels) < 0.8 * lenet.loss(theta, images, labels)
    assert all((theta[name] == before[name]).all() for name in theta)
    again = lenet.train(theta, images, labels, **how)
    assert all((again[name] == trained[name]).all() for name in theta)
    assert {value.dtype for value in trained.values()} == {np.dtype(np.float32)}
