"""Where and with what runs were made: what makes two runs of one trial different things."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from labkit import provenance
from labkit.runs.run import Run
from labkit.trials.frameworks import Framework

MACHINE = ("host", "cpu_model", "cores", "congestion_control")
"""What tells machines apart; earlier versions did not record the last."""


def versions_of(run: Run) -> dict[str, str]:
    """Return those of Python, numpy and the framework, as a replica told them, if one did."""
    return run.start.versions if run.start else {}


def code_of(run: Run) -> str:
    """Return by what its trainer, model and data are told apart from other states of them."""
    if run.current:
        sums = run.trial.sums.values()
    elif run.start and run.start.code:
        sums = run.start.code, run.start.model, run.start.data
    else:  # of an earlier version, whose runs tell nothing of the kind
        return run.identity[:12]
    return hashlib.sha256("\n".join(sums).encode()).hexdigest()[:12]


def circumstances(run: Run) -> dict[str, Any]:
    """Return where and with what it was run: what makes two runs of one trial different things."""
    machine = run.record["machine"]
    told = {name: machine[name] for name in MACHINE if name in machine}
    return told | {"versions": versions_of(run)}


def here(framework: Framework) -> dict[str, Any]:
    """Return what a framework's runs on this machine would have as `circumstances`."""
    machine = provenance.machine()
    known = {name: machine[name] for name in MACHINE}
    return known | {"versions": provenance.versions(framework)}


def digest(told: dict[str, Any]) -> str:
    """Return a name for circumstances: six hexadecimal digits."""
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:6]


def difference(run: Run) -> str:
    """Say in what a run's circumstances differ from those it would have here and now.

    Returns
    -------
    str
        The first difference, nothing if there is none. A version that is not known, of then or of
        now, is none.
    """
    return machine_difference(run) or version_difference(run)


def machine_difference(run: Run) -> str:
    """Say in what the machine differs from this one, as `difference` does."""
    there, now = run.record["machine"], provenance.machine()
    if there["host"] != now["host"]:
        return f"of the machine {there['host']}"
    for name in MACHINE[1:]:
        then, today = (each.get(name) or "unknown" for each in (there, now))
        if then != today:
            return f"with {name.replace('_', ' ')} {then} instead of {today}"
    return ""


def version_difference(run: Run) -> str:
    """Say which version differs from that of today, as `difference` does."""
    versions = provenance.versions(run.trial.runtime)
    for name, version in sorted(versions_of(run).items()):
        if versions.get(name, version) != version:
            return f"with {name} {version} instead of {versions[name]}"
    return ""
