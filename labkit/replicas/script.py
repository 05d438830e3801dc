"""Be one replica by running a script of a user's own, and say what it does.

The script is a process of its own, started as its framework's launcher would start it. What it
prints is passed on. A worker's script that calls `labkit.report` is measured like labkit's own
trainers: its workers meet at a barrier, and say when they have taken which steps. Of any other
script nothing is known but the rates that it prints.
"""

import argparse
import contextlib
import importlib
import json
import os
import platform
import re
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from labkit.replicas import HERE, SCRIPTED, checksum, events, rendezvous, sum_of
from labkit.replicas.account import Account
from labkit.replicas.arguments import limit_threads
from labkit.replicas.duration import Duration
from labkit.replicas.environments import ENVIRONMENTS, STARTERS, filled_in, placeholders
from labkit.replicas.meeting import READY, Meeting
from labkit.replicas.orphan import die_with_parent

VARIABLE = "LABKIT_REPORT"
"""As `labkit.report` reads it; that file must do alone."""

LONGEST = 1 << 16
"""Bytes after which a line is taken as one although it goes on."""

GRACE = 2.0
"""Seconds that a script has to end after a SIGTERM, when enough was measured."""

LAST_READS = 4
"""Of each stream after the script has ended: more than the kernel keeps of them."""

CODE = checksum(__file__, SCRIPTED)


def parse(argv=None):
    """Read a replica's command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--role", default="worker", choices=("scheduler", "server", "worker"))
    parser.add_argument("--index", type=int, default=0, help="of the replica in its role")
    parser.add_argument("--hosts", type=json.loads, default={}, help="JSON: host:port by role")
    parser.add_argument("--deadline", type=float, help="seconds after which the replica ends")
    parser.add_argument("--data", default="", help="where data sets are: {data}")
    parser.add_argument("--trial", default="", help="the trial's identity")
    parser.add_argument("--framework", required=True, choices=sorted(ENVIRONMENTS))
    parser.add_argument("--package", default="", help="that may have brought the framework")
    parser.add_argument("--script", required=True)
    parser.add_argument("--file", action="append", default=[], help="below the script's folder")
    parser.add_argument("--directory", default=".", help="where the script runs")
    parser.add_argument("--argument", action="append", default=[], help="of the script")
    parser.add_argument("--pattern", help="of a rate that the script prints")
    parser.add_argument("--rates", default="each", help="whose the script prints")
    parser.add_argument("--duration", type=float, help="seconds of training, if not till its end")
    parser.add_argument("--batch-size", type=int, default=0, help="{batch_size}")
    parser.add_argument("--seed", type=int, default=1, help="{seed}")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args(argv)
    limit_threads(args.threads)
    return args


class Script:
    """A script that runs.

    Parameters
    ----------
    args : Namespace
        From `parse`.
    account : Account
        Gets all that it says.

    Attributes
    ----------
    duration : Duration or None
        Whether it has trained as long as was asked for, if that was.
    ended : float
        When it had ended, in monotonic seconds.
    """

    def __init__(self, args, account):
        self.args, self.account = args, account
        self.selector = selectors.DefaultSelector()
        self.meeting, self.met = None, False
        self.duration, self.stopping, self.ended = None, False, None
        self.lines = {}  # what has come of each stream's last line
        self._start()

    def _start(self):
        args = self.args
        known = placeholders(args)
        secret = os.environ.pop(rendezvous.SECRET, "")  # the script's own code has no use for it
        ours, theirs = socket.socketpair()
        environment = dict(os.environ, **{
            name: str(value) for name, value in ENVIRONMENTS[args.framework](args).items()
        })  # fmt: skip
        if args.role == "worker":
            inode = os.fstat(theirs.fileno()).st_ino
            environment[VARIABLE] = f"{theirs.fileno()}:{inode}"
            host, count = args.hosts.get("barrier", [""])[0], len(args.hosts["worker"])
            self.meeting = Meeting(host, args.index, count, secret)
            self.meeting.register(self.selector)
            if args.duration is not None:
                self.duration = Duration(args.duration, self.account, self.meeting)
        starter = [str(HERE / STARTERS[name]) for name in [args.framework] if name in STARTERS]
        line = [args.script, *(filled_in(argument, known) for argument in args.argument)]
        self.process = subprocess.Popen(
            [sys.executable, "-u", *starter, *line],
            cwd=args.directory, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[theirs.fileno()],
            preexec_fn=lambda: die_with_parent(signal.SIGKILL),
        )  # fmt: skip
        theirs.close()
        self.channel = ours
        for number, pipe in ((1, self.process.stdout), (2, self.process.stderr)):
            self.selector.register(pipe, selectors.EVENT_READ, (self._printed, number))
        self.selector.register(ours, selectors.EVENT_READ, (self._reported, 3))

    def run(self):
        """Return the script's exit code, negative for a signal, when it has ended."""
        while self.process.poll() is None:
            self._listen(0.05)
            if self.meeting and self.meeting.over(READY) and not self.met:
                self.met = True
                self._go()
            if self.duration and self.duration.over(self.process):
                self._stop()
        self.ended = time.monotonic()
        while self.duration and self.duration.keeps(self.process):
            self._listen(0.05)
        # What it has left running may print on for ever: nobody waits for that.
        for _ in range(LAST_READS):
            self._listen(0)
        for number in (1, 2):
            self._lines(number, b"\n" if self.lines.get(number) else b"")
        return self.process.returncode

    def _stop(self):
        """End the script, which need not know what for."""
        self.stopping = True
        self.process.terminate()
        until = time.monotonic() + GRACE
        while self.process.poll() is None:
            self._listen(0.05)
            if time.monotonic() > until:
                self.process.kill()

    def _listen(self, patience):
        for key, _ in self.selector.select(patience):
            handle, number = key.data
            handle(key.fileobj, number)

    def _read(self, stream):
        received = b""
        with contextlib.suppress(OSError):
            received = os.read(stream.fileno(), LONGEST)
        if not received:
            self.selector.unregister(stream)
        return received

    def _printed(self, pipe, number):
        """Pass on what the script prints, and look for a rate in it."""
        self._lines(number, self._read(pipe))

    def _lines(self, number, received):
        text = self.lines.get(number, b"") + received
        lines = re.findall(rb"[^\r\n]*[\r\n]+", text)
        rest = text[sum(map(len, lines)) :]
        if len(rest) > LONGEST:
            lines, rest = [*lines, rest], b""
        self.lines[number] = rest
        for line in lines:
            # Nobody but this process writes events here.
            left = line.replace(events.PREFIX.encode(), b"@ labkit ")
            while left:
                left = left[os.write(number, left) :]
            if not self.stopping:  # what it says of its end is no training
                self.account.printed(line.decode("utf-8", "replace"), self.process.pid)

    def _reported(self, channel, number):
        """Make events of what the script has said by `labkit.report`."""
        text = self.lines.get(number, b"") + self._read(channel)
        *lines, self.lines[number] = text.split(b"\n")
        for line in lines:
            message = json.loads(line.decode())
            self.account.reported(**message)
            if message["what"] == "ready":
                self.meeting.come(READY)

    def _go(self):
        with contextlib.suppress(OSError):  # it may have died while it waited
            self.channel.sendall(b"go\n")


