"""Packages, downloaded with their ordinary clients."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from labkit.datasets.sources import DataError, Source

CAUSES = ("E:", "ERROR", "npm error", "npm ERR!")
"""How clients begin the lines that say why they failed."""


def download_package(source: Source, directory: Path, tick: Callable[[], None]) -> Path:
    """Download a package to a directory with its ordinary client, and return its path.

    Nothing of it is installed or executed: --ignore-scripts, and wheels only, because a source
    distribution would run its own code.

    Parameters
    ----------
    source : Source
        Names the client and the package.
    directory : Path
        Empty; what the client leaves there is the package.
    tick : callable
        Called a few times per second while the client runs.

    Raises
    ------
    DataError
        The client is missing, fails, or brings anything but one package.
    """
    if source.client == "apt-get":
        try:
            _run(["apt-get", "download", source.address], directory, tick)
        except DataError:
            # The system's package lists are missing or old; lists of our own need no root.
            for folder in ("lists/partial", "archives/partial"):
                (directory / folder).mkdir(parents=True)
            own = ["-o", f"Dir::State::lists={directory}/lists", "-o", f"Dir::Cache={directory}"]
            _run(["apt-get", *own, "update"], directory, tick)
            _run(["apt-get", *own, "download", source.address], directory, tick)
    elif source.client == "npm":
        options = ["--ignore-scripts", "--fetch-retries=1"]
        _run(["npm", "pack", *options, source.address], directory, tick)
    elif source.client == "pip":
        pip = [sys.executable, "-m", "pip"] if importlib.util.find_spec("pip") else ["pip"]
        options = ["--no-deps", "--only-binary=:all:", "--retries=1"]
        _run([*pip, "download", *options, source.address], directory, tick)
    packages = [path for path in directory.iterdir() if path.suffix in (".deb", ".tgz", ".whl")]
    if len(packages) != 1:
        raise DataError(f"{source.client} brought {len(packages)} packages instead of one")
    return packages[0]


def _run(command: list[str], folder: Path, tick: Callable[[], None]) -> None:
    """Run a package client to its end, calling `tick` meanwhile."""
    if shutil.which(command[0]) is None:
        raise DataError(f"the command {command[0]} is not on this machine")
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "LC_ALL": "C"},
    ) as process:
        try:
            while True:
                try:
                    output, _ = process.communicate(timeout=0.2)
                    break
                except subprocess.TimeoutExpired:
                    tick()
            tick()
        except BaseException:
            process.kill()
            process.wait()  # after Ctrl-C, leaving Popen's context would not
            raise
    if process.returncode != 0:
        lines = output.strip().splitlines()
        causes = [line for line in lines if line.startswith(CAUSES)] or lines[-1:]
        raise DataError(f"`{shlex.join(command)}` failed: {'; '.join(causes[:2])}")
