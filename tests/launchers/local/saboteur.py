"""Trials that would take hours, what is done to them, and what must hold afterwards."""

import contextlib
import os
import signal
import threading
import time

import psutil
import pytest
from processes import running

from labkit.campaign import SweepFailed, measure
from labkit.launchers.protocol import Waiting
from labkit.replicas.events import Start
from labkit.trials import Trial

LIMIT = 10
"""Seconds from a fault to its error."""

FIRST, LAST = "worker-0", "worker-1"

FEW = 60
"""Steps of a trial that ends: more than a worker takes before an event of it is seen."""

ENDLESS = {
    "model": "lenet5",
    "workers": 2,
    "batch_size": 32,
    "learning_rate": 0.01,
    "steps": 1_000_000,
    "eval_samples": 0,
}


def trial(framework, **values):
    """Return a trial that would take hours, if not told otherwise."""
    return Trial(framework=framework, **ENDLESS | values)


class Saboteur:
    """Watches a trial and does something to it, once, when the moment has come.

    Parameters
    ----------
    moment : (str, type)
        A replica, such as ``worker-0``, and the kind of its event that is waited for.
    strike : callable
        Gets the process identifiers of the replicas that have started, by their names.
    slow : (str, type), optional
        Likewise a replica and an event: from there on it is held back, so that others get ahead.
    """

    def __init__(self, moment, strike, slow=None):
        self.moment, self.strike, self.slow = moment, strike, slow
        self.pids = {}
        self.struck = None

    def __call__(self, event):
        if isinstance(event, Waiting):
            return
        name = event.replica
        if isinstance(event, Start):
            self.pids[name] = event.pid
        if self.slow == (name, type(event)):
            threading.Thread(target=hold_back, args=(self.pids[name],), daemon=True).start()
        if self.struck is None and self.moment == (name, type(event)):
            self.struck = time.monotonic()
            self.strike(self.pids)


def hold_back(pid):
    """Leave a process a tenth of its time, for as long as it lives."""
    with contextlib.suppress(ProcessLookupError):
        while True:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.09)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.01)


def open_sockets():
    """Return the addresses of this process's sockets."""
    return {c.laddr for c in psutil.Process().net_connections("tcp")}


def nothing_is_left(store, saboteur):
    """Make sure that no process or half-written run is left; failed ones are whole."""
    assert saboteur.pids
    assert running(saboteur.pids.values()) == []
    for server in psutil.Process().children():
        assert server.children(recursive=True) == []
    assert list((store.root / ".scratch").iterdir()) == []
    assert list(store.runs()) == []


def sabotage(trial, saboteur, store, **options):
    """Run a trial; return its error, after all the things that hold of any fault."""
    sockets = open_sockets()
    with pytest.raises(SweepFailed) as caught:
        measure([trial], store=store, on_event=saboteur, **options)
    assert saboteur.struck, caught.value
    assert time.monotonic() - saboteur.struck < LIMIT
    assert open_sockets() <= sockets  # none of those that reserved the ports
    nothing_is_left(store, saboteur)
    error = str(caught.value)
    row = store.results([trial]).table.iloc[0]
    assert row.status == "failed"
    assert row.error in error
    assert row[["samples_per_second", "accuracy", "duration_s"]].isna().all()
    assert (store.failure(trial).directory / "worker-0.log").exists()  # what it printed is kept
    return error
