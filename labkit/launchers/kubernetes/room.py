"""Whether a trial finds room in the cluster: on its nodes, within its quotas."""

from __future__ import annotations

import math
import re
import time
from decimal import Decimal

from kubernetes.utils import parse_quantity

from labkit.launchers.kubernetes import owners
from labkit.launchers.kubernetes.api import INSTANCE, PART_OF, Cluster
from labkit.launchers.kubernetes.errors import ClusterError, quota_used_up
from labkit.launchers.kubernetes.manifests import DEADLINE_MARGIN
from labkit.launchers.kubernetes.pods import Inventory, Pod
from labkit.launchers.kubernetes.submission import Submission
from labkit.launchers.protocol import NoRoomForTrial, OnEvent, TrialFailed, Waiting

RESOURCES = ("cpu", "memory")

NODES_LISTED = 5
"""How many nodes are named when there is no room, at most."""

ASK_INTERVAL = 5.0
"""Seconds between two looks at who has the room."""

IN_LINE = DEADLINE_MARGIN - 60.0
"""Seconds that pods without a node stay, beyond `wait_for_room`, before they are created anew: the
cluster's own deadline of a trial counts them."""

PASSING = re.compile(
    "failed calling webhook|deadline exceeded|timed out|timeout|connection refused"
    "|has been modified|unable to handle|[Ii]nternal error|[Tt]oo many requests|etcdserver"
)
"""Reasons for which a pod was not created, and for which its Job tries again."""

RETRIED = 120.0
"""Seconds for which a Job may try in vain to create its pods."""

OF_TEMPLATE = (
    "labkit's own pods meet the level `restricted`: has templates/trial.yaml.j2 been changed?"
)
"""What may be wrong where a namespace's security refuses a trial's pods."""

OF_BANDWIDTH = (
    "To limit a pod's network takes NET_ADMIN, in a container that ends before training begins, "
    "and so the level `privileged`; leave out bandwidth, or use a namespace that allows it"
)
"""What is wrong where it refuses those of a trial with a bandwidth."""


class Crowded(NoRoomForTrial):
    """Other trials have the room; this one must let go of what it has, or two wait for each other.

    Attributes
    ----------
    others : set of str
        The names of the trials in the namespace that have room.
    """

    def __init__(self, message: str, others: set[str]) -> None:
        super().__init__(message)
        self.others = others


