"""What is known of pods by polling them, with answers that are made up."""

import pytest

from labkit.launchers.kubernetes.pods import Inventory

pytestmark = pytest.mark.unit


def item(kind, index, phase, **meta):
    """Return a pod as the API server lists it."""
    labels = {
        "app.kubernetes.io/component": kind,
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    status = {"phase": phase, "podIP": "10.0.0.1"}
    if phase != "Pending":
        state = "running" if phase == "Running" else "terminated"
        ours = {"name": "labkit", "state": {state: {}}, "imageID": "x" * 1000}
        status["containerStatuses"] = [ours]
    return {
        "metadata": {"name": f"{kind}-{index}-abc", "labels": labels, **meta},
        "spec": {}, "status": status,
    }  # fmt: skip


def test_phases_of_pods_from_the_first_to_the_last():
    pods = Inventory({"worker": 2, "server": 1})
    assert not pods.update([])
    assert pods.missing() == ["worker", "server"] and not pods.complete
    assert pods.update([item("worker", 0, "Running"), item("server", 0, "Pending")])
    assert pods.missing() == ["worker"] and not pods.complete
    assert pods.phases() == {
        "worker": {"Pending": 1, "Running": 1, "Succeeded": 0, "Failed": 0},
        "server": {"Pending": 1, "Running": 0, "Succeeded": 0, "Failed": 0},
    }
    running = [item(*who, "Running") for who in (("worker", 0), ("worker", 1), ("server", 0))]
    assert pods.update(running) and pods.complete and not pods.missing()
    assert not pods.update(running)  # nothing new
    assert pods.update([item(*who, "Succeeded") for who in (("worker", 0), ("worker", 1))]
                       + running[2:])  # fmt: skip
    assert not pods.succeeded
    pods.update([item(*who, "Succeeded") for who in (("worker", 0), ("worker", 1), ("server", 0))])
    assert pods.succeeded and pods.complete


def test_a_pod_that_is_deleted_is_broken_unless_it_has_succeeded():
    pods = Inventory({"worker": 3})
    deletion = {"deletionTimestamp": "2020-02-20T20:20:25Z", "deletionGracePeriodSeconds": 5}
    pods.update([item("worker", 0, "Running"), item("worker", 1, "Running", **deletion),
                 item("worker", 2, "Succeeded", **deletion)])  # fmt: skip
    assert [pod.broken for pod in pods] == [False, True, False]
    second = list(pods)[1]
    assert second.deletion == (1582230020.0, 5)
    pods.update([])
    assert [pod.broken for pod in pods] == [True, True, False]
    assert second.deletion == (1582230020.0, 5)


@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (3, "Failed")])
def test_a_pod_has_ended_with_its_own_container(code, phase):
    """Where a mesh or a monitor adds one that never ends, the pod itself runs for ever."""
    pods = Inventory({"worker": 1})
    pod = item("worker", 0, "Running")
    injected = {"name": "injected", "state": {"running": {}}}
    pod["status"]["containerStatuses"].insert(0, injected)
    pods.update([pod])
    assert [(p.phase, p.started) for p in pods] == [("Running", True)]
    pod["status"]["containerStatuses"][1]["state"] = {"terminated": {"exitCode": code}}
    pods.update([pod])
    assert [p.phase for p in pods] == [phase]
    assert pods.succeeded == (code == 0)


@pytest.mark.parametrize(
    ("ended", "why"),
    [({"exitCode": 0}, ""), ({"exitCode": 2, "message": "no ifb\n"}, "no ifb"),
     ({"exitCode": 137}, "exit code 137")],
)  # fmt: skip
def test_a_pod_whose_network_could_not_be_limited(ended, why):
    listed = item("worker", 0, "Failed")
    ours, other = (
        {"name": name, "state": {"terminated": state}}
        for name, state in (("labkit-network", ended), ("mesh", {"exitCode": 1}))
    )
    listed["status"]["initContainerStatuses"] = [other, ours]
    pods = Inventory({"worker": 1})
    pods.update([listed])
    assert [pod.unlimited for pod in pods] == [why]
