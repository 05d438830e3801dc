"""The trainers: one script a framework, and the row by which labkit knows it.

A trainer runs by itself (``python train_mxnet.py --help``) and needs nothing but the standard
library, numpy and its framework, so that a pod can mount it as it is. To add a framework, write
its script beside these and add its row here.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

HERE = Path(__file__).parent


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
        return HERE / f"train_{self.name}.py"

    @cached_property
    def sum(self) -> str:
        """SHA-256 over the trainer's source, so that a changed trainer is a different trial."""
        digest = hashlib.sha256()
        for path in (HERE / "common.py", self.script):
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
