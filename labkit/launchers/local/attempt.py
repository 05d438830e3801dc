"""One try at one trial, in processes of this machine."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import signal
import socket
import time
from pathlib import Path
from typing import Any

import psutil

from labkit.launchers.limits import GRACE, STALL
from labkit.launchers.load import Load
from labkit.launchers.placement import arguments, beside_workers, place
from labkit.launchers.protocol import OnEvent, TrialFailed
from labkit.launchers.tracking import Replicas, tail
from labkit.replicas import cores
from labkit.runs.check import LogReader
from labkit.trials import Trial
from labkit.trials.frameworks import Framework

LEAST_ROOM = 64 << 10
"""Bytes free on disk below which a running trial is ended, as its logs will not be whole."""


POLL = 0.05


class Attempt:
    """One try at one trial: its replicas, what is known of them, and how they are ended."""

    def __init__(
        self,
        trial: Trial,
        framework: Framework,
        directory: Path,
        on_event: OnEvent,
        connection: socket.socket,
        launched: float,
    ) -> None:
        self.trial, self.framework = trial, framework
        self.directory, self.on_event = directory, on_event
        self.connection, self.launched = connection, launched
        self.buffer = b""
        self.pids: dict[str, int] = {}
        self.codes: dict[str, int] = {}
        self.readers: dict[str, LogReader] = {}
        self.replicas = Replicas(trial)
        self.stopping = False
        self.load = Load()
        self.ooms = _oom_kills()

    def start(self, hosts: dict[str, list[str]], data_directory: Path, deadline: float) -> None:
        """Ask for all replicas."""
        usable = cores.spread(os.sched_getaffinity(0))
        shared = arguments(self.trial, data_directory, deadline)
        for role, addresses in hosts.items():
            for index in range(len(addresses)):
                name = f"{role}-{index}"
                self.readers[name] = LogReader(self.directory / f"{name}.log")
                self._say(
                    spawn=name,
                    argv=shared + place(role, index, hosts),
                    cpus=self._cores_of(role, index, usable),
                    directory=str(self.directory),
                )

    def _cores_of(self, role: str, index: int, usable: list[int]) -> list[int]:
        if role != "worker" and not (role == "server" and beside_workers(self.trial)):
            return usable
        return sorted(cores.take(usable, index * self.trial.threads, self.trial.threads))

    def watch_over(self, deadline: float) -> dict[str, Any]:
        """Return when all replicas have ended as they should."""
        progressed = time.monotonic()
        while len(self.codes) < len(self.readers):
            self._receive(POLL)
            if self._read_events():
                progressed = time.monotonic()
            bad = [name for name in self.codes if not self._ended_well(name)]
            if bad:
                # What one death brings down follows within moments: look for the first cause.
                pause = time.monotonic() + 0.3
                while time.monotonic() < pause:
                    self._receive(POLL)
                self._read_events()
                self._fail()
            if shutil.disk_usage(self.directory).free < LEAST_ROOM:
                # The logs' last pages still take events for a while: do not wait for them.
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.directory))
            now = time.monotonic()
            if now - self.launched > deadline:
                self._fail_late(f"did not finish within its deadline of {deadline:g} s")
            if now - progressed > STALL:
                self._fail_late(f"has shown no sign of life for {STALL:g} s")
            workers_done = all(f"worker-{i}" in self.codes for i in range(self.trial.workers))
            if workers_done and not self.stopping:
                self.stopping = True
                if not self.framework.servers_end_themselves:
                    for name in self.readers.keys() - self.codes.keys():
                        self._say(kill=name, signal=int(signal.SIGTERM))
        self._read_events()
        return self.load.report() | {"launcher": "local"}

    def end(self) -> None:
        """Leave no replica behind."""
        # If the fork server is dead, what it forked has died with it.
        with contextlib.suppress(TrialFailed):
            for number, patience in ((signal.SIGTERM, 0.5), (signal.SIGKILL, GRACE)):
                for name in self.readers.keys() - self.codes.keys():
                    self._say(kill=name, signal=int(number))
                until = time.monotonic() + patience
                while len(self.codes) < len(self.readers) and time.monotonic() < until:
                    self._receive(POLL)
            self._say(keep=str(self.directory))

    def _say(self, **request: Any) -> None:
        try:
            self.connection.sendall(json.dumps(request).encode() + b"\n")
        except OSError:
            raise self._orphaned() from None

    def _receive(self, patience: float) -> None:
        """Take what the fork server says of our replicas."""
        if not select.select([self.connection], [], [], patience)[0]:
            return
        try:
            received = self.connection.recv(65536)
        except OSError:
            received = b""
        if not received:
            raise self._orphaned()
        *lines, self.buffer = (self.buffer + received).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "pid" in message:
                self.pids[message["spawned"]] = message["pid"]
            else:
                self.codes[message["ended"]] = message["code"]

    def _orphaned(self) -> TrialFailed:
        return TrialFailed(
            f"{self.trial.name}: the process that holds {self.framework.name} warm has died, "
            "and all replicas with it. Was it killed, or was memory short?"
        )

    def _read_events(self) -> bool:
        """Pass new events on; return whether there were any."""
        seen = False
        for reader in self.readers.values():
            for event in reader.new():
                seen = True
                self.replicas.saw(event)
                if event["kind"] == "barrier":
                    self.load.begin(self._cpu())
                    self.load.startup(event["t"] - self.launched)
                elif event["kind"] == "step" and event["steps"] == self.trial.total_steps:
                    self.load.finish(self._cpu())
                self.on_event(event)
        return seen

    def _cpu(self) -> float:
        """Return the CPU seconds that our replicas and this process have used so far."""
        used = time.process_time()
        for name, pid in self.pids.items():
            try:
                times = psutil.Process(pid).cpu_times()
                used += times.user + times.system
            except psutil.Error:  # it has ended, but its events tell
                used += self.replicas.last.get(name, {"cpu": 0.0})["cpu"]
        return used

    def _ended_well(self, name: str) -> bool:
        if self.codes[name] != 0 or self._left_early(name):
            return False
        self._read_events()
        return self.replicas.finished(name)

    def _left_early(self, name: str) -> bool:
        """Whether a server that was to wait until it is told to leave has left before."""
        waits = not self.framework.servers_end_themselves and not name.startswith("worker")
        return waits and not self.stopping

    def _fail(self) -> None:
        bad = [name for name in self.codes if not self._ended_well(name)]
        name = self.replicas.first_cause(bad)
        code, cause = self.codes[name], ""
        if code == -signal.SIGKILL and _oom_kills() > self.ooms:
            cause = (
                "was killed by the kernel {phase}, because memory ran out; "
                f"{psutil.virtual_memory().total >> 30} GiB are there. Fewer workers, a smaller "
                "batch, or fewer programs beside it may help"
            )
        elif code == 0 and self._left_early(name):
            cause = "left before the workers had finished"
        raise self.replicas.error(name, code, tail(self.directory / f"{name}.err"), cause)

    def _fail_late(self, what: str) -> None:
        late = [name for name in self.readers if name not in self.codes]
        states = ", ".join(f"{name} {self.replicas.phase(name)}" for name in late)
        raise TrialFailed(f"{self.trial.name} {what}. Still running: {states}.")


def _oom_kills() -> int:
    """Return how often the kernel has killed for want of memory since it started."""
    for line in Path("/proc/vmstat").read_text().splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return int(count)
    return 0
