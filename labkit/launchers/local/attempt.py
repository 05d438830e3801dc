"""One try at one trial, in processes of this machine."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import psutil

from labkit.launchers.limits import GRACE
from labkit.launchers.load import Load
from labkit.launchers.local.logs import LogReader
from labkit.launchers.local.patience import Patience
from labkit.launchers.local.processes import Orphaned, Processes
from labkit.launchers.local.serving import Serving
from labkit.launchers.placement import own_arguments, place
from labkit.launchers.protocol import OnEvent, TrialFailed
from labkit.launchers.tracking import Tracker, tail
from labkit.replicas import cores
from labkit.replicas.events import Barrier, End, Event, Rate, Step
from labkit.trials import Trial
from labkit.trials.demand import beside_workers, is_slow

LEAST_ROOM = 64 << 10
"""Bytes free on disk below which a running trial is ended, as its logs will not be whole."""

POLL = 0.05
"""Seconds between two readings of the logs."""

AFTERMATH = 0.3
"""Seconds in which what one death brings down becomes known."""


class Attempt:
    """One try at one trial: its replicas, what is known of them, and how they are ended.

    Parameters
    ----------
    trial : Trial
    directory : Path
        Where logs are left.
    on_event : callable
        Gets the events live.
    processes : Processes
        Where replicas are asked for.
    launched : float
        When the launch began, in monotonic seconds.
    """

    def __init__(
        self,
        trial: Trial,
        directory: Path,
        on_event: OnEvent,
        processes: Processes,
        launched: float,
    ) -> None:
        self.trial, self.framework = trial, trial.runtime
        self.directory, self.on_event = directory, on_event
        self.processes, self.launched = processes, launched
        self.tracker = Tracker(trial)
        self.readers = {n: LogReader(directory / f"{n}.log") for n in self.tracker.names}
        self.workers_left: float | None = None  # when, in monotonic seconds
        self.load, self.serving = Load(), Serving(trial)
        self.ooms = _oom_kills()

    def run(
        self, hosts: dict[str, list[str]], shared: list[str], deadline: float
    ) -> dict[str, Any]:
        """Start all replicas; return the circumstances when all have ended as they should.

        `shared` is what all find on their command lines.

        Raises
        ------
        TrialFailed
            If one does not, or takes too long; some may then still run.
        """
        try:
            self._start(hosts, shared)
            self._wait(deadline)
        except Orphaned:
            raise TrialFailed(
                f"{self.trial.name}: the process that holds {self.framework.name} warm has died, "
                "and all replicas with it. Was it killed, or was memory short?"
            ) from None
        return self.load.report() | self.serving.report() | {"launcher": "local"}

    def end(self) -> None:
        """Leave no replica behind."""
        with contextlib.suppress(Orphaned):  # what was forked has died with the fork server
            self.processes.end(GRACE)
            self.processes.keep(self.directory)

    def _start(self, hosts: dict[str, list[str]], shared: list[str]) -> None:
        usable = cores.spread(os.sched_getaffinity(0))
        for role, count in self.trial.replicas.items():
            for index in range(count):
                self.processes.spawn(
                    f"{role}-{index}",
                    shared + own_arguments(self.trial, role, index) + place(role, index, hosts),
                    _cores_of(self.trial, role, index, usable),
                    self.directory,
                )

    def _wait(self, deadline: float) -> None:
        patience = Patience(self.tracker, self.directory, self.launched, deadline)
        while self.processes.running():
            self.processes.poll(POLL)
            self.serving.look(self.processes.pids)
            progress = self._read_events()
            if not all(map(self._ended_well, self.processes.codes)):
                self._fail()
            if shutil.disk_usage(self.directory).free < LEAST_ROOM:
                # The logs' last pages still take events for a while: do not wait for them.
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.directory))
            if late := patience.exhausted(progress, self.workers_left):
                self._fail_late(late)
            self._release_servers()
        self._read_events()

    def _release_servers(self) -> None:
        """Have servers leave that do not do so by themselves, once all workers have ended."""
        names = [f"worker-{i}" for i in range(self.trial.workers)]
        if self.workers_left or not all(name in self.processes.codes for name in names):
            return
        self.workers_left = time.monotonic()
        if self.trial.ends_servers:
            for name in self.processes.running():
                self.processes.kill(name, signal.SIGTERM)

    def _read_events(self) -> bool:
        """Pass new events on; return whether there were any."""
        seen, used = False, partial(self.processes.cpu_seconds, self.tracker)
        for reader in self.readers.values():
            for event in reader.new():
                seen = True
                self.tracker.update(event)
                if isinstance(event, Barrier):
                    self.load.begin(used)
                    self.serving.begin(event.t)
                    self.load.startup(event.t - self.launched)
                elif isinstance(event, Rate):
                    self.load.printed(used)
                elif _is_last(event, self.trial):
                    self.load.finish(used)
                    self.serving.finish(event.t)
                self.on_event(event)
        return seen

    def _ended_well(self, name: str) -> bool:
        if self.processes.codes[name] != 0 or self._left_early(name):
            return False
        self._read_events()
        return self.tracker.finished(name)

    def _left_early(self, name: str) -> bool:
        """Whether a server that was to wait until it is told to leave has left before."""
        waits = not self.framework.servers_end_themselves and not name.startswith("worker")
        return waits and self.workers_left is None

    def _fail(self) -> NoReturn:
        """Raise for the replica that failed first."""
        until = time.monotonic() + AFTERMATH
        while time.monotonic() < until:
            self.processes.poll(POLL)
        self._read_events()
        codes = self.processes.codes
        name = self.tracker.first_cause(name for name in codes if not self._ended_well(name))
        code, cause = codes[name], ""
        if code == -signal.SIGKILL and _oom_kills() > self.ooms:
            cause = (
                "was killed by the kernel {phase}, because memory ran out; "
                f"{psutil.virtual_memory().total >> 30} GiB are there. Fewer workers, a smaller "
                "batch, or fewer programs beside it may help"
            )
        elif code == 0 and self._left_early(name):
            cause = "left before the workers had finished"
        raise self.tracker.failure(name, code, tail(self.directory / f"{name}.err"), cause)

    def _fail_late(self, what: str) -> NoReturn:
        running = (f"{n} {self.tracker.phase(n)}" for n in self.processes.running())
        raise TrialFailed(f"{self.trial.name} {what}. Still running: {', '.join(running)}.")


def _is_last(event: Event, trial: Trial) -> bool:
    """Whether a worker has trained enough; of a script nobody knows before it ends."""
    if isinstance(event, End):
        return event.role == "worker"
    return isinstance(event, Step) and event.steps == trial.total_steps


def _cores_of(trial: Trial, role: str, index: int, usable: list[int]) -> list[int]:
    """Return the processors of a replica, of those that may be used."""
    if is_slow(trial):
        return usable  # where most wait, whoever computes takes the core that is free
    if role != "worker" and not (role == "server" and beside_workers(trial)):
        return usable
    return sorted(cores.take(usable, index * trial.threads, trial.threads))


def _oom_kills() -> int:
    """Return how often the kernel has killed for want of memory since it started."""
    for line in Path("/proc/vmstat").read_text().splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return int(count)
    return 0
