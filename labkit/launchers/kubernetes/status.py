"""The trials in a cluster, for the command line: what runs, and what it prints."""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from labkit.errors import nearest
from labkit.launchers.kubernetes.api import (
    COMPONENT,
    INSTANCE,
    PART_OF,
    POLL_RATE,
    Cluster,
    failure,
)
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.kubernetes.manifests import selector_of
from labkit.launchers.kubernetes.owners import owner_of
from labkit.replicas import podlog

POLL_INTERVAL = 1.0
"""Seconds between two looks at pods that have not started, at least."""


def trials(cluster: Cluster) -> str:
    """Return a table of the trials in a cluster's namespace: what each is and how far."""
    rows = [("TRIAL", "MODEL", "WORKERS", "BATCH", "RATE", "SEED", "STATE", "AGE")]
    jobs: dict[str, list[dict[str, Any]]] = {}
    for job in cluster.list("Job", PART_OF):
        jobs.setdefault(job["metadata"]["labels"][INSTANCE], []).append(job)
    for name, parts in sorted(jobs.items()):
        values = json.loads(parts[0]["metadata"]["annotations"]["labkit/trial"])
        begun = datetime.fromisoformat(parts[0]["metadata"]["creationTimestamp"])
        told = (values.get(key, "") for key in
                ("model", "workers", "batch_size", "learning_rate", "seed"))  # fmt: skip
        rows.append((
            name, *told, _state(parts),
            f"{max(0.0, (datetime.now(UTC) - begun).total_seconds()):.0f} s",
        ))  # fmt: skip
    if len(rows) == 1:
        return f"no trials in namespace {cluster.namespace!r}"
    widths = [max(len(str(row[k])) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(f"{cell!s:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines += [
        f"{name}: its labkit is gone. The same trial run again takes it over; labkit stop {name} "
        "deletes it."
        for name, parts in sorted(jobs.items())
        if any(owner.gone for owner in map(owner_of, parts) if owner)
    ]
    return "\n".join(lines)


def _state(jobs: list[dict[str, Any]]) -> str:
    parts = []
    for job in jobs:
        role = job["metadata"]["labels"][COMPONENT]
        status, count = job["status"], job["spec"]["completions"]
        if failed := failure(job):
            parts.append(f"{role} failed ({failed['reason']})")
        elif status.get("succeeded", 0) == count:
            parts.append(f"{role} done")
        else:
            parts.append(f"{role} {status.get('ready', 0)}/{count} running")
    return ", ".join(parts)


def must_exist(cluster: Cluster, trial: str) -> None:
    """Make sure that a trial of this name is in the cluster.

    Raises
    ------
    ClusterError
        If it is not, naming the nearest that is.
    """
    known = {job["metadata"]["labels"][INSTANCE] for job in cluster.list("Job", PART_OF)}
    if trial not in known:
        raise ClusterError(
            f"no trial {trial!r} in namespace {cluster.namespace!r}{nearest(trial, sorted(known))}"
            f"; there: {', '.join(sorted(known)) or 'none'}"
        )


def lines(
    cluster: Cluster, trial: str, role: str | None, index: int | None, follow: bool
) -> Iterator[bytes]:
    """Return what a trial's replicas have printed, each line with its replica's name.

    Parameters
    ----------
    cluster : Cluster
    trial : str
        As `labkit ps` names it.
    role, index : optional
        Only of these replicas.
    follow : bool
        Go on until the pods end; those that have not started are waited for.
    """
    must_exist(cluster, trial)
    if follow:
        _wait_for_pods(cluster, trial)
    pods = [pod["metadata"]["name"] for pod in cluster.list("Pod", selector_of(trial))]

    def read(pod: str) -> Iterator[bytes]:
        with contextlib.suppress(ClusterError), cluster.log(pod, follow=follow) as log:
            for line in log:
                text = podlog.split_time(line)[1]
                if _is_output(text, role, index):
                    yield text

    return _merge(map(read, pods)) if follow else itertools.chain.from_iterable(map(read, pods))


def _wait_for_pods(cluster: Cluster, trial: str) -> None:
    """Return when all pods of a trial have started, or its Jobs are gone."""
    told = False
    while jobs := list(cluster.list("Job", selector_of(trial))):
        due = sum(job["spec"]["completions"] for job in jobs)
        phases = [pod["status"].get("phase") for pod in cluster.list("Pod", selector_of(trial))]
        started = sum(phase != "Pending" for phase in phases)
        if started >= due or any(map(failure, jobs)):
            return
        if not told:
            told = True
            print(
                f"labkit: waits for the pods of {trial}: {started} of {due} have started",
                file=sys.stderr,
            )
        time.sleep(max(POLL_INTERVAL, due / POLL_RATE))


def _is_output(text: bytes, role: str | None, index: int | None) -> bool:
    """Whether a line of a log was printed by one of these replicas."""
    entry = podlog.decode(text)
    if not isinstance(entry, podlog.Output):
        return False
    its_role, _, its_index = entry.replica.rpartition("-")
    return role in (None, its_role) and index in (None, int(its_index))


def _merge(streams: Iterable[Iterator[bytes]]) -> Iterator[bytes]:
    """Yield the lines of several streams as they come."""
    merged: queue.Queue[bytes | None] = queue.Queue(maxsize=1000)

    def pass_on(stream: Iterator[bytes]) -> None:
        for line in stream:
            merged.put(line)
        merged.put(None)

    threads = [threading.Thread(target=pass_on, args=(stream,), daemon=True) for stream in streams]
    for thread in threads:
        thread.start()
    running = len(threads)
    while running:
        line = merged.get()
        if line is None:
            running -= 1
        else:
            yield line
