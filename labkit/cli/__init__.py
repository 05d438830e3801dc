"""The ``labkit`` command, a file for each group of subcommands."""

from labkit.cli import cluster, figure, prepare, reproduce, results, run  # noqa: F401
from labkit.cli.main import main

__all__ = ["main"]
