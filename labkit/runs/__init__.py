"""Runs: checked events, kept raw, and the tables made from them."""

from labkit.runs.results import Results
from labkit.runs.run import Run, RunError
from labkit.runs.store import Store

__all__ = ["Results", "Run", "RunError", "Store"]
