"""A trial: one training run, as validated values with an identity.

A trial describes one training run completely. Two trials with the same values are the same trial,
in every process and on every version of Python; its identity also covers the trainer's source and
the data's checksums, so that a result is never taken for one of another code or other data.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import textwrap
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from labkit.trials import own_data, rules
from labkit.trials.described import Described
from labkit.trials.frameworks import FRAMEWORKS, Framework
from labkit.trials.models import MODELS, Model
from labkit.trials.nodes import NODE
from labkit.trials.strategies import STRATEGIES


class _Fields(Described):
    """What a trial consists of."""

    framework: str = Field(description="which framework trains")
    model: str = Field(description="the network to train, or the path of a file that defines one")
    dataset: str = Field(description="what it learns; default: the model's own")
    strategy: str = Field("async-ps", description="how the work is shared out among replicas")
    workers: int = Field(1, ge=1, description="replicas that train")
    servers: int = Field(
        ge=0,
        description="parameter servers; default: the framework's own, one in all (TensorFlow) or "
        "one beside each worker (MXNet)",
    )
    batch_size: int = Field(ge=1, description="samples per step: images, or sequences of 30 words")
    learning_rate: float = Field(gt=0, description="factor by which a gradient is multiplied")
    optimizer: Literal["sgd", "adagrad"] = Field(
        "sgd",
        description="how servers apply a gradient: as plain SGD, or as AdaGrad, which divides "
        "it by the root of the sum of its squares so far",
    )
    epochs: int | None = Field(
        None, ge=1, description="passes of every worker over the training set; or give steps"
    )
    steps: int | None = Field(None, ge=2, description="batches of every worker; or give epochs")
    seed: int = Field(
        1, ge=0, le=2**31 - 1, description="seed of the initial weights and the batch order"
    )
    initializer: Literal["default", "xavier", "uniform"] = Field(
        "default",
        description="distribution of the initial weights: the framework's own (TensorFlow: Glorot "
        "uniform, MXNet: Uniform(0.01)), Glorot/Xavier uniform, or Uniform(0.01)",
    )
    clip_norm: float | None = Field(
        None, gt=0,
        description="largest global norm of a gradient; default: no limit, as in the thesis",
    )
    loss_over_time: Literal["default", "mean", "sum"] = Field(
        "default",
        description="how the gradient is taken over a sample's time steps; default: the "
        "framework's own (TensorFlow: mean, MXNet: sum)",
    )
    eval_samples: int | None = Field(
        None, ge=0, description="test samples per evaluation; default: all; 0: no evaluation"
    )
    slowdown: float | None = Field(
        None, ge=1, description="slow nodes: computing takes this many times as long as here"
    )
    slowdown_spread: float | None = Field(
        None, gt=1, description="slow nodes: the last worker is this many times as slow as the "
        "first, with the others evenly in between; default: all alike",
    )  # fmt: skip
    cpu: float | None = Field(
        None, gt=0, lt=1, description="slow nodes in pods: the fraction of a core that each "
        "has, its server included; default: whole cores",
    )  # fmt: skip
    bandwidth: float | None = Field(
        None, gt=0, description="slow nodes in pods: bits per second that each node's network "
        "passes in each direction; default: as many as it can",
    )  # fmt: skip
    threads: int = Field(1, ge=1, description="threads and cores with which each worker computes")


class Trial(_Fields):
    """One training run; the end of this file adds the fields."""

    TABLES = rules.TABLES

    # What a script may choose: here it is the framework's.
    image = python = duration = rates = property(lambda self: None)
    printing = property(lambda self: self.workers)  # all say how fast they are

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: dict[str, Any]) -> dict[str, Any]:
        return rules.fill_in({k: value for k, value in values.items() if value is not None})

    @field_validator(*rules.TABLES)
    @classmethod
    def _is_known(cls, value: str, field: ValidationInfo) -> str:
        rules.check_name(field.field_name, value)
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if mistakes := list(rules.mistakes(self)):
            raise ValueError("\n".join(mistakes))
        return self

    def replace(self, **values: Any) -> Self:
        """Return the same with other values; one of the same model learns the same data."""
        if self.network.loads:
            values = {"dataset": None if "model" in values else self.dataset} | values
        return super().replace(**values)

    @property
    def runtime(self) -> Framework:
        """The row of the framework."""
        return FRAMEWORKS[self.framework]

    @cached_property
    def network(self) -> Model:
        """The row of the model, or what is known of its file."""
        return Model.named(self.model)

    @property
    def values(self) -> dict[str, Any]:
        """The values that are not defaults; of a model's file its name, wherever it lies.

        A field that is added later does not change what they are, and so renames no kept run.
        """
        return self.model_dump(exclude_defaults=True) | {"model": Path(self.model).name}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the values, and of a model's file from elsewhere."""
        parts = [json.dumps(self.values, sort_keys=True, separators=(",", ":"))]
        if self.model not in MODELS:
            parts.append(self.network.sum)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @cached_property
    def sums(self) -> dict[str, str]:
        """SHA-256 of what a run depends on beside the values: trainer, model and data."""
        return {
            "code": self.runtime.sum,
            "model": self.network.sum,
            "data": own_data.checksum(self.dataset),
        }

    @property
    def name(self) -> str:
        """A name people can read, unique by a piece of the identity; fit for a directory."""
        return (
            f"{self.framework}-{Path(self.model).stem}-w{self.workers}-b{self.batch_size}"
            f"-lr{self.learning_rate:g}-s{self.seed}-{self.identity[:12]}"
        )

    @property
    def steps_per_epoch(self) -> int:
        """Full batches in a pass; the smaller one at its end is left out, so all workers agree."""
        return own_data.samples(self.dataset) // self.batch_size

    @property
    def total_steps(self) -> int:
        """Steps of each worker."""
        return self.steps if self.steps is not None else self.epochs * self.steps_per_epoch

    @property
    def replicas(self) -> dict[str, int]:
        """How many replicas each role has, in the order in which they start."""
        scheduler = int(self.runtime.scheduler)
        counts = {"scheduler": scheduler, "server": self.servers, "worker": self.workers}
        return {role: counts[role] for role in STRATEGIES[self.strategy].roles if counts[role]}

    @property
    def ends_servers(self) -> bool:
        """Whether servers are to be ended when the workers have finished."""
        return not self.runtime.servers_end_themselves

    @property
    def meeting(self) -> dict[str, int]:
        """Further ports that its replicas need: none, as they meet in their framework."""
        return {}

    @property
    def lock_step(self) -> bool:
        """Whether its workers take each step together."""
        return STRATEGIES[self.strategy].lock_step

    @property
    def evaluations(self) -> int:
        """How often its first worker judges the network: after each pass, and at the end."""
        if self.eval_samples == 0:
            return 0
        return math.ceil(self.total_steps / self.steps_per_epoch)

    @property
    def metric(self) -> str:
        """How the network is judged."""
        return self.network.metric

    @property
    def datasets(self) -> tuple[str, ...]:
        """Names of labkit's data sets that it needs."""
        return () if own_data.is_name(self.dataset) else (self.dataset,)

    @property
    def file(self) -> Path:
        """The file that its replicas import: the model's."""
        return self.network.path

    @property
    def files(self) -> dict[str, bytes]:
        """What is to be kept with a run of it: a model's file from elsewhere."""
        return {} if self.model in MODELS else {Path(self.model).name: self.network.source}

    @property
    def carried(self) -> dict[str, bytes]:
        """What its replicas need where this machine's files are not: `file`, whatever its name."""
        return {"model.py": self.network.source}

    @property
    def columns(self) -> dict[str, Any]:
        """What a table of trials says of it."""
        return self.model_dump() | self.values

    def options(self, file: Path | str, directory: Path | str) -> dict[str, Any]:
        """Return what its replicas find on their command lines, the model's file being there."""
        left_out = {"framework", "workers", "servers", *NODE}
        return self.model_dump(exclude_none=True, exclude=left_out) | {"model": file}


