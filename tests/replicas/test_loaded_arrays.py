"""Arrays that a model's file loads: what trainers make of them, and what is refused."""

import json
import re
import types

import numpy as np
import pytest

from labkit.replicas import own_data
from labkit.replicas.arrays import batches, learned
from labkit.replicas.own_data import NAME, OwnData, OwnDataError

pytestmark = pytest.mark.unit

IMAGES, CLASSES = np.arange(60, dtype=np.uint8).reshape(10, 2, 3), np.arange(10) % 3
FLOATS, WORDS = np.linspace(0, 1, 40).reshape(10, 4), np.arange(50).reshape(10, 5)
NAN = np.where(np.arange(40).reshape(10, 4) == 9, np.nan, FLOATS)


def model(*arrays, **constants):
    """Return a model's file that loads these; the test samples are the first training samples."""
    found = arrays if len(arrays) != 2 else (*arrays, arrays[0][:4], arrays[1][:4])
    return types.SimpleNamespace(
        __file__="/somewhere/mine.py", load=lambda folder: found, **constants
    )


@pytest.mark.parametrize(("inputs", "labels", "steps", "dtype"), [
    (IMAGES, CLASSES, 1, np.uint8),
    (FLOATS, CLASSES.astype(np.uint8), 1, np.float32),
    (FLOATS.tolist(), CLASSES.tolist(), 1, np.float32),
    (WORDS, WORDS + 1, 5, np.int32),
    (WORDS, CLASSES, 1, np.int32),
])  # fmt: skip
def test_arrays_are_of_the_types_that_trainers_know(inputs, labels, steps, dtype):
    data = OwnData(model(inputs, labels, TIME_STEPS=steps))
    assert data.train_inputs.dtype == data.test_inputs.dtype == dtype
    assert data.train_labels.dtype == data.test_labels.dtype == np.int32
    np.testing.assert_allclose(data.train_inputs, inputs, rtol=1e-6)
    np.testing.assert_array_equal(data.test_labels, labels[:4])
    x, y = next(batches(data.train_inputs, data.train_labels, 4, 1, 0, 0))
    assert x.dtype == (np.int32 if dtype == np.int32 else np.float32) and len(x) == len(y) == 4


@pytest.mark.parametrize(("arrays", "constants", "says"), [
    ((IMAGES, CLASSES, IMAGES), {}, "returned 3; wanted four arrays: train inputs, train labels"),
    ((None,) * 4, {}, "train inputs are of type object; wanted: numbers"),
    ((FLOATS, FLOATS[:, 0]), {}, "train labels are of type float64; wanted: whole numbers"),
    ((FLOATS, np.array(list("abcdefghij"))), {}, "train labels are of type <U1; wanted: whole"),
    ((FLOATS, CLASSES - 1), {}, "train labels go from -1 to 1; wanted: whole numbers from 0 on"),
    ((WORDS + 2**31, CLASSES), {}, "train inputs go from 2147483648 to"),
    ((FLOATS, CLASSES[:9]), {}, "10 train inputs, but 9 train labels"),
    ((FLOATS, CLASSES, FLOATS[:4], CLASSES[:3]), {}, "4 test inputs, but 3 test labels"),
    ((FLOATS, CLASSES[:, None]), {}, r"shape \(10, 1\); wanted: \(10,\), as TIME_STEPS is 1"),
    ((WORDS, WORDS), {"TIME_STEPS": 4}, r"\(10, 5\); wanted: \(10, 4\), as TIME_STEPS is 4"),
    ((FLOATS[:0], CLASSES[:0]), {}, r"train inputs are empty: their shape is \(0, 4\)"),
    ((FLOATS, CLASSES, FLOATS[:0], CLASSES[:0]), {}, "test inputs are empty"),
    ((1.0, 1, 1.0, 1), {}, "train inputs are one number"),
    ((NAN, CLASSES), {}, r"train inputs hold nan, first at \[2, 1\]"),
    ((FLOATS, CLASSES, FLOATS[:, :3], CLASSES), {}, r"float32 of shape \(4,\) each, but test "),
    ((IMAGES, CLASSES, IMAGES / 255, CLASSES), {}, "inputs are uint8 .* test inputs float32"),
    (([[1, 2], [3]], CLASSES), {}, "train inputs are no array"),
])  # fmt: skip
def test_what_cannot_be_trained_on(arrays, constants, says):
    with pytest.raises(OwnDataError, match=r"mine\.py: .*" + says):
        OwnData(model(*arrays, **constants))


@pytest.mark.parametrize("changed", [
    (IMAGES + 1, CLASSES), (IMAGES, (CLASSES + 1) % 3), (IMAGES.reshape(10, 3, 2), CLASSES),
    (IMAGES / 1, CLASSES), (IMAGES, CLASSES, IMAGES[:3], CLASSES[:3]),
    (IMAGES, CLASSES, IMAGES[:4], CLASSES[1:5]),
])  # fmt: skip
def test_its_name_is_that_of_its_content(changed):
    data = OwnData(model(IMAGES, CLASSES))
    assert NAME.fullmatch(data.name).groups() == ("10", data.sum)
    # Not of its layout in memory, nor of a type that comes to the same.
    turned = np.asfortranarray(IMAGES), CLASSES.astype(np.uint8)
    assert OwnData(model(*turned)).name == data.name
    assert OwnData(model(*changed)).name != data.name


def test_other_arrays_than_were_described():
    data = OwnData(model(IMAGES, CLASSES))
    assert learned(model(IMAGES, CLASSES), data.name, None).sum == data.sum
    assert learned(model(IMAGES, CLASSES), "own", None).sum == data.sum
    said = f"other arrays on .*: own-10-[0-9a-f]* instead of {data.name}.*seed what is random"
    with pytest.raises(OwnDataError, match=said):
        learned(model(IMAGES + 1, CLASSES), data.name, None)


def write(folder, text):
    (folder / "mine.py").write_text(f"def load(folder):\n    {text}\n")
    return folder / "mine.py"


def test_a_load_that_fails(tmp_path, capsys):
    file = write(tmp_path, "return open(folder / 'mine.npz')")
    own_data.main(str(file))
    error = json.loads(capsys.readouterr().out)["error"]
    assert error.startswith("mine.py: load() failed in line 2: FileNotFoundError: ")
    assert f"'{tmp_path}/mine.npz'" in error and "pods" not in error
    # Where it had not failed before, something is missing.
    due = "own-10-0123456789abcdef"
    with pytest.raises(OwnDataError) as caught:
        learned(own_data.models.load(file), due, tmp_path)
    told = f"{error}. Where the trial was described it returned {due}, but not on "
    assert str(caught.value).startswith(told)
    assert "only this file travels to pods" in str(caught.value)


@pytest.mark.parametrize(("text", "says"), [
    ("raise SystemExit(3)", "load() failed in line 2: SystemExit: 3"),
    ("raise KeyError('a\\nb')", "load() failed in line 2: KeyError"),
    ("return\nimport nowhere", "mine.py: ModuleNotFoundError: No module named 'nowhere'"),
])  # fmt: skip
def test_what_else_may_go_wrong(text, says, tmp_path, capsys):
    own_data.main(str(write(tmp_path, text)))
    assert re.search(re.escape(says), json.loads(capsys.readouterr().out)["error"])


def test_what_a_file_prints_is_no_answer(tmp_path, capsys):
    own_data.main(str(write(tmp_path, "print('hello'); return [[[1.5]], [0]] * 2")))
    found = capsys.readouterr()
    assert NAME.fullmatch(json.loads(found.out)["name"])[1] == "1" and found.err == "hello\n"
