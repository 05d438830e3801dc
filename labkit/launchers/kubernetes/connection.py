"""The connection to a cluster's API server, which may be away for a while."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from pathlib import Path
from typing import Any

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from labkit.errors import nearest
from labkit.launchers.kubernetes.errors import ClusterError, refusal, status_of
from labkit.launchers.kubernetes.settings import Settings

FIRST_PATIENCE = 5.0
"""Seconds for which an API server that has never answered may not; later, the settings say."""

REFUSAL_PATIENCE = 25.0
"""Seconds for which one that answers may fail at what it is asked, such as at a webhook."""

RESTART = 60.0
"""Seconds after an outage in which it may know neither tokens nor roles yet."""

PAUSES = (0.3, 3.0)
"""Seconds between two tries: at first, and at most."""

CONNECTIONS = 8
"""To the API server, at most."""

TIMEOUT = (3.0, 10.0)
"""Seconds to connect, and between two pieces of an answer."""

CREATION_TIMEOUT = (3.0, 35.0)
"""The same where webhooks are asked, which may take 30 s."""

JSON, PATCH = "application/json", "application/strategic-merge-patch+json"
"""What requests and answers hold: an object, or what is to change in one."""

PATHS = {
    "Job": "/apis/batch/v1/namespaces/{namespace}/jobs",
    "Service": "/api/v1/namespaces/{namespace}/services",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies",
    "Pod": "/api/v1/namespaces/{namespace}/pods",
    "Event": "/api/v1/namespaces/{namespace}/events",
    "Node": "/api/v1/nodes",
    "SelfSubjectAccessReview": "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "Pod of any namespace": "/api/v1/pods",
}


class Connection:
    """A connection to the API server of the user's kubeconfig, in one namespace.

    Parameters
    ----------
    settings : Settings

    Attributes
    ----------
    namespace, address : str
        Where all requests go.
    patience : float
        Seconds for which the API server may be away, once it has answered. May be changed while
        requests are waiting, as when nobody wants their answers any more.

    Raises
    ------
    ClusterError
        If there is no usable kubeconfig.
    """

    def __init__(self, settings: Settings) -> None:
        self.patience = settings.patience
        self._client = _Client(settings)
        self.namespace, self.address = self._client.namespace, self._client.address
        self._answered = False
        self._outage = -math.inf

    @property
    def calls(self) -> int:
        """How many requests there have been."""
        return self._client.calls

    def request(
        self,
        method: str,
        kind: str,
        request: str,
        name: str = "",
        query: dict[str, Any] | None = None,
        body: Any = None,
    ) -> dict[str, Any]:
        """Call the API until it answers; for a while if it has answered before.

        Parameters
        ----------
        method : str
            Of HTTP.
        kind : str
            One of `PATHS`.
        request : str
            What is asked for, in words.
        name : str
            Of one object.
        query, body : optional

        Raises
        ------
        ClusterError
            If the API server refuses, or does not answer for `patience` seconds.
        """
        timeout = CREATION_TIMEOUT if method == "POST" else TIMEOUT
        begin, pause = time.monotonic(), PAUSES[0]
        while True:
            now, again = time.monotonic(), 0.0
            patience = self.patience if self._answered else FIRST_PATIENCE
            try:
                answer = self._client.send(method, kind, name, query or {}, body, timeout)
                content = answer.read()
                answer.release_conn()
                if answer.status < 300:
                    self._answered = True
                    return json.loads(content)
                limit = _limit(method, answer.status, content, now - self._outage)
                if now - begin >= min(limit, patience):
                    raise refusal(answer.status, content, request, self.namespace, self.address)
                wish = answer.headers.get("Retry-After", "")
                again = float(wish) if wish.isdigit() else 0.0
            except (ApiException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                self._outage = time.monotonic()
                if self._outage - begin >= patience:
                    cause = getattr(error, "reason", None) or error
                    raise ClusterError(
                        f"the API server at {self.address} has not answered for "
                        f"{self._outage - begin:.0f} s ({request}: {cause}). Is the cluster up, "
                        "and is it the one your kubeconfig should point at? `kubectl "
                        "cluster-info` shows it. What was started there ends by itself at its "
                        "deadline."
                    ) from None
            time.sleep(min(max(pause, again), REFUSAL_PATIENCE))
            pause = min(2 * pause, PAUSES[1])

    def stream(
        self, kind: str, request: str, name: str, query: dict[str, Any], endless: bool
    ) -> urllib3.HTTPResponse:
        """Call the API once, and return an answer that is still to be read.

        Parameters
        ----------
        kind, request, name, query
            As in `request`.
        endless : bool
            Whether the answer may pause for any time.

        Raises
        ------
        ClusterError
            If the API server refuses, or does not answer.
        """
        timeout = (TIMEOUT[0], None) if endless else TIMEOUT
        try:
            answer = self._client.send("GET", kind, name, query, None, timeout)
            if answer.status != 200:
                content = answer.read()
                raise refusal(answer.status, content, request, self.namespace, self.address)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ClusterError(f"{request}: {error}") from None
        return answer


class _Client:
    """The client of the user's kubeconfig, which is read again when its credentials expire.

    Parameters
    ----------
    settings : Settings
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.namespace, self._api = _connect(settings)
        self.address = self._api.configuration.host
        self._renewal = threading.Lock()
        self.calls = 0

    def send(
        self,
        method: str,
        kind: str,
        name: str,
        query: dict[str, Any],
        body: Any,
        timeout: tuple[float, float | None],
    ) -> urllib3.HTTPResponse:
        """Send a request; once more if the credentials had expired."""
        path = PATHS[kind].format(namespace=self.namespace) + (f"/{name}" if name else "")
        given = [(key, value) for key, value in query.items() if value]
        for renewed in (False, True):
            api = self._api
            self.calls += 1
            kind_of_body = PATCH if method == "PATCH" else JSON
            _, url, headers, content, _ = api.param_serialize(
                method, path, query_params=given, body=body,
                header_params={"Accept": JSON, "Content-Type": kind_of_body},
                auth_settings=["BearerToken"],
            )  # fmt: skip
            answer = api.rest_client.request(
                method, url, headers=headers, body=content, _request_timeout=timeout
            ).response
            if answer.status != 401 or renewed:
                break
            answer.close()
            with self._renewal:
                if self._api is api:  # no other thread has renewed them
                    self._api = _connect(self._settings)[1]
        return answer


