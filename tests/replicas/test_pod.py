"""What a pod starts, in processes of this machine: no cluster is needed."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from datetime import datetime

import psutil
import pytest
from processes import eventually, running

from labkit.launchers.kubernetes.manifests import AGENT
from labkit.replicas import HERE, cores, podlog, rendezvous
from labkit.replicas.pod import traffic
from labkit.replicas.podlog import Ended

pytestmark = pytest.mark.process

TRAINER = """
import argparse, json, os, signal, sys, threading, time

parser = argparse.ArgumentParser()
for name in ("role", "index", "hosts"):
    parser.add_argument(f"--{name}")
parser.add_argument("--do", default="{}")
parser.add_argument("--do-alone")
args = parser.parse_args()
print(f"I am {args.role} {args.index}, {os.getpid()}")
print("trouble", file=sys.stderr)
print(args.hosts)
exec(json.loads(args.do).get(args.role, ""))
"""


WAIT = """
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
signal.sigwait({signal.SIGTERM})
"""


class Pod:
    """A pod, as a process in a directory that holds what its ConfigMap would."""

    def __init__(self, directory, roles, index=0, do=None, node="node-1", **job):
        self.directory = directory
        directory.mkdir(exist_ok=True)
        for name in ("__init__.py", *AGENT):
            path = directory / "labkit" / "replicas" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(HERE / name, path)
        (directory / "labkit" / "__init__.py").touch()
        (directory / "trainer.py").write_text(TRAINER)
        job = {
            "trainer": "trainer.py",
            "arguments": [f"--do={json.dumps(do or {})}"],
            "worker_arguments": [[] for _ in range(index + 1)],
            "hosts": {role: [f"localhost:{9000 + k}"] for k, role in enumerate(roles)},
            "coordinator": None,
            "known": {role: [name for name in [job.get("coordinator")] if name] for role in roles},
            "python": "",
            "servers_wait": False,
            "cores_per_worker": 0,
            "rendezvous_timeout": 5.0,
            "secret": "secret",
        } | job
        (directory / "job.json").write_text(json.dumps(job))
        place = {"JOB_COMPLETION_INDEX": str(index), "POD_IPS": "::1,127.0.0.1", "NODE_NAME": node}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "labkit.replicas.pod", *roles],
            cwd=directory, env=os.environ | place, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def end(self):
        """Return its exit code, its lines, and what they say."""
        printed = self.process.communicate(timeout=30)[0].splitlines()
        return self.process.returncode, printed, [podlog.decode(line.encode()) for line in printed]


@pytest.fixture
def start(tmp_path):
    pods = []

    def start(roles, **options):
        pods.append(Pod(tmp_path / f"{len(pods)}", roles, **options))
        return pods[-1]

    yield start
    for pod in pods:
        with contextlib.suppress(psutil.NoSuchProcess):
            for replica in psutil.Process(pod.process.pid).children():
                replica.kill()
        pod.process.kill()
        pod.process.communicate()


def test_lines_carry_their_replicas_name(start):
    code, printed, entries = start(["server", "worker"]).end()
    assert code == 0
    for name in ("server-0", "worker-0"):
        assert f"{name}! trouble" in printed
        role = name.partition("-")[0]
        assert any(line.startswith(f"{name}| I am {role} 0") for line in printed)
    machine, *others = entries
    assert machine.node == "node-1" and machine.cores >= 1 and machine.memory > 2**20
    assert {entry for entry in others if isinstance(entry, Ended)} == {
        Ended("server-0", 0), Ended("worker-0", 0),
    }  # fmt: skip


def copy_of(printed):
    """Return the lines that a pod has printed, each with its time, from the copy at its end."""
    whole = podlog.read_copy(f"now {line}".encode() for line in printed)
    return [line.partition(" ") for line in whole.decode().splitlines()]


def test_a_worker_has_arguments_of_its_own(start):
    do = {role: "print('given', args.do_alone)" for role in ("server", "worker")}
    own = [["--do-alone=first"], ["--do-alone=second"]]
    hosts = {role: ["localhost:9000", "localhost:9001"] for role in do}
    job = {"hosts": hosts, "worker_arguments": own}
    code, printed, _ = start(["server", "worker"], index=1, do=do, **job).end()
    assert code == 0
    assert "server-1| given None" in printed and "worker-1| given second" in printed


def test_it_prints_all_once_more(start):
    code, printed, _ = start(["worker"], do={"worker": "print('x\\n' * 5000, end='')"}).end()
    assert code == 0
    stamps, _, lines = zip(*copy_of(printed), strict=True)
    assert list(lines) == [line for line in printed if not line.startswith("@cop")]
    assert len(lines) > 5000
    assert list(stamps) == sorted(stamps)
    assert max(map(len, printed)) < 16_000
    age = time.time() - datetime.fromisoformat(stamps[0]).timestamp()
    assert 0 <= age < 30


def test_what_its_processes_send_each_other_is_no_traffic(tmp_path, monkeypatch):
    """Names are right-aligned, and numbers may follow the colon at once; see proc_pid_net(5)."""
    told = [
        "Inter-|   Receive                            |  Transmit",
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets",
        "    lo: 7000     1    0    0    0     0          0         0  7000     1 0 0 0 0 0 0",
        "  eth0:12345     9    0    0    0     0          0         0   678     2 0 0 0 0 0 0",
        "  net1:     5    1    0    0    0     0          0         0     4     1 0 0 0 0 0 0",
    ]
    monkeypatch.setattr("labkit.replicas.pod.NETWORK", tmp_path / "dev")
    (tmp_path / "dev").write_text("\n".join(told) + "\n")
    assert traffic() == (682, 12_350)
    monkeypatch.setattr("labkit.replicas.pod.NETWORK", tmp_path / "nowhere")
    assert traffic() == (0, 0)


def test_it_says_how_busy_the_node_is(start):
    work = "end = time.time() + 2.5\nwhile time.time() < end: pass"
    _, _, entries = start(["worker"], do={"worker": work}).end()
    samples = [entry for entry in entries if isinstance(entry, podlog.Sample)]
    assert len(samples) >= 3
    first, last = samples[0], samples[2]
    assert last.t - first.t == pytest.approx(2, abs=0.5)
    assert 0.5 < last.own - first.own <= last.busy - first.busy + 0.2
    assert 0 < last.agent - first.agent < last.own - first.own


def test_it_sleeps_while_nothing_happens(start):
    """What it does comes out of its replicas' share of a core; polling took 20 turns a second."""
    hosts = {"server": ["localhost:9000"], "worker": ["w-0:9001"]}
    job = {"hosts": hosts, "coordinator": "server", "servers_wait": True}
    pod = start(["server"], do={"server": "print('here', flush=True)\n" + WAIT}, **job)
    for line in pod.process.stdout:
        if "here" in line:
            break

    def turns():
        tasks = psutil.Process(pod.process.pid).threads()
        return sum(psutil.Process(task.id).num_ctx_switches().voluntary for task in tasks)

    before = turns()
    time.sleep(1)
    assert turns() - before < 10


