"""What goes wrong: every fault ends the trial within seconds, says why, and leaves nothing."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import psutil
import pytest
from processes import eventually, running

from labkit.campaign import SweepFailed, measure
from labkit.errors import LabkitError
from labkit.launchers import local
from labkit.runs import Store
from labkit.settings import WARM
from labkit.trials import Trial

pytestmark = [pytest.mark.usefixtures("warm", "once"), pytest.mark.timeout(300)]

LIMIT = 10
"""Seconds from a fault to its error."""


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
    moment : (str, str)
        A replica, such as ``worker-0``, and the kind of its event that is waited for.
    strike : callable
        Gets the process identifiers of the replicas that have started, by their names.
    slow : (str, str), optional
        Likewise a replica and an event: from there on it is held back, so that others get ahead.
    """

    def __init__(self, moment, strike, slow=None):
        self.moment, self.strike, self.slow = moment, strike, slow
        self.pids = {}
        self.ports = set()
        self.struck = None

    def __call__(self, event):
        if event["kind"] == "waiting":
            return
        name = f"{event['role']}-{event['index']}"
        if event["kind"] == "start":
            self.pids[name] = event["pid"]
        if self.slow == (name, event["kind"]):
            threading.Thread(target=hold_back, args=(self.pids[name],), daemon=True).start()
        if self.struck is None and self.moment == (name, event["kind"]):
            self.ports = listening(self.pids.values())
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


def killing(name):
    return lambda pids: os.kill(pids[name], signal.SIGKILL)


def listening(pids):
    """Return the ports on which processes listen."""
    ports = set()
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            found = psutil.Process(pid).net_connections("tcp")
            ports |= {c.laddr.port for c in found if c.status == psutil.CONN_LISTEN}
    return ports


def open_sockets():
    return {c.laddr for c in psutil.Process().net_connections("tcp")}


def nothing_is_left(store, saboteur):
    """Make sure that no process, port or half-written run is left; failed ones are whole."""
    assert saboteur.pids
    assert running(saboteur.pids.values()) == []
    for server in psutil.Process().children():
        assert server.children(recursive=True) == []
    for port in saboteur.ports:
        with socket.create_server(("127.0.0.1", port)):
            pass
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


# --- every role, in every phase -------------------------------------------------------------

FIRST, LAST = "worker-0", "worker-1"
PHASES = {
    # when: what is waited for, who is held back meanwhile, the values of the trial, what is said
    "before ready": ((None, "start"), None, {}, "before all were ready"),
    "at the barrier": ((FIRST, "ready"), (LAST, "start"), {}, "at the barrier"),
    "while training": ((FIRST, "step"), None, {}, "while training"),
    "at the end": ((FIRST, "end"), (LAST, "barrier"), {"steps": 20}, "at the end"),
}
ROLES = [("tensorflow", "server"), ("tensorflow", "worker"),
         ("mxnet", "scheduler"), ("mxnet", "server"), ("mxnet", "worker")]  # fmt: skip


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("framework", "role"), ROLES)
def test_killed(framework, role, phase, store):
    (who, kind), slow, values, said = PHASES[phase]
    victim = f"{role}-0"
    if (framework, role, phase) == ("tensorflow", "worker", "at the end"):
        # The one that has ended is gone at once: kill the one that others have left behind.
        victim, said = LAST, "while training"
    saboteur = Saboteur((who or victim, kind), killing(victim), slow)
    error = sabotage(trial(framework, **values), saboteur, store)
    index = victim.rpartition("-")[2]
    assert f"{role} {index} was ended by SIGKILL {said}." in error


def test_stopped(store):
    """A replica that neither dies nor goes on is found by the deadline."""
    saboteur = Saboteur((FIRST, "step"), lambda pids: os.kill(pids[FIRST], signal.SIGSTOP))
    error = sabotage(trial("mxnet"), saboteur, store, deadline=6)
    assert "did not finish within its deadline of 6 s. Still running: scheduler-0 " in error
    assert f"{FIRST} while training" in error


def test_told_to_leave(store):
    """A server that others ended in good order has left its workers alone nevertheless."""
    saboteur = Saboteur((FIRST, "step"), lambda pids: os.kill(pids["server-0"], signal.SIGTERM))
    error = sabotage(trial("tensorflow"), saboteur, store)
    assert "server 0 left before the workers had finished" in error


# --- what a trial needs from the machine ----------------------------------------------------


