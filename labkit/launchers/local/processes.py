"""A trial's replicas as processes: asked for at a fork server, signalled, and seen to end."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections import Counter
from pathlib import Path

import psutil

from labkit.launchers.tracking import Tracker


class Orphaned(Exception):
    """The fork server has died, and with it all that it had forked."""


class Processes:
    """The replicas that were asked for over one connection.

    Parameters
    ----------
    connection : socket
        To a fork server.

    Attributes
    ----------
    names : list of str
        Of all that were asked for.
    pids : dict of str to int
        Of those that the fork server has started.
    codes : dict of str to int
        Exit codes of those that have ended, negative for a signal.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._buffer = b""
        self.names: list[str] = []
        self.pids: dict[str, int] = {}
        self.codes: dict[str, int] = {}

    def spawn(self, name: str, argv: list[str], cpus: list[int], directory: Path) -> None:
        """Ask for a replica; its output goes to ``<name>.log`` and ``.err`` in the directory."""
        self.names.append(name)
        self._send(spawn=name, argv=argv, cpus=cpus, directory=str(directory))

    def kill(self, name: str, number: signal.Signals) -> None:
        """Signal a replica and all it has started."""
        self._send(kill=name, signal=int(number))

    def keep(self, directory: Path) -> None:
        """Leave a directory behind that would go with the connection."""
        self._send(keep=str(directory))

    def running(self) -> list[str]:
        """Return the names of the replicas that have not ended."""
        return [name for name in self.names if name not in self.codes]

    def poll(self, patience: float) -> None:
        """Learn which replicas have started and ended, waiting some seconds at most.

        Raises
        ------
        Orphaned
            If the fork server is no longer there.
        """
        if not select.select([self._connection], [], [], patience)[0]:
            return
        try:
            received = self._connection.recv(65536)
        except OSError:
            received = b""
        if not received:
            raise Orphaned
        *lines, self._buffer = (self._buffer + received).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "pid" in message:
                self.pids[message["spawned"]] = message["pid"]
            else:
                self.codes[message["ended"]] = message["code"]

    def cpu_seconds(self, tracker: Tracker) -> float:
        """Return the CPU time that this process and the replicas have used so far.

        With what they have started: a script of a user's own is a process below its replica, which
        leads a session.
        """
        found: Counter[int] = Counter()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):  # it has ended meanwhile
                times = process.cpu_times()
                own = times.user + times.system + times.children_user + times.children_system
                found[os.getsid(process.pid)] += own
        # Of one that has ended, its last event tells.
        said = {name: event.cpu for name, event in tracker.last.items()}
        replicas = (max(found[pid], said.get(name, 0.0)) for name, pid in self.pids.items())
        return time.process_time() + sum(replicas)

    def end(self, grace: float) -> None:
        """End all that still run: asked first, then by force."""
        for number, patience in ((signal.SIGTERM, 0.5), (signal.SIGKILL, grace)):
            for name in self.running():
                self.kill(name, number)
            until = time.monotonic() + patience
            while self.running() and time.monotonic() < until:
                self.poll(0.05)

    def _send(self, **request: object) -> None:
        try:
            self._connection.sendall(json.dumps(request).encode() + b"\n")
        except OSError:
            raise Orphaned from None