def test_the_last_second_is_not_lost(start):
    _, _, entries = start(["worker"], do={"worker": "time.sleep(0.4)"}).end()
    samples = [entry for entry in entries if isinstance(entry, podlog.Sample)]
    assert len(samples) >= 2 and samples[-1].t - samples[0].t >= 0.4


@pytest.mark.parametrize(
    ("script", "code"),
    [("sys.exit(3)", 3), ("os.kill(os.getpid(), signal.SIGKILL)", 137)],
)
def test_when_one_fails_the_other_is_ended(script, code, start):
    pod = start(["server", "worker"], do={"worker": script, "server": "time.sleep(60)"})
    begin = time.monotonic()
    ended, _, entries = pod.end()
    assert ended == code
    assert time.monotonic() - begin < 10
    assert Ended("server-0", -signal.SIGTERM) in entries


def test_when_told_to_leave_it_ends_all(start):
    stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf')\ntime.sleep(60)"
    pod = start(["server", "worker"], do={"server": stubborn, "worker": "time.sleep(60)"})
    pids = []
    for line in pod.process.stdout:
        if " I am " in line:
            pids.append(int(line.split()[-1]))
        if "deaf" in line:
            break
    pod.process.terminate()
    assert pod.process.wait(10) != 0
    eventually(lambda: running(pids) == [])


