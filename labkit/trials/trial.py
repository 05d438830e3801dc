"""A trial: one training run, as validated values with an identity.

A trial describes one training run completely. Two trials with the same values are the same trial,
in every process and on every version of Python; its identity also covers the trainer's source and
the data's checksums, so that a result is never taken for one of another code or other data.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import textwrap
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from labkit import datasets
from labkit.errors import LabkitError, nearest
from labkit.trials import rules
from labkit.trials.frameworks import FRAMEWORKS
from labkit.trials.models import MODELS, Model
from labkit.trials.strategies import STRATEGIES


class TrialError(LabkitError, ValueError):
    """A trial that cannot be: a name nobody knows, a value that makes no sense."""


class _Fields(BaseModel):
    """What a trial consists of."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    framework: str = Field(description="what trains")
    model: str = Field(description="the network to train, or the path of a file that defines one")
    dataset: str = Field(description="what it learns; default: the model's own")
    strategy: str = Field("async-ps", description="how the work is shared out among replicas")
    workers: int = Field(1, ge=1, description="replicas that train")
    servers: int = Field(
        ge=0,
        description="parameter servers; default: one in all, or one beside each worker, as the "
        "framework has it",
    )
    batch_size: int = Field(ge=1, description="samples per step: images, or sequences of 30 words")
    learning_rate: float = Field(gt=0, description="of plain SGD")
    epochs: int | None = Field(
        None, ge=1, description="passes of every worker over the training set; or give steps"
    )
    steps: int | None = Field(None, ge=2, description="batches of every worker; or give epochs")
    seed: int = Field(1, ge=0, le=2**31 - 1, description="of initial weights and of batch order")
    initializer: Literal["default", "xavier", "uniform"] = Field(
        "default",
        description="the framework's own (tensorflow: Glorot uniform, mxnet: Uniform(0.01)), "
        "Glorot/Xavier uniform, or Uniform(0.01)",
    )
    clip_norm: float | None = Field(
        None, gt=0, description="largest global norm of a gradient; off by default, as then"
    )
    loss_over_time: Literal["default", "mean", "sum"] = Field(
        "default",
        description="how the gradient is taken over a sample's time steps; default: the "
        "framework's own (tensorflow: mean, mxnet: sum)",
    )
    eval_samples: int | None = Field(
        None, ge=0, description="test samples an evaluation takes; default all, 0 for none"
    )
    slowdown: float | None = Field(
        None, ge=1, description="of slow nodes: how many times as long computing takes as here"
    )
    slowdown_spread: float | None = Field(
        None, gt=1, description="how many times as slow as the first worker the last one is, the "
        "others evenly in between; default: all alike",
    )  # fmt: skip
    threads: int = Field(1, ge=1, description="compute threads and cores of each worker")


class Trial(_Fields):
    """One training run; the end of this file adds the fields."""

    _given: frozenset[str] = PrivateAttr(frozenset())

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise TrialError(_explain(error)) from None
        self._given = frozenset(name for name, value in values.items() if value is not None)

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

    def __hash__(self) -> int:
        return int(self.digest[:15], 16)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trial) and self.digest == other.digest

    def __repr__(self) -> str:
        return f"Trial({', '.join(f'{name}={value!r}' for name, value in self.values.items())})"

    __str__ = __repr__

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
            "code": FRAMEWORKS[self.framework].sum,
            "model": self.network.sum,
            "data": datasets.checksum(self.dataset),
        }

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the values and the sums."""
        parts = (self.digest, *self.sums.values())
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

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
        return datasets.samples(self.dataset) // self.batch_size

    @property
    def total_steps(self) -> int:
        """Steps of each worker."""
        return self.steps if self.steps is not None else self.epochs * self.steps_per_epoch

    @property
    def replicas(self) -> dict[str, int]:
        """How many replicas each role has, in the order in which they start."""
        scheduler = int(FRAMEWORKS[self.framework].scheduler)
        counts = {"scheduler": scheduler, "server": self.servers, "worker": self.workers}
        return {role: counts[role] for role in STRATEGIES[self.strategy].roles if counts[role]}

    def replace(self, **values: Any) -> Trial:
        """Return the same trial with other values, validated again.

        What was not given but followed from other values, such as the number of servers, follows
        from the new ones.
        """
        return Trial(**({name: getattr(self, name) for name in self._given} | values))


def choices(field: str) -> tuple[str, ...]:
    """Return the values that a field of `Trial` may have, by name; empty if it is not limited."""
    if field in rules.TABLES:
        return tuple(rules.TABLES[field])
    return tuple(v for v in get_args(Trial.model_fields[field].annotation) if isinstance(v, str))


_BOUNDS = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "{} or less"),
}


def _explain(error: ValidationError) -> str:
    """Put pydantic's findings into one message, a line per mistake."""
    lines = []
    for finding in error.errors():
        field = ".".join(map(str, finding["loc"][:1]))
        kind, value = finding["type"], finding["input"]
        if kind == "extra_forbidden":
            known = list(Trial.model_fields)
            hint = nearest(field, known) or f"; known: {', '.join(known)}"
            lines.append(f"{field}: no such field (value {value!r}){hint}")
        elif kind == "missing":
            wanted = ", ".join(choices(field)) or Trial.model_fields[field].description
            lines.append(f"{field}: missing; wanted: {wanted}")
        elif kind == "literal_error":
            allowed = choices(field)
            lines.append(f"{field}: {value!r}{nearest(value, allowed)}; allowed: "
                         f"{', '.join(allowed)}")  # fmt: skip
        elif kind in _BOUNDS:
            bound, words = _BOUNDS[kind]
            lines.append(f"{field}: {value!r}; allowed: {words.format(finding['ctx'][bound])}")
        elif kind == "value_error":
            lines.append(str(finding["ctx"]["error"]))
        elif field in rules.TABLES:
            lines.append(f"{field}: {value!r}; allowed: {', '.join(choices(field))}")
        else:
            wanted = finding["msg"].removeprefix("Input should be ")
            lines.append(f"{field}: {value!r}; allowed: {wanted}")
    return "this trial cannot be run:\n  " + "\n".join(lines).replace("\n", "\n  ")


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
