"""The API server of a real cluster: away, unreachable, over bad connections, refusing."""

import json
import os
import re
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

import psutil
import pytest
from clusters import ADMIN, BadLine, Namespace
from kubernetes import client
from processes import eventually
from small_trials import Live, failing, run, trial, working

from labkit.campaign import SweepFailed
from labkit.launchers.kubernetes import api, connection
from labkit.launchers.kubernetes.api import Cluster
from labkit.replicas.events import Step

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


def test_connections_that_break_and_stall(namespace, store, monkeypatch, tmp_path):
    """In the middle of lists and of logs: nothing is lost, nothing doubled."""
    server = namespace.api.configuration.host
    host, port = re.fullmatch(r"https://(.+):([0-9]+)", server).groups()
    line = BadLine((host, int(port)))
    config = namespace.kubeconfig.read_text()
    way = f"https://127.0.0.1:{line.port}"
    (tmp_path / "kubeconfig").write_text(config.replace(server, way))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    live = Live()
    busy = working(tmp_path, "time.monotonic() < began + 20", workers=2)
    results = run([busy], store, on_event=live)
    line.close()
    assert results.table.iloc[0].status == "finished"
    assert results.steps["t"].max() > 15
    assert len(live) == len(set(live))
    assert line.broken >= 2 and line.stalled >= 1


@pytest.mark.alone
def test_a_list_that_expires_between_two_pages(namespace, monkeypatch):
    """The API server says 410 Gone; what had come is not given twice, and nothing is left out."""
    monkeypatch.setattr(api, "PAGE", 1)
    names = {f"page-{number}" for number in range(3)}
    labels = {"app.kubernetes.io/part-of": "labkit"}
    for name in names:
        body = {"metadata": {"name": name, "labels": labels}}
        namespace.core.create_namespaced_config_map(namespace.name, body)
    labkit, gone = Cluster(), []
    refusal = connection.refusal
    monkeypatch.setattr(
        connection,
        "refusal",
        lambda status, *said: (gone.append(status), refusal(status, *said))[1],
    )
    found = []
    for item in labkit.list("ConfigMap"):
        found.append(item["metadata"]["name"])
        if len(found) == 1:
            forget_the_past(namespace)
    labkit.remove_and_check(api.PART_OF)
    assert sorted(found) == sorted(names)
    assert gone == [410]


def forget_the_past(namespace):
    """Have the test cluster forget all but the newest state of everything."""

    def etcd(call, **fields):
        body = json.dumps(fields).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:12379/v3/kv/{call}", body) as answer:
            return json.loads(answer.read())

    # Something has to happen first: the newest state itself is always there.
    namespace.core.patch_namespaced_config_map(
        "page-0", namespace.name, {"data": {"now": "another"}}
    )
    newest = etcd("range", key="AA==", limit=1)["header"]["revision"]
    etcd("compaction", revision=newest, physical=True)
    restart_api_server()  # which remembers more than etcd, for a while


@pytest.mark.alone
def test_api_server_restarted(namespace, store, tmp_path):
    """Pods train on meanwhile, and nothing of what they say is lost."""
    restarted = []

    def strike(event):
        if isinstance(event, Step) and not restarted:
            restarted.append(threading.Thread(target=restart_api_server))
            restarted[0].start()

    busy = working(tmp_path, "time.monotonic() < began + 20", workers=2)
    results = run([busy], store, on_event=strike)
    restarted[0].join()
    Namespace(tmp_path).delete()  # for what comes next, its controllers must be at work again
    assert results.table.iloc[0].status == "finished"
    assert results.steps["t"].max() > 15


def restart_api_server():
    """End the API server of the test cluster on this machine, and start it again."""
    home = Path(os.environ.get("TESTCLUSTER_HOME", "/var/lib/testcluster"))
    note = home / "run" / "kube-apiserver.pid"
    server = psutil.Process(int(note.read_text().split()[0]))
    command, environment = server.cmdline(), server.environ()
    server.kill()
    psutil.wait_procs([server], 5)
    time.sleep(2)
    with (home / "log" / "kube-apiserver.log").open("a") as log:
        again = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    # in the cluster script's own words: the process and when it was born
    born = Path(f"/proc/{again.pid}/stat").read_text().split()[21]
    note.write_text(f"{again.pid} {born}\n")


def test_unreachable(namespace, store, monkeypatch, tmp_path):
    config = namespace.kubeconfig.read_text()
    (tmp_path / "kubeconfig").write_text(config.replace(namespace.api.configuration.host,
                                                        "https://127.0.0.1:9"))  # fmt: skip
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setattr(connection, "FIRST_PATIENCE", 1.0)
    error, seconds = failing([trial()], store)
    assert "the API server at https://127.0.0.1:9 has not answered for" in error
    assert seconds < 30


def test_namespace_missing(namespace, store, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", os.environ[ADMIN])
    namespace.configure(namespace="labkit-is-not-there")
    error, seconds = failing([trial()], store)
    assert "namespace 'labkit-is-not-there' does not exist" in error
    assert "kubectl create namespace labkit-is-not-there" in error
    assert seconds < 20


def test_forbidden(namespace, store):
    rbac = client.RbacAuthorizationV1Api(namespace.api)
    role = rbac.read_namespaced_role("labkit", namespace.name)
    less = [rule for rule in role.rules if "services" not in rule.resources]
    rbac.patch_namespaced_role("labkit", namespace.name, {"rules": less})
    try:
        with pytest.raises(SweepFailed) as caught:
            run([trial()], store)
    finally:
        rbac.patch_namespaced_role("labkit", namespace.name, {"rules": role.rules})
        namespace.batch.delete_collection_namespaced_job(
            namespace.name, propagation_policy="Background"
        )
        eventually(lambda: namespace.left() == [])
    error = str(caught.value)
    assert f"labkit may not create Service mxnet-{trial().identity[:12]}" in error
    assert "kubectl apply -n" in error and "templates/rbac.yaml" in error
    assert "could not be deleted: labkit may not list Services" in error
