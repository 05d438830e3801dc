"""The logs of a trial's pods: read while they grow, read whole at the end, split by replica.

What is shown while a trial runs comes from logs that are read again and again; what is kept is the
copy of it all that each pod prints when its replicas have ended.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from labkit.launchers.kubernetes.api import Cluster
from labkit.launchers.kubernetes.connection import REFUSAL_PATIENCE
from labkit.launchers.kubernetes.errors import ClusterError, Forbidden
from labkit.launchers.kubernetes.pods import Pod
from labkit.replicas import events, podlog
from labkit.replicas.events import Event, EventError

PATIENCE = 25.0
"""Seconds for which the log of a pod that has ended may be incomplete."""


class Log:
    """The log of one pod, as far as it has been read, in a file.

    Parameters
    ----------
    cluster : Cluster
    pod : str
        The pod's name.
    path : Path
        Of the file.

    Attributes
    ----------
    ended : bool
        Whether the pod has printed its copy, and with it all that it will.
    whole : bool
        Whether that copy has been read.
    problem : str
        Why it could not be read the last time; empty if it could.
    lines : int
        That its replicas have printed, as far as it has been read.
    """

    def __init__(self, cluster: Cluster, pod: str, path: Path) -> None:
        self._cluster, self._pod, self._path = cluster, pod, path
        self._last = ""  # the time of the last line that has been read
        self.ended = self.whole = False
        self.problem = ""
        self.lines = 0
        self._forbidden = math.inf  # since when

    def read_new(self) -> list[Event]:
        """Read what has come since the last time; return the events in it.

        What cannot be read now is read the next time; what is garbled is passed over.

        Raises
        ------
        Forbidden
            If labkit may not read it, and not only because the API server has just started.
        """
        found: list[Event] = []
        if not self.ended:
            with self._problems():
                self._read(found)
        return found

    def _read(self, found: list[Event]) -> None:
        # The server takes whole seconds, and so repeats some lines.
        since = re.sub(r"\.[0-9]+", "", self._last)
        with self._cluster.log(self._pod, since) as lines, self._path.open("ab") as file:
            for line in lines:
                stamp, text = podlog.split_time(line)
                if stamp <= self._last:
                    continue
                self._last = stamp
                entry = podlog.decode(text)
                if isinstance(entry, podlog.CopyEnd):
                    self.ended = True
                elif not isinstance(entry, podlog.CopyPiece):
                    file.write(line + b"\n")
                self.lines += isinstance(entry, podlog.Output)
                if event := event_in(entry):
                    found.append(event)

    @contextlib.contextmanager
    def _problems(self) -> Iterator[None]:
        """Keep what prevents a reading for later, unless it will not pass."""
        try:
            yield
            self.problem, self._forbidden = "", math.inf
        except Forbidden as error:
            self.problem = str(error)
            self._forbidden = min(self._forbidden, time.monotonic())
            if time.monotonic() - self._forbidden > REFUSAL_PATIENCE:
                raise
        except ClusterError as error:
            self.problem = str(error)

    def read_copy(self) -> None:
        """Replace what has been read by the copy at the end, if that can be read now."""
        with (
            contextlib.suppress(podlog.CopyError),
            self._problems(),
            self._cluster.log(self._pod) as lines,
        ):
            self._path.write_bytes(podlog.read_copy(lines))
            self.ended = self.whole = True

    def entries(self) -> Iterator[tuple[str, podlog.Entry]]:
        """Yield what has been read, each line with the time at which it was printed."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            for line in file:
                stamp, text = podlog.split_time(line)
                if entry := podlog.decode(text):
                    yield stamp, entry


class Logs:
    """The logs of all pods of a trial.

    Parameters
    ----------
    cluster : Cluster
    directory : Path
        Where they and the output of each replica are left.
    """

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._cluster, self._directory = cluster, directory
        self._logs: dict[str, Log] = {}
        self._lines = 0

    def of(self, pod: Pod) -> Log:
        """Return the log of a pod."""
        if pod.name not in self._logs:
            pods = self._directory / "pods"
            pods.mkdir(exist_ok=True)
            self._logs[pod.name] = Log(self._cluster, pod.name, pods / f"{pod.name}.log")
        return self._logs[pod.name]

    def have_grown(self) -> bool:
        """Whether replicas have printed anything since the last call: a script's sign of life."""
        before, self._lines = self._lines, sum(log.lines for log in self._logs.values())
        return self._lines > before

    def read_ended(self, pod: Pod) -> None:
        """Read all of the log of a pod if it has ended: later its node may be gone."""
        log = self.of(pod)
        if log.ended and not log.whole:
            log.read_copy()

    def read_whole(self, pod: Pod) -> None:
        """Read all of the log of a pod that has ended.

        Raises
        ------
        ClusterError
            If it is not whole.
        """
        log, until = self.of(pod), time.monotonic() + PATIENCE
        while not log.whole:
            log.read_copy()
            if log.whole:
                return
            if time.monotonic() > until:
                why = "Does something shorten or change the logs of node"
                if log.problem:
                    why = f"{log.problem}. Can the API server reach the kubelet of node"
                raise ClusterError(f"the log of {pod} cannot be read whole. {why} {pod.node}?")
            time.sleep(1.0)

    def split(self, replicas: Iterable[str]) -> None:
        """Leave what each of these replicas has printed in files of its own."""
        suffixes = {podlog.OUT: "log", podlog.ERR: "err"}
        paths = {
            (name, stream): self._directory / f"{name}.{suffix}"
            for name in replicas
            for stream, suffix in suffixes.items()
        }
        for path in paths.values():
            path.write_bytes(b"")
        for log in self._logs.values():
            with contextlib.ExitStack() as stack:
                files: dict[Path, BinaryIO] = {}
                for _, entry in log.entries():
                    if not isinstance(entry, podlog.Output):
                        continue
                    path = paths[entry.replica, entry.stream]
                    if path not in files:
                        files[path] = stack.enter_context(path.open("ab"))
                    files[path].write(entry.text + b"\n")


def event_in(entry: podlog.Entry | None) -> Event | None:
    """Return the event in an entry, None if there is no whole one."""
    if isinstance(entry, podlog.Output) and entry.stream == podlog.OUT:
        with contextlib.suppress(EventError):
            return events.decode(entry.text)
    return None
