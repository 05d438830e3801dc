"""One try at one trial, in pods.

What is shown while a trial runs comes from logs that are read again and again, a few at a time;
what is kept is the copy of it all that each pod prints when it ends. A labkit that comes back
after it was killed finds a trial's objects by their name and goes on with them.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import json
import math
import re
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from labkit import runs
from labkit.launchers.kubernetes import manifests
from labkit.launchers.kubernetes.api import (
    CONNECTIONS,
    PATIENCE,
    Cluster,
    ClusterError,
    failure,
    quota_used_up,
)
from labkit.launchers.kubernetes.causes import cannot_start, why_ended
from labkit.launchers.kubernetes.pods import Node, Pod, essence, seconds_of
from labkit.launchers.limits import STALL
from labkit.launchers.load import is_overloaded
from labkit.launchers.placement import replicas_of
from labkit.launchers.protocol import NoRoomForTrial, OnEvent, TrialFailed
from labkit.launchers.tracking import Replicas, tail
from labkit.trials import Trial

POLL = 1.0
"""Seconds between two looks at a trial's pods and logs, at least."""


CALM = 2.0
"""Seconds between two readings of logs while all workers train: where the control plane shares
their node, that costs them time. Pods are still looked at: one that is deleted soon vanishes."""


PODS_PER_SECOND = 100
"""How many pods are looked at in a second, at most; of a larger trial each one less often."""


NODES_NAMED = 5
"""How many nodes are named when there is no room, at most."""


EARLY = 50
"""How many pods' logs are read while others have not started: all of any but a large trial."""


OWN_LINE, COPY, COPIED = b"@pod ", b"@copy", b"@copied"


LINE = re.compile(rb"(?P<replica>[a-z]+-[0-9]+)(?P<stream>[|!]) (?P<text>.*)", re.DOTALL)


