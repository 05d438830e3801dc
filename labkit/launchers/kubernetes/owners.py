"""Whose a trial in a cluster is, and whether its labkit is still there.

The workers' Job says who started it and where its run is to be kept. Whoever runs a trial holds
that directory alone (`labkit.launchers.protocol.Launcher.run`), so that a trial which is already
there under the same owner was left by a labkit that was killed, and one whose directory is gone
belongs to nobody any more.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import socket
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labkit.launchers.kubernetes.api import INSTANCE, PART_OF, Cluster, failure
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.kubernetes.manifests import selector_of

ANNOTATION = "labkit/owner"


@dataclass(frozen=True)
class Owner:
    """Who has started a trial.

    Attributes
    ----------
    user : str
        And on which machine.
    directory : str
        Where the run is kept.
    """

    user: str
    directory: str

    @classmethod
    def here(cls, directory: Path) -> Owner:
        """Return the owner of what this process starts."""
        return cls(f"{_user()}@{socket.gethostname()}", str(directory.absolute()))

    @property
    def gone(self) -> bool:
        """Whether it was a labkit on this machine that no longer runs the trial."""
        return self.user == Owner.here(Path()).user and not Path(self.directory).exists()


def mark(job: dict[str, Any], owner: Owner, rendered: str) -> None:
    """Write into a Job's manifest whose it is, and a checksum of all the trial's manifests."""
    checksum = hashlib.sha256(rendered.encode()).hexdigest()
    job["metadata"]["annotations"][ANNOTATION] = json.dumps(asdict(owner) | {"sha256": checksum})


def owner_of(job: dict[str, Any]) -> Owner | None:
    """Return whose a Job is; None if no labkit has started it."""
    try:
        content = json.loads(job["metadata"]["annotations"][ANNOTATION])
        return Owner(content["user"], content["directory"])
    except (KeyError, TypeError, ValueError):
        return None


def same(job: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two Jobs have the same owner and are of the same manifests."""
    marks = [each["metadata"].get("annotations", {}).get(ANNOTATION) for each in (job, other)]
    return marks[0] == marks[1] is not None


def ended(job: dict[str, Any]) -> bool:
    """Whether a Job has finished or failed."""
    conditions = job["status"].get("conditions", [])
    complete = any(c["type"] == "Complete" and c["status"] == "True" for c in conditions)
    return complete or bool(failure(job))


def owners(cluster: Cluster) -> dict[str, Owner | None]:
    """Return whose the trials in the namespace are, by the trials' names."""
    found: dict[str, Owner | None] = {}
    for job in cluster.list("Job", PART_OF):
        name = job["metadata"]["labels"][INSTANCE]
        found[name] = found.get(name) or owner_of(job)
    return found


def left_behind(cluster: Cluster) -> list[str]:
    """Return the trials whose labkit was on this machine and is gone."""
    return [name for name, owner in owners(cluster).items() if owner and owner.gone]


def remove(cluster: Cluster, names: Iterable[str]) -> None:
    """Delete trials, and say so."""
    for name in names:
        tell(f"deletes {name}, which a labkit that is gone has left in the cluster")
        cluster.remove(selector_of(name))


def clean_up(cluster: Cluster, name: str, owner: Owner) -> str:
    """Delete everything of a trial, and see that it is gone; say what could not be deleted."""
    try:
        if owners(cluster).get(name, owner) == owner:
            cluster.remove_and_check(selector_of(name))
    except ClusterError as error:
        return f"What {name} started could not be deleted: {error}"
    return ""


def tell(line: str) -> None:
    """Say something that is to stay on the screen, unlike a notice."""
    print(f"labkit: {line}", file=sys.stderr)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run under an id without a name
        return "somebody"
