"""LeNet-5 as the trials have it, in numpy: forward, backward, and trained for some steps.

Fast enough for a notebook: a convolution is one product of matrices, with a row for each receptive
field (all of its numbers) and a column for each filter.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from labkit.replicas.models.lenet5 import CLASSES, FILTERS, UNITS

SIDE, FIELD, POOL = 28, 5, 2
"""Of images, of the filters' receptive fields and of the poolings', in pixels."""

Arrays = Mapping[str, np.ndarray]


def convolve(
    images: np.ndarray, filters: np.ndarray, stride: int = 1, padding: int = 0
) -> np.ndarray:
    """Convolve images with filters, as nets do it: the filters are not turned round.

    Parameters
    ----------
    images : array of float, shape (n, channels, height, width)
    filters : array of float, shape (maps, channels, f_h, f_w)
    stride : int
        From one receptive field to the next, in pixels.
    padding : int
        Zeros added on each side.

    Returns
    -------
    array of float, shape (n, maps, (height + 2 padding - f_h) // stride + 1, and so for the width)
        Equation 2.7 of the thesis, without the biases.
    """
    windows = _windows(images, filters.shape[2:], stride, padding)
    return np.moveaxis(np.tensordot(windows, filters, axes=([1, 4, 5], [1, 2, 3])), -1, 1)


def _windows(
    images: np.ndarray, field: tuple[int, ...], stride: int = 1, padding: int = 0
) -> np.ndarray:
    """Return all receptive fields, of shape (n, channels, rows, columns, f_h, f_w)."""
    edge = (padding, padding)
    padded = np.pad(images, ((0, 0), (0, 0), edge, edge))
    return sliding_window_view(padded, field, axis=(2, 3))[:, :, ::stride, ::stride]


def convolve_back(
    images: np.ndarray, filters: np.ndarray, slopes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return how a loss changes with the images and the filters of a convolution of stride 1.

    Parameters
    ----------
    images, filters : array of float
        As `convolve` had them.
    slopes : array of float, shape (n, maps, rows, columns)
        How the loss changes with what `convolve` returned.

    Returns
    -------
    of_images, of_filters : array of float
        Of their shapes.
    """
    _, _, rows, columns = slopes.shape
    _, _, height, width = filters.shape
    windows = _windows(images, (height, width))
    of_filters = np.tensordot(slopes, windows, axes=([0, 2, 3], [0, 2, 3]))
    parts = np.tensordot(slopes, filters, axes=([1], [0]))  # n, rows, columns, channels, f_h, f_w
    of_images = np.zeros_like(images)
    for u in range(height):
        for v in range(width):
            part = np.moveaxis(parts[..., u, v], -1, 1)
            of_images[:, :, u : u + rows, v : v + columns] += part
    return of_images, of_filters


def pool(maps: np.ndarray) -> np.ndarray:
    """Return the largest value of each square of 2 x 2, of shape (..., height / 2, width / 2)."""
    return _squares(maps).max(axis=(-3, -1))


def pool_back(maps: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Return how a loss changes with the maps before `pool`; where values tie, they share."""
    squares = _squares(maps)
    largest = squares == squares.max(axis=(-3, -1), keepdims=True)
    share = largest / largest.sum(axis=(-3, -1), keepdims=True)
    return (share * slopes[..., :, None, :, None]).reshape(maps.shape).astype(maps.dtype)


def _squares(maps: np.ndarray) -> np.ndarray:
    *others, height, width = maps.shape
    return maps.reshape(*others, height // POOL, POOL, width // POOL, POOL)


def begin(seed: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    """Return LeNet-5's parameters before training: Glorot's uniform weights, and biases of 0.

    Returns
    -------
    dict of str to array
        ``conv1`` and ``conv2``, of shape (maps, channels, 5, 5); ``hidden`` and ``classes``, of
        shape (inputs, outputs); and a bias for each, such as ``conv1_bias``.
    """
    rng = np.random.default_rng(seed)
    first, second = FILTERS
    flat = second * (((SIDE - FIELD + 1) // POOL - FIELD + 1) // POOL) ** 2
    shapes = {"conv1": (first, 1, FIELD, FIELD), "conv2": (second, first, FIELD, FIELD),
              "hidden": (flat, UNITS), "classes": (UNITS, CLASSES)}  # fmt: skip
    theta = {}
    for name, shape in shapes.items():
        field = int(np.prod(shape[2:]))
        reach = np.sqrt(6 / (field * (shape[0] + shape[1])))
        theta[name] = rng.uniform(-reach, reach, shape).astype(dtype)
        theta[f"{name}_bias"] = np.zeros(shape[0] if shape[2:] else shape[1], dtype)
    return theta


def forward(theta: Arrays, images: np.ndarray) -> dict[str, np.ndarray]:
    """Return the activations of all layers, by name, in their order.

    Parameters
    ----------
    theta : dict of str to array
        As `begin` gives them.
    images : array of float, shape (n, 28, 28)

    Returns
    -------
    dict of str to array
        ``images``, ``conv1``, ``pool1``, ``conv2``, ``pool2``, each of shape (n, maps, height,
        width); ``hidden`` and ``classes``, of shape (n, neurons), the latter what softmax takes.
    """
    found = {"images": images[:, None].astype(theta["conv1"].dtype)}
    for layer, below in (("1", "images"), ("2", "pool1")):
        conv = f"conv{layer}"
        bias = theta[f"{conv}_bias"][:, None, None]
        found[conv] = np.tanh(convolve(found[below], theta[conv]) + bias)
        found[f"pool{layer}"] = pool(found[conv])
    flat = found["pool2"].reshape(len(images), -1)
    found["hidden"] = np.tanh(flat @ theta["hidden"] + theta["hidden_bias"])
    found["classes"] = found["hidden"] @ theta["classes"] + theta["classes_bias"]
    return found


def loss(theta: Arrays, images: np.ndarray, labels: np.ndarray) -> float:
    """Return the mean cross-entropy of images with their labels (classes 0 to 9)."""
    chances = _log_softmax(forward(theta, images)["classes"])
    return float(-chances[np.arange(len(labels)), labels].mean())


def _log_softmax(net: np.ndarray) -> np.ndarray:
    net = net - net.max(axis=1, keepdims=True)
    return net - np.log(np.exp(net).sum(axis=1, keepdims=True))


def gradient(theta: Arrays, images: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """Return how `loss` changes with each parameter: backpropagation through all layers."""
    found = forward(theta, images)
    right = np.eye(CLASSES, dtype=found["classes"].dtype)[labels]
    back = (np.exp(_log_softmax(found["classes"])) - right) / len(labels)
    slopes = {"classes": found["hidden"].T @ back, "classes_bias": back.sum(axis=0)}
    back = back @ theta["classes"].T * (1 - found["hidden"] ** 2)
    flat = found["pool2"].reshape(len(images), -1)
    slopes |= {"hidden": flat.T @ back, "hidden_bias": back.sum(axis=0)}
    back = (back @ theta["hidden"].T).reshape(found["pool2"].shape)
    for layer, below in (("2", "pool1"), ("1", "images")):
        conv = f"conv{layer}"
        back = pool_back(found[conv], back) * (1 - found[conv] ** 2)
        slopes[f"{conv}_bias"] = back.sum(axis=(0, 2, 3))
        back, slopes[conv] = convolve_back(found[below], theta[conv], back)
    return slopes


def train(
    theta: Arrays, images: np.ndarray, labels: np.ndarray, *,
    learning_rate: float, batch_size: int, steps: int, seed: int,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Return the parameters after some steps of plain gradient descent.

    Parameters
    ----------
    theta : dict of str to array
        As `begin` gives them; left as they are.
    images : array of float, shape (n, 28, 28)
    labels : array of int, shape (n,)
    learning_rate : float
    batch_size, steps : int
    seed : int
        Of the draw of batches.
    """
    rng, trained = np.random.default_rng(seed), dict(theta)
    for _ in range(steps):
        few = rng.integers(len(images), size=batch_size)
        slopes = gradient(trained, images[few], labels[few])
        trained = {name: trained[name] - learning_rate * slopes[name] for name in trained}
    return trained
