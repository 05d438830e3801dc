"""Images for small nets: real ones, as they are in their files, and pictures of them."""

import numpy as np
import pytest
from lessons import is_drawn, words

from labkit.course.images import arrays, gallery, load, of_each_class
from labkit.errors import LabkitError

pytestmark = pytest.mark.unit


def test_they_are_those_that_trials_read():
    data, whole = load(train=20, test=10), arrays("fashion-mnist")
    assert data.train.shape == (20, 28, 28) and data.test.shape == (10, 28, 28)
    assert np.allclose(255 * data.train, whole.train_inputs[:20], atol=1e-3)
    assert (data.test_labels == whole.test_labels[:10]).all()
    assert data.train.max() == 1 and data.train.min() == 0
    assert len(data.names) == 10 and data.names[data.train_labels[0]] == "ankle boot"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"dataset": "ptb"}, "'ptb' has no images; allowed: fashion-mnist, mnist"),
        ({"dataset": "fashion-mnst"}, "did you mean"),
        ({"train": 60_001, "test": 0}, "train: 60001; allowed: 1 to 60000; test: 0; allowed"),
    ],
)
def test_what_there_is_not_is_said_at_once(asked, said):
    with pytest.raises(LabkitError, match=said):
        load(**asked)


def test_each_class_has_a_column_of_its_own_images():
    labels = np.arange(400) % 10
    images = np.arange(400)[:, None, None] * np.ones((1, 3, 3))
    one, same, other = (of_each_class(images, labels, 3, seed) for seed in (1, 1, 2))
    numbers = np.array([row[:, 0, 0] for _, row in one])
    assert (numbers % 10 == np.arange(10)).all()
    assert len(np.unique(numbers)) == 30, "an image twice"
    assert (numbers == [row[:, 0, 0] for _, row in same]).all()
    assert (numbers != [row[:, 0, 0] for _, row in other]).any()


def test_a_gallery_shows_rows_of_different_images():
    rng = np.random.default_rng(1)
    rows = [("first", rng.random((3, 5, 5))), ("second", rng.random((2, 28, 28)))]
    figure = gallery("2.13 Rows", rows, names=["a", "b", "c"], signed=True)
    seen = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.images[0].get_array().shape for axes in seen] == [(5, 5)] * 3 + [(28, 28)] * 2
    assert is_drawn(figure) and {"2.13 Rows", "a", "b", "c"} <= set(words(figure))
    assert [axes.get_ylabel() for axes in figure.axes[::3]] == ["first", "second"]
