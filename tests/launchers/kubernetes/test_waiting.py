"""Trials that wait for room or for their pods: with a stand-in for the API server."""

import pytest
from small_trials import trial

from labkit.launchers.kubernetes import launcher, room, submission
from labkit.launchers.kubernetes.api import Cluster
from labkit.launchers.kubernetes.launcher import KubernetesLauncher
from labkit.launchers.kubernetes.owners import Owner
from labkit.launchers.kubernetes.pods import Inventory
from labkit.launchers.kubernetes.room import Crowded, Room
from labkit.launchers.kubernetes.settings import Settings
from labkit.launchers.protocol import NoRoomForTrial, TrialFailed, Waiting

pytestmark = pytest.mark.unit

LONG_AGO, TO_COME = "2020-02-20T20:20:20Z", "2120-02-20T20:20:20Z"


@pytest.fixture
def submitted(api_server, tmp_path):
    """Return a function that submits a trial, whose pods find no node."""

    def submit(one=None, since=LONG_AGO, said="0/1 nodes: Insufficient cpu.", **settings):
        cluster = Cluster(Settings(**settings))
        made = submission.submit(
            cluster, one or trial(), 60.0, Owner.here(tmp_path), lambda event: None, None
        )
        for pod in api_server.of_kind("pods").values():
            if "nodeName" not in pod["spec"]:
                pod["status"]["conditions"] = [{
                    "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                    "message": said, "lastTransitionTime": since,
                }]  # fmt: skip
        pods = Inventory(made.expected())
        pods.update(cluster.list("Pod", made.selector))
        events = []
        return Room(cluster, made, events.append), pods, events

    return submit


def place(api_server, name="mxnet-0", user="bob@elsewhere"):
    """Have a pod of another trial on a node."""
    labels = {"app.kubernetes.io/part-of": "labkit", "app.kubernetes.io/instance": name}
    return api_server.put("pods", {
        "metadata": {"name": f"{name}-worker-0", "labels": labels},
        "spec": {"nodeName": "node-1", "containers": []}, "status": {"phase": "Running"},
    })  # fmt: skip


@pytest.mark.parametrize("since", [LONG_AGO, TO_COME])
def test_only_the_own_clock_counts(since, submitted, monkeypatch):
    """The cluster's may be some minutes ahead or behind."""
    place, pods, _ = submitted(since=since, wait_for_room=10.0)
    now = 1000.0
    monkeypatch.setattr(room.time, "monotonic", lambda: now)
    assert place.check_scheduled(pods)
    now += 9.0
    assert place.check_scheduled(pods)
    now += 2.0
    with pytest.raises(NoRoomForTrial, match="pods find no node"):
        place.check_scheduled(pods)


def test_it_is_said_for_whom_it_waits(submitted, api_server, monkeypatch):
    """Pods that hold no node stay in line; when nobody else is there, there is no room."""
    monkeypatch.setattr(room, "ASK_INTERVAL", 0.0)
    there = place(api_server)
    waiting, pods, events = submitted(wait_for_room=0.0)
    assert waiting.check_scheduled(pods)
    assert events == [Waiting("the room of mxnet-0")]
    api_server.delete("pods", there["metadata"]["name"])
    with pytest.raises(NoRoomForTrial) as caught:
        waiting.check_scheduled(pods)
    assert not isinstance(caught.value, Crowded)


def test_a_node_that_a_trial_of_another_namespace_has(submitted, api_server):
    """labkit may not see it, but the scheduler knows."""
    said = "0/1 nodes: 1 node(s) didn't satisfy existing pods anti-affinity rules."
    waiting, pods, events = submitted(wait_for_room=0.0, said=said)
    api_server.fail(403, "pods is forbidden", kind="pods", method="GET")
    assert waiting.check_scheduled(pods)
    assert events == [Waiting("the room of another trial, perhaps of another namespace")]


def test_two_that_hold_a_part_do_not_wait_for_each_other(submitted, api_server):
    """What a trial has of the room it gives back, and comes again when the others change."""
    place(api_server)
    api_server.create_pods = True
    waiting, pods, _ = submitted(wait_for_room=0.0)
    next(iter(pods)).node = "node-1"
    with pytest.raises(Crowded) as caught:
        waiting.check_scheduled(pods)
    assert caught.value.others == {"mxnet-0"}


def test_a_crowded_trial_is_submitted_again(api_server, tmp_path, monkeypatch):
    """When it has given back what it had, and the others have changed."""
    outcomes = [Crowded("no node", {"mxnet-0"}), {"launcher": "kubernetes"}]
    there = []

    class Attempt:
        def __init__(self, *_):
            pass

        def known(self):
            return {}

        def wait(self):
            there.append(len(api_server.of_kind("jobs")))
            outcome = outcomes.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

    def observe(event):
        if isinstance(event, Waiting):
            there.append(len(api_server.of_kind("jobs")))

    monkeypatch.setattr(launcher, "Attempt", Attempt)
    monkeypatch.setattr(launcher.random, "uniform", lambda *_: 0.0)
    with KubernetesLauncher(settings=Settings()) as runner:
        assert runner.run(trial(), tmp_path, observe) == {"launcher": "kubernetes"}
    assert there == [2, 0, 2]


def refuse(api_server, message, uid="1"):
    api_server.put("events", {
        "metadata": {"name": f"event-{len(api_server.of_kind('events'))}"}, "message": message,
        "involvedObject": {"uid": uid}, "reason": "FailedCreate",
    })  # fmt: skip


PASSES = [
    'Internal error occurred: failed calling webhook "a.b.c": context deadline exceeded',
    'Operation cannot be fulfilled on resourcequotas "q": the object has been modified; please '
    "apply your changes to the latest version and try again",
]


@pytest.mark.parametrize("message", PASSES)
def test_what_the_job_tries_again_is_not_fatal(message, submitted, api_server, monkeypatch):
    waiting, _, events = submitted()
    now = 1000.0
    monkeypatch.setattr(room.time, "monotonic", lambda: now)
    refuse(api_server, message)
    assert waiting.check_created("worker", "1")
    assert message[:50] in events[0].for_
    now += 1000.0
    with pytest.raises(TrialFailed, match="pods of workers cannot be created"):
        waiting.check_created("worker", "1")


@pytest.mark.parametrize("message", [
    'admission webhook "policy.example.com" denied the request: no team label',
    'pods "x" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi',
])  # fmt: skip
def test_what_stays_forbidden_is_said_at_once(message, submitted, api_server):
    waiting, _, _ = submitted()
    refuse(api_server, PASSES[0])
    refuse(api_server, message)
    with pytest.raises(TrialFailed) as caught:
        waiting.check_created("worker", "1")
    assert message in str(caught.value)


def test_a_quota_that_others_use_up(submitted, api_server):
    waiting, _, _ = submitted()
    refuse(api_server, 'pods "x" is forbidden: exceeded quota: small, used: pods=3')
    with pytest.raises(NoRoomForTrial, match="the quota of namespace") as caught:
        waiting.check_created("worker", "1")
    assert not isinstance(caught.value, Crowded)
    place(api_server)
    with pytest.raises(Crowded):
        waiting.check_created("worker", "1")
