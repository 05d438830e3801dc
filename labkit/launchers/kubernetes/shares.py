"""The share of a core that each pod of a slow trial has, once its workers are ready."""

from __future__ import annotations

import contextlib
from concurrent.futures import Executor

from labkit.launchers.kubernetes.api import CONTAINER, Cluster
from labkit.launchers.kubernetes.errors import ClusterError, Forbidden, NotFound
from labkit.launchers.kubernetes.pods import Inventory, Pod
from labkit.launchers.tracking import Tracker
from labkit.trials import TrialError


class Shares:
    """Gives pods less of a core while they run: to start with less of it takes minutes.

    Parameters
    ----------
    cluster : Cluster
    tracker : Tracker
        Of a trial.
    pods : Inventory
        Those of the trial.
    """

    def __init__(self, cluster: Cluster, tracker: Tracker, pods: Inventory) -> None:
        self._cluster, self._tracker, self._pods = cluster, tracker, pods
        self._cpu = tracker.trial.cpu
        self._limited: set[str] = set()

    def update(self, pool: Executor) -> None:
        """Limit the pods whose turn has come: each worker's when it is ready, then all others.

        Raises
        ------
        ClusterError
            If the cluster does not.
        """
        if not self._cpu:
            return
        workers = range(self._tracker.trial.workers)
        ready = {i for i in workers if self._tracker.ready(f"worker-{i}")}
        due = [
            pod
            for pod in self._pods
            if pod.name not in self._limited
            and pod.phase == "Running"
            and (len(ready) == len(workers) or (pod.component == "worker" and pod.index in ready))
        ]
        list(pool.map(self._limit, due))
        self._limited |= {pod.name for pod in due}

    def _limit(self, pod: Pod) -> None:
        limits = {"limits": {"cpu": f"{1000 * self._cpu:.0f}m"}}
        body = {"spec": {"containers": [{"name": CONTAINER, "resources": limits}]}}
        try:
            self._cluster.connection.request(
                "PATCH", "Pod", f"resize pod {pod.name}", name=f"{pod.name}/resize", body=body
            )
        except NotFound as error:
            raise ClusterError(
                f"{pod} cannot have {self._cpu:g} of a core: either it has ended, and the trial "
                "needs more steps, or the cluster is older than Kubernetes 1.33, which began to "
                f"resize running pods; leave out cpu there ({error})"
            ) from None


def check_rights(cluster: Cluster) -> None:
    """Make sure that labkit may resize pods.

    Raises
    ------
    TrialError
        If it may not.
    """
    kind, asked = "SelfSubjectAccessReview", {"namespace": cluster.namespace, "verb": "patch"}
    review = {
        "kind": kind, "apiVersion": "authorization.k8s.io/v1",
        "spec": {"resourceAttributes": asked | {"resource": "pods", "subresource": "resize"}},
    }  # fmt: skip
    with contextlib.suppress(Forbidden):  # where nobody may ask, trying tells
        answer = cluster.connection.request("POST", kind, "ask for its rights", body=review)
        if not answer["status"]["allowed"]:
            raise TrialError(
                f"cpu: labkit may not resize pods in namespace {cluster.namespace!r}, to give "
                "each its share of a core. An administrator can allow it: kubectl apply "
                f"-n {cluster.namespace} -f templates/rbac.yaml"
            )