@pytest.mark.parametrize(("framework", "role", "says"), [
    ("tensorflow", "server", "Failed to add port"),
    ("tensorflow", "worker", "Failed to add port"),
    ("mxnet", "scheduler", "bind failed"),
])  # fmt: skip
def test_port_taken(framework, role, says, store, monkeypatch):
    """Whoever has a replica's port in spite of our reserving it, the error says so."""
    reserve = local._reserved_hosts
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        @contextlib.contextmanager
        def reserve_badly(roles):
            with reserve(roles) as hosts:
                yield hosts | {role: [f"127.0.0.1:{port}", *hosts[role][1:]]}

        monkeypatch.setattr(local, "_reserved_hosts", reserve_badly)
        saboteur = Saboteur((f"{role}-0", "start"), lambda pids: None)
        error = sabotage(trial(framework), saboteur, store)
    assert f"{role} 0 failed before all were ready" in error
    assert says in error


def cannot(why):
    """Skip a test that the machine does not permit; continuous integration must permit it."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


@pytest.fixture
def little_memory():
    """Return a function that leaves the process of a number hardly any more memory."""
    for root, limit in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        group = Path("/sys/fs/cgroup", root, f"labkit-test-{os.getpid()}")
        try:
            group.mkdir()
            (group / limit).write_text(str(16 << 20))
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        yield (group / "cgroup.procs").write_text
        group.rmdir()
        return
    cannot("no memory cgroup can be made here")


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_out_of_memory(framework, store, little_memory):
    saboteur = Saboteur((LAST, "start"), lambda pids: little_memory(str(pids[LAST])))
    error = sabotage(trial(framework, batch_size=512), saboteur, store)
    assert "worker 1 was killed by the kernel before all were ready, because memory ran" in error


@pytest.fixture
def small_disk(tmp_path):
    """Mount a disk of 40 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=40m", "labkit", str(disk)]
    if subprocess.run(mount, stderr=subprocess.DEVNULL).returncode:
        cannot("nothing can be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def fill(disk):
    with contextlib.suppress(OSError), (disk / "filling").open("wb", buffering=0) as file:
        while file.write(bytes(1 << 20)):
            pass
    with contextlib.suppress(OSError), (disk / "rest").open("wb", buffering=0) as file:
        while file.write(bytes(1 << 10)):
            pass


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_disk_full(framework, small_disk):
    store = Store(small_disk / "runs")
    saboteur = Saboteur((None, "start"), lambda pids: fill(small_disk))
    saboteur.moment = ({"tensorflow": "server-0", "mxnet": "scheduler-0"}[framework], "start")
    with pytest.raises(LabkitError) as caught:
        measure([trial(framework)], store=store, on_event=saboteur)
    assert time.monotonic() - saboteur.struck < LIMIT
    assert f"{store.root} is full" in str(caught.value)
    nothing_is_left(store, saboteur)
    assert list(store.root.glob(".failed/*")) == []
    with pytest.raises(LabkitError, match="MiB free; a trial needs 32 MiB"):
        measure([trial(framework)], store=store)  # not begun at all
    (small_disk / "filling").unlink()
    measure([trial(framework, steps=3)], store=store)


def test_a_disk_that_fills_is_noticed_before_a_log_breaks(store, monkeypatch):
    """A log's last page takes events for seconds after the disk has no other room."""
    least = 1 << 60  # more than any disk has

    def fill_up(pids):
        monkeypatch.setattr(local, "LEAST_ROOM", least)

    saboteur = Saboteur((FIRST, "step"), fill_up)
    with pytest.raises(LabkitError, match="is full"):
        measure([trial("mxnet")], store=store, on_event=saboteur)
    assert time.monotonic() - saboteur.struck < 3
    nothing_is_left(store, saboteur)


# --- events that are not whole --------------------------------------------------------------


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
@pytest.mark.parametrize(
    ("kind", "spoil", "says"),
    [
        ("barrier", lambda lines: lines[-1][:30], "is cut off or garbled"),
        ("barrier", lambda lines: lines[-1], "has event 2 twice; due was 3"),
        ("ready", lambda lines: lines[-1].replace('"seq": 1', '"seq": 9'), "event 9 after a gap"),
    ],
)
def test_spoilt_events(framework, kind, spoil, says, store):
    """A trial that ran to its end is no result if its events do not add up."""
    spoilt = trial(framework, steps=20)
    log = store.root / ".scratch" / spoilt.name / f"{FIRST}.log"

    def strike(pids):
        lines = [line for line in log.read_text().splitlines(True) if kind in line]
        with log.open("a") as file:
            file.write(spoil(lines))

    error = sabotage(spoilt, Saboteur((FIRST, kind), strike), store)
    assert says in error
    assert "worker 0: line" in error


# --- labkit itself --------------------------------------------------------------------------


def follow(labkit, saboteur):
    for event in labkit.events():
        saboteur(event)
    assert saboteur.struck, labkit.errors.read_text()
    return labkit.wait()


MOMENTS = {
    "before ready": ((FIRST, "start"), None, {}),
    "at the barrier": ((FIRST, "ready"), (LAST, "start"), {}),
    "while training": ((FIRST, "step"), None, {}),
    "at the end": ((FIRST, "end"), (LAST, "barrier"), {"steps": 20}),
}


@pytest.mark.parametrize(("framework", "phase"), [
    *(("mxnet", phase) for phase in MOMENTS), ("tensorflow", "while training"),
])  # fmt: skip
def test_labkit_killed(framework, phase, start_labkit, tmp_path):
    """The warm process, which is not labkit's own here, clears up after it, and lives on."""
    moment, slow, values = MOMENTS[phase]
    labkit = start_labkit(framework=framework, **ENDLESS | values)
    saboteur = Saboteur(moment, lambda pids: labkit.signal(signal.SIGKILL), slow)
    assert follow(labkit, saboteur) == -signal.SIGKILL
    scratch = tmp_path / "runs" / ".scratch"
    eventually(lambda: not running(saboteur.pids.values()) and not any(scratch.iterdir()), LIMIT)
    nothing_is_left(Store(tmp_path / "runs"), saboteur)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_labkit_ended_with_a_warm_process_of_its_own(number, start_labkit, tmp_path, monkeypatch):
    monkeypatch.delenv(WARM)
    labkit = start_labkit(framework="mxnet", **ENDLESS)
    family = []

    def strike(pids):
        family.extend(labkit.family())
        labkit.signal(number)

    saboteur = Saboteur((FIRST, "step"), strike)
    assert follow(labkit, saboteur) == -number
    assert len(family) == 1 + 1 + 2 + 2  # the warm process, a scheduler, servers, workers
    scratch = tmp_path / "runs" / ".scratch"
    eventually(lambda: not running(family) and not any(scratch.iterdir()), LIMIT)
    nothing_is_left(Store(tmp_path / "runs"), saboteur)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_labkit_ended_during_the_import(number, start_labkit, tmp_path, monkeypatch):
    monkeypatch.delenv(WARM)
    labkit = start_labkit(framework="tensorflow", **ENDLESS)
    eventually(lambda: labkit.family("forkserver.py"), 30)
    time.sleep(1)  # of the many that it takes
    family = labkit.family()
    labkit.signal(number)
    assert labkit.wait() == -number
    eventually(lambda: not running(family), LIMIT)
    store = Store(tmp_path / "runs")
    with store.claim(trial("tensorflow")):  # the next one removes what a SIGKILL leaves here
        pass
    assert list((store.root / ".scratch").iterdir()) == []
    assert list(store.runs()) == []


@pytest.mark.parametrize(("framework", "presses"), [("tensorflow", 1), ("mxnet", 1), ("mxnet", 2)])
def test_ctrl_c(framework, presses, start_labkit, tmp_path):
    def strike(pids):
        for _ in range(presses):
            labkit.signal(signal.SIGINT)
            time.sleep(0.2)

    labkit = start_labkit(framework=framework, **ENDLESS | {"steps": [10, 1_000_000]})
    saboteur = Saboteur(None, strike)
    for event in labkit.events():
        if event["kind"] == "step" and event["steps"] > 10:
            saboteur.moment = (f"{event['role']}-{event['index']}", "step")
        saboteur(event)
    assert labkit.wait() == -signal.SIGINT
    assert time.monotonic() - saboteur.struck < LIMIT
    eventually(lambda: not running(saboteur.pids.values()), LIMIT)
    store = Store(tmp_path / "runs")
    assert [run.trial for run in store.runs()] == [trial(framework, steps=10)]
    assert list((store.root / ".scratch").iterdir()) == []
    assert "KeyboardInterrupt" in labkit.errors.read_text()
