"""What is created for a trial, and what becomes of it; a stand-in: no cluster is needed."""

import re
import threading
from concurrent.futures import ThreadPoolExecutor

import made_runs
import pytest
import yaml
from click.testing import CliRunner

from labkit.cli import main
from labkit.launchers.kubernetes import api
from labkit.launchers.kubernetes.api import Cluster
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.kubernetes.owners import Owner
from labkit.launchers.kubernetes.pods import Inventory
from labkit.launchers.kubernetes.settings import Settings
from labkit.launchers.kubernetes.shares import Shares, check_rights
from labkit.launchers.kubernetes.status import trials
from labkit.launchers.kubernetes.submission import submit
from labkit.launchers.tracking import Tracker
from labkit.replicas.events import Ready
from labkit.settings import TEMPLATES

pytestmark = pytest.mark.unit

TRIAL = made_runs.trial(workers=2)


def submitted(cluster):
    """Submit the trial, as one who is alone in the namespace does."""
    return submit(cluster, TRIAL, 60.0, Owner("me@here", "/runs/1"), print, threading.Event())


def limited(cluster, pod):
    """Give a pod its share of a core, as that of a slow trial has when its worker is ready."""
    slow = TRIAL.replace(slowdown=10.0, cpu=0.5)
    check_rights(cluster)
    tracker, pods = Tracker(slow), Inventory({"worker": 2})
    pods.update([pod | {"status": {"phase": "Running"}}])
    tracker.update(Ready(seq=1, t=1.0, role="worker", index=0, cpu=0.0))
    with ThreadPoolExecutor(1) as pool:
        Shares(cluster, tracker, pods).update(pool)


def kinds(api_server):
    return sorted(kind for kind, items in api_server.objects.items() if items)


def test_all_of_a_trial_is_created_and_deleted(api_server):
    cluster = Cluster(Settings())
    submission = submitted(cluster)
    assert kinds(api_server) == ["configmaps", "jobs", "networkpolicies", "pods", "services"]
    assert len(cluster.left(submission.selector)) == submission.objects + 3
    cluster.remove_and_check(submission.selector)
    assert kinds(api_server) == []


def test_without_the_right_to_network_policies_it_works_with_a_warning(api_server):
    cluster = Cluster(Settings())
    api_server.fail(403, "networkpolicies is forbidden", times=99, kind="networkpolicies")
    with pytest.warns(UserWarning, match="other pods of the cluster can reach the ports"):
        submission = submitted(cluster)
    assert kinds(api_server) == ["configmaps", "jobs", "pods", "services"]
    cluster.remove_and_check(submission.selector)
    assert kinds(api_server) == []


def test_the_role_as_shipped_is_what_a_trial_needs(api_server, monkeypatch):
    """Of the rights in templates/rbac.yaml none is missing, and none is left over."""
    role = next(
        manifest
        for manifest in yaml.safe_load_all((TEMPLATES / "rbac.yaml").read_text())
        if manifest["kind"] == "Role"
    )
    api_server.rules = role["rules"]
    cluster = Cluster(Settings())
    submission = submitted(cluster)
    submitted(cluster)  # once more, by a labkit that takes it over
    pod = api_server.pod("worker", 0)
    with cluster.log(pod["metadata"]["name"]) as lines:
        assert list(lines) == []
    list(cluster.list("Event", selector=""))
    limited(cluster, pod)
    api_server.collects = False
    monkeypatch.setattr(api, "FORCE_AFTER", -1.0)
    cluster.remove_and_check(submission.selector)
    allowed = {
        (verb, resource)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert api_server.used_rights == allowed


def test_without_another_right_it_does_not(api_server):
    api_server.fail(403, "services is forbidden", times=9, kind="services")
    with pytest.raises(ClusterError, match="may not create Service"):
        submitted(Cluster(Settings()))


def test_the_log_is_that_of_the_trials_own_container(api_server):
    """Where a mesh or a monitor adds its own, a request must name one."""
    cluster = Cluster(Settings())
    submitted(cluster)
    pod = api_server.pod("worker", 0)
    pod["spec"]["containers"].insert(0, {"name": "injected"})
    api_server.logs[pod["metadata"]["name"]] = b"2026-01-01T00:00:00Z hello\n"
    with cluster.log(pod["metadata"]["name"]) as lines:
        assert list(lines) == [b"2026-01-01T00:00:00Z hello"]
    assert api_server.requests[-1][3]["container"] == own_name(pod)


def test_a_cluster_whose_clock_is_ahead(api_server):
    """Nothing has begun in the future."""
    api_server.ahead = 3600.0
    cluster = Cluster(Settings())
    submitted(cluster)
    [row] = trials(cluster)
    assert "worker 0/2 running" in row["state"]
    assert row["age_s"] == 0


def test_a_narrow_terminal_has_room_for_how_far_a_trial_is(api_server, monkeypatch):
    """However long ago it began; its fields are what is left out."""
    monkeypatch.setenv("COLUMNS", "80")
    api_server.ahead = -36_000.0
    submitted(Cluster(Settings()))
    done = CliRunner().invoke(main, ["ps"])
    assert done.exit_code == 0, done.output
    assert re.search(r"worker 0/2 running, .* 36\d{3} s", done.output)
    assert "No room for" in done.output and max(map(len, done.output.splitlines())) <= 80


def own_name(pod):
    """Return the name of the container that labkit has put into a pod."""
    return next(c["name"] for c in pod["spec"]["containers"] if "resources" in c)
