"""What a cluster refuses, and what the user can do about it."""

from __future__ import annotations

import json

from labkit.errors import LabkitError


class ClusterError(LabkitError):
    """Something that the cluster refuses or cannot do; the message says what to do about it."""


class NotFound(ClusterError):
    """An object that is not there."""


class Conflict(ClusterError):
    """An object that is, or was meanwhile, another one than the request is about."""


class Exists(ClusterError):
    """An object of that name is there already."""


class Forbidden(ClusterError):
    """Something that labkit has no right to."""


class Expired(ClusterError):
    """The rest of a list that is no longer available."""


class NoRoom(ClusterError):
    """The cluster has no place for it now."""


def refusal(status: int, body: bytes, request: str, namespace: str, address: str) -> ClusterError:
    """Return the error for what the API server has answered.

    Parameters
    ----------
    status : int
        Of HTTP.
    body : bytes
        Of the answer.
    request : str
        What was asked for, such as ``create Job x``.
    namespace, address : str
        Where.
    """
    reason, message = status_of(body)
    message = message or f"HTTP {status}"
    where = f"namespace {namespace!r}"
    if status == 401:
        return ClusterError(
            f"the API server at {address} does not accept the credentials of your "
            f"kubeconfig ({request}: {message}). Log in again, or choose another context."
        )
    if "exceeded quota" in message:
        return NoRoom(quota_used_up(namespace, f"{request}: {message}"))
    if status == 404 and "namespaces " in message:
        return ClusterError(
            f"{where} does not exist ({request}). Create it: kubectl create namespace "
            f"{namespace}; or name another in cluster.toml."
        )
    if "denied the request" in message or "denied request" in message:
        return ClusterError(
            f"a policy of the cluster forbids to {request} in {where}: {message}. Whoever runs "
            "the cluster knows what it asks for; templates/trial.yaml.j2 is where to add that."
        )
    if status == 403:
        return Forbidden(
            f"labkit may not {request} in {where}: {message}. An administrator can allow it: "
            f"kubectl apply -n {namespace} -f templates/rbac.yaml"
        )
    kinds = {404: NotFound, 409: Conflict, 410: Expired}
    kind = Exists if reason == "AlreadyExists" else kinds.get(status, ClusterError)
    return kind(f"{request} in {where}: {message} (HTTP {status})")


def status_of(body: bytes) -> tuple[str, str]:
    """Return the reason and the message in an answer; who is no API server gives no reason."""
    try:
        content = json.loads(body)
        return content.get("reason", ""), content["message"]
    except (ValueError, TypeError, KeyError, AttributeError):
        return "", body.decode(errors="replace").strip()


def quota_used_up(namespace: str, message: str) -> str:
    """Return the message about a quota that leaves no room."""
    return (
        f"the quota of namespace {namespace!r} is used up ({message}). Fewer workers, a smaller "
        "`memory` or `cpu_request` in cluster.toml, or a larger quota may help; "
        f"kubectl describe quota -n {namespace} shows it."
    )
