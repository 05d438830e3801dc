"""What a trial's run does with what a cluster tells it, with a cluster that is made up."""

import contextlib
from types import SimpleNamespace

import pytest
from small_trials import trial
from test_pods import item

from labkit.launchers.kubernetes import attempt, logs, room, waiting
from labkit.launchers.kubernetes.attempt import Attempt
from labkit.launchers.kubernetes.errors import ClusterError, Forbidden
from labkit.launchers.kubernetes.settings import Settings
from labkit.launchers.kubernetes.submission import Submission
from labkit.launchers.protocol import TrialFailed, Waiting
from labkit.replicas import events, podlog
from labkit.replicas.events import Barrier
from labkit.replicas.podlog import OUT, Output

pytestmark = pytest.mark.unit

TRIAL = trial("tensorflow", workers=2)


class Clock:
    """A clock that each poll moves on by 10 s."""

    now = 1e6

    def monotonic(self):
        return self.now

    time = monotonic

    def sleep(self, seconds):
        self.now += seconds


def made(index, phase):
    """Return a worker's pod as the API server lists it, in a phase or with a status."""
    if isinstance(phase, dict):
        pod = item("worker", index, phase.get("phase", "Failed"))
        pod["status"] |= phase
        pod["spec"]["nodeName"] = "node-1"
        return pod
    if phase not in ("Unschedulable", "SchedulingGated"):
        return item("worker", index, phase)
    pod = item("worker", index, "Pending")
    pod["status"]["conditions"] = [{
        "type": "PodScheduled", "status": "False", "reason": phase,
        "message": "0/1 nodes are available", "lastTransitionTime": "2020-02-20T20:20:20Z",
    }]  # fmt: skip
    return pod


class Cluster:
    """A cluster whose pods go through phases that are given, poll by poll.

    Parameters
    ----------
    *polls : dict of int to str
        The phase of each worker's pod; one that is left out is gone, log and all.
    """

    settings = Settings(wait_for_room=1000.0)
    host = "https://cluster"
    events = ()
    refusal = None
    took = 10.0

    def __init__(self, clock, *polls):
        self.clock = clock
        self.polls, self.now = list(polls), {}
        self.logs = {index: printed(index) for index in polls[0]}

    def list(self, kind, selector="", fields=""):
        if kind == "Event":
            return self.events
        if kind != "Pod":
            return [{"metadata": {"name": "t-worker", "uid": "1"}, "status": {}}]
        self.now = self.polls.pop(0) if len(self.polls) > 1 else self.polls[0]
        self.clock.now += self.took
        return [made(index, phase) for index, phase in self.now.items()]

    @contextlib.contextmanager
    def log(self, pod, since=""):
        index = int(pod.split("-")[1])
        if self.refusal:
            raise self.refusal
        if index not in self.now:
            raise ClusterError("its node is gone")
        lines = [b"2020-02-20T20:20:2%d.5Z " % n + line for n, line in enumerate(self.logs[index])]
        yield iter(lines[: {"Succeeded": None, "Running": 2}.get(str(self.now[index]), 1)])


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

    def run(*polls, deadline=60.0, refusal=None, events=(), on_event=lambda event: None,
            took=10.0, waits=None):  # fmt: skip
        clock = Clock()
        stopped = SimpleNamespace(wait=(waits if waits is not None else []).append)
        for module in (attempt, room, logs, waiting):
            monkeypatch.setattr(module, "time", clock)
        submission = Submission(TRIAL, clock.time(), deadline, {"worker": {"image": "i"}}, 3)
        monkeypatch.setattr(Submission, "job_of", lambda *_: "t-worker")
        cluster = Cluster(clock, *polls)
        cluster.refusal, cluster.events, cluster.took = refusal, events, took
        return Attempt(cluster, submission, tmp_path, on_event, stopped).wait()

    return run


def test_many_pods_are_polled_less_often(run, monkeypatch):
    """Two pods at 0.4 a second: a poll in five seconds, each of all pods at once."""
    monkeypatch.setattr(attempt, "POLL_RATE", 0.4)
    waits = []
    running = {0: "Running", 1: "Running"}
    run(running, running, {0: "Succeeded", 1: "Succeeded"}, took=0.0, waits=waits)
    assert waits == [pytest.approx(5.0)] * 2


