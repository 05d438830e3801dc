"""What a trial's run does with what a cluster tells it, with a cluster that is made up."""

import contextlib
import threading
from types import SimpleNamespace

import pytest
from small_trials import trial
from test_pods import item

from labkit.launchers.kubernetes import attempt
from labkit.launchers.kubernetes.attempt import Attempt
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.kubernetes.settings import Settings
from labkit.launchers.kubernetes.submission import Submission
from labkit.replicas import events, podlog
from labkit.replicas.events import Barrier
from labkit.replicas.podlog import OUT, Output

pytestmark = pytest.mark.unit

TRIAL = trial("tensorflow", workers=2)


class Cluster:
    """A cluster whose pods go through phases that are given, poll by poll.

    Parameters
    ----------
    *polls : dict of int to str
        The phase of each worker's pod; one that is left out is gone, log and all.
    """

    settings = Settings()

    def __init__(self, *polls):
        self.polls, self.now = list(polls), {}

    def list(self, kind, selector="", fields=""):
        if kind != "Pod":
            return [{"metadata": {"name": "t-worker", "uid": "1"}, "status": {}}]
        self.now = self.polls.pop(0) if len(self.polls) > 1 else self.polls[0]
        return [item("worker", index, phase) for index, phase in self.now.items()]

    @contextlib.contextmanager
    def log(self, pod, since=""):
        index = int(pod.split("-")[1])
        if index not in self.now:
            raise ClusterError("its node is gone")
        lines = [b"2020-02-20T20:20:2%d.5Z " % n + line for n, line in enumerate(printed(index))]
        yield iter(lines if self.now[index] == "Succeeded" else lines[:2])


def printed(index):
    """Return the lines of a worker's pod: a report, an event, the copy."""
    event = Barrier(seq=0, t=1.0, role="worker", index=index, cpu=0.0)
    lines = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(podlog, "os", SimpleNamespace(write=lambda _, line: lines.append(line[:-1])))
        writer = podlog.Writer()
        writer.write(podlog.Machine("node", "cpu", 2, 1, "system"))
        writer.write(Output(f"worker-{index}", OUT, events.encode(event)[:-1].encode()))
        writer.write_copy()
    return lines


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that waits for a trial whose pods go through some phases."""
    monkeypatch.setattr(attempt, "POLL_INTERVAL", 0.001)
    monkeypatch.setattr(attempt, "CREATION_TIME", 1e9)

    def run(*polls):
        submission = Submission(TRIAL, attempt.time.time(), 60.0, {"worker": {"image": "i"}}, 3)
        monkeypatch.setattr(Submission, "job_of", lambda *_: "t-worker")
        return Attempt(
            Cluster(*polls), submission, tmp_path, lambda event: None, threading.Event()
        ).wait()

    return run


def test_a_log_is_read_whole_before_its_node_may_go(run, tmp_path):
    """A node that is scaled away takes the logs of its pods with it."""
    record = run(
        {0: "Running", 1: "Running"}, {0: "Succeeded", 1: "Running"}, {1: "Running"},
        {1: "Succeeded"},
    )  # fmt: skip
    assert record["pods"] == {"worker 0": "", "worker 1": ""}
    assert "barrier" in (tmp_path / "worker-0.log").read_text()
