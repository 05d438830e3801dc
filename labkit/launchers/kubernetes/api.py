"""The objects of labkit's in a cluster: created, listed, read, deleted.

They are polled rather than watched: an answer that is lost, an API server that restarts or a
connection that stalls then costs a second and no state. Lists come in pages and are never held as
the client's objects, so that a thousand pods need little memory.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import urllib3

from labkit.launchers.kubernetes.connection import Connection
from labkit.launchers.kubernetes.errors import (
    ClusterError,
    Conflict,
    Exists,
    Expired,
    Forbidden,
    NotFound,
)
from labkit.launchers.kubernetes.settings import Settings
from labkit.provenance import cluster_host

PART_OF = "app.kubernetes.io/part-of=labkit"

INSTANCE = "app.kubernetes.io/instance"

COMPONENT = "app.kubernetes.io/component"

CONTAINER = "labkit"
"""The name of the container in each pod that is ours: a cluster may add others."""

NETWORK = "labkit-network"
"""The name of the container that limits a pod's network, before the other starts."""

OPTIONAL = ("NetworkPolicy",)
"""What a trial can do without, where labkit has no right to it."""

OWNED = ("Job", "Service", "ConfigMap", *OPTIONAL)
"""What labkit creates."""

PAGE = 100
"""Objects in one answer."""

POLL_RATE = 100
"""Objects polled per second, at most; where there are more they are polled less often."""

FORCE_AFTER = 10.0
"""Seconds after which a pod that should end is no longer waited for."""

CLEAN_UP = 180.0
"""Seconds for all to go. After an outage, the cluster's controllers come back minutes later."""


class Cluster:
    """The objects in one namespace of the cluster that the user's kubeconfig names.

    Parameters
    ----------
    settings : Settings, optional

    Raises
    ------
    ClusterError
        If there is no usable kubeconfig.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings.load()
        self.connection = Connection(self.settings)
        self.namespace, self.address = self.connection.namespace, self.connection.address
        self.host = cluster_host(self.address)

    @property
    def calls(self) -> int:
        """How many requests there have been."""
        return self.connection.calls

    def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create an object, or return the one of its name that is there already."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            return self.connection.request("POST", kind, f"create {kind} {name}", body=manifest)
        except Exists:
            return self.connection.request("GET", kind, f"get {kind} {name}", name=name)

    def list(
        self, kind: str, selector: str = PART_OF, fields: str = ""
    ) -> Iterator[dict[str, Any]]:
        """Yield the objects of a kind with these labels, a page at a time, each once."""
        query: dict[str, Any] = {"labelSelector": selector, "fieldSelector": fields, "limit": PAGE}
        seen: set[str] = set()
        while True:
            try:
                page = self.connection.request("GET", kind, f"list {kind}s", query=query)
            except Expired:  # the list changed too much since its first page: from the start
                query.pop("continue")
                continue
            except Forbidden:
                if kind in OPTIONAL:
                    return
                raise
            for item in page["items"]:
                if (uid := item["metadata"]["uid"]) not in seen:
                    seen.add(uid)
                    yield item
            if not page["metadata"].get("continue"):
                return
            query["continue"] = page["metadata"]["continue"]

    @contextlib.contextmanager
    def log(self, pod: str, since: str = "", follow: bool = False) -> Iterator[Iterator[bytes]]:
        """Give the lines of a pod's log, each behind the time at which the node had it.

        A stream that breaks off ends the lines without an error: who needs all of them counts.

        Raises
        ------
        ClusterError
            If the log cannot be had, now.
        """
        query = {"container": CONTAINER, "timestamps": "true", "sinceTime": since}
        query |= {"follow": "true" if follow else ""}
        request = f"read the log of pod {pod}"
        answer = self.connection.stream("Pod", request, f"{pod}/log", query, endless=follow)
        try:
            yield _lines(answer)
        finally:
            # What is left unread must not stay in a connection that is used again.
            answer.close()
            answer.release_conn()

    def remove(self, selector: str) -> set[str]:
        """Delete all that is `OWNED` and has these labels; pods follow their Jobs.

        Returns
        -------
        set of str
            The uids of what is deleted.
        """
        deleted = set()
        for kind in OWNED:
            for item in list(self.list(kind, selector)):
                self._delete(kind, item, propagationPolicy="Background")
                deleted.add(item["metadata"]["uid"])
        return deleted

    def left(self, selector: str) -> list[str]:
        """Return what there is of what is `OWNED`, and of pods, with these labels."""
        return [f"{kind} {item['metadata']['name']}" for kind, item in self._left(selector)]

    def remove_and_check(self, selector: str, patience: float = CLEAN_UP) -> None:
        """Delete everything with these labels, and return when it is gone.

        Pods whose node does not end them are deleted by force. What somebody creates with the same
        labels meanwhile is left alone.

        Raises
        ------
        ClusterError
            If something is still there after `patience` seconds.
        """
        deleted = self.remove(selector)
        jobs = {job["metadata"]["uid"] for job in self.list("Job", selector)} | deleted
        deleted |= {
            pod["metadata"]["uid"] for pod in self.list("Pod", selector) if not _is_of(pod, jobs)
        }
        begin, forced = time.monotonic(), False
        while left := [found for found in self._left(selector) if _is_of(found[1], deleted)]:
            if not forced and time.monotonic() - begin > FORCE_AFTER:
                forced = True
                for kind, item in left:
                    if kind == "Pod":
                        self._delete(kind, item, gracePeriodSeconds=0)
            if time.monotonic() - begin > patience:
                names = [f"{kind} {item['metadata']['name']}" for kind, item in left]
                raise ClusterError(
                    f"deleted {patience:g} s ago, but still there: {', '.join(names[:5])}"
                    + f" and {len(names) - 5} more" * (len(names) > 5)
                    + f". kubectl get all -n {self.namespace} -l {selector} shows it."
                )
            time.sleep(max(0.3, len(left) / POLL_RATE))

    def _left(self, selector: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the objects with these labels, each with its kind."""
        for kind in (*OWNED, "Pod"):
            for item in self.list(kind, selector):
                yield kind, item

    def _delete(self, kind: str, item: dict[str, Any], **options: Any) -> None:
        """Delete an object, unless it is gone, or another of its name is there."""
        name, uid = item["metadata"]["name"], item["metadata"]["uid"]
        body = options | {"preconditions": {"uid": uid}}
        with contextlib.suppress(NotFound, Conflict):
            self.connection.request("DELETE", kind, f"delete {kind} {name}", name=name, body=body)


def _is_of(item: dict[str, Any], uids: set[str]) -> bool:
    """Whether an object is one of these, or is owned by one."""
    owners = item["metadata"].get("ownerReferences", [])
    return bool(uids & {item["metadata"]["uid"], *(owner["uid"] for owner in owners)})


def failure(job: dict[str, Any]) -> dict[str, Any]:
    """Return a Job's condition that it has failed; empty if it has not."""
    conditions = job["status"].get("conditions", [])
    return next((c for c in conditions if c["type"] == "Failed" and c["status"] == "True"), {})


def _lines(response: urllib3.HTTPResponse) -> Iterator[bytes]:
    rest = b""
    with contextlib.suppress(urllib3.exceptions.HTTPError, OSError):
        for piece in response.stream(65536):
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines
