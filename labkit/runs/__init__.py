"""Runs: checked events, kept raw, and the tables made from them."""

from labkit.runs.check import RunError
from labkit.runs.run import Run
from labkit.runs.store import Store

__all__ = ["Run", "RunError", "Store"]
