"""Which of several replicas failed by itself, by what is known of pods and of their logs."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from small_trials import trial
from test_pods import item

from labkit.launchers.kubernetes import causes
from labkit.launchers.kubernetes.pods import Inventory
from labkit.launchers.tracking import Tracker
from labkit.replicas.events import Error
from labkit.replicas.podlog import Ended

pytestmark = pytest.mark.unit


def lost(index):
    """Return a worker's last word when its server has gone."""
    return Error(
        seq=1, t=2.0, role="worker", index=index, cpu=0.0, type="UnavailableError",
        message="Socket closed", traceback="",
    )  # fmt: skip


def cause(*pods, codes, errors=()):
    """Return what is said of pods, by the exit codes in their logs and workers' last words."""
    tracker = Tracker(trial("tensorflow", workers=2))
    for index in errors:
        tracker.update(lost(index))
    known = Inventory({"worker": 2, "server": 1})
    known.update(pods)
    printed = {
        f"{pod.component}-{pod.index}": [
            ("", Ended(name, code)) for name, code in codes.items()
            if name == f"{pod.component}-{pod.index}"
        ]
        for pod in known
    }  # fmt: skip
    logs = SimpleNamespace(
        of=lambda pod: SimpleNamespace(entries=lambda: printed[f"{pod.component}-{pod.index}"])
    )
    return str(causes.failure(tracker, list(known), logs, Path("nowhere"), "2Gi"))


DELETED = {"deletionTimestamp": "2026-01-01T00:00:10Z", "deletionGracePeriodSeconds": 5}


def test_workers_that_lost_a_deleted_server_did_not_fail_by_themselves():
    """They may say so before anybody has seen that it is deleted."""
    pods = [
        item("worker", 0, "Failed"), item("worker", 1, "Running", **DELETED),
        item("server", 0, "Running", **DELETED),
    ]  # fmt: skip
    said = cause(*pods, codes={"worker-0": 1, "worker-1": 143}, errors=[0])
    assert "server 0 was deleted" in said


def test_a_job_deletes_what_is_left_of_it():
    pods = [item("worker", 0, "Running", **DELETED), item("worker", 1, "Failed")]
    assert "worker 1 left with code 3" in cause(*pods, codes={"worker-0": 143, "worker-1": 3})
