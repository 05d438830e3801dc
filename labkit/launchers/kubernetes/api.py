"""What labkit asks of a cluster's API.

Everything is asked anew each time rather than watched: an answer that is lost, an API server that
restarts or a connection that stalls then costs a second and no state. Lists come in pages and are
never held as the client's objects, so that a thousand pods need little memory.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.utils import parse_quantity

from labkit.errors import LabkitError, nearest
from labkit.launchers.kubernetes.settings import Settings

PART_OF = "app.kubernetes.io/part-of=labkit"


INSTANCE = "app.kubernetes.io/instance"


PATIENCE = 25.0
"""Seconds for which an API server may not answer, before that ends a trial."""


FIRST_PATIENCE = 5.0
"""The same for one that has never answered."""


FORCE_AFTER = 10.0
"""Seconds after which a pod that was told to leave is no longer waited for."""


CONNECTIONS = 8
"""To the API server, at most."""


PATHS = {
    "Job": "/apis/batch/v1/namespaces/{namespace}/jobs",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "Event": "/api/v1/namespaces/{namespace}/events",
    "Node": "/api/v1/nodes",
    "Pod of any namespace": "/api/v1/pods",
}


OWNED = ("Job", "Service", "ConfigMap")
"""What labkit creates."""


RESOURCES = ("cpu", "memory")


PAGE = 100
"""Objects in one answer."""


TIMEOUT = (3.0, 10.0)
"""Seconds to connect, and between two pieces of an answer."""


class ClusterError(LabkitError):
    """Something that the cluster refuses or cannot do; the message says what to do about it."""


class Cluster:
    """A connection to the API server of the user's kubeconfig, in one namespace.

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
        self.namespace, self._api = _connect(self.settings)
        self.address = self._api.configuration.host
        self.calls = 0
        self._answered = False
        self._outage = -math.inf

    def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create an object, or return the one of its name that is there already."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            return self._ask("POST", kind, f"create {kind} {name}", body=manifest)
        except Exists:
            return self._ask("GET", kind, f"get {kind} {name}", name=name)

    def list(
        self, kind: str, selector: str = PART_OF, fields: str = ""
    ) -> Iterator[dict[str, Any]]:
        """Yield the objects of a kind with these labels, a page at a time, each once."""
        query: dict[str, Any] = {"labelSelector": selector, "fieldSelector": fields, "limit": PAGE}
        seen: set[str] = set()
        while True:
            try:
                page = self._ask("GET", kind, f"list {kind}s", query=query)
            except Expired:  # the list changed too much since its first page: from the start
                query.pop("continue")
                continue
            for item in page["items"]:
                if (uid := item["metadata"]["uid"]) not in seen:
                    seen.add(uid)
                    yield item
            if not page["metadata"].get("continue"):
                return
            query["continue"] = page["metadata"]["continue"]

    def refusals(self, job: dict[str, Any]) -> list[str]:
        """Return why pods of a Job, not of one before it of that name, could not be created."""
        fields = f"involvedObject.uid={job['metadata']['uid']},reason=FailedCreate"
        return [event["message"] for event in self.list("Event", selector="", fields=fields)]

    def free(self) -> dict[str, tuple[Decimal, Decimal]]:
        """Return how many cores and bytes of memory no pod has reserved on each node.

        Raises
        ------
        ClusterError
            If labkit may not know: it needs ``templates/rbac-nodes.yaml``.
        """
        room = {
            node["metadata"]["name"]: [
                parse_quantity(node["status"]["allocatable"][kind]) for kind in RESOURCES
            ]
            for node in self.list("Node", "")
            if not node["spec"].get("unschedulable")
        }
        running = "status.phase!=Succeeded,status.phase!=Failed"
        for pod in self.list("Pod of any namespace", "", running):
            node = room.get(pod["spec"].get("nodeName"))
            for container in pod["spec"]["containers"] if node else []:
                requests = container["resources"].get("requests", {})
                for i, kind in enumerate(RESOURCES):
                    node[i] -= parse_quantity(requests.get(kind, 0))
        return {name: (cpu, memory) for name, (cpu, memory) in room.items()}

    @contextlib.contextmanager
    def log(self, pod: str, since: str = "", follow: bool = False) -> Iterator[Iterator[bytes]]:
        """Give the lines of a pod's log, each with the time at which the node wrote it.

        A stream that breaks off ends the lines without an error: who needs all of them counts.

        Raises
        ------
        ClusterError
            If the log cannot be had, now.
        """
        query = {"timestamps": "true", "sinceTime": since, "follow": "true" if follow else ""}
        doing = f"read the log of pod {pod}"
        timeout = (TIMEOUT[0], None) if follow else TIMEOUT
        try:
            answer = self._send("GET", "Pod", f"{pod}/log", query, None, timeout).response
            if answer.status != 200:
                raise self._refused(answer.status, answer.read(), doing)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ClusterError(f"{doing}: {error}") from None
        try:
            yield _lines(answer)
        finally:
            # What is left unread must not stay in a connection that is used again.
            answer.close()
            answer.release_conn()

    def remove(self, selector: str) -> None:
        """Delete the Jobs, Services and ConfigMaps with these labels; pods follow their Jobs."""
        for kind in OWNED:
            for item in list(self.list(kind, selector)):
                self._delete(kind, item["metadata"]["name"], propagationPolicy="Background")

    def _delete(self, kind: str, name: str, **how: Any) -> None:
        with contextlib.suppress(NotFound):
            self._ask("DELETE", kind, f"delete {kind} {name}", name=name, body=how)

    def left(self, selector: str) -> list[str]:
        """Return what there is of Jobs, pods, Services and ConfigMaps with these labels."""
        return [
            f"{kind} {item['metadata']['name']}"
            for kind in (*OWNED, "Pod")
            for item in self.list(kind, selector)
        ]

    def remove_and_check(self, selector: str, patience: float = 60.0) -> None:
        """Delete everything with these labels, and return when it is gone.

        Pods whose node does not end them are taken out of the cluster's books by force.

        Raises
        ------
        ClusterError
            If something is still there after `patience` seconds.
        """
        self.remove(selector)
        begin, forced = time.monotonic(), False
        while left := self.left(selector):
            if not forced and time.monotonic() - begin > FORCE_AFTER:
                forced = True
                for pod in list(self.list("Pod", selector)):
                    self._delete("Pod", pod["metadata"]["name"], gracePeriodSeconds=0)
            if time.monotonic() - begin > patience:
                raise ClusterError(
                    f"deleted {patience:g} s ago, but still there: {', '.join(left[:5])}"
                    + f" and {len(left) - 5} more" * (len(left) > 5)
                    + f". kubectl get all -n {self.namespace} -l {selector} shows it."
                )
            time.sleep(0.3)

    # --- asking ---------------------------------------------------------------------------------

    def _send(
        self,
        method: str,
        kind: str,
        name: str,
        query: dict[str, Any],
        body: Any,
        timeout: tuple[float, float | None],
    ) -> Any:
        self.calls += 1
        path = PATHS[kind].format(namespace=self.namespace) + (f"/{name}" if name else "")
        asked = {key: value for key, value in query.items() if value}
        method, url, headers, body, _ = self._api.param_serialize(
            method, path, query_params=list(asked.items()), body=body,
            header_params={"Accept": "application/json", "Content-Type": "application/json"},
            auth_settings=["BearerToken"],
        )  # fmt: skip
        return self._api.rest_client.request(
            method, url, headers=headers, body=body, _request_timeout=timeout
        )

    def _ask(
        self,
        method: str,
        kind: str,
        doing: str,
        name: str = "",
        query: dict[str, Any] | None = None,
        body: Any = None,
    ) -> dict[str, Any]:
        """Call the API until it answers; for a while if it has answered before."""
        patience = PATIENCE if self._answered else FIRST_PATIENCE
        begin = time.monotonic()
        while True:
            now = time.monotonic()
            try:
                answer = self._send(method, kind, name, query or {}, body, TIMEOUT).response
                said = answer.read()
                answer.release_conn()
                if answer.status < 300:
                    self._answered = True
                    return json.loads(said)
                passing = answer.status in (429, 500, 502, 503, 504)
                # An API server that has just started knows no roles yet.
                passing |= answer.status == 403 and now - self._outage < 10
                if not passing or now - begin > patience:
                    raise self._refused(answer.status, said, doing)
            except (ApiException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                self._outage = time.monotonic()
                if self._outage - begin > patience:
                    cause = getattr(error, "reason", None) or error
                    raise ClusterError(
                        f"the API server at {self.address} has not answered for "
                        f"{self._outage - begin:.0f} s ({doing}: {cause}). Is the cluster up, and "
                        "is it the one your kubeconfig should point at? `kubectl cluster-info` "
                        "tells. What was started there ends by itself at its deadline."
                    ) from None
            time.sleep(0.3)

    def _refused(self, status: int, body: bytes, doing: str) -> ClusterError:
        """Return the API server's refusal in words that say what to do."""
        try:
            said = json.loads(body)["message"]
        except (ValueError, TypeError, KeyError):
            said = body.decode(errors="replace").strip() or f"HTTP {status}"
        where = f"namespace {self.namespace!r}"
        if status == 401:
            return ClusterError(
                f"the API server at {self.address} does not accept the credentials of your "
                f"kubeconfig ({doing}: {said}). Log in again, or choose another context."
            )
        if "exceeded quota" in said:
            return NoRoom(quota_used_up(self.namespace, f"{doing}: {said}"))
        if status == 404 and "namespaces " in said:
            return ClusterError(
                f"{where} does not exist ({doing}). Create it: kubectl create namespace "
                f"{self.namespace}; or name another in cluster.toml."
            )
        if status == 403:
            return ClusterError(
                f"labkit may not {doing} in {where}: {said}. An administrator can allow it: "
                f"kubectl apply -n {self.namespace} -f templates/rbac.yaml"
            )
        kind = {404: NotFound, 409: Exists, 410: Expired}.get(status, ClusterError)
        return kind(f"{doing} in {where}: {said} (HTTP {status})")


def failure(job: dict[str, Any]) -> dict[str, Any]:
    """Return a Job's condition that it has failed; empty if it has not."""
    conditions = job["status"].get("conditions", [])
    return next((c for c in conditions if c["type"] == "Failed" and c["status"] == "True"), {})


def quota_used_up(namespace: str, said: str) -> str:
    """Return what to say of a quota that leaves no room."""
    return (
        f"the quota of namespace {namespace!r} is used up ({said}). Fewer workers, a smaller "
        "`memory` or `cpu_request` in cluster.toml, or a larger quota may help; "
        f"kubectl describe quota -n {namespace} shows it."
    )


class NotFound(ClusterError):
    """An object that is not there."""


class Exists(ClusterError):
    """An object of that name is there already."""


class Expired(ClusterError):
    """The rest of a list that is no longer available."""


class NoRoom(ClusterError):
    """The cluster has no place for it now."""


def _connect(settings: Settings) -> tuple[str, client.ApiClient]:
    path = os.environ.get("KUBECONFIG") or None
    configuration = client.Configuration(retries=0, connection_pool_maxsize=CONNECTIONS)
    try:
        contexts, active = config.list_kube_config_contexts(path)
        if settings.context:
            known = {context["name"]: context for context in contexts}
            if settings.context not in known:
                raise ClusterError(
                    f"your kubeconfig has no context {settings.context!r}"
                    f"{nearest(settings.context, known)}; known: {', '.join(known)}"
                )
            active = known[settings.context]
        namespace = settings.namespace or active["context"].get("namespace") or "default"
        config.load_kube_config(path, active["name"], configuration)
    except config.ConfigException as error:
        if "KUBERNETES_SERVICE_HOST" not in os.environ:
            raise ClusterError(
                f"no usable kubeconfig ({error}). Point KUBECONFIG at one, such as kind's, "
                "minikube's, or that of your provider's `get-credentials`."
            ) from None
        config.load_incluster_config(configuration)
        account = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
        namespace = settings.namespace or account.read_text()
    return namespace, client.ApiClient(configuration)


def _lines(response: urllib3.HTTPResponse) -> Iterator[bytes]:
    rest = b""
    with contextlib.suppress(urllib3.exceptions.HTTPError, OSError):
        for piece in response.stream(65536):
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines
