"""Where and with what runs were made: what makes two runs of one trial different things."""

from __future__ import annotations

import hashlib
import json

from labkit import provenance
from labkit.runs.run import Run


def digest(run: Run) -> str:
    """Return a name for a run's circumstances: six hexadecimal digits."""
    told = json.dumps(run.circumstances, sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:6]


def difference(run: Run) -> str:
    """Say in what a run's circumstances differ from those it would have here and now.

    Returns
    -------
    str
        The first difference, nothing if there is none. A version that is not known, of then or of
        now, is none.
    """
    there, here = run.circumstances, provenance.machine()
    if there["host"] != here["host"]:
        return f"of the machine {there['host']}"
    for name in ("cpu_model", "cores"):
        if there[name] != here[name]:
            return f"with {name.replace('_', ' ')} {there[name]} instead of {here[name]}"
    versions = provenance.versions(run.trial.framework)
    for name, version in sorted(run.versions.items()):
        if versions.get(name, version) != version:
            return f"with {name} {version} instead of {versions[name]}"
    return ""