def test_a_log_is_read_whole_before_its_node_may_go(run, tmp_path):
    """A node that is scaled away takes the logs of its pods with it."""
    record = run(
        {0: "Running", 1: "Running"}, {0: "Succeeded", 1: "Running"}, {1: "Running"},
        {1: "Succeeded"},
    )  # fmt: skip
    assert record["pods"] == {"worker 0": "", "worker 1": ""}
    assert "barrier" in (tmp_path / "worker-0.log").read_text()


@pytest.mark.parametrize("why", ["Unschedulable", "SchedulingGated"])
def test_waiting_for_room_counts_to_no_deadline(why, run):
    """It takes 800 s, of which neither the trial's 60 s nor those without a sign of life are.

    A queue of the cluster's holds pods back by a gate.
    """
    waiting = {0: why, 1: why}
    record = run(*[waiting] * 80, {0: "Running", 1: "Running"}, {0: "Succeeded", 1: "Succeeded"})
    assert record["launcher"] == "kubernetes"


def terminated(reason, message="", code=128):
    state = {"terminated": {"reason": reason, "exitCode": code, "message": message}}
    return {"containerStatuses": [{"name": "labkit", "state": state}]}


SHUTDOWN = {
    "reason": "Terminated", "message": "Pod was terminated in response to imminent node shutdown.",
    "conditions": [{"type": "DisruptionTarget", "status": "True",
                    "reason": "TerminationByKubelet"}],
}  # fmt: skip


@pytest.mark.parametrize(("status", "says"), [
    ({"reason": "OutOfcpu", "message": "Node didn't have enough resource: cpu"},
     r"worker 1 was refused by node node-1 .*OutOfcpu: Node didn't have enough"),
    (terminated("StartError", 'exec: "python3": executable file not found in $PATH'),
     r"worker 1 could not be started on node node-1 \(StartError: exec: .python3.: executable"),
    (SHUTDOWN, "worker 1 lost its node node-1 .*: the node shuts down"),
])  # fmt: skip
def test_what_a_node_did_is_said(status, says, run):
    with pytest.raises(TrialFailed, match=says):
        run({0: "Running", 1: status})


def test_logs_that_labkit_may_not_read(run):
    """It would train to its end, and only then find that it has nothing."""
    refusal = Forbidden("labkit may not read the log of pod worker-0: templates/rbac.yaml")
    with pytest.raises(Forbidden, match="templates/rbac.yaml"):
        run({0: "Running", 1: "Running"}, refusal=refusal, deadline=3600.0)


def test_a_kubelet_that_is_not_reached(run):
    problem = "read the log of pod worker-0: dial tcp 10.0.0.5:10250: i/o timeout"
    with pytest.raises(TrialFailed, match="no sign of life .*10.0.0.5:10250: i/o timeout"):
        run({0: "Running", 1: "Running"}, refusal=ClusterError(problem), deadline=3600.0)


def test_a_container_that_hangs_in_creation(run):
    """What the node says about it is shown meanwhile, and in the error."""
    said = []

    def observe(event):
        if isinstance(event, Waiting):
            said.append(event.for_)

    creating = {"phase": "Pending", "containerStatuses": [
        {"name": "labkit", "state": {"waiting": {"reason": "ContainerCreating"}}}
    ]}  # fmt: skip
    trouble = {"reason": "FailedMount", "message": "configmap not found"}
    with pytest.raises(TrialFailed, match="worker 1 on node node-1: FailedMount: configmap not"):
        run({0: "Running", 1: creating}, deadline=3600.0, events=[trouble], on_event=observe)
    assert said[0] == (
        "the barrier: 1 of 2 pods have started, 0 of 2 workers are connected and ready"
    )
    assert said[-1].endswith("worker 1 on node node-1: FailedMount: configmap not found")


def test_after_a_minute_the_usual_causes_are_named(run):
    said = []

    def observe(event):
        if isinstance(event, Waiting):
            said.append(event.for_)

    silent = {"phase": "Running"}
    with pytest.raises(TrialFailed):
        run({0: silent, 1: silent}, deadline=3600.0, on_event=observe)
    assert "0 of 2 workers are connected" in said[1] and "usual causes" not in said[1]
    assert "usual causes" in said[-1] and "docs/kubernetes.md" in said[-1]
