"""What replicas have used of the processors."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from processes import eventually

from labkit.launchers.local.processes import Processes

pytestmark = pytest.mark.process

BUSY = 0.3
"""Seconds of CPU time."""

CUT_OFF = 0.1
"""More than is lost of them where a kernel counts in hundredths, of each process, of each kind."""

PARENT = f"""
import subprocess, sys
child = f"import time\\nwhile time.process_time() < {BUSY + CUT_OFF}: pass\\ntime.sleep(60)"
subprocess.run([sys.executable, "-c", child])
"""


def test_what_a_replica_has_started_counts_as_its_own():
    """A script of a user's own is a process below its replica, which does next to nothing."""
    ours, theirs = socket.socketpair()
    parent = subprocess.Popen([sys.executable, "-c", PARENT], start_new_session=True)
    try:
        with contextlib.closing(ours), contextlib.closing(theirs):
            processes = Processes(ours)
            processes.pids["worker-0"] = parent.pid
            tracker = SimpleNamespace(last={})
            eventually(lambda: processes.cpu_seconds(tracker) - time.process_time() >= BUSY)
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()
