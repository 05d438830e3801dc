"""Whether a trial finds room in the cluster: on its nodes, within its quotas."""

from __future__ import annotations

import time
from decimal import Decimal

from kubernetes.utils import parse_quantity

from labkit.launchers.kubernetes.api import Cluster
from labkit.launchers.kubernetes.errors import ClusterError, quota_used_up
from labkit.launchers.kubernetes.pods import Inventory, Pod, seconds
from labkit.launchers.kubernetes.submission import Submission
from labkit.launchers.protocol import NoRoomForTrial, TrialFailed

RESOURCES = ("cpu", "memory")

NODES_LISTED = 5
"""How many nodes are named when there is no room, at most."""


def check_scheduled(cluster: Cluster, submission: Submission, pods: Inventory) -> None:
    """Make sure that no pod has waited for a node for too long.

    Raises
    ------
    NoRoomForTrial
        Saying what each pod asks for, and what the nodes have left.
    """
    unschedulable = [pod for pod in pods if _scheduled(pod).get("reason") == "Unschedulable"]
    if not unschedulable:
        return
    since = min(seconds(_scheduled(pod)["lastTransitionTime"]) for pod in unschedulable)
    if time.time() - since < cluster.settings.wait_for_room:
        return
    pod = max(unschedulable, key=lambda pod: pod.component == "worker")
    requests = submission.containers[pod.component]["resources"]["requests"]
    placed = sum(bool(p.node) for p in pods)
    message = _scheduled(pod)["message"]
    if "anti-affinity" in message and not cluster.settings.share_nodes:
        message += (
            " Another trial, perhaps of another namespace, may have its node for itself: wait "
            "for its end, or set `share_nodes` in cluster.toml."
        )
    raise NoRoomForTrial(
        f"{submission.trial.name}: {len(unschedulable)} of {pods.total} pods find no "
        f"node ({placed} did). Each {pod.component} requests cpu {requests['cpu']} and memory "
        f"{requests['memory']}; {_describe_free(cluster)}. The scheduler says: {message} Fewer "
        "workers, a smaller `cpu_request` or `memory_request` in cluster.toml, or more nodes "
        "may help; where nodes are added on demand, a longer `wait_for_room`."
    )


def check_created(cluster: Cluster, submission: Submission, kind: str, job_uid: str) -> None:
    """Make sure that nothing forbids the cluster to create the pods of a Job.

    Parameters
    ----------
    cluster : Cluster
    submission : Submission
    kind : str
        Of the pods.
    job_uid : str
        Of the Job: there may have been one of that name before.

    Raises
    ------
    NoRoomForTrial
        If a quota does.
    TrialFailed
        If something else does.
    """
    trial = submission.trial.name
    fields = f"involvedObject.uid={job_uid},reason=FailedCreate"
    for event in cluster.list("Event", selector="", fields=fields):
        message = event["message"]
        if "exceeded quota" in message:
            raise NoRoomForTrial(f"{trial}: {quota_used_up(cluster.namespace, message)}")
        where = f"{trial}: pods of {kind}s cannot be created: "
        if "violates PodSecurity" in message:
            raise TrialFailed(
                f"{where}the namespace's pod security refuses them: {message}. labkit's own pods "
                "meet the level `restricted`: has templates/trial.yaml.j2 been changed?"
            )
        raise TrialFailed(f"{where}{message}")


def free_resources(cluster: Cluster) -> dict[str, tuple[Decimal, Decimal]]:
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
        for node in cluster.list("Node", "")
        if not node["spec"].get("unschedulable")
    }
    running = "status.phase!=Succeeded,status.phase!=Failed"
    for pod in cluster.list("Pod of any namespace", "", running):
        node = room.get(pod["spec"].get("nodeName"))
        for container in pod["spec"]["containers"] if node else []:
            requests = container["resources"].get("requests", {})
            for i, kind in enumerate(RESOURCES):
                node[i] -= parse_quantity(requests.get(kind, 0))
    return {name: (cpu, memory) for name, (cpu, memory) in room.items()}


def _scheduled(pod: Pod) -> dict[str, str]:
    return pod.condition("PodScheduled")


def _describe_free(cluster: Cluster) -> str:
    """Describe what the nodes have left; a user's rights may not let labkit see it."""
    try:
        nodes = free_resources(cluster)
    except ClusterError:
        return "you may not see what is free (templates/rbac-nodes.yaml would allow it)"
    most = sorted(nodes.items(), key=lambda node: node[1], reverse=True)[:NODES_LISTED]
    listing = ", ".join(
        f"{name} cpu {cpu:.2f} and memory {memory / 2**30:.1f}Gi" for name, (cpu, memory) in most
    )
    more = f" and {len(nodes) - len(most)} nodes with less" * (len(nodes) > len(most))
    return f"free: {listing}{more}" if nodes else "there are no nodes"
