"""The local launcher: a trial's replicas are processes of this machine.

Each worker is held to as many cores as its trial gives it, so that it computes like the thesis's
one-CPU machine whatever its framework thinks of thread counts. A server beside a worker (MXNet's
way) shares the worker's cores; other servers and the scheduler may use any.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import psutil

from labkit import settings
from labkit.errors import LabkitError
from labkit.launchers import TrialFailed, Watch
from labkit.launchers.replicas import Replicas, arguments, beside_workers, place, replicas_of, tail
from labkit.runs import LogReader
from labkit.settings import WARM
from labkit.trainers import FRAMEWORKS, Framework, processors
from labkit.trials import Trial

DEADLINE = 3600.0
"""Seconds a trial may take, if its caller does not say."""

STALL = 300.0
"""Seconds without any event after which a trial counts as hung."""


LEAST_ROOM = 64 << 10
"""Bytes free on disk below which a running trial is ended, as its logs will not be whole."""

POLL = 0.05
GRACE = 3.0


class WarmProcesses:
    """Fork servers, one for each framework and number of threads, started when first needed.

    Parameters
    ----------
    directory : Path, optional
        Where their sockets are; a fresh temporary directory by default.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or Path(tempfile.mkdtemp(prefix="labkit-"))
        self._owned = directory is None
        self._started: list[subprocess.Popen[str]] = []

    def connect(self, framework: Framework, threads: int) -> socket.socket:
        """Return a connection to the fork server, after its import has finished.

        Raises
        ------
        LabkitError
            If the framework cannot be imported, with what it said.
        """
        path = self.directory / f"{framework.name}-{threads}"
        with _locked(path.with_suffix(".lock")):
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(str(path))
            except OSError:
                path.unlink(missing_ok=True)
                self._start(framework, threads, path)
                connection.connect(str(path))
        return connection

    def _start(self, framework: Framework, threads: int, path: Path) -> None:
        environment = os.environ | {
            name: str(threads)
            for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MXNET_CPU_WORKER_NTHREADS")
        }
        # No client's request makes a library start a network service or use a GPU.
        environment |= {"TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
        errors = path.with_suffix(".err")
        with errors.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("forkserver.py"),
                 framework.script, path],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file,
                env=environment, start_new_session=True, text=True,
            )  # fmt: skip
        self._started.append(process)
        if not select.select([process.stdout], [], [], STALL)[0]:
            cause = f"it takes more than {STALL:g} s"
            process.kill()
        elif process.stdout.readline() == "ready\n":
            return
        else:
            cause = f"the process left with code {process.wait()}"
        raise LabkitError(
            f"{framework.name} cannot be imported ({cause}):\n"
            f"{tail(errors)}\n`labkit doctor` says what is missing."
        )

    def close(self) -> None:
        """End the fork servers that this object has started, and all that runs in them."""
        for process in self._started:
            process.stdin.close()
        for process in self._started:
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        self._started.clear()
        if self._owned:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class LocalLauncher:
    """Runs trials in processes of this machine, one trial at a time.

    Parameters
    ----------
    deadline : float
        Seconds a trial may take.
    data_directory : Path, optional
        Where the data sets are.
    """

    parallel = 1

    def __init__(self, deadline: float = DEADLINE, data_directory: Path | None = None) -> None:
        self.deadline = deadline
        self.data_directory = data_directory or settings.data_directory()
        shared = os.environ.get(WARM)
        self._warm = WarmProcesses(Path(shared) if shared else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._warm.close()

    def stop(self) -> None:
        """Nothing runs beside the caller's own thread, which an exception ends."""

    def run(self, trial: Trial, directory: Path, watch: Watch) -> dict[str, Any]:
        """Run a trial to its end; see `labkit.launchers.Launcher`."""
        framework = FRAMEWORKS[trial.framework]
        with _alone_on_this_machine(watch), contextlib.ExitStack() as stack:
            launched = time.monotonic()
            connection = stack.enter_context(self._warm.connect(framework, trial.threads))
            hosts = stack.enter_context(_reserved_hosts(replicas_of(trial)))
            attempt = _Attempt(trial, framework, directory, watch, connection, launched)
            try:
                attempt.start(hosts, self.data_directory, self.deadline)
                return attempt.watch_over(self.deadline)
            finally:
                attempt.end()


class _Attempt:
    """One try at one trial: its replicas, what is known of them, and how they are ended."""

    def __init__(
        self,
        trial: Trial,
        framework: Framework,
        directory: Path,
        watch: Watch,
        connection: socket.socket,
        launched: float,
    ) -> None:
        self.trial, self.framework = trial, framework
        self.directory, self.watch = directory, watch
        self.connection, self.launched = connection, launched
        self.buffer = b""
        self.pids: dict[str, int] = {}
        self.codes: dict[str, int] = {}
        self.readers: dict[str, LogReader] = {}
        self.replicas = Replicas(trial)
        self.stopping = False
        self.load = _Load()
        self.ooms = _oom_kills()

    def start(self, hosts: dict[str, list[str]], data_directory: Path, deadline: float) -> None:
        """Ask for all replicas."""
        usable = processors.spread(os.sched_getaffinity(0))
        shared = arguments(self.trial, data_directory, deadline)
        for role, addresses in hosts.items():
            for index in range(len(addresses)):
                name = f"{role}-{index}"
                self.readers[name] = LogReader(self.directory / f"{name}.log")
                self._say(
                    spawn=name,
                    argv=shared + place(role, index, hosts),
                    cpus=self._processors_of(role, index, usable),
                    directory=str(self.directory),
                )

    def _processors_of(self, role: str, index: int, usable: list[int]) -> list[int]:
        if role != "worker" and not (role == "server" and beside_workers(self.trial)):
            return usable
        return sorted(processors.take(usable, index * self.trial.threads, self.trial.threads))

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
                self.watch(event)
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


@contextlib.contextmanager
def _reserved_hosts(roles: dict[str, int]) -> Iterator[dict[str, list[str]]]:
    """Reserve a port for every replica, free of races, as long as the trial runs.

    The sockets stay bound without listening. Linux lets a replica bind the same port (gRPC with
    SO_REUSEPORT, ZeroMQ with SO_REUSEADDR), and gives it to nobody else meanwhile. They are bound
    on all addresses, as gRPC will: a port that is free on one may be taken on another.
    """
    with contextlib.ExitStack() as stack:
        hosts: dict[str, list[str]] = {}
        for role, count in roles.items():
            for _ in range(count):
                held = stack.enter_context(socket.socket())
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                held.bind(("", 0))
                hosts.setdefault(role, []).append(f"127.0.0.1:{held.getsockname()[1]}")
        yield hosts


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _alone_on_this_machine(watch: Watch) -> Iterator[None]:
    """Hold the one right to measure here: two trials at once would measure each other."""
    path = Path(tempfile.gettempdir()) / f"labkit-{os.getuid()}.lock"
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            watch({"kind": "waiting", "for": "another trial of labkit on this machine"})
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class _Load:
    """What else the machine did while all workers trained."""

    def __init__(self) -> None:
        self.before = os.getloadavg()[0]
        self.marks: dict[str, tuple[float, float, float]] = {}
        self.started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self.startup_s: float | None = None

    def _mark(self, name: str, own: float) -> None:
        times = psutil.cpu_times()
        busy = times.user + times.nice + times.system + times.irq + times.softirq
        self.marks.setdefault(name, (time.monotonic(), own, busy))

    def begin(self, own: float) -> None:
        """Mark the barrier; `own` are the CPU seconds that we have used so far."""
        self._mark("begin", own)

    def finish(self, own: float) -> None:
        """Mark the moment in which the first worker has taken its last step."""
        self._mark("finish", own)

    def startup(self, seconds: float) -> None:
        """Note the time from the launch to the last worker's passing of the barrier."""
        self.startup_s = max(seconds, self.startup_s or 0.0)

    def report(self) -> dict[str, Any]:
        """Return loads in cores: of our replicas, of all other programs."""
        if len(self.marks) < 2:
            return {}  # the events that mark them are missing, and so will be found wanting
        (t0, own0, busy0), (t1, own1, busy1) = self.marks["begin"], self.marks["finish"]
        seconds = max(t1 - t0, 1e-3)
        own = (own1 - own0) / seconds
        other = max((busy1 - busy0) / seconds - own, 0.0)
        there = processors.cores(os.sched_getaffinity(0))
        return {
            "started": self.started,
            "startup_s": self.startup_s,
            "load_before": self.before,
            "load_after": os.getloadavg()[0],
            "own_cpu": round(own, 3),
            "other_cpu": round(other, 3),
            "overloaded": is_overloaded(own, other, there),
        }


def is_overloaded(own: float, other: float, cores: int) -> bool:
    """Whether other programs took so much of a machine that ours were held up.

    Parameters
    ----------
    own, other : float
        Cores that our replicas, and all else, used while all workers trained.
    cores : int
        What the machine has.
    """
    return bool(other > 0.1 * cores and own + other > 0.9 * cores)


def _oom_kills() -> int:
    """Return how often the kernel has killed for want of memory since it started."""
    for line in Path("/proc/vmstat").read_text().splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return int(count)
    return 0

