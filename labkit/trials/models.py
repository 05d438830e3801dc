"""The table of models: what labkit has to know of a model's file without running it."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from labkit.datasets import DATASETS
from labkit.errors import LabkitError, nearest
from labkit.replicas import models

METRICS = ("accuracy", "perplexity")

CONSTANTS = ("DATASETS", "METRIC", "EVAL_BATCH", "TIME_STEPS")
"""What a model's file may define, beside a function for each framework that it supports."""

LOAD = "load"
"""The function that returns data of a user's own."""


class ModelError(LabkitError, ValueError):
    """A model's file that cannot be used; the message says what is wrong in it."""


@dataclass(frozen=True)
class Model:
    """A model: one file, which `labkit.replicas.models` describes.

    Attributes
    ----------
    name : str
        The value of a trial's ``model``: of a file from elsewhere its path.
    title : str
        How figures call it.
    path : Path
        The file.
    variables : mapping of str to tuple of int
        Elements of each variable in the order in which a framework has them, by framework; empty
        where nobody has said so.

    Raises
    ------
    ModelError
        When it is asked for what its file does not define as it should.
    """

    name: str
    title: str
    path: Path
    variables: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def named(cls, name: str) -> Model:
        """Return the model of this name, or the one in the file of this path.

        Raises
        ------
        ModelError
            If there is neither.
        """
        if name in MODELS:
            return MODELS[name]
        path = Path(name)
        if path.suffix != ".py":
            raise ModelError(
                f"{name!r}{nearest(name, MODELS)}; allowed: {', '.join(MODELS)}, "
                "or the path of a model's file, such as my_mlp.py"
            )
        if not path.is_file():
            raise ModelError(f"{name!r}: there is no such file in {Path.cwd()}")
        return cls(name, path.stem, path.resolve())

    @cached_property
    def source(self) -> bytes:
        """The file as it was when it was first read."""
        return self.path.read_bytes()

    @property
    def sum(self) -> str:
        """SHA-256 of the file, so that a changed model is a different trial."""
        return hashlib.sha256(self.source).hexdigest()

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of the data sets that it can learn, its default first; none if it `loads`."""
        return self._definitions.get("DATASETS", ())

    @property
    def loads(self) -> bool:
        """Whether it learns data of its own, which its function ``load`` returns."""
        return LOAD in self._definitions["functions"]

    @property
    def metric(self) -> str:
        """How it is judged: ``accuracy`` or ``perplexity``."""
        return self._definitions["METRIC"]

    @property
    def time_steps(self) -> int:
        """Targets of one sample."""
        return self._definitions.get("TIME_STEPS", 1)

    @property
    def frameworks(self) -> tuple[str, ...]:
        """Names of the functions that it defines; those of frameworks build it there."""
        return self._definitions["functions"]

    @cached_property
    def _definitions(self) -> dict[str, Any]:
        """What the file defines, from its text: nothing of it is run."""
        try:
            tree = ast.parse(self.source, str(self.path))
        except (SyntaxError, ValueError) as error:
            raise ModelError(f"{self.path}: not Python: {error}") from None
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        found: dict[str, Any] = {"functions": tuple(functions)}
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name in CONSTANTS:
                    try:
                        found[name] = ast.literal_eval(node.value)
                    except ValueError:
                        raise ModelError(
                            f"{self.path}: {name} must be a literal, not {ast.unparse(node.value)}"
                        ) from None
        wrong = _mistakes(found)
        if LOAD in functions and len(functions[LOAD].args.args) != 1:
            wrong.append("load takes one argument, the folder of the file: def load(folder)")
        if wrong:
            raise ModelError(f"{self.path}: " + "; ".join(wrong))
        return found


def _mistakes(found: dict[str, Any]) -> list[str]:
    """Return what is wrong with the constants of a model's file."""
    wrong = []
    names = found.get("DATASETS")
    if LOAD in found["functions"]:
        if names is not None:
            wrong.append("DATASETS and a function load: it learns one or the other, give one")
    elif not isinstance(names, tuple) or not names or any(n not in DATASETS for n in names):
        wrong.append(
            f"DATASETS is {names!r}; wanted: a tuple of names out of {', '.join(DATASETS)}, or "
            "instead a function load(folder) that returns data of your own"
        )
    if found.get("METRIC") not in METRICS:
        wrong.append(f"METRIC is {found.get('METRIC')!r}; wanted: {' or '.join(METRICS)}")
    size = found.get("EVAL_BATCH")
    if type(size) is not int or size < 1:
        wrong.append(f"EVAL_BATCH is {size!r}; wanted: samples, 1 or more")
    steps = found.get("TIME_STEPS", 1)
    if type(steps) is not int or steps < 1:
        wrong.append(f"TIME_STEPS is {steps!r}; wanted: targets of a sample, 1 or more")
    return wrong


_LENET5 = (500, 20, 25_000, 50, 400_000, 500, 5_000, 10)
_EMBEDDING, _SOFTMAX = (2_000_000,), (2_000_000, 10_000)

MODELS = {
    name: Model(name, title, models.HERE / f"{name}.py", variables)
    for name, title, variables in (
        ("lenet5", "CNN", dict.fromkeys(("mxnet", "tensorflow"), _LENET5)),
        (
            "lstm",
            "RNN",
            {
                "mxnet": _EMBEDDING + (160_000, 800) * 4 + _SOFTMAX,
                "tensorflow": _EMBEDDING + (320_000, 800) * 2 + _SOFTMAX,
            },
        ),
    )
}
"""The models that come with labkit, a row each."""
