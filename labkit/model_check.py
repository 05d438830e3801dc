"""Whether a model's file does what it should, found out in seconds, in each framework."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Timer

from labkit import datasets
from labkit.launchers.placement import arguments
from labkit.replicas import HERE, model_check
from labkit.settings import data_directory, environment
from labkit.trials import Trial
from labkit.trials.frameworks import FRAMEWORKS
from labkit.trials.models import Model
from labkit.trials.own_data import loaded_once

PATIENCE = 300.0
"""Seconds a framework may take, with its import."""

ALIKE = 1e-3
"""How far two frameworks' losses from equal weights may be apart, as a share: their sums round
differently, their networks do not."""

Shapes = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Finding:
    """What one framework made of a model's file.

    Attributes
    ----------
    framework : str
    error : str
        What went wrong; empty if nothing did.
    losses : tuple of float
        In nats per target, before and after training on the same few samples.
    variables : tuple of (str, list of int) or None
        Names and shapes; None if labkit does not know this framework's variables.
    unmoved : tuple of str
        Those that training did not change.
    """

    framework: str
    error: str = ""
    losses: tuple[float, ...] = ()
    variables: tuple[tuple[str, Sequence[int]], ...] | None = None
    unmoved: tuple[str, ...] = ()

    @property
    def problems(self) -> list[str]:
        """What is wrong, a sentence each."""
        if self.error:
            return [self.error]
        before, after = self.losses
        found = []
        if not math.isfinite(after):
            found.append(f"the loss became {after}: try a smaller --learning-rate")
        elif not after < before:
            found.append(
                f"the loss did not fall: from {before:.4g} to {after:.4g} in "
                f"{model_check.STEPS} steps on the same samples; try another --learning-rate"
            )
        found += [
            f"{name} has no gradient: it does not change, so nothing depends on it"
            for name in self.unmoved
        ]
        return found


@dataclass(frozen=True)
class Report:
    """What was found of a model's file.

    Attributes
    ----------
    findings : list of Finding
        One for each framework.
    apart : float or None
        How far the losses of two frameworks are apart from equal weights, as a share; None if that
        was not found out.
    reason : str
        Why not.
    """

    findings: Sequence[Finding]
    apart: float | None
    reason: str

    @property
    def problems(self) -> list[str]:
        """All that is wrong, a sentence each; empty if nothing is."""
        title = {row.name: row.title for row in FRAMEWORKS.values()}
        found = [f"{title[f.framework]}: {text}" for f in self.findings for text in f.problems]
        if self.apart is not None and not self.apart <= ALIKE:
            found.append(
                f"from equal weights the frameworks' losses are {self.apart:.2g} (as a share) "
                "apart: they compute different networks"
            )
        return found


def check(
    model: str, frameworks: Sequence[str] = (), batch_size: int = 32, learning_rate: float = 0.05
) -> Report:
    """Try a model's file in all frameworks that it supports, or in those that are named.

    Raises
    ------
    LabkitError
        If there is no such file, it misses something, or its data set is not there.
    """
    with loaded_once():
        trials = [
            Trial(
                framework=name, model=model, strategy="single", initializer="xavier", steps=2,
                batch_size=batch_size, learning_rate=learning_rate,
            )
            for name in frameworks or [f for f in Model.named(model).frameworks if f in FRAMEWORKS]
        ]  # fmt: skip
    for name in {name for trial in trials for name in trial.datasets}:
        datasets.verify(name)
    with ExitStack() as stack:
        tries = [stack.enter_context(_Try(trial)) for trial in trials]
        with ThreadPoolExecutor() as pool:
            findings = list(pool.map(_Try.finding, tries))
        apart, reason = _apart(tries, findings)
    return Report(findings, apart, reason)


class _Try:
    """A process in which one framework tries a model's file."""

    def __init__(self, trial: Trial) -> None:
        self.framework = FRAMEWORKS[trial.framework]
        line = arguments(trial, trial.network.path, ".", data_directory(), PATIENCE)
        self.process = subprocess.Popen(
            [self.framework.python, HERE / "model_check.py", self.framework.trainer,
             self.framework.name, *line],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=environment(CUDA_VISIBLE_DEVICES=""),
        )  # fmt: skip
        self.timer = Timer(PATIENCE, self.process.kill)

    def __enter__(self) -> _Try:
        self.timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.timer.cancel()
        self.process.kill()
        self.process.communicate()

    def finding(self) -> Finding:
        """Return what the process says; wait for it."""
        said = self.process.stdout.readline()
        if not said:
            _, trouble = self.process.communicate()
            last = (trouble.strip() or "it said nothing").splitlines()[-1]
            code = self.process.returncode
            return Finding(self.framework.name, f"its process left with code {code}: {last}")
        told = json.loads(said)
        if "error" in told:
            return Finding(self.framework.name, told["error"])
        variables = told["variables"] and tuple(map(tuple, told["variables"]))
        unmoved = tuple(told["unmoved"] or ())
        return Finding(
            self.framework.name, losses=tuple(told["losses"]), variables=variables, unmoved=unmoved
        )

    def loss(self, axes: Sequence[int]) -> float:
        """Return the loss from variables that differ along these axes; NaN if it has died."""
        out, _ = self.process.communicate(json.dumps(list(axes)) + "\n")
        return float(json.loads(out)) if out else math.nan


def _apart(tries: Sequence[_Try], findings: Sequence[Finding]) -> tuple[float | None, str]:
    """Return how far two frameworks are apart from equal weights, or why that is not known."""
    if len(tries) != 2:
        return None, "one framework"
    if any(finding.error for finding in findings):
        return None, "one of them failed"
    if any(finding.variables is None for finding in findings):
        return None, "of one of them the variables are not known"
    shapes: Mapping[str, Shapes] = {
        f.framework: [shape for _, shape in f.variables or ()] for f in findings
    }
    if set(shapes) != {"mxnet", "tensorflow"}:
        return None, f"no known way from {' to '.join(shapes)}"
    axes = output_axes(shapes["mxnet"], shapes["tensorflow"])
    if axes is None:
        return None, "it cannot be told which of their variables correspond"
    losses = [one.loss(axes[one.framework.name == "tensorflow"]) for one in tries]
    return abs(losses[0] - losses[1]) / max(map(abs, losses)), ""


def output_axes(mxnet: Shapes, tensorflow: Shapes) -> tuple[list[int], list[int]] | None:
    """Return along which axis the outputs of each variable lie, in both frameworks.

    MXNet keeps the weights of a dense layer as (outputs, inputs) and of a convolution as (outputs,
    inputs, height, width), TensorFlow as (inputs, outputs) and (height, width, inputs, outputs);
    both have embeddings as (words, outputs).

    Returns
    -------
    tuple of two lists of int, or None
        None where the variables do not correspond to each other one by one, or where it cannot be
        told: a square matrix may be a layer or an embedding.
    """
    if len(mxnet) != len(tensorflow):
        return None
    pairs = []
    for some, other in zip(map(tuple, mxnet), map(tuple, tensorflow), strict=True):
        if len(some) == 1 and some == other:
            pairs.append((0, 0))
        elif len(some) == 2 and some == other and some[0] != some[1]:
            pairs.append((1, 1))
        elif len(some) == 2 and some == other[::-1] and some[0] != some[1]:
            pairs.append((0, 1))
        elif len(some) == 4 and some == (*other[:1:-1], *other[:2]):
            pairs.append((0, 3))
        else:
            return None
    return [a for a, _ in pairs], [b for _, b in pairs]
