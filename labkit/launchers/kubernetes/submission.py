"""Submitting a trial: its objects are created in a cluster."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

from labkit.launchers.kubernetes import manifests
from labkit.launchers.kubernetes.api import COMPONENT, OPTIONAL, Cluster
from labkit.launchers.kubernetes.errors import Forbidden
from labkit.trials import Trial


@dataclass(frozen=True)
class Submission:
    """A trial in a cluster.

    Attributes
    ----------
    trial : Trial
    submitted : float
        When, in seconds since the epoch.
    deadline : float
        Seconds that it may take from then on.
    containers : dict of str to dict
        For each kind of pod the manifest of its container.
    objects : int
        How many there are, without pods.
    """

    trial: Trial
    submitted: float
    deadline: float
    containers: dict[str, dict[str, Any]]
    objects: int

    @property
    def name(self) -> str:
        """By which the cluster knows the trial."""
        return manifests.name_of(self.trial)

    @property
    def selector(self) -> str:
        """The labels of its objects."""
        return manifests.selector_of(self.name)

    @property
    def image(self) -> str:
        """That the workers run."""
        return self.containers["worker"]["image"]

    def expected(self) -> dict[str, int]:
        """Return how many pods of each kind there are to be."""
        return {kind: self.trial.replicas[kind] for kind in self.containers}

    def job_of(self, kind: str) -> str:
        """Return the name of the Job of a kind of pod."""
        return f"{self.name}-{kind}"


def submit(cluster: Cluster, trial: Trial, deadline: float) -> Submission:
    """Create a trial's objects, or find those of a labkit that was killed.

    Raises
    ------
    ClusterError
        If the cluster refuses.
    """
    selector = manifests.selector_of(manifests.name_of(trial))
    first, *_ = manifests.objects(
        manifests.render(trial, cluster.settings, deadline, submitted=time.time())
    )
    owner = cluster.create(first)
    while "deletionTimestamp" in owner["metadata"]:  # an earlier attempt is being deleted
        cluster.remove_and_check(selector)
        owner = cluster.create(first)
    submitted = float(owner["metadata"]["annotations"]["labkit/submitted"])
    first, *others = manifests.objects(
        manifests.render(trial, cluster.settings, deadline, submitted, owner["metadata"]["uid"])
    )
    for manifest in others:
        try:
            cluster.create(manifest)
        except Forbidden as error:
            if manifest["kind"] not in OPTIONAL:
                raise
            warnings.warn(f"the ports of trials are open to all pods: {error}", stacklevel=2)
    containers = {
        manifest["metadata"]["labels"][COMPONENT]: manifest["spec"]["template"]["spec"][
            "containers"
        ][0]
        for manifest in (first, *others)
        if manifest["kind"] == "Job"
    }
    return Submission(trial, submitted, deadline, containers, 1 + len(others))