class Room:
    """Whether a trial finds room in the cluster, and for whom it waits.

    Parameters
    ----------
    cluster : Cluster
    submission : Submission
    on_event : callable
        Learns what is waited for.

    Attributes
    ----------
    waited : float
        Seconds for which pods have been without a node. By this machine's clock alone: the
        cluster's may be another.
    """

    def __init__(self, cluster: Cluster, submission: Submission, on_event: OnEvent) -> None:
        self._cluster, self._submission, self._on_event = cluster, submission, on_event
        self.waited = self._before = 0.0
        self._since = math.nan  # when pods were first seen to be without a node
        self._asked = -math.inf
        self._refused: dict[str, float] = {}  # when a pod's creation was first seen to fail

    def check_scheduled(self, pods: Inventory) -> bool:
        """Return whether pods wait for a node.

        They may do so for `wait_for_room` seconds; and for longer as long as other trials have
        that room, and they themselves hold none.

        Raises
        ------
        NoRoomForTrial
            Saying what each pod asks for, and what the nodes have left.
        """
        reasons = {pod.name: _scheduled(pod).get("reason") for pod in pods}
        now, settings = time.monotonic(), self._cluster.settings
        if not {"Unschedulable", "SchedulingGated"} & {*reasons.values()}:
            self._before, self._since = self.waited, math.nan
            return False
        self._since = now if math.isnan(self._since) else self._since
        self.waited = self._before + now - self._since
        unschedulable = [pod for pod in pods if reasons[pod.name] == "Unschedulable"]
        if not unschedulable:
            self._on_event(Waiting(f"the queue {settings.queue} to admit it"))
            return True
        here = now - self._since
        if here < settings.wait_for_room or now - self._asked < ASK_INTERVAL:
            return True
        self._asked = now
        owners.remove(self._cluster, owners.left_behind(self._cluster))
        others = self._others(_scheduled(unschedulable[0])["message"])
        message = self._no_room(pods, unschedulable)
        if not others:
            raise NoRoomForTrial(message)
        if any(pod.node for pod in pods) or here > settings.wait_for_room + IN_LINE:
            raise Crowded(message, set(others))
        self._on_event(Waiting(f"the room of {', '.join(sorted(others.values()))}"))
        return True

    def check_created(self, kind: str, job_uid: str) -> bool:
        """Return whether pods of a Job wait to be created.

        Parameters
        ----------
        kind : str
            Of the pods.
        job_uid : str
            Of the Job: there may have been one of that name before.

        Raises
        ------
        NoRoomForTrial
            If a quota forbids it.
        TrialFailed
            If something else does.
        """
        trial = self._submission.trial.name
        fields = f"involvedObject.uid={job_uid},reason=FailedCreate"
        message = ""
        for event in self._cluster.list("Event", selector="", fields=fields):
            message = event["message"]
            if not PASSING.search(message):
                break
        if not message:
            return False
        if "exceeded quota" in message:
            error = f"{trial}: {quota_used_up(self._cluster.namespace, message)}"
            others = {name for name in self._others("") if "/" not in name}
            raise Crowded(error, others) if others else NoRoomForTrial(error)
        since = self._refused.setdefault(job_uid, time.monotonic())
        if PASSING.search(message) and time.monotonic() - since < RETRIED:
            self._on_event(Waiting(f"its {kind}s to be created: {message[:80]}"))
            return True
        where = f"{trial}: pods of {kind}s cannot be created: "
        if "violates PodSecurity" in message:
            raise TrialFailed(
                f"{where}the namespace's pod security refuses them: {message}. "
                f"{OF_BANDWIDTH if self._submission.trial.bandwidth else OF_TEMPLATE}"
            )
        raise TrialFailed(f"{where}{message}")

    def _others(self, scheduler: str) -> dict[str, str]:
        """Return the other trials that have room, each in words.

        They are known by their names, with the namespace and a slash before it in another one.
        Those count if labkit may see them, or if the scheduler has said that there is one.
        """
        cluster, own = self._cluster, self._submission.name
        placed = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        try:
            pods = list(cluster.list("Pod of any namespace", PART_OF, placed))
        except ClusterError:
            pods = list(cluster.list("Pod", PART_OF, placed))
        users = {n: owner.user for n, owner in owners.owners(cluster).items() if owner}
        found = {}
        for pod in pods:
            name, namespace = pod["metadata"]["labels"][INSTANCE], pod["metadata"]["namespace"]
            if namespace != cluster.namespace:
                found[f"{namespace}/{name}"] = f"{name} in namespace {namespace!r}"
            elif name != own:
                found[name] = f"{name} of {users[name]}" if name in users else name
        settings = cluster.settings
        apart = settings.share_nodes or settings.one_worker_per_node
        if not found and "anti-affinity" in scheduler and not apart:
            return {"?": "another trial, perhaps of another namespace"}
        return found

    def _no_room(self, pods: Inventory, unschedulable: list[Pod]) -> str:
        submission, settings = self._submission, self._cluster.settings
        pod = max(unschedulable, key=lambda pod: pod.component == "worker")
        requests = submission.containers[pod.component]["resources"]["requests"]
        placed = sum(bool(p.node) for p in pods)
        message = _scheduled(pod)["message"]
        if "anti-affinity" in message and not settings.share_nodes:
            message += (
                " Another trial, perhaps of another namespace, may have its node for itself: wait "
                "for its end, or set `share_nodes` in cluster.toml."
            )
        return (
            f"{submission.trial.name}: {len(unschedulable)} of {pods.total} pods find no "
            f"node ({placed} did). Each {pod.component} requests cpu {requests['cpu']} and memory "
            f"{requests['memory']}; {_describe_free(self._cluster)}. The scheduler says: "
            f"{message} Fewer workers, a smaller `cpu_request` or `memory_request` in "
            "cluster.toml, or more nodes may help; where nodes are added on demand, a longer "
            "`wait_for_room`."
        )


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