def test_a_pod_that_is_told_to_leave_has_not_succeeded(start):
    pod = start(["server"], do={"server": "print('here', flush=True)\n" + WAIT})
    for line in pod.process.stdout:
        if "here" in line:
            break
    time.sleep(0.5)
    pod.process.terminate()
    code, _, entries = pod.end()
    assert Ended("server-0", 0) in entries
    assert code == 128 + signal.SIGTERM


def test_it_waits_for_the_name_of_whom_it_depends_on(start):
    hosts = {"scheduler": ["nobody.invalid:9000"], "worker": ["w:9001"]}
    pod = start(["worker"], hosts=hosts, coordinator="scheduler", rendezvous_timeout=1.0)
    code, printed, _ = pod.end()
    assert code == 1
    assert "worker-0! nobody.invalid had no address within 1 s" in printed
    assert copy_of(printed)


@pytest.mark.parametrize(
    ("known", "first"), [(["server"], "localhost:9001"), (["server", "worker"], "127.0.0.1:9001")]
)
def test_it_knows_the_addresses_it_needs_and_its_own(start, known, first):
    hosts = {"server": ["localhost:9000"], "worker": ["localhost:9001", "localhost:9002"]}
    pod = start(["worker"], index=1, hosts=hosts, coordinator="server", known={"worker": known})
    _, printed, _ = pod.end()
    (line,) = (line for line in printed if '"server"' in line and "| {" in line)
    assert json.loads(line.partition("| ")[2]) == {
        "server": ["127.0.0.1:9000"], "worker": [first, "127.0.0.1:9002"],
    }  # fmt: skip


def test_a_server_leaves_after_the_last_worker(start):
    hosts = {"server": ["localhost:9000"], "worker": ["w-0:9001", "w-1:9001"]}
    job = {"hosts": hosts, "coordinator": "server", "servers_wait": True}
    server = start(["server"], do={"server": WAIT}, **job)
    first = start(["worker"], index=0, **job)
    assert first.end()[0] == 0
    time.sleep(0.5)
    assert server.process.poll() is None
    assert start(["worker"], index=1, **job).end()[0] == 0
    code, _, entries = server.end()
    assert code == 0 and Ended("server-0", 0) in entries


# --- cores ----------------------------------------------------------------------------------

USABLE = cores.spread(os.sched_getaffinity(0))
BUSY = """
more = [threading.Thread(target=time.sleep, args=(60,), daemon=True) for _ in range(4)]
for thread in more: thread.start()
time.sleep(60)
"""


def threads_of(pod):
    """Return how many threads each child of a pod's agent has; a child may end meanwhile."""
    numbers = []
    for child in psutil.Process(pod.process.pid).children():
        with contextlib.suppress(psutil.NoSuchProcess):
            numbers.append(child.num_threads())
    return numbers


def bound(pod):
    """Return the cores that a pod says it holds, once its replicas really hold them."""
    entries = (podlog.decode(line.encode()) for line in pod.process.stdout)
    said = next(entry.processors for entry in entries if isinstance(entry, podlog.Bound))
    replicas = psutil.Process(pod.process.pid).children()
    assert len(replicas) == len(pod.process.args[3:])
    for replica in replicas:
        held = {tuple(psutil.Process(t.id).cpu_affinity()) for t in replica.threads()}
        assert held == {tuple(said)}
    return said


def after(first, count=1):
    return sorted(USABLE[(first + k) % len(USABLE)] for k in range(count))


