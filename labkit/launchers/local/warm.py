"""Warm processes: fork servers that have imported a framework."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from labkit.errors import LabkitError
from labkit.launchers.limits import GRACE, STALL
from labkit.launchers.tracking import tail
from labkit.replicas import forkserver
from labkit.settings import environment
from labkit.trials.frameworks import Framework

MAX_DIRECTORY = 70
"""Bytes that the path of a directory of sockets may have: with their names those of Unix are
limited to 107."""


@dataclass(frozen=True)
class Program:
    """What a fork server imports, and forks.

    Attributes
    ----------
    name : str
    file : Path
        With the functions ``parse``, of a request's arguments, and ``main``, of what that returns.
    python : Path
        The interpreter.
    sum : str
        A checksum of the code: a changed program needs another fork server.
    own_network : bool
        Whether what is forked has a network that nobody else can reach.
    """

    name: str
    file: Path
    python: Path = Path(sys.executable)
    sum: str = ""
    own_network: bool = False

    @classmethod
    def trainer(cls, framework: Framework, own_network: bool = True) -> Program:
        """Return a framework's trainer, as it is now."""
        return cls(
            framework.name, framework.trainer, framework.python, framework.sum, own_network
        )

    def socket(self, threads: int) -> str:
        """Return the name of the fork server's socket."""
        python = hashlib.sha256(str(self.python).encode()).hexdigest()[:8]
        other = f"-{python}" * (self.python != Path(sys.executable))
        other += "-apart" * self.own_network
        return f"{self.name}-{threads}" + f"-{self.sum[:8]}" * bool(self.sum) + other


def scratch_directory() -> Path:
    """Return a fresh temporary directory in which sockets' paths are not too long."""
    directory = Path(tempfile.mkdtemp(prefix="labkit-"))
    if len(os.fsencode(directory)) > MAX_DIRECTORY:
        directory.rmdir()
        directory = Path(tempfile.mkdtemp(prefix="labkit-", dir="/tmp"))
    return directory


class WarmProcesses:
    """Fork servers, one for each program and number of threads, started when first needed.

    Parameters
    ----------
    directory : Path, optional
        Where their sockets are; a fresh temporary directory by default.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or scratch_directory()
        self._owned = directory is None
        self._started: list[subprocess.Popen[str]] = []

    def connect(self, program: Program, threads: int) -> socket.socket:
        """Return a connection to the fork server, after its import has finished.

        Raises
        ------
        LabkitError
            If the program cannot be imported, with what it said.
        """
        path = self.directory / program.socket(threads)
        with _locked(path.with_suffix(".lock")):
            connection = socket.socket(socket.AF_UNIX)
            try:
                self._connect(connection, path, program, threads)
            except BaseException:
                connection.close()
                raise
        return connection

    def _connect(
        self, connection: socket.socket, path: Path, program: Program, threads: int
    ) -> None:
        try:
            connection.connect(str(path))
        except OSError:
            path.unlink(missing_ok=True)
            self._start(program, threads, path)
            connection.connect(str(path))

    def _start(self, program: Program, threads: int, path: Path) -> None:
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MXNET_CPU_WORKER_NTHREADS")
        # No client's request makes a library start a network service or use a GPU.
        variables = environment(
            **dict.fromkeys(names, str(threads)), TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES=""
        )
        errors = path.with_suffix(".err")
        with errors.open("w") as file:
            process = subprocess.Popen(
                [
                    program.python, forkserver.__file__, program.file, path,
                    *["own-network"] * program.own_network,
                ],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file,
                env=variables, start_new_session=True, text=True,
            )  # fmt: skip
        self._started.append(process)
        if not select.select([process.stdout], [], [], STALL)[0]:
            cause = f"it takes more than {STALL:g} s"
            process.kill()
        elif process.stdout.readline() == "ready\n":
            return
        else:
            cause = f"the process left with code {process.wait()}"
        raise LabkitError(
            f"{program.name} cannot be imported ({cause}):\n"
            f"{tail(errors)}\n`labkit doctor` says what is missing."
        )

    def close(self) -> None:
        """End the fork servers that this object has started, and all that runs in them."""
        for process in self._started:
            process.stdin.close()
        for process in self._started:
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        self._started.clear()
        if self._owned:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
