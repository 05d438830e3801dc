"""What is made of what frameworks say of a model's file, and the weights that they compare."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.model_check import Finding, output_axes
from labkit.replicas import models
from labkit.replicas.model_check import error_of, filled

pytestmark = pytest.mark.unit

SIZES = st.integers(1, 6)


@given(SIZES, SIZES, st.integers(0, 20), st.randoms(use_true_random=False))
def test_a_layer_computes_the_same_however_it_is_laid_out(inputs, outputs, number, random):
    x = np.array([random.uniform(-1, 1) for _ in range(inputs)], np.float32)
    some = filled((outputs, inputs), 0, number) @ x
    other = x @ filled((inputs, outputs), 1, number)
    assert some == pytest.approx(other, abs=1e-5)
    # Also if its inputs come in another order, as those of an image that is flattened do.
    assert filled((outputs, inputs), 0, number) @ x[::-1] == pytest.approx(other, abs=1e-5)
    assert np.abs(some).max() <= 2


@given(SIZES, SIZES)
def test_outputs_differ(outputs, number):
    assert len(np.unique(filled((3, outputs), 1, number)[0])) == outputs


@pytest.mark.parametrize(
    ("mxnet", "tensorflow", "axes"),
    [
        ([(64, 784), (64,)], [(784, 64), (64,)], ([0, 0], [1, 0])),
        ([(20, 1, 5, 5)], [(5, 5, 1, 20)], ([0], [3])),
        ([(10_000, 200)], [(10_000, 200)], ([1], [1])),
        ([(64, 64)], [(64, 64)], None),
        ([(64, 784)], [(784, 64), (64,)], None),
        ([(64,)], [(65,)], None),
        ([(2, 3, 4)], [(2, 3, 4)], None),
    ],
)
def test_outputs_lie_along(mxnet, tensorflow, axes):
    assert output_axes(mxnet, tensorflow) == axes


@pytest.mark.parametrize(
    ("losses", "unmoved", "said"),
    [
        ((2.3, 0.5), (), []),
        ((2.3, 2.3), (), ["the loss did not fall: from 2.3 to 2.3"]),
        ((2.3, float("nan")), (), ["the loss became nan"]),
        ((2.3, 0.5), ("bias",), ["bias has no gradient"]),
    ],
)
def test_problems_are_named(losses, unmoved, said):
    found = Finding("mxnet", losses=losses, unmoved=unmoved).problems
    assert len(found) == len(said)
    assert all(text in line for text, line in zip(said, found, strict=True))


def test_an_error_is_named_with_its_line_of_the_models_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text('''DATASETS, METRIC, EVAL_BATCH = ("mnist",), "accuracy", 100


def tensorflow(tf, images):
    return images.no_such_thing
''')
    with pytest.raises(AttributeError) as caught:
        models.load(str(path)).tensorflow(None, 5)
    said = error_of(caught.value, str(path))
    assert said == "line 5: AttributeError: 'int' object has no attribute 'no_such_thing'"
    assert error_of(ValueError("not there"), str(path)) == "ValueError: not there"
