"""How the logs of pods are read and split, with a cluster that is made up."""

import contextlib
import threading
import time
from types import SimpleNamespace

import pytest

from labkit.launchers.kubernetes import logs
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.kubernetes.logs import Logs
from labkit.launchers.kubernetes.pods import Pod
from labkit.replicas import events, podlog
from labkit.replicas.events import Barrier, Ready
from labkit.replicas.podlog import ERR, OUT, Ended, Output

pytestmark = pytest.mark.unit

POD = Pod("w-0", "worker", 0)


class Cluster:
    """A cluster with a log that is given; like a node, it repeats the second asked for."""

    def __init__(self, *entries):
        self.lines = []
        self.away = 0  # readings that fail
        self.add(*entries)

    def add(self, *entries):
        for entry in entries:
            line = entry if isinstance(entry, bytes) else podlog.encode(entry)[:-1]
            number = len(self.lines)
            stamp = f"2020-02-20T20:20:{number // 10:02}.{number % 10}Z"
            self.lines.append(stamp.encode() + b" " + line)

    @contextlib.contextmanager
    def log(self, pod, since=""):
        if self.away:
            self.away -= 1
            raise ClusterError("away")
        yield iter([line for line in self.lines if line[:19].decode() >= since[:19]])


def event(seq, kind=Ready):
    return kind(seq=seq, t=float(seq), role="worker", index=0, cpu=0.0)


def printed(event):
    return Output("worker-0", OUT, events.encode(event)[:-1].encode())


def test_every_event_is_read_once(tmp_path):
    cluster = Cluster(printed(event(0)))
    log = Logs(cluster, tmp_path).of(POD)
    assert log.read_new() == [event(0)]
    assert log.read_new() == []
    cluster.add(printed(event(1, Barrier)))
    cluster.away = 1
    assert log.read_new() == []
    assert log.read_new() == [event(1, Barrier)]


def test_what_is_garbled_or_of_others_is_passed_over(tmp_path):
    garbled = Output("worker-0", OUT, printed(event(1)).text[:-9])
    error = printed(event(2))._replace(stream=ERR)
    cluster = Cluster(b"noise", garbled, error, b"@labkit {}", printed(event(3)))
    log = Logs(cluster, tmp_path).of(POD)
    assert log.read_new() == [event(3)]
    assert [entry for _, entry in log.entries()] == [garbled, error, printed(event(3))]


def test_the_whole_log_replaces_what_was_read(tmp_path, capfdbinary):
    writer = podlog.Writer()
    for entry in (printed(event(0)), printed(event(1)), Ended("worker-0", 0)):
        writer.write(entry)
    writer.write_copy()
    *_, piece, end = capfdbinary.readouterr().out.splitlines()
    cluster = Cluster(printed(event(1)), piece, end)  # its beginning was rotated away
    pod_logs = Logs(cluster, tmp_path)
    log = pod_logs.of(POD)
    assert log.read_new() == [event(1)]
    pod_logs.read_whole(POD)
    found = [entry for _, entry in log.entries()]
    assert found == [printed(event(0)), printed(event(1)), Ended("worker-0", 0)]


def test_the_copy_is_not_torn_by_a_sample(monkeypatch):
    """Samples are taken until the pod has ended, also while it prints its copy."""
    out = bytearray()

    def write(descriptor, line):  # as into a pipe that is read slowly: piece by piece
        for piece in (line[:5], line[5:]):
            out.extend(piece)
            time.sleep(0.001)

    monkeypatch.setattr(podlog, "os", SimpleNamespace(write=write))
    monkeypatch.setattr(podlog, "COPY_LINE", 10)
    writer, done = podlog.Writer(), threading.Event()
    for seq in range(20):
        writer.write(printed(event(seq)))

    def sample():
        while not done.is_set():
            writer.write(podlog.Sample(t=1.0, busy=2.0, own=3.0))

    sampler = threading.Thread(target=sample)
    sampler.start()
    writer.write_copy()
    done.set()
    sampler.join()
    lines = bytes(out).splitlines()
    assert None not in map(podlog.decode, lines)
    whole = podlog.read_copy(b"2020-02-20T20:20:20Z " + line for line in lines)
    assert whole.count(b"worker-0| ") == 20


def test_a_log_that_stays_cut_off(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "PATIENCE", 0.1)
    monkeypatch.setattr(logs, "time", SimpleNamespace(monotonic=logs.time.monotonic,
                                                      sleep=lambda seconds: None))  # fmt: skip
    with pytest.raises(ClusterError, match="the log of worker 0 cannot be read whole"):
        Logs(Cluster(printed(event(0))), tmp_path).read_whole(POD)


def test_a_print_is_a_sign_of_life_and_what_a_pod_says_of_itself_is_none(tmp_path):
    pod_logs = Logs(Cluster(podlog.Sample(1.0, 1.0, 1.0), podlog.Bound([0])), tmp_path)
    pod_logs.of(POD).read_new()
    assert not pod_logs.have_grown()
    pod_logs = Logs(Cluster(Output("worker-0", ERR, b"epoch 1")), tmp_path)
    pod_logs.of(POD).read_new()
    assert pod_logs.have_grown() and not pod_logs.have_grown()


def test_each_replica_has_files_of_its_own(tmp_path):
    cluster = Cluster(Output("worker-0", OUT, b"a"), Output("server-0", OUT, b"b"),
                      Output("worker-0", ERR, b"c"), Output("worker-0", OUT, b" d "))  # fmt: skip
    pod_logs = Logs(cluster, tmp_path)
    pod_logs.of(POD).read_new()
    for _ in range(2):  # the second time gives the same
        pod_logs.split(["server-0", "worker-0", "worker-1"])
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*-*.*")} == {
        "server-0.log": b"b\n", "server-0.err": b"", "worker-0.log": b"a\n d \n",
        "worker-0.err": b"c\n", "worker-1.log": b"", "worker-1.err": b"",
    }  # fmt: skip