def _version(package):
    """Return a package's version, None if it cannot be told."""
    try:  # by name, as Python 3.6 has no such module
        return importlib.import_module("importlib.metadata").version(package)
    except (ImportError, ValueError):
        return None


def _versions(args):
    own = _version(args.package) or _version(args.framework)
    found = {"numpy": _version("numpy"), args.framework: own}
    known = {name: version for name, version in found.items() if version}
    return dict(known, python=platform.python_version())


def main(args):
    """Run the script, and end as it has ended.

    Raises
    ------
    SystemExit
        With the script's code if it failed, with 1 if it gave nothing to measure.
    """
    writer = events.Writer(args.role, args.index)
    if args.deadline:
        # The launcher ends late replicas; this is for the case that it is no longer there.
        signal.setitimer(signal.ITIMER_REAL, args.deadline)
    told, running = [], []

    def leave(*_):
        """Have the script leave, too; locally its whole group is told anyway."""
        told.append(True)
        for script in running:
            script.process.terminate()

    signal.signal(signal.SIGTERM, leave)
    home = Path(args.script).parent
    writer.write(
        events.Start, trial=args.trial, code=CODE, data="", pid=os.getpid(),
        model=sum_of({name: (home / name).read_bytes() for name in args.file}),
        host=socket.gethostname(), cpus=len(os.sched_getaffinity(0)), threads=args.threads,
        versions=_versions(args),
    )  # fmt: skip
    account = Account(args, writer)
    script = Script(args, account)
    running.append(script)
    if told:
        leave()
    if args.role != "worker":
        writer.write(events.Ready)
    code = script.run()
    if script.duration and script.duration.enough:
        code = 0  # as far as anybody asked
    complaint = account.diverged or account.complaint()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, peak = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
    if account.diverged or (code == 0 and complaint):
        kind = "Diverged" if account.diverged else "NothingToMeasure"
        writer.write(events.Error, cpu=cpu, type=kind, message=complaint, traceback="")
        raise SystemExit(1)
    if code == 0 or (told and args.role != "worker"):
        writer.write(
            events.End, t=max(script.ended, account.t), cpu=cpu, peak_bytes=peak,
            **account.totals,
        )  # fmt: skip
        return
    if code < 0:  # end by the same signal, which the launcher names
        if -code == signal.SIGTERM:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    raise SystemExit(code)


if __name__ == "__main__":
    main(parse())
