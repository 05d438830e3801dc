"""Data sets as arrays, and the batches that workers draw from them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import datasets
from labkit.replicas import models
from labkit.replicas.arrays import TRAINED_ON, Arrays, batches
from labkit.settings import data_directory

pytestmark = pytest.mark.unit


@given(
    n=st.integers(1, 40), size=st.integers(1, 40), seed=st.integers(0, 2**31 - 1),
    worker=st.integers(0, 99), epoch=st.integers(0, 99),
)  # fmt: skip
def test_an_epoch_is_whole_batches_of_different_samples(n, size, seed, worker, epoch):
    inputs = np.arange(n, dtype=np.uint8).reshape(n, 1)
    labels = np.arange(n, dtype=np.uint8)
    epochs = [list(batches(inputs, labels, size, seed, worker, epoch)) for _ in range(2)]
    assert len(epochs[0]) == n // size
    seen = []
    for (x, y), (x_again, y_again) in zip(*epochs, strict=True):
        np.testing.assert_array_equal(x, x_again)  # the same each time
        np.testing.assert_array_equal(y, y_again)
        assert x.shape == (size, 1)
        assert (x.dtype, y.dtype) == (np.float32, np.int32)
        np.testing.assert_allclose(x[:, 0] * 255, y, atol=1e-4)  # its label, and 0 to 1
        seen += y.tolist()
    assert len(set(seen)) == len(seen)


def test_orders_differ_between_workers_epochs_and_seeds():
    numbers = np.arange(1000, dtype=np.int32)
    orders = {
        tuple(next(batches(numbers, numbers, 1000, *which))[1])
        for which in [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1)]
    }
    assert len(orders) == 4


def test_words_stay_words():
    words = np.arange(60, dtype=np.int32).reshape(2, 30)
    x, y = next(batches(words, words + 1, 2, 1, 0, 0))
    assert (x.dtype, y.dtype) == (np.int32, np.int32)
    np.testing.assert_array_equal(x + 1, y)


def model_of(name):
    return models.load(models.path_of(name))


def write_idx(path, array):
    path.parent.mkdir(exist_ok=True)
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    path.write_bytes(head + array.astype(np.uint8).tobytes())


def test_arrays_of_images(tmp_path):
    made = {}
    for name, shape in zip(
        TRAINED_ON["mnist"], [(6, 28, 28), (6,), (3, 28, 28), (3,)], strict=True
    ):
        made[name] = np.random.default_rng(1).integers(0, 256, shape, np.uint8)
        write_idx(tmp_path / "mnist" / name, made[name])
    arrays = Arrays("mnist", tmp_path)
    for array, due in zip(
        (arrays.train_inputs, arrays.train_labels, arrays.test_inputs, arrays.test_labels),
        made.values(), strict=True,
    ):  # fmt: skip
        assert isinstance(array, np.memmap)
        np.testing.assert_array_equal(array, due)
    before = arrays.sum
    write_idx(tmp_path / "mnist" / "t10k-labels-idx1-ubyte", np.array([1, 2, 4]))
    assert Arrays("mnist", tmp_path).sum != before
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(b"<html>")
    with pytest.raises(ValueError, match="t10k-labels-idx1-ubyte is not an IDX file"):
        Arrays("mnist", tmp_path)


@pytest.mark.parametrize(("words", "sequences"), [(31, 1), (60, 1), (61, 2), (100, 3)])
def test_arrays_of_text(words, sequences, tmp_path):
    """Labels are the words that follow; what does not fill a sequence at the end is left out."""
    (tmp_path / "ptb").mkdir()
    for name in TRAINED_ON["ptb"]:
        np.save(tmp_path / "ptb" / name, np.arange(words, dtype=np.int32))
    arrays = Arrays("ptb", tmp_path)
    assert arrays.train_inputs.shape == arrays.train_labels.shape == (sequences, 30)
    np.testing.assert_array_equal(arrays.train_inputs.ravel(), np.arange(30 * sequences))
    np.testing.assert_array_equal(arrays.train_labels, arrays.train_inputs + 1)


@pytest.mark.usefixtures("datasets")
@pytest.mark.parametrize("name", ["fashion-mnist", "mnist", "ptb"])
def test_the_real_arrays(name):
    arrays = Arrays(name, data_directory())
    assert arrays.sum == datasets.checksum(name)
    assert len(arrays.train_inputs) == len(arrays.train_labels) == datasets.samples(name)
    if name == "ptb":
        assert arrays.train_inputs.max() == model_of("lstm").VOCABULARY - 1
    else:
        assert arrays.test_inputs.shape == (10_000, 28, 28)
        assert set(arrays.test_labels) == set(range(model_of("lenet5").CLASSES))
