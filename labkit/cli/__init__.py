"""The ``labkit`` command, a file for each group of subcommands."""

from labkit.cli.main import main

__all__ = ["main"]
