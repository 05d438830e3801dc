"""labkit: what happens to a deep-learning training job when it runs on more machines?

This is its face: ``from labkit import Trial, Sweep, measure``. A name is imported from its module
when it is first asked for, so that ``import labkit`` costs nothing.
"""

import importlib

__version__ = "0.1.0"

_MODULES = {
    "LabkitError": "labkit.errors",
    "Results": "labkit.runs",
    "ScriptTrial": "labkit.trials",
    "Sweep": "labkit.trials",
    "Trial": "labkit.trials",
    "attach": "labkit.book.show",
    "breakdown": "labkit.figures",
    "brief": "labkit.book.brief",
    "check_parameters": "labkit.book.parameters",
    "claims": "labkit.thesis.claims",
    "compare": "labkit.runs.comparing",
    "contents": "labkit.book.contents",
    "deployment": "labkit.figures",
    "epoch_time": "labkit.figures",
    "explore": "labkit.book.show",
    "forecast": "labkit.figures",
    "learning_curve": "labkit.figures",
    "measure": "labkit.campaign",
    "plan": "labkit.campaign",
    "predict": "labkit.prediction",
    "references": "labkit.book.references",
    "report": "labkit.report",
    "samples": "labkit.datasets",
    "select": "labkit.figures",
    "show": "labkit.book.show",
    "simulate": "labkit.simulation",
    "slowdown": "labkit.figures",
    "speedup": "labkit.figures",
    "speedups": "labkit.analysis",
    "step_times": "labkit.analysis",
    "summarise": "labkit.analysis",
    "thesis": "labkit.thesis",
    "throughput": "labkit.figures",
}

__all__ = sorted(_MODULES)


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module 'labkit' has no attribute {name!r}")
    module = importlib.import_module(_MODULES[name])
    value = module if _MODULES[name] == "labkit." + name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(set(globals()) | set(_MODULES))
