"""Chapter 5: a trial taken apart into the objects of a cluster."""

from __future__ import annotations

from typing import Any

from labkit.launchers.kubernetes import manifests
from labkit.launchers.kubernetes.settings import Settings
from labkit.trials import Trial


def objects(trial: Trial, deadline: float = 600) -> list[dict[str, Any]]:
    """Return a trial's objects, as a cluster gets them for which nothing special is set.

    Parameters
    ----------
    trial : Trial
    deadline : float
        Seconds that it may take.
    """
    return manifests.objects(manifests.render(trial, Settings(), deadline))