def test_workers_of_a_node_have_cores_of_their_own(start):
    """In the order of their indices, whichever comes first."""
    hosts = {role: [f"w-{i}:9001" for i in range(4)] for role in ("server", "worker")}
    hosts["scheduler"] = ["localhost:9000"]
    job = {"hosts": hosts, "coordinator": "scheduler", "cores_per_worker": 1}
    start(["scheduler"], do={"scheduler": "time.sleep(60)"}, **job)
    workers = {}
    for index, node in [(2, "node-1"), (0, "node-1"), (3, "node-1"), (1, "node-2")]:
        do = {"worker": BUSY, "server": "time.sleep(60)"}
        workers[index] = start(["server", "worker"], index=index, node=node, do=do, **job)
        eventually(lambda: 5 in threads_of(workers[index]))  # noqa: B023 - called at once
    assert [bound(workers[i]) for i in range(4)] == [after(0), after(0), after(1), after(2)]


def test_as_many_cores_as_threads(start):
    hosts = {"server": ["localhost:9000"], "worker": ["w-0:9001", "w-1:9001"]}
    job = {"hosts": hosts, "coordinator": "server", "servers_wait": True, "cores_per_worker": 2}
    server = start(["server"], do={"server": WAIT}, **job)
    workers = [start(["worker"], index=i, do={"worker": BUSY}, **job) for i in range(2)]
    assert [bound(worker) for worker in workers] == [after(0, 2), after(2, 2)]
    (replica,) = psutil.Process(server.process.pid).children()
    assert replica.cpu_affinity() == sorted(USABLE)


def test_a_worker_has_no_more_before_it_knows_its_place(start):
    """What a library finds when it loads is what it will have."""
    hosts = {"scheduler": ["localhost:9000"], "worker": ["w-0:9001", "w-1:9001"]}
    job = {"hosts": hosts, "coordinator": "scheduler", "cores_per_worker": 1}  # and nobody answers
    worker = start(["worker"], do={"worker": "print('has', *os.sched_getaffinity(0))"}, **job)
    assert f"worker-0| has {USABLE[0]}" in worker.end()[1]


def test_workers_without_servers_coordinate_themselves(start):
    hosts = {"worker": ["localhost:9001"]}
    job = {"hosts": hosts, "coordinator": "worker", "cores_per_worker": 1}
    assert bound(start(["worker"], do={"worker": BUSY}, **job)) == after(0)


def test_a_worker_alone_needs_nobody(start):
    hosts = {"worker": ["w-0:9001"]}
    worker = start(["worker"], do={"worker": BUSY}, cores_per_worker=1, hosts=hosts)
    assert bound(worker) == after(0)


def test_workers_that_share_their_node_with_other_trials_are_not_bound(start):
    _, _, entries = start(["worker"], hosts={"worker": ["w-0:9001"]}).end()
    assert not any(isinstance(entry, podlog.Bound) for entry in entries)


def test_calls_that_make_no_sense_or_come_twice(start):
    hosts = {"server": ["localhost:9000"], "worker": ["w-0:9001", "w-1:9001"]}
    job = {"hosts": hosts, "coordinator": "server", "servers_wait": True, "cores_per_worker": 1}
    start(["server"], do={"server": WAIT}, **job)

    def call(text):
        connection = socket.socket()
        eventually(lambda: connection.connect_ex(("localhost", rendezvous.PORT)) == 0)
        connection.sendall(text)
        return connection

    nonsense = b"\n", b"secret register x node-1\n", b"\xff\n", b"guess register 0 other\n"
    called = [call(text) for text in (*nonsense, b"secret register 1 other\n")]
    called.pop().close()
    worker = start(["worker"], index=0, do={"worker": BUSY}, **job)
    time.sleep(0.5)
    again = start(["worker"], index=1, do={"worker": BUSY}, **job)
    assert [bound(worker), bound(again)] == [after(0), after(1)]
    for connection in called:
        connection.close()


def test_a_worker_that_fails_does_not_end_the_server(start):
    hosts = {"server": ["localhost:9000"], "worker": ["w-0:9001"]}
    job = {"hosts": hosts, "coordinator": "server", "servers_wait": True}
    server = start(["server"], do={"server": WAIT}, **job)
    assert start(["worker"], do={"worker": "sys.exit(1)"}, **job).end()[0] == 1
    time.sleep(0.5)
    assert server.process.poll() is None