def _limit(method: str, status: int, content: bytes, since_outage: float) -> float:
    """Return for how many seconds a request that is answered like this is tried again."""
    reason, message = status_of(content)
    if status in (401, 403):
        return RESTART if since_outage < RESTART else 0.0
    if status == 409 and method == "POST" and reason == "Conflict":  # of others' quotas
        return REFUSAL_PATIENCE
    if status == 500 and "webhook" in message:
        return REFUSAL_PATIENCE
    return math.inf if status in (429, 500, 502, 503, 504) else 0.0


def _connect(settings: Settings) -> tuple[str, client.ApiClient]:
    """Return the namespace, and the client for the kubeconfig's API server."""
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
    except (yaml.YAMLError, TypeError, AttributeError, ValueError, OSError) as error:
        where = path or config.KUBE_CONFIG_DEFAULT_LOCATION
        raise ClusterError(f"{where} is no kubeconfig that can be read: {error}") from None
    except config.ConfigException as error:
        if "KUBERNETES_SERVICE_HOST" not in os.environ:
            why = str(error).rstrip(".")
            raise ClusterError(
                f"no usable kubeconfig ({why}). Point KUBECONFIG at one, such as kind's, "
                "minikube's, or that of your provider's `get-credentials`."
            ) from None
        try:
            config.load_incluster_config(configuration)
            account = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
            namespace = settings.namespace or account.read_text()
        except (config.ConfigException, OSError) as failure:
            raise ClusterError(
                f"there is no kubeconfig, and this pod has no token for its cluster ({failure}). "
                "Give it a service account (templates/rbac.yaml), with "
                "automountServiceAccountToken: true, or a kubeconfig."
            ) from None
    return namespace, client.ApiClient(configuration)
