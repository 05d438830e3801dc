"""What goes wrong: every fault ends the trial within seconds, says why, and leaves nothing."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from processes import cannot
from saboteur import FEW, FIRST, LAST, LIMIT, Saboteur, nothing_is_left, sabotage, trial

from labkit import doctor
from labkit.campaign import measure
from labkit.errors import LabkitError
from labkit.launchers.local import attempt, launcher
from labkit.replicas import models
from labkit.replicas.events import Barrier, End, Ready, Start, Step
from labkit.runs import Store

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.usefixtures("warm", "once"),
    pytest.mark.timeout(300),
]


LISTENS = "0A"
"""How the kernel prints that of a socket."""


def killing(name):
    return lambda pids: os.kill(pids[name], signal.SIGKILL)


# --- every role, in every phase -------------------------------------------------------------

PHASES = {
    # when: what is waited for, who is held back meanwhile, the values of the trial, what is said
    "before ready": ((None, Start), None, {}, "before all were ready"),
    "at the barrier": ((FIRST, Ready), (LAST, Start), {}, "at the barrier"),
    "while training": ((FIRST, Step), None, {}, "while training"),
    "at the end": ((FIRST, End), (LAST, Barrier), {"steps": FEW}, "at the end"),
}
ROLES = [("tensorflow", "server"), ("tensorflow", "worker"),
         ("mxnet", "scheduler"), ("mxnet", "server"), ("mxnet", "worker")]  # fmt: skip


CASES = [
    *[("async-ps", *role, phase) for role in ROLES for phase in PHASES],
    *[("sync-ps", *role, "while training") for role in ROLES if role[1] != "scheduler"],
]


@pytest.mark.parametrize(("strategy", "framework", "role", "phase"), CASES)
def test_killed(strategy, framework, role, phase, store):
    (who, kind), slow, values, said = PHASES[phase]
    victim = f"{role}-0"
    if (framework, role, phase) == ("tensorflow", "worker", "at the end"):
        # The one that has ended is gone at once: kill the one that others have left behind.
        victim, said = LAST, "while training"
    saboteur = Saboteur((who or victim, kind), killing(victim), slow)
    error = sabotage(trial(framework, strategy=strategy, **values), saboteur, store)
    index = victim.rpartition("-")[2]
    assert f"{role} {index} was ended by SIGKILL {said}." in error


def test_stopped(store):
    """A replica that neither dies nor goes on is found by the deadline."""
    saboteur = Saboteur((FIRST, Step), lambda pids: os.kill(pids[FIRST], signal.SIGSTOP))
    error = sabotage(trial("mxnet"), saboteur, store, deadline=9)
    assert "did not finish within its deadline of 9 s. Still running: scheduler-0 " in error
    assert f"{FIRST} while training" in error


def test_mxnet_listens_on_loopback_alone(store):
    """Also where it shares the machine's network, as with a user's own code."""
    if not doctor.network().ok:
        cannot("in the machine's network others listen, too")
    found = set()

    def look(pids):
        for kind in ("tcp", "tcp6"):
            lines = Path(f"/proc/{pids[FIRST]}/net/{kind}").read_text().splitlines()[1:]
            sockets = (line.split() for line in lines)
            found.update(s[1].split(":")[0] for s in sockets if s[3] == LISTENS)
        os.kill(pids[FIRST], signal.SIGKILL)

    sabotage(trial("mxnet"), Saboteur((FIRST, Step), look), store)
    assert found == {"0100007F"}  # 127.0.0.1, as the kernel prints it


def test_told_to_leave(store):
    """A server that others ended in good order has left its workers alone nevertheless."""
    saboteur = Saboteur((FIRST, Step), lambda pids: os.kill(pids["server-0"], signal.SIGTERM))
    error = sabotage(trial("tensorflow"), saboteur, store)
    assert "server 0 left before the workers had finished" in error


# --- what a trial needs from the machine ----------------------------------------------------


@pytest.mark.parametrize(("framework", "role", "says"), [
    ("tensorflow", "server", "Failed to add port"),
    ("tensorflow", "worker", "Failed to add port"),
    ("mxnet", "scheduler", "bind failed"),
])  # fmt: skip
def test_port_taken(framework, role, says, store, monkeypatch, tmp_path):
    """Whoever has a replica's port in spite of our reserving it, the error says so.

    That can be where replicas share the machine's network, as those of a user's own code do.
    """
    reserve = launcher.reserved_hosts
    file = tmp_path / "mine.py"
    file.write_text(models.path_of("lenet5").read_text())
    mine = trial(framework, model=str(file), dataset="fashion-mnist")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        @contextlib.contextmanager
        def reserve_badly(roles):
            with reserve(roles) as hosts:
                yield hosts | {role: [f"127.0.0.1:{port}", *hosts[role][1:]]}

        monkeypatch.setattr(launcher, "reserved_hosts", reserve_badly)
        saboteur = Saboteur((f"{role}-0", Start), lambda pids: None)
        error = sabotage(mine, saboteur, store)
    assert f"{role} 0 failed before all were ready" in error
    assert says in error


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
    saboteur = Saboteur((LAST, Start), lambda pids: little_memory(str(pids[LAST])))
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
    saboteur = Saboteur((None, Start), lambda pids: fill(small_disk))
    saboteur.moment = ({"tensorflow": "server-0", "mxnet": "scheduler-0"}[framework], Start)
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
        monkeypatch.setattr(attempt, "LEAST_ROOM", least)

    saboteur = Saboteur((FIRST, Step), fill_up)
    with pytest.raises(LabkitError, match="is full"):
        measure([trial("mxnet")], store=store, on_event=saboteur)
    assert time.monotonic() - saboteur.struck < LIMIT
    nothing_is_left(store, saboteur)


# --- events that are not whole --------------------------------------------------------------


@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
@pytest.mark.parametrize(
    ("kind", "spoil", "says"),
    [
        (Barrier, lambda lines: lines[-1][:30], "is cut off or garbled"),
        (Barrier, lambda lines: lines[-1], "has event 2 twice; due was "),
        (Ready, lambda lines: lines[-1].replace('"seq": 1', '"seq": 9'), "event 9 after a gap"),
    ],
)
def test_spoilt_events(framework, kind, spoil, says, store):
    """A trial that ran to its end is no result if its events do not add up."""
    spoilt = trial(framework, steps=20)
    log = store.root / ".scratch" / spoilt.name / f"{FIRST}.log"

    def strike(pids):
        lines = [line for line in log.read_text().splitlines(True) if kind.kind in line]
        with log.open("a") as file:
            file.write(spoil(lines))

    error = sabotage(spoilt, Saboteur((FIRST, kind), strike), store)
    assert says in error
    assert "worker 0: line" in error
