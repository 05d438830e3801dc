"""Data of a user's own: what a trial has to know of it, which a process of its own finds out."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from labkit import datasets
from labkit.replicas import own_data
from labkit.settings import environment

PATIENCE = 300.0
"""Seconds that `load` may take."""

_FOUND: ContextVar[dict[Path, str] | None] = ContextVar("own data", default=None)


def named(file: Path) -> str:
    """Return what the data is called that a model's file loads: a trial's ``dataset``.

    The name is of the content, so that other data makes another trial; a kept run has it in its
    values, and need not have the data.

    Raises
    ------
    ValueError
        If `load` in it fails, or returns what cannot be trained on.
    """
    found = _FOUND.get()
    if found is not None and file in found:
        return found[file]
    name = _named(file)
    if found is not None:
        found[file] = name
    return name


@contextlib.contextmanager
def loaded_once() -> Iterator[None]:
    """Have each file load its data once for all the trials that are described within."""
    token = _FOUND.set({})
    try:
        yield
    finally:
        _FOUND.reset(token)


def _named(file: Path) -> str:
    # -P: what can be imported from the caller's folder cannot be imported where a replica runs.
    command = [sys.executable, "-P", "-m", own_data.__name__, str(file)]
    try:
        done = subprocess.run(
            command, env=environment(), capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"{file.name}: load() takes more than {PATIENCE:g} s") from None
    if done.returncode or not done.stdout:
        last = (done.stderr.strip() or "it said nothing").splitlines()[-1]
        raise ValueError(f"{file.name}: load() ended its process ({done.returncode}): {last}")
    said = json.loads(done.stdout.splitlines()[-1])
    if "error" in said:
        raise ValueError(said["error"])
    return said["name"]


def is_name(dataset: str) -> bool:
    """Whether this is what `named` returns, rather than a data set of labkit's."""
    return own_data.NAME.fullmatch(dataset) is not None


def samples(dataset: str) -> int:
    """Return the training samples of a trial's data."""
    if own := own_data.NAME.fullmatch(dataset):
        return int(own[1])
    return datasets.samples(dataset)


def checksum(dataset: str) -> str:
    """Return what stands for all that trainers read of a trial's data."""
    if own := own_data.NAME.fullmatch(dataset):
        return own[2]
    return datasets.checksum(dataset)
