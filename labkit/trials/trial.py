"""A trial: one training run, as validated values with an identity.

A trial describes one training run completely. Two trials with the same values are the same trial,
in every process and on every version of Python; its identity also covers the trainer's source and
the data's checksums, so that a result is never taken for one of another code or other data.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from labkit import datasets
from labkit.errors import LabkitError, nearest
from labkit.trials.frameworks import FRAMEWORKS

DATASET_OF = {"lenet5": ("fashion-mnist", "mnist"), "lstm": ("ptb",)}
"""The data sets a model can learn, its default first."""


class TrialError(LabkitError, ValueError):
    """A trial that cannot be: a name nobody knows, a value that makes no sense."""


class Trial(BaseModel):
    """One training run.

    Raises
    ------
    TrialError
        With every mistake in one message: the field, the value, what is allowed, and for a
        mistyped name the nearest one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    framework: Literal[tuple(FRAMEWORKS)] = Field(description="what trains")
    model: Literal["lenet5", "lstm"] = Field(description="the network of the thesis to train")
    dataset: Literal["fashion-mnist", "mnist", "ptb"] = Field(
        description="what it learns; lenet5: fashion-mnist (default) or mnist, lstm: ptb"
    )
    strategy: Literal["async-ps", "single"] = Field(
        "async-ps",
        description="asynchronous data parallelism over parameter servers, "
        "or one process without distribution",
    )
    workers: int = Field(1, ge=1, description="replicas that train")
    servers: int = Field(
        ge=0,
        description="parameter servers; default as in the thesis: 1 for tensorflow, "
        "one beside each worker for mxnet",
    )
    batch_size: int = Field(ge=1, description="samples a step: images, or sequences of 30 words")
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
        description="how the lstm's gradient is taken over the 30 time steps; the framework's "
        "own (tensorflow: mean, mxnet: sum), or the same for both",
    )
    eval_samples: int | None = Field(
        None, ge=0, description="test samples an evaluation takes; default all, 0 for none"
    )
    threads: int = Field(1, ge=1, description="compute threads and cores of each worker")

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise TrialError(_explain(error)) from None

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: dict[str, Any]) -> dict[str, Any]:
        # Defaults that depend on other fields; a wrong value there is reported by its own field.
        values = {name: value for name, value in values.items() if value is not None}
        datasets = DATASET_OF.get(str(values.get("model")), DATASET_OF["lenet5"])
        framework = FRAMEWORKS.get(str(values.get("framework")))
        workers = values.get("workers", 1)
        servers = 1
        if values.get("strategy") == "single":
            servers = 0
        elif framework and framework.servers_per_worker and type(workers) is int:
            servers = max(workers, 1)
        return {"dataset": datasets[0], "servers": servers} | values

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        wrong = []
        if self.dataset not in DATASET_OF[self.model]:
            wrong.append(
                f"dataset: {self.dataset!r} is nothing for model {self.model!r}; "
                f"allowed: {', '.join(DATASET_OF[self.model])}"
            )
        if (self.epochs is None) == (self.steps is None):
            given = "neither is" if self.epochs is None else "both are"
            wrong.append(f"epochs, steps: give one of them; {given} given")
        samples = datasets.samples(self.dataset)
        if self.batch_size > samples:
            wrong.append(
                f"batch_size: {self.batch_size} is more than the {samples} training samples "
                f"of {self.dataset}; allowed: 1 to {samples}"
            )
        if self.strategy == "single":
            if self.workers != 1:
                wrong.append(f"workers: {self.workers} with strategy 'single'; allowed: 1")
            if self.servers != 0:
                wrong.append(
                    f"servers: {self.servers} with strategy 'single', which has none; allowed: 0"
                )
        elif self.servers < 1:
            wrong.append(f"servers: {self.servers} with strategy 'async-ps'; allowed: 1 or more")
        if self.loss_over_time != "default" and self.model != "lstm":
            wrong.append(
                f"loss_over_time: {self.loss_over_time!r} with model {self.model!r}, which has "
                "no time steps; allowed: 'default'"
            )
        if wrong:
            raise ValueError("\n".join(wrong))
        return self

    def __hash__(self) -> int:
        return int(self.digest[:15], 16)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Trial) and self.digest == other.digest

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the values alone."""
        canonical = json.dumps(self.model_dump(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    @cached_property
    def identity(self) -> str:
        """SHA-256 of the values, the trainer's source and the data's checksums."""
        parts = (self.digest, FRAMEWORKS[self.framework].sum, datasets.checksum(self.dataset))
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def name(self) -> str:
        """A name people can read, unique by a piece of the identity; fit for a directory."""
        return (
            f"{self.framework}-{self.model}-w{self.workers}-b{self.batch_size}"
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

    def replace(self, **values: Any) -> Trial:
        """Return the same trial with other values, validated again."""
        return Trial(**(self.model_dump() | values))


def choices(field: str) -> tuple[str, ...]:
    """Return the values a field of `Trial` is limited to; empty if it is not."""
    return tuple(v for v in get_args(Trial.model_fields[field].annotation) if isinstance(v, str))


_BOUNDS = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "{} or less"),
}


def _explain(error: ValidationError) -> str:
    """Put pydantic's findings into one message, a line a mistake."""
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
        else:
            wanted = finding["msg"].removeprefix("Input should be ")
            lines.append(f"{field}: {value!r}; allowed: {wanted}")
    return "this trial cannot be run:\n  " + "\n".join(lines).replace("\n", "\n  ")
