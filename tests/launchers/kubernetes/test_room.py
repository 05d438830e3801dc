"""Trials that find no room in a real cluster: on its nodes, within its quotas and rules."""

import re
import shutil

import pytest
import yaml
from clusters import Namespace
from kubernetes import client
from kubernetes.utils import parse_quantity
from processes import eventually
from small_trials import CASES, failing, run, trial

from labkit.launchers.kubernetes import images, manifests
from labkit.launchers.kubernetes.settings import Settings
from labkit.launchers.protocol import Waiting
from labkit.settings import TEMPLATES
from labkit.trials import Sweep

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.mark.alone
def test_no_room(namespace, store):
    namespace.configure(cpu_request=1.0, wait_for_room=2)
    error, seconds = failing([trial(workers=30)], store)
    assert "pods find no node" in error
    assert "Each worker requests cpu 1.0 and memory 50Mi" in error
    assert "you may not see what is free (templates/rbac-nodes.yaml would allow it)" in error
    assert "Insufficient cpu" in error
    assert seconds < 40


@pytest.mark.alone
def test_a_node_is_taken_by_a_trial_of_another_namespace(namespace, store, tmp_path):
    other = Namespace(tmp_path)
    try:
        image = images.tag("mxnet")
        settings = Settings(share_nodes=True)
        objects = manifests.objects(manifests.render(trial(), settings, 60.0))
        pod = next(o for o in objects if o["kind"] == "Job")["spec"]["template"]
        (container,) = pod["spec"]["containers"]
        container |= {"image": f"localhost/labkit-mxnet:{image}", "command": ["sleep", "60"]}
        container["resources"] = {}
        del pod["spec"]["subdomain"], container["args"], container["volumeMounts"]
        del pod["spec"]["volumes"]
        other.core.create_namespaced_pod(
            other.name, {"metadata": {"name": "taken", **pod["metadata"]}, "spec": pod["spec"]}
        )
        eventually(lambda: other.pods()[0].status.phase == "Running")
        namespace.configure(wait_for_room=2)
        said = []

        def observe(event):
            if isinstance(event, Waiting) and not said:
                said.append(event.for_)
                other.core.delete_namespaced_pod("taken", other.name, grace_period_seconds=0)

        results = run([trial(batch_size=16)], store, on_event=observe)
        assert said == ["the room of another trial, perhaps of another namespace"]
        assert list(results.table.status) == ["finished"]
    finally:
        other.delete()


@pytest.fixture
def sees_nodes(namespace):
    """Let labkit see what the nodes have left, as templates/rbac-nodes.yaml does."""
    rbac = client.RbacAuthorizationV1Api(namespace.api)
    role = yaml.safe_load((TEMPLATES / "rbac-nodes.yaml").read_text())
    role["metadata"]["name"] = namespace.name
    rbac.create_cluster_role(role)
    subject = {"kind": "ServiceAccount", "name": "labkit", "namespace": namespace.name}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
    rbac.create_cluster_role_binding({
        "metadata": {"name": namespace.name}, "subjects": [subject],
        "roleRef": reference | {"name": namespace.name},
    })  # fmt: skip
    yield
    rbac.delete_cluster_role_binding(namespace.name)
    rbac.delete_cluster_role(namespace.name)


@pytest.mark.alone
def test_no_room_and_what_is_free(namespace, store, sees_nodes):
    namespace.configure(cpu_request=1.0, wait_for_room=2)
    error, _ = failing([trial(workers=30)], store)
    left = {}
    for node in namespace.core.list_node().items:
        found = re.search(rf"{node.metadata.name} cpu ([0-9.]+) and memory ([0-9.]+)Gi", error)
        left[node.metadata.name] = float(found[1])
        if not node.spec.taints:  # the trial's own pods have taken what they could
            assert float(found[1]) < 1.0
            assert float(found[2]) < parse_quantity(node.status.allocatable["memory"]) / 2**30
    assert min(left.values()) >= 0


@pytest.fixture
def quota(namespace):
    """Return a function that limits the namespace."""

    def limit(**hard):
        body = {"metadata": {"name": "small"}, "spec": {"hard": hard}}
        namespace.core.create_namespaced_resource_quota(namespace.name, body)
        status = namespace.core.read_namespaced_resource_quota_status
        eventually(lambda: status("small", namespace.name).status.hard)

    yield limit
    namespace.core.delete_namespaced_resource_quota("small", namespace.name)


def test_quota_of_pods(namespace, store, quota):
    quota(pods="1")
    error, seconds = failing([trial(workers=3)], store)
    assert f"the quota of namespace '{namespace.name}' is used up" in error
    assert "exceeded quota: small" in error and "limited: pods=1" in error
    assert seconds < 40


def test_quota_of_objects(namespace, store, quota):
    quota(**{"count/services": "0"})
    error, seconds = failing([trial()], store)
    assert "is used up (create Service mxnet-" in error and "count/services" in error
    assert seconds < 40


def test_two_at_once_as_the_quota_allows(namespace, store, quota):
    quota(pods="3")
    namespace.configure(parallel=2, share_nodes=True)
    sweep = Sweep.grid(repeats=2, framework="mxnet", model="lenet5", workers=1, **CASES["lenet5"])
    table = run(sweep, store).table
    assert list(table.status) == ["finished", "finished"]


def test_pod_security(namespace, store, monkeypatch, tmp_path):
    shutil.copytree(TEMPLATES, tmp_path / "templates")
    template = tmp_path / "templates" / "trial.yaml.j2"
    text = template.read_text()
    assert "runAsNonRoot: true" in text
    template.write_text(text.replace("runAsNonRoot: true", "runAsNonRoot: false"))
    monkeypatch.setattr(manifests, "TEMPLATES", tmp_path / "templates")
    error, seconds = failing([trial()], store)
    assert "the namespace's pod security refuses them" in error
    assert "runAsNonRoot != true" in error
    assert seconds < 40
