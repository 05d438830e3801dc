"""Data of a user's own: the arrays that ``load`` in a model's file returns, checked.

    python -m labkit.replicas.own_data FILE

prints what they are called, or what is wrong with them, as a line of JSON: so labkit learns it
without running anything of the file itself.
"""

import contextlib
import hashlib
import json
import re
import socket
import sys
import traceback
from pathlib import Path

import numpy as np

from labkit.replicas import models

OWN = "own"
"""What a trial's ``dataset`` begins with if it is a user's own."""

NAME = re.compile(OWN + r"-([1-9][0-9]*)-([0-9a-f]{16})")
"""What it is: training samples, and the first digits of a SHA-256 of all that the arrays are."""

PARTS = ("train inputs", "train labels", "test inputs", "test labels")
"""What ``load`` returns, in this order."""

MOST = np.iinfo(np.int32).max


class OwnDataError(ValueError):
    """A ``load`` that fails, or does not return what can be trained on."""


class OwnData:
    """What a model's file loads.

    Parameters
    ----------
    model : module
        From `labkit.replicas.models.load`.
    due : str, optional
        What the data was called where the trial was described.

    Attributes
    ----------
    train_inputs, test_inputs : array of uint8, float32 or int32, shape (n, ...)
    train_labels, test_labels : array of int32, shape (n,), or (n, time steps)
    sum : str
        The first digits of a SHA-256 of all four, with their types and shapes.
    name : str
        It as `NAME` says.

    Raises
    ------
    OwnDataError
        If it is not as it should be, or not what is due.
    """

    def __init__(self, model, due=OWN):
        file = Path(model.__file__)
        try:
            arrays = _checked(_load(model, file), getattr(model, "TIME_STEPS", 1))
        except OwnDataError as error:
            if due == OWN:
                raise OwnDataError(f"{file.name}: {error}") from error
            raise OwnDataError(
                f"{file.name}: {error}. Where the trial was described it returned {due}, but not "
                f"on {socket.gethostname()}: only this file travels to pods, so what it reads "
                "must be in their image, or load() must fetch or compute it"
            ) from error
        self.train_inputs, self.train_labels, self.test_inputs, self.test_labels = arrays
        self.sum = _sum(arrays)
        self.name = f"{OWN}-{len(self.train_inputs)}-{self.sum}"
        if due not in (OWN, self.name):
            raise OwnDataError(
                f"{file.name}: load() returned other arrays on {socket.gethostname()} than where "
                f"the trial was described: {self.name} instead of {due}. It must return the same "
                "each time (seed what is random), and what it reads must not change meanwhile"
            )


def _load(model, file):
    """Return what ``load`` returns, given the folder of its file."""
    try:
        return model.load(file.parent)
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(file)]
        where = f" in line {lines[-1]}" if lines else ""
        raise OwnDataError(f"load() failed{where}: {type(error).__name__}: {error}") from error


def _checked(found, time_steps):
    """Return what ``load`` returned as arrays of the types that trainers know."""
    if not isinstance(found, (tuple, list)) or len(found) != len(PARTS):
        count = len(found) if isinstance(found, (tuple, list)) else type(found).__name__
        raise OwnDataError(f"load() returned {count}; wanted four arrays: {', '.join(PARTS)}")
    checks = (_inputs, _labels, _inputs, _labels)
    arrays = [check(name, value) for check, name, value in zip(checks, PARTS, found)]
    for inputs, labels, part in ((arrays[0], arrays[1], "train"), (arrays[2], arrays[3], "test")):
        if len(inputs) != len(labels):
            raise OwnDataError(f"{len(inputs)} {part} inputs, but {len(labels)} {part} labels")
        due = (len(labels),) if time_steps == 1 else (len(labels), time_steps)
        if labels.shape != due:
            raise OwnDataError(
                f"{part} labels have the shape {labels.shape}; wanted: {due}, as TIME_STEPS is "
                f"{time_steps}"
            )
    kinds = [f"{array.dtype} of shape {array.shape[1:]} each" for array in arrays[::2]]
    if kinds[0] != kinds[1]:
        raise OwnDataError(f"train inputs are {kinds[0]}, but test inputs {kinds[1]}")
    return arrays


def _array(name, value, kinds, wanted):
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise OwnDataError(f"{name} are no array: {error}") from error
    if array.dtype.kind not in kinds:
        raise OwnDataError(f"{name} are of type {array.dtype}; wanted: {wanted}")
    if not array.size:
        raise OwnDataError(f"{name} are empty: their shape is {array.shape}")
    if array.ndim == 0:
        raise OwnDataError(f"{name} are one number; wanted: an array, a row for each sample")
    return array


def _inputs(name, value):
    array = _array(name, value, "uif", "numbers")
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind == "f":
        array = array.astype(np.float32, copy=False)
        if not np.isfinite(array).all():
            place = np.argwhere(~np.isfinite(array))[0].tolist()
            raise OwnDataError(f"{name} hold {array[tuple(place)]}, first at {place}")
        return array
    return _whole(name, array)


def _labels(name, value):
    return _whole(name, _array(name, value, "ui", "whole numbers, the classes from 0 on"))


def _whole(name, array):
    if array.min() < 0 or array.max() > MOST:
        raise OwnDataError(
            f"{name} go from {array.min()} to {array.max()}; wanted: whole numbers from 0 on"
        )
    return array.astype(np.int32, copy=False)


def _sum(arrays):
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()[:16]


def main(path):
    """Be the program."""
    with contextlib.redirect_stdout(sys.stderr):  # whatever the file prints
        try:
            said = {"name": OwnData(models.load(path)).name}
        except OwnDataError as error:
            said = {"error": str(error)}
        except Exception as error:  # as it stands, the file cannot be imported
            said = {"error": f"{Path(path).name}: {type(error).__name__}: {error}"}
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1])