class Attempt:
    """One try at one trial."""

    def __init__(
        self,
        cluster: Cluster,
        trial: Trial,
        directory: Path,
        on_event: OnEvent,
        deadline: float,
        stopped: threading.Event,
    ) -> None:
        self.cluster, self.trial, self.directory = cluster, trial, directory
        self.deadline, self.stopped = deadline, stopped
        self.name = manifests.name_of(trial)
        self.selector = manifests.selector_of(self.name)
        self.replicas = Replicas(trial)
        self.pods: dict[str, Pod] = {}
        self.counts = replicas_of(trial)
        self.expected = {kind: self.counts[kind] for kind in manifests.pods_of(trial)}
        self.logs = directory / "pods"
        self._show, self._lock = on_event, threading.Lock()
        self._roles: dict[str, dict[str, int]] = {}
        self.submitted = 0.0
        self.containers: dict[str, dict[str, Any]] = {}
        self.progressed = time.monotonic()

    # --- submit and end -------------------------------------------------------------------------

    def submit(self) -> None:
        """Create the trial's objects, or find those of a labkit that was killed."""
        self.logs.mkdir(exist_ok=True)
        settings, deadline = self.cluster.settings, self.deadline
        first, *_ = manifests.objects(
            manifests.render(self.trial, settings, deadline, submitted=time.time())
        )
        owner = self.cluster.create(first)
        while "deletionTimestamp" in owner["metadata"]:  # the last attempt is on its way out
            self.cluster.remove_and_check(self.selector)
            owner = self.cluster.create(first)
        self.submitted = float(owner["metadata"]["annotations"]["labkit/submitted"])
        text = manifests.render(
            self.trial, settings, deadline, self.submitted, owner["metadata"]["uid"]
        )
        everything = manifests.objects(text)
        for manifest in everything:
            if manifest["kind"] == "Job":
                component = manifest["metadata"]["labels"]["app.kubernetes.io/component"]
                self.containers[component] = manifest["spec"]["template"]["spec"]["containers"][0]
        rest = everything[1:]
        for manifest in rest:
            self.cluster.create(manifest)
        self._tell({"kind": "submitted", "name": self.name, "objects": 1 + len(rest)})

    def end(self, before: BaseException | None = None) -> None:
        """Delete everything of the trial, and see that it is gone; `before` is what ended it."""
        try:
            self.cluster.remove_and_check(self.selector)
        except ClusterError as error:
            what = f"{before}\n" if before else f"{self.trial.name} has finished. "
            raise TrialFailed(f"{what}What it started could not be deleted: {error}") from before

    # --- watch ----------------------------------------------------------------------------------

    def watch_over(self) -> dict[str, Any]:
        """Return the circumstances of the run when all pods have ended as they should."""
        pause, read = max(POLL, sum(self.expected.values()) / PODS_PER_SECOND), 0.0
        with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="labkit-logs") as pool:
            while True:
                looked = time.monotonic()
                self._look()
                self._check_pods()
                if looked - read >= (CALM if self.replicas.training() else 0.0):
                    list(pool.map(self._read_live, self._worth_reading()))
                    read = looked
                if self._all_succeeded():
                    break
                self._check_jobs()
                now = time.monotonic()
                if time.time() - self.submitted > self.deadline:
                    self._fail_late(f"did not finish within its deadline of {self.deadline:g} s")
                if now - self.progressed > STALL:
                    self._fail_late(f"has shown no sign of life for {STALL:g} s")
                if self.stopped.wait(max(0.0, looked + pause - now)):
                    raise TrialFailed(f"{self.trial.name} was stopped, as the sweep ends")
            list(pool.map(self._read_whole, self.pods.values()))
        self._split_logs()
        return self._circumstances()

    def _worth_reading(self) -> list[Pod]:
        """Return the pods whose logs are to be read now: of many, a few until all have started."""
        started = [pod for pod in self.pods.values() if pod.started]
        return started if len(started) == sum(self.expected.values()) else started[:EARLY]

    def _look(self) -> None:
        """Learn how the pods are."""
        seen = set()
        for item in self.cluster.list("Pod", self.selector):
            meta, labels = item["metadata"], item["metadata"]["labels"]
            seen.add(meta["name"])
            pod = self.pods.setdefault(
                meta["name"],
                Pod(
                    meta["name"],
                    labels["app.kubernetes.io/component"],
                    int(labels["batch.kubernetes.io/job-completion-index"]),
                ),
            )
            status = essence(item["status"])
            if status != pod.status:
                self.progressed = time.monotonic()
            pod.status, pod.node = status, item["spec"].get("nodeName", "")
            if "deletionTimestamp" in meta:
                grace = meta.get("deletionGracePeriodSeconds", 0)
                pod.deletion = seconds_of(meta["deletionTimestamp"]) - grace, grace
        for pod in self.pods.values():
            if pod.name not in seen and not pod.deleted:
                pod.deletion = math.inf, 0  # unseen, so who knows when
        self._tell_roles()

    def _tell_roles(self) -> None:
        roles = {
            kind: {"Pending": count, "Running": 0, "Succeeded": 0, "Failed": 0}
            for kind, count in self.expected.items()
        }
        for pod in self.pods.values():
            if pod.phase in roles[pod.component] and pod.phase != "Pending":
                roles[pod.component][pod.phase] += 1
                roles[pod.component]["Pending"] -= 1
        if roles != self._roles:
            self._roles = roles
            self._tell({"kind": "pods", "roles": roles})

    def _all_succeeded(self) -> bool:
        done = [pod for pod in self.pods.values() if pod.phase == "Succeeded"]
        return len(done) == sum(self.expected.values())

    def _check_pods(self) -> None:
        """Raise for the first pod that has failed, or that cannot start."""
        if any(pod.broken for pod in self.pods.values()):
            self._check_deadlines()
            self._fail_pods()
        for pod in self.pods.values():
            if problem := cannot_start(pod, self.containers["worker"]["image"]):
                raise TrialFailed(f"{self.trial.name}: {pod} {problem}")
        self._check_room()

    def _check_room(self) -> None:
        homeless = [
            (pod, condition)
            for pod in self.pods.values()
            if (condition := pod.condition("PodScheduled")).get("reason") == "Unschedulable"
        ]
        if not homeless:
            return
        since = min(seconds_of(c["lastTransitionTime"]) for _, c in homeless)
        if time.time() - since < self.cluster.settings.wait_for_room:
            return
        pod, condition = max(homeless, key=lambda pair: pair[0].component == "worker")
        asked = self.containers[pod.component]["resources"]["requests"]
        placed = sum(bool(p.node) for p in self.pods.values())
        said = condition["message"]
        if "anti-affinity" in said and not self.cluster.settings.share_nodes:
            said += (
                " Another trial, perhaps of another namespace, may have its node for itself: wait "
                "for its end, or set `share_nodes` in cluster.toml."
            )
        raise NoRoomForTrial(
            f"{self.trial.name}: {len(homeless)} of {sum(self.expected.values())} pods find no "
            f"node ({placed} did). Each {pod.component} asks for cpu {asked['cpu']} and memory "
            f"{asked['memory']}; {self._free()}. The scheduler says: {said} Fewer "
            "workers, a smaller `cpu_request` or `memory_request` in cluster.toml, or more nodes "
            "may help; where nodes are added on demand, a longer `wait_for_room`."
        )

    def _free(self) -> str:
        """Say what the nodes have left; a user's rights may not let labkit see it."""
        try:
            nodes = self.cluster.free()
        except ClusterError:
            return "what is free is hidden from you (templates/rbac-nodes.yaml would show it)"
        most = sorted(nodes.items(), key=lambda node: node[1], reverse=True)[:NODES_NAMED]
        said = ", ".join(
            f"{name} cpu {cpu:.2f} and memory {memory / 2**30:.1f}Gi"
            for name, (cpu, memory) in most
        )
        more = f" and {len(nodes) - len(most)} nodes with less" * (len(nodes) > len(most))
        return f"free has {said}{more}" if nodes else "there are no nodes"

    def _check_jobs(self) -> None:
        """Raise if a Job has failed, or cannot make its pods."""
        jobs = {job["metadata"]["name"]: job for job in self.cluster.list("Job", self.selector)}
        for kind in self.expected:
            name = f"{self.name}-{kind}"
            if name not in jobs or "deletionTimestamp" in jobs[name]["metadata"]:
                raise TrialFailed(
                    f"{self.trial.name}: its Job {name} was deleted by somebody else"
                )
            if failed := failure(jobs[name]):
                self._look()
                self._check_deadlines()
                self._fail_pods(failed["message"])
        there = defaultdict(int)
        for pod in self.pods.values():
            there[pod.component] += 1
        for kind, count in self.expected.items():
            if there[kind] == count or time.time() - self.submitted < 3:
                continue
            for said in self.cluster.refusals(jobs[f"{self.name}-{kind}"]):
                self._fail_refused(kind, said)

    def _check_deadlines(self) -> None:
        """Raise if the cluster has ended a Job because it took too long."""
        reasons = {failure(job).get("reason") for job in self.cluster.list("Job", self.selector)}
        if "DeadlineExceeded" in reasons:
            self._fail_late(f"did not finish within its deadline of {self.deadline:g} s")

    def _fail_refused(self, kind: str, said: str) -> None:
        where = f"{self.trial.name}: pods of {kind}s cannot be made: "
        namespace = self.cluster.namespace
        if "exceeded quota" in said:
            raise NoRoomForTrial(f"{self.trial.name}: {quota_used_up(namespace, said)}")
        if "violates PodSecurity" in said:
            raise TrialFailed(
                f"{where}the namespace's pod security refuses them: {said}. labkit's own pods "
                "meet the level `restricted`: has templates/trial.yaml.j2 been changed?"
            )
        raise TrialFailed(f"{where}{said}")

    # --- logs -----------------------------------------------------------------------------------

    def _read_live(self, pod: Pod) -> None:
        """Read what is new in a pod's log; one that cannot be read now is read the next time."""
        if pod.complete:
            return
        with contextlib.suppress(ClusterError):
            self._append(pod, pod.since)

    def _append(self, pod: Pod, since: str) -> None:
        """Add the lines of a log that are newer than what has been read of it."""
        # The server takes whole seconds, and so repeats some lines.
        asked = re.sub(r"\.[0-9]+", "", since)
        with self.cluster.log(pod.name, asked) as lines, self._file(pod).open("ab") as file:
            for line in lines:
                stamp, _, text = line.partition(b" ")
                if stamp.decode() > pod.since:
                    pod.since = stamp.decode()
                    if not text.startswith(COPY):
                        file.write(line + b"\n")
                    self._take(pod, text)

    def _take(self, pod: Pod, text: bytes) -> None:
        """Learn from a line of a log, and show its event."""
        if text.startswith(COPIED):
            pod.complete = True
        elif event := runs.event_in(text):
            self.progressed = time.monotonic()
            with self._lock:
                self.replicas.saw(event)
            self._tell(event)

    def _read_whole(self, pod: Pod) -> None:
        """Read the log of a pod that has ended, all of it: the copy at its end.

        Raises
        ------
        TrialFailed
            If it is not whole.
        """
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(ClusterError, zlib.error, ValueError):
                packed, due = [], b""
                with self.cluster.log(pod.name) as lines:
                    for line in lines:
                        kind, _, rest = line.partition(b" ")[2].partition(b" ")
                        if kind == COPY:
                            packed.append(rest)
                        elif kind == COPIED:
                            due = rest
                whole = zlib.decompress(base64.b64decode(b"".join(packed)))
                if hashlib.sha256(whole).hexdigest().encode() == due:
                    self._file(pod).write_bytes(whole)
                    return
            time.sleep(1.0)
        raise TrialFailed(
            f"{self.trial.name}: the log of {pod} cannot be read whole. Does something shorten or "
            f"change the logs of node {pod.node}?"
        )

    def _file(self, pod: Pod) -> Path:
        return self.logs / f"{pod.name}.log"

    def _split_logs(self) -> None:
        """Leave what each replica printed in files of its own, without the pods' marks."""
        for path in self.directory.glob("*-*.log"):
            path.unlink()
        for name in self.replicas.names:
            for suffix in ("log", "err"):
                (self.directory / f"{name}.{suffix}").touch()
        for pod in self.pods.values():
            with contextlib.ExitStack() as stack:
                files: dict[str, Any] = {}
                for _, text in self._lines(pod):
                    if not (match := LINE.fullmatch(text)):
                        continue
                    suffix = "log" if match["stream"] == b"|" else "err"
                    name = f"{match['replica'].decode()}.{suffix}"
                    if name not in files:
                        files[name] = stack.enter_context((self.directory / name).open("ab"))
                    files[name].write(match["text"])

    # --- the end --------------------------------------------------------------------------------

    def _circumstances(self) -> dict[str, Any]:
        """Return on what the trial ran, and what else these nodes did meanwhile."""
        barriers = [
            seconds_of(stamp)
            for pod in self.pods.values()
            for stamp, event in self._events(pod)
            if event["kind"] == "barrier"
        ]
        nodes = [Node(name, list(pods)) for name, pods in self._by_node()]
        for node in nodes:
            self._measure_load(node)
        return {
            "launcher": "kubernetes",
            "started": datetime.fromtimestamp(self.submitted).astimezone().isoformat(),
            "startup_s": max(barriers) - self.submitted,
            "machine": nodes[0].machine | {"host": ", ".join(node.name for node in nodes)},
            "oversubscribed": any(
                node.workers * self.trial.threads > node.machine["cores"] for node in nodes
            ),
            "own_cpu": round(max(node.own for node in nodes), 3),
            "other_cpu": round(max(node.other for node in nodes), 3),
            "overloaded": any(
                is_overloaded(node.own, node.other, node.machine["cores"]) for node in nodes
            ),
            "nodes": {node.name: node.machine for node in nodes},
            "pods": {str(pod): pod.node for pod in self.pods.values()},
            "bound": {
                str(pod): report["bound"]
                for pod in self.pods.values()
                for report in self._reports(pod)
                if "bound" in report
            },
            "image": self.containers["worker"]["image"],
        }

    def _by_node(self) -> Iterator[tuple[str, Iterator[Pod]]]:
        def node(pod: Pod) -> str:
            return pod.node

        return itertools.groupby(sorted(self.pods.values(), key=node), node)

    def _measure_load(self, node: Node) -> None:
        """Learn a node's load while its workers trained: ours, and all others'.

        The clocks of a node's pods are the same, so that their samples can be added.
        """
        begins, finishes, samples = [], [], []
        for pod in node.pods:
            reports = list(self._reports(pod))
            node.machine = {k: reports[0][k] for k in ("cpu_model", "cores", "memory", "system")}
            seen = [(r["t"], r["busy"], r["own"]) for r in reports if "busy" in r]
            samples.append(np.array(seen))
            for _, event in self._events(pod):
                if event["kind"] == "barrier":
                    begins.append(event["t"])
                elif event["kind"] == "step" and event["steps"] == self.trial.total_steps:
                    finishes.append(event["t"])
        if begins and finishes and all(len(sample) > 1 for sample in samples):
            ends = np.array([min(begins), min(finishes)])
            busy = np.ptp(np.interp(ends, *samples[0][:, :2].T))
            own = sum(np.ptp(np.interp(ends, sample[:, 0], sample[:, 2])) for sample in samples)
            seconds = max(np.ptp(ends), 1e-3)
            node.own = float(own / seconds)
            node.other = float(max(busy - own, 0.0) / seconds)

    def _reports(self, pod: Pod) -> Iterator[dict[str, Any]]:
        """Yield what a pod has said of itself."""
        for _, text in self._lines(pod):
            if text.startswith(OWN_LINE):
                yield json.loads(text[len(OWN_LINE) :])

    def _events(self, pod: Pod) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the events of a pod's replicas, with the time at which the node had them."""
        for stamp, text in self._lines(pod):
            if event := runs.event_in(text):
                yield stamp, event

    def _lines(self, pod: Pod) -> Iterator[tuple[str, bytes]]:
        """Yield what a pod has printed, as far as it has been read."""
        if self._file(pod).exists():
            with self._file(pod).open("rb") as file:
                for line in file:
                    stamp, _, text = line.partition(b" ")
                    yield stamp.decode(), text

    # --- failures -------------------------------------------------------------------------------

    def _fail_pods(self, said: str = "") -> None:
        """Raise for what went wrong first, after a moment in which the rest becomes known."""
        time.sleep(POLL)
        self._look()
        bad: dict[str, tuple[Pod, int]] = {}
        for pod in self.pods.values():
            if not pod.broken:
                continue
            self._read_live(pod)
            codes = {r["ended"]: r["code"] for r in self._reports(pod) if "ended" in r}
            for role in reversed(manifests.pods_of(self.trial)[pod.component]):  # workers first
                name = f"{role}-{pod.index}"
                code = codes.get(name, 0)
                if code or pod.deleted or not self.replicas.finished(name):
                    bad[name] = pod, code
        self._split_logs()
        if not bad:
            raise TrialFailed(f"{self.trial.name}: {said or 'its pods were deleted'}")
        # A Job takes its other pods down with the one that failed: they are deleted, and later.
        itself = {n: v for n, v in bad.items() if not v[0].deleted or v[0].disrupted}
        began = min((v[0].deletion for v in bad.values() if v[0].deleted), default=None)
        own = itself or {n: v for n, v in bad.items() if v[0].deletion == began}
        # Of two replicas in a pod, the one that was ended by the pod is not the cause.
        first = {n: v for n, v in own.items() if v[1] not in (0, -15)} or own
        name = self.replicas.first_cause(first)
        pod, code = bad[name]
        cause = why_ended(pod, self.cluster.settings.memory)
        raise self.replicas.error(name, code, tail(self.directory / f"{name}.err"), cause)

    def _fail_late(self, what: str) -> None:
        self._split_logs()
        late = [name for name in self.replicas.names if not self.replicas.finished(name)]
        states = ", ".join(f"{name} {self.replicas.phase(name)}" for name in late[:10])
        more = f" and {len(late) - 10} more" if len(late) > 10 else ""
        raise TrialFailed(f"{self.trial.name} {what}. Still running: {states}{more}.")

    def _tell(self, event: dict[str, Any]) -> None:
        with self._lock:
            self._show(event)
