"""The table of frameworks: all that labkit has to know of one in order to launch it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from labkit import replicas
from labkit.settings import TEMPLATES


@dataclass(frozen=True)
class Framework:
    """A framework: its trainer, its environment, and how its processes behave.

    Attributes
    ----------
    name : str
        The value of a trial's ``framework``, and of the function that builds a model in it.
    title : str
        How figures call it.
    modules : tuple of str
        What its trainer imports; the first one tells its version.
    strategies : tuple of str
        What its trainer can do.
    scheduler : bool
        Whether its servers and workers need a scheduler to meet.
    servers_per_worker : bool
        Whether a trial has a server beside each worker (the thesis's MXNet) or one in all (its
        TensorFlow), if it does not say.
    server_threads : bool
        Whether a server works for all workers at once, in threads, or for one after the other.
    servers_end_themselves : bool
        Whether servers leave when the workers have finished, or wait for a SIGTERM.
    trainer : Path
        Its trainer.
    package : str
        The distribution that it is installed by; that of its name by default.
    placement : str
        Which of several servers keeps which variable: by ``hash`` of its key, or ``round-robin``.
    python : Path
        The interpreter of its environment; labkit's own by default.
    recipe : Path or None
        The folder of its image: a Containerfile, and the lock of its environment. None where there
        is no image of it.
    shared : tuple of str
        What its trainer shares with others.
    """

    name: str
    title: str
    modules: tuple[str, ...]
    strategies: tuple[str, ...]
    scheduler: bool
    servers_per_worker: bool
    server_threads: bool
    servers_end_themselves: bool
    trainer: Path
    recipe: Path | None
    shared: tuple[str, ...] = replicas.SHARED
    package: str = ""
    placement: str = "round-robin"
    python: Path = Path(sys.executable)

    @property
    def sum(self) -> str:
        """SHA-256 of the trainer's code, so that a changed trainer makes another trial."""
        return replicas.checksum(self.trainer, self.shared)

    def servers_for(self, workers: int) -> int:
        """Return how many servers a number of workers has if nothing else is said."""
        return max(workers, 1) if self.servers_per_worker else 1


FRAMEWORKS = {
    row.name: row
    for row in (
        Framework(
            "tensorflow",
            "TensorFlow",
            modules=("tensorflow",),
            strategies=("async-ps", "sync-ps", "single"),
            scheduler=False,
            servers_per_worker=False,
            server_threads=True,
            servers_end_themselves=False,
            trainer=replicas.HERE / "train_tensorflow.py",
            recipe=TEMPLATES / "images" / "tensorflow",
            package="tensorflow-cpu",
        ),
        Framework(
            "mxnet",
            "MXNet",
            modules=("mxnet",),
            strategies=("async-ps", "sync-ps", "single"),
            scheduler=True,
            servers_per_worker=True,
            server_threads=False,
            servers_end_themselves=True,
            trainer=replicas.HERE / "train_mxnet.py",
            recipe=TEMPLATES / "images" / "mxnet",
            placement="hash",
        ),
    )
}

_SCRIPT = {
    "trainer": replicas.HERE / "script.py",
    "shared": replicas.SCRIPTED,
    "strategies": ("script",),
}

SCRIPTED = {
    **{name: replace(row, **_SCRIPT) for name, row in FRAMEWORKS.items()},
    "torch": Framework(
        "torch",
        "PyTorch",
        modules=("torch",),
        scheduler=False,
        servers_per_worker=False,
        server_threads=False,
        servers_end_themselves=True,
        recipe=None,
        **_SCRIPT,
    ),
}
"""The frameworks for which scripts of a user's own are started, a row each."""
