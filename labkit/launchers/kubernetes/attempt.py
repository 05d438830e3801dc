"""Waiting for a trial in a cluster: its pods, Jobs and logs are polled until all have ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

from labkit.launchers.kubernetes import causes, circumstances
from labkit.launchers.kubernetes.api import POLL_RATE, Cluster, failure
from labkit.launchers.kubernetes.connection import CONNECTIONS
from labkit.launchers.kubernetes.logs import Log, Logs
from labkit.launchers.kubernetes.pods import Inventory
from labkit.launchers.kubernetes.room import Room
from labkit.launchers.kubernetes.shares import Shares
from labkit.launchers.kubernetes.submission import Submission
from labkit.launchers.kubernetes.waiting import Startup
from labkit.launchers.limits import stall
from labkit.launchers.protocol import OnEvent, Pods, TrialFailed, Waiting
from labkit.launchers.tracking import Tracker
from labkit.replicas.events import Event

POLL_INTERVAL = 1.0
"""Seconds between two polls of a trial's pods and logs, at least."""

LOG_INTERVAL_TRAINING = 2.0
"""Seconds between two readings of logs while all workers train: where the control plane shares
their node, that costs them time. Pods are polled as before: one that is deleted soon vanishes."""

LOGS_DURING_STARTUP = 50
"""How many pods' logs are read while others have not started: all of any but a large trial."""

CREATION_TIME = 3.0
"""Seconds in which the cluster creates the pods of a Job, unless something forbids it."""


