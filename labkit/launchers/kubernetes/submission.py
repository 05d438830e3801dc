"""Submitting a trial: its objects are created in a cluster."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
import warnings
from dataclasses import dataclass
from typing import Any

from labkit.launchers.kubernetes import manifests, owners
from labkit.launchers.kubernetes.api import COMPONENT, INSTANCE, OPTIONAL, Cluster
from labkit.launchers.kubernetes.errors import ClusterError, Forbidden
from labkit.launchers.kubernetes.owners import Owner
from labkit.launchers.protocol import OnEvent, TrialFailed, Waiting
from labkit.trials import Trial

SUBMITTED = "labkit/submitted"
"""The annotation that says when a trial was submitted, in seconds since the epoch."""

OPEN = (
    "labkit may not create NetworkPolicies, so that other pods of the cluster can reach the ports "
    "of its trials. An administrator can allow it: kubectl apply -f templates/rbac.yaml"
)
"""The warning where a trial does without its NetworkPolicy."""

POLL_INTERVAL = 2.0
"""Seconds between two looks at another's trial."""

LEFT_ALONE = 120.0
"""Seconds after which a trial that has ended was left by its labkit."""


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


def submit(
    cluster: Cluster,
    trial: Trial,
    deadline: float,
    owner: Owner,
    on_event: OnEvent,
    stopped: threading.Event,
    compute: float | None = None,
) -> Submission:
    """Create a trial's objects, or find those of a labkit that was killed.

    Where another labkit runs the same trial, its end is waited for.

    Raises
    ------
    ClusterError
        If the cluster refuses, or somebody's trial of this name stays there.
    TrialFailed
        If `stopped` is set meanwhile.
    """
    render = functools.partial(
        manifests.render, trial, cluster.settings, deadline, compute=compute
    )
    text = render(secret="")  # not told apart by it
    first, *_ = manifests.objects(text)
    owners.mark(first, owner, text)
    job = _claim(cluster, first, owner, on_event, stopped)
    submitted = float(job["metadata"]["annotations"][SUBMITTED])
    first, *others = manifests.objects(render(submitted, job["metadata"]["uid"]))
    for manifest in others:
        try:
            cluster.create(manifest)
        except Forbidden:
            if manifest["kind"] not in OPTIONAL:
                raise
            warnings.warn(OPEN, stacklevel=2)  # of equal ones only the first is shown
    containers = {
        manifest["metadata"]["labels"][COMPONENT]: manifest["spec"]["template"]["spec"][
            "containers"
        ][0]
        for manifest in (first, *others)
        if manifest["kind"] == "Job"
    }
    return Submission(trial, submitted, deadline, containers, 1 + len(others))


def _claim(
    cluster: Cluster,
    first: dict[str, Any],
    owner: Owner,
    on_event: OnEvent,
    stopped: threading.Event,
) -> dict[str, Any]:
    """Create a trial's first Job, or return the one that is there if it is the same and ours."""
    name, namespace = first["metadata"]["labels"][INSTANCE], cluster.namespace
    ended_since = math.inf
    while True:
        _wait_for_remains(cluster, first, on_event, stopped)
        now = first["metadata"]["annotations"][SUBMITTED] = str(time.time())
        job = cluster.create(first)
        found = owners.owner_of(job)
        if "deletionTimestamp" in job["metadata"]:  # an earlier attempt is being deleted
            cluster.remove_and_check(manifests.selector_of(name))
        elif owners.same(first, job):
            if job["metadata"]["annotations"][SUBMITTED] != now:
                owners.tell(f"takes over {name}, which a labkit that is gone had started")
            return job
        elif found is None:
            raise ClusterError(
                f"{name} is already in namespace {namespace!r}, and not started by `labkit run` "
                f"(but by `labkit render | kubectl apply`?). Delete it: labkit stop {name}"
            )
        elif found == owner or found.gone:
            why = "with other settings or by another labkit" if found == owner else "and is gone"
            owners.tell(f"deletes {name}, which a labkit had started {why}")
            cluster.remove_and_check(manifests.selector_of(name))
        else:
            ended_since = min(ended_since, time.monotonic()) if owners.ended(job) else math.inf
            if time.monotonic() - ended_since > LEFT_ALONE:
                raise ClusterError(
                    f"{name} of {found.user} has ended in namespace {namespace!r} and is still "
                    f"there. If nobody needs it any more: labkit stop {name}"
                )
            on_event(Waiting(f"{found.user}, whose labkit runs the same trial"))
            if stopped.wait(POLL_INTERVAL):
                raise TrialFailed(f"{name} was stopped, as the sweep ends")


def _wait_for_remains(
    cluster: Cluster, first: dict[str, Any], on_event: OnEvent, stopped: threading.Event
) -> None:
    """Wait until what an earlier first Job owned has followed it: it would be taken for ours."""
    selector = manifests.selector_of(first["metadata"]["labels"][INSTANCE])
    itself = f"metadata.name={first['metadata']['name']}"
    begin = time.monotonic()
    with contextlib.suppress(Forbidden):  # which is said when it is about to be created
        while cluster.left(selector) and not any(cluster.list("Job", selector, itself)):
            if time.monotonic() - begin > LEFT_ALONE:
                cluster.remove_and_check(selector)
            on_event(Waiting("what is left of an earlier trial of this name to be gone"))
            if stopped.wait(POLL_INTERVAL / 4):
                raise TrialFailed("stopped, as the sweep ends")
