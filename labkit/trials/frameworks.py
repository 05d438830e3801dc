"""The table of frameworks."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from labkit import replicas

REPLICAS = Path(replicas.__file__).parent

SHARED = ("events.py", "arguments.py", "arrays.py", "loop.py")
"""What all trainers import: part of the identity of every trial."""


@dataclass(frozen=True)
class Framework:
    """What labkit has to know of a framework in order to launch it.

    Attributes
    ----------
    name : str
        The value of a trial's ``framework``.
    modules : tuple of str
        What the warm process imports before it forks roles; also what `labkit doctor` looks for.
    servers_per_worker : bool
        Whether a trial has a server beside each worker (the thesis's MXNet) or one in all (its
        TensorFlow), if it does not say.
    scheduler : bool
        Whether a distributed trial needs a scheduler.
    servers_end_themselves : bool
        Whether servers leave when the workers have finished, or wait for a SIGTERM.
    """

    name: str
    modules: tuple[str, ...]
    servers_per_worker: bool
    scheduler: bool
    servers_end_themselves: bool

    @property
    def script(self) -> Path:
        """The trainer's file."""
        return REPLICAS / f"train_{self.name}.py"

    @cached_property
    def sum(self) -> str:
        """SHA-256 over the trainer's source, so that a changed trainer is a different trial."""
        digest = hashlib.sha256()
        for path in (*(REPLICAS / name for name in SHARED), self.script):
            digest.update(path.read_bytes())
        return digest.hexdigest()


FRAMEWORKS = {
    row.name: row
    for row in (
        Framework(
            "tensorflow",
            modules=("tensorflow",),
            servers_per_worker=False,
            scheduler=False,
            servers_end_themselves=False,
        ),
        Framework(
            "mxnet",
            modules=("mxnet",),
            servers_per_worker=True,
            scheduler=True,
            servers_end_themselves=True,
        ),
    )
}
