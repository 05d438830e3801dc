"""Why a pod cannot start or has ended, and which replica was the first to fail."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from labkit.launchers.kubernetes import manifests
from labkit.launchers.kubernetes.logs import Logs
from labkit.launchers.kubernetes.pods import Pod
from labkit.launchers.kubernetes.submission import Submission
from labkit.launchers.protocol import TrialFailed
from labkit.launchers.tracking import Tracker, tail
from labkit.replicas import podlog

UNPULLABLE = {"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}

UNSTARTABLE = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

UNSTARTED = {"StartError", "ContainerCannotRun"}

REFUSED_BY_NODE = ("OutOf", "UnexpectedAdmissionError", "NodeAffinity", "TopologyAffinityError")
"""Beginnings of the reasons for which a node does not take a pod that the scheduler gave it."""

ENDED_BY_POD = (0, -15)
"""The exit codes of a replica that its pod has ended because of another one."""


def cannot_start(pod: Pod, submission: Submission) -> str:
    """Return why a pod's container cannot start, if it cannot."""
    waiting, image = pod.state.get("waiting", {}), submission.image
    reason, message = waiting.get("reason"), waiting.get("message", "")
    if reason in UNPULLABLE:
        how = f"labkit image build, labkit image push; by `image` in cluster.toml it is {image}"
        if submission.trial.image:
            how = f"--image says that it is {image}"
        return (
            f"cannot get its image on node {pod.node} ({reason}: {message}). Is it built and "
            f"pushed to where the nodes look for it? {how}."
        )
    if reason in UNSTARTABLE:
        return f"cannot be started on node {pod.node} ({reason}: {message})."
    return ""


def why_ended(pod: Pod, memory: str) -> str:
    """Return what ended a pod from outside, as the cluster tells it; empty if nothing did."""
    disruption = pod.condition("DisruptionTarget")
    message = disruption.get("message", "")
    ended = pod.state.get("terminated", {})
    reason = pod.status.get("reason", "")
    if "shutdown" in f"{reason} {pod.status.get('message', '')}".lower():
        return (
            f"lost its node {pod.node} {{phase}}: the node shuts down (a spot or preemptible one, "
            f"perhaps): {pod.status.get('message', reason)}"
        )
    if reason.startswith(REFUSED_BY_NODE):
        return (
            f"was refused by node {pod.node} {{phase}} ({reason}: {pod.status.get('message')}): "
            "others had taken the room that the scheduler saw there. Running it again may help"
        )
    if ended.get("reason") in UNSTARTED:
        return (
            f"could not be started on node {pod.node} ({ended['reason']}: "
            f"{ended.get('message', 'no more is known')}). Is the image one of "
            "labkit's, or has it a python3?"
        )
    if pod.unlimited:
        return (
            f"could not be started: node {pod.node} could not limit its network "
            f"({pod.unlimited}). For a bandwidth its kernel needs tbf, ifb, u32 and mirred"
        )
    if reason == "Evicted" or disruption.get("reason") == "TerminationByKubelet":
        message = pod.status.get("message") or message
        return f"was evicted {{phase}} by node {pod.node}, which is short of resources: {message}"
    if ended.get("reason") == "OOMKilled":
        return (
            f"was killed {{phase}} because its memory, limited to {memory}, ran out. A smaller "
            "batch, or a larger `memory` in cluster.toml, may help"
        )
    match disruption.get("reason"):
        case "EvictionByEvictionAPI":
            return f"was evicted {{phase}}: is node {pod.node} being drained? {message}"
        case "PreemptionByScheduler":
            return f"was preempted {{phase}} by a pod of higher priority: {message}"
        case "DeletionByTaintManager" | "DeletionByPodGC":
            return f"lost its node {pod.node} {{phase}}: {message}"
    if pod.deleted:
        return "was deleted {phase} by somebody else"
    return ""


def failure(
    tracker: Tracker, pods: Iterable[Pod], logs: Logs, directory: Path, memory: str
) -> TrialFailed | None:
    """Return the error of the replica that failed first, None if none has.

    Parameters
    ----------
    tracker : Tracker
        Has had all events that are known.
    pods : iterable of Pod
        That are broken.
    logs : Logs
        In which their exit codes are.
    directory : Path
        With what each replica has printed.
    memory : str
        The limit of each pod.
    """
    failed = _failed_replicas(tracker, pods, logs)
    if not failed:
        return None
    name = tracker.first_cause(_candidates(failed))
    pod, code = failed[name]
    return tracker.failure(name, code, tail(directory / f"{name}.err"), why_ended(pod, memory))


def _failed_replicas(
    tracker: Tracker, pods: Iterable[Pod], logs: Logs
) -> dict[str, tuple[Pod, int]]:
    """Return the replicas that failed, each with its pod and its exit code."""
    failed = {}
    roles = manifests.pods_of(tracker.trial)
    for pod in pods:
        reports = [entry for _, entry in logs.of(pod).entries()]
        codes = {r.replica: r.code for r in reports if isinstance(r, podlog.Ended)}
        for role in reversed(roles[pod.component]):  # workers first
            name = f"{role}-{pod.index}"
            code = codes.get(name, 0)
            if code or pod.deleted or not tracker.finished(name):
                failed[name] = pod, code
    return failed


def _candidates(failed: dict[str, tuple[Pod, int]]) -> list[str]:
    """Return the replicas that can have been the first to fail."""
    # A Job takes its other pods down with the one that failed: they are deleted, and later. What
    # is deleted of a Job in which none has failed was deleted by somebody else.
    itself = [name for name, (pod, _) in failed.items() if not pod.deleted or pod.disrupted]
    kinds = {failed[name][0].component for name in itself}
    others = {name: pod for name, (pod, _) in failed.items() if pod.component not in kinds}
    began = min((pod.deletion for pod in others.values()), default=None)
    deleted = [name for name, pod in others.items() if pod.deletion == began]
    # Of two replicas in a pod, the one that was ended by the pod is not the cause.
    return [
        name
        for own in (itself, deleted)
        for name in [name for name in own if failed[name][1] not in ENDED_BY_POD] or own
    ]