class Attempt:
    """One try at one trial, from its submission on.

    Parameters
    ----------
    cluster : Cluster
    submission : Submission
    directory : Path
        Where what the replicas print is left.
    on_event : callable
        Gets the events live.
    stopped : threading.Event
        Ends the attempt when it is set.
    """

    def __init__(
        self, cluster: Cluster, submission: Submission, directory: Path, on_event: OnEvent,
        stopped: threading.Event,
    ) -> None:  # fmt: skip
        self.cluster, self.submission, self.trial = cluster, submission, submission.trial
        self.directory, self.on_event, self.stopped = directory, on_event, stopped
        self.tracker, self.logs = Tracker(self.trial), Logs(cluster, directory)
        self.room = Room(cluster, submission, on_event)
        self.pods = Inventory(submission.expected())
        self.startup = Startup(cluster, self.tracker, self.pods, self.logs)
        self.shares = Shares(cluster, self.tracker, self.pods)
        self._begun = time.monotonic() - max(0.0, time.time() - submission.submitted)
        self._phases, self._progressed = {}, time.monotonic()

    def wait(self) -> dict[str, Any]:
        """Return the circumstances of the run when all pods have ended as they should.

        Raises
        ------
        TrialFailed
            As soon as something has gone wrong.
        ClusterError
            If the cluster refuses or does not answer.
        """
        interval, read = max(POLL_INTERVAL, self.pods.total / POLL_RATE), 0.0
        with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="labkit-logs") as pool:
            while True:
                polled = time.monotonic()
                self._poll()
                self._check_pods()
                due = polled - read >= (LOG_INTERVAL_TRAINING if self.tracker.training() else 0.0)
                for events in pool.map(Log.read_new, self._logs_to_read(due)):
                    self._take(events)
                self.shares.update(pool)
                list(pool.map(self.logs.read_ended, self.pods))
                read = polled if due else read
                if self.pods.succeeded:
                    break
                self._check_jobs()
                self._check_time()
                if self.stopped.wait(max(0.0, polled + interval - time.monotonic())):
                    raise TrialFailed(f"{self.trial.name} was stopped, as the sweep ends")
            list(pool.map(self.logs.read_whole, self.pods))
        self.logs.split(self.tracker.names)
        return circumstances.record(self.submission, self.cluster.host, self.pods, self.logs)

    def known(self) -> dict[str, Any]:
        """Return the circumstances of the run as far as they are known now."""
        return circumstances.known(self.submission, self.cluster.host, self.pods, self.logs)

    def _poll(self) -> None:
        """Update what is known of the pods."""
        changed = self.pods.update(self.cluster.list("Pod", self.submission.selector))
        if changed or (self.trial.total_steps is None and self.logs.have_grown()):
            self._progressed = time.monotonic()
        phases = self.pods.phases()
        if phases != self._phases:
            self._phases = phases
            self.on_event(Pods(phases))

    def _logs_to_read(self, due: bool) -> list[Log]:
        """Return the logs to read now: of a large trial only a few until all pods have started.

        Those of pods that have ended are always due: their nodes may go.
        """
        if not due:
            return [self.logs.of(pod) for pod in self.pods if pod.phase == "Succeeded"]
        started = [self.logs.of(pod) for pod in self.pods if pod.started]
        return started if self.pods.complete else started[:LOGS_DURING_STARTUP]

    def _take(self, events: Iterable[Event]) -> None:
        """Track what replicas have reported, and show it."""
        for event in events:
            self._progressed = time.monotonic()
            self.tracker.update(event)
            self.on_event(event)

    def _check_pods(self) -> None:
        """Raise for the first pod that has failed, or that cannot start."""
        if any(pod.broken for pod in self.pods):
            self._fail("its pods were deleted")
        for pod in self.pods:
            if problem := causes.cannot_start(pod, self.submission):
                raise TrialFailed(f"{self.trial.name}: {pod} {problem}")
        if self.room.check_scheduled(self.pods):
            self._progressed = time.monotonic()
        elif text := self.startup.describe(time.monotonic() - self._progressed):
            self.on_event(Waiting(text))

    def _check_jobs(self) -> None:
        """Raise if a Job has failed, or cannot create its pods."""
        found = self.cluster.list("Job", self.submission.selector)
        jobs = {job["metadata"]["name"]: job for job in found}
        for kind in self.pods.expected:
            name = self.submission.job_of(kind)
            if name not in jobs or "deletionTimestamp" in jobs[name]["metadata"]:
                raise TrialFailed(
                    f"{self.trial.name}: its Job {name} was deleted by somebody else"
                )
            if failed := failure(jobs[name]):
                self._fail(failed["message"])
        if time.monotonic() - self._begun > CREATION_TIME:
            for kind in self.pods.missing():
                uid = jobs[self.submission.job_of(kind)]["metadata"]["uid"]
                if self.room.check_created(kind, uid):
                    self._progressed = time.monotonic()

    def _check_time(self) -> None:
        """Raise if the trial takes too long, or nothing happens any more."""
        if time.monotonic() - self._begun - self.room.waited > self.submission.deadline:
            self._fail_deadline()
        if time.monotonic() - self._progressed > (seconds := stall(self.tracker.starting)):
            self._fail_late(f"has shown no sign of life for {seconds:g} s")

    def _fail(self, otherwise: str) -> NoReturn:
        """Raise for what went wrong first, after a moment in which the rest becomes known."""
        jobs = self.cluster.list("Job", self.submission.selector)
        if "DeadlineExceeded" in {failure(job).get("reason") for job in jobs}:
            self._fail_deadline()
        time.sleep(POLL_INTERVAL)
        self._poll()
        broken = [pod for pod in self.pods if pod.broken]
        for pod in broken:
            self._take(self.logs.of(pod).read_new())
        self.logs.split(self.tracker.names)
        memory = self.cluster.settings.memory
        found = causes.failure(self.tracker, broken, self.logs, self.directory, memory)
        raise found or TrialFailed(f"{self.trial.name}: {otherwise}")

    def _fail_deadline(self) -> NoReturn:
        self._fail_late(f"did not finish within its deadline of {self.submission.deadline:g} s")

    def _fail_late(self, what: str) -> NoReturn:
        self.logs.split(self.tracker.names)
        raise TrialFailed(f"{self.trial.name} {what}. {self.startup.late()}")