def choices(field: str) -> tuple[str, ...]:
    """Return the values that a field of `Trial` may have, by name; empty if it is not limited."""
    return Trial.choices(field)


def _signature() -> inspect.Signature:
    """Return the signature of `Trial` with all its fields, for help and completion."""
    parameters = []
    for name, field in Trial.model_fields.items():
        default = field.default
        if field.is_required():
            default = None if name in ("dataset", "servers") else inspect.Parameter.empty
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=field.annotation
            )
        )
    return inspect.Signature(parameters)


def _parameters() -> str:
    """Return the parameters' section of the docstring of `Trial`, from its fields."""
    lines = []
    for name, field in Trial.model_fields.items():
        kind = getattr(field.annotation, "__name__", str(field.annotation))
        allowed = " or ".join(map(repr, get_args(field.annotation)))
        lines.append(f"{name} : {allowed if 'Literal' in str(field.annotation) else kind}")
        text = field.description[0].upper() + field.description[1:]
        if name in rules.TABLES:
            text += f" ({', '.join(rules.TABLES[name])})"
        lines += textwrap.wrap(f"{text}.", 92, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(["Parameters", "----------", *lines])


Trial.__signature__ = _signature()
Trial.__doc__ = f"""One training run.

{_parameters()}

Raises
------
TrialError
    With every mistake in one message: the field, the value, what is allowed, and for a
    mistyped name the nearest one.
"""
