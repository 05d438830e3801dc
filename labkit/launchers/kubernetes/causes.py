"""Why a pod cannot start, or has ended."""

from __future__ import annotations

from labkit.launchers.kubernetes.pods import Pod

UNPULLABLE = {"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}


UNSTARTABLE = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}


def cannot_start(pod: Pod, image: str) -> str:
    """Return why a pod's container cannot start, if it cannot."""
    waiting = pod.state.get("waiting", {})
    reason, message = waiting.get("reason"), waiting.get("message", "")
    if reason in UNPULLABLE:
        return (
            f"cannot get its image on node {pod.node} ({reason}: {message}). Is it built and "
            "pushed to where the nodes look for it? labkit image build, labkit image push; by "
            f"`image` in cluster.toml it is {image}."
        )
    if reason in UNSTARTABLE:
        return f"cannot be started on node {pod.node} ({reason}: {message})."
    return ""


def why_ended(pod: Pod, memory: str) -> str:
    """Return what ended a pod from outside, as the cluster tells it; empty if nothing did."""
    disruption = pod.condition("DisruptionTarget")
    said = disruption.get("message", "")
    ended = pod.state.get("terminated", {})
    if pod.status.get("reason") == "Evicted" or disruption.get("reason") == "TerminationByKubelet":
        said = pod.status.get("message") or said
        return f"was evicted {{phase}} by node {pod.node}, which is short of something: {said}"
    if ended.get("reason") == "OOMKilled":
        return (
            f"was killed {{phase}} because its memory, limited to {memory}, ran out. A smaller "
            "batch, or a larger `memory` in cluster.toml, may help"
        )
    match disruption.get("reason"):
        case "EvictionByEvictionAPI":
            return f"was evicted {{phase}}: is node {pod.node} being drained? {said}"
        case "PreemptionByScheduler":
            return f"had to leave {{phase}} for a pod of higher priority: {said}"
        case "DeletionByTaintManager" | "DeletionByPodGC":
            return f"lost its node {pod.node} {{phase}}: {said}"
    if pod.deleted:
        return "was deleted {phase} by somebody else"
    return ""
