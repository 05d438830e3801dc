"""Labkit in another process, and waiting for what happens there."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

REPOSITORY = Path(__file__).parents[1]


def cannot(why):
    """Skip a test that the machine does not permit; continuous integration must permit it."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


def eventually(condition, seconds=60):
    """Wait until something holds; fail if it does not within some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)


def running(pids):
    """Return which of some processes are still there; those only waited for are not."""
    left = []
    for pid in pids:
        try:
            if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                left.append(pid)
        except psutil.NoSuchProcess:
            pass
    return left


def fork(work):
    """Do something in a forked process, which is quickly there; return its identifier."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return child


def exit_code(child):
    """Wait for a forked process; return its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


SWEEP = """
import json, sys
from labkit import campaign
from labkit.replicas.events import Event
from labkit.trials import Sweep

def show(event):
    if isinstance(event, Event):
        print(json.dumps(event.as_dict()), flush=True)

campaign.OVERLOAD_RETRIES = 0
campaign.measure(Sweep.grid(**json.loads(sys.argv[1])), sys.argv[2], on_event=show)
"""


class Labkit:
    """A sweep in a process of its own, as from a user's script.

    Parameters
    ----------
    outputs : Path
        Where its store is made.
    launcher : str
        Where its trials run.
    **values
        Of `Sweep.grid`.
    """

    def __init__(self, outputs, launcher="local", **values):
        outputs.mkdir(exist_ok=True)
        self.errors = outputs / "stderr"
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SWEEP, json.dumps(values), launcher],
                cwd=REPOSITORY, env=os.environ | {"LABKIT_OUTPUTS": str(outputs)},
                stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True,
            )  # fmt: skip
        self.pid = self.process.pid

    def events(self):
        """Yield its replicas' events, as their lines have them, until it ends."""
        for line in self.process.stdout:
            yield json.loads(line)

    def signal(self, number):
        """Signal it and whatever it has left in its process group, as a terminal does."""
        os.killpg(self.pid, number)

    def wait(self):
        """Return its exit code."""
        self.process.stdout.close()
        return self.process.wait(30)

    def family(self, name=""):
        """Return the processes that it has started, and those that these have."""
        found = []
        for child in psutil.Process(self.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # it has just ended, as git does
                if name in " ".join(child.cmdline()):
                    found.append(child.pid)
        return found
