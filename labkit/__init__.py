"""labkit: what happens to a deep-learning training job when it runs on more machines?

What is offered is imported when it is first asked for, so that ``import labkit`` loads nothing.
"""

import importlib

__version__ = "0.1.0"

_HOMES = {
    "Trial": "labkit.trials",
    "Sweep": "labkit.trials",
    "samples": "labkit.datasets",
    "measure": "labkit.campaign",
    "Results": "labkit.runs",
    "speedups": "labkit.analysis",
    "summarise": "labkit.analysis",
    "throughput": "labkit.figures",
    "speedup": "labkit.figures",
    "epoch_time": "labkit.figures",
    "learning_curve": "labkit.figures",
    "deployment": "labkit.figures",
    "show": "labkit.book",
    "check_parameters": "labkit.book",
}

__all__ = sorted(_HOMES)


def __getattr__(name):
    """Import what is asked for from the module where it lives."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'labkit' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_HOMES])
