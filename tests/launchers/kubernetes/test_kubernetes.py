"""Trials on a real cluster, as a service account with the least rights."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import psutil
import pytest
import yaml
from click.testing import CliRunner
from clusters import ADMIN, BadLine, Namespace
from kubernetes import client
from kubernetes.utils import parse_quantity
from processes import REPOSITORY, eventually

from labkit import cluster, doctor
from labkit.campaign import SweepFailed, measure
from labkit.cli import main
from labkit.launchers.kubernetes import manifests
from labkit.launchers.kubernetes.api import Cluster, ClusterError
from labkit.runs import Store
from labkit.settings import CLUSTER as CLUSTER_FILE
from labkit.trials import Sweep, Trial

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

ENDLESS = {"steps": 100_000}
CASES = {
    "lenet5": {"batch_size": 32, "learning_rate": 0.05, "steps": 40, "eval_samples": 500},
    "lstm": {"batch_size": 4, "learning_rate": 0.5, "steps": 20, "eval_samples": 60},
}
FRAMEWORKS = ["mxnet", "tensorflow"]
both = pytest.mark.parametrize("framework", FRAMEWORKS)


def trial(framework="mxnet", model="lenet5", **values):
    return Trial(framework=framework, model=model, **CASES[model] | values)


@pytest.fixture(scope="module")
def namespace(tmp_path_factory):
    """Have a namespace, and labkit work in it, or say how to get one."""
    if not os.environ.get(ADMIN):
        how = f"set {ADMIN} to an administrator's kubeconfig of a cluster that has labkit's images"
        if os.environ.get("CI") == "true":
            pytest.fail(how)
        pytest.skip(how)
    place = Namespace(tmp_path_factory.mktemp("namespace"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(place.kubeconfig))
        patch.setenv(CLUSTER_FILE, str(place.settings))
        yield place
    place.delete()


@pytest.fixture(autouse=True)
def nothing_left(namespace, once):
    """Every test ends with an empty namespace."""
    namespace.configure()
    yield
    assert namespace.left() == []


def run(trials, store, **options):
    return measure(trials, "kubernetes", store=store, **options)


class Live(list):
    """The replicas' events of a trial as they are shown; of its last try, if it had several."""

    def __call__(self, event):
        if event["kind"] == "submitted":  # again, if others kept the node busy
            self.clear()
        elif "seq" in event:
            self.append((event["role"], event["index"], event["seq"]))


def failing(trials, store, **options):
    begin = time.monotonic()
    with pytest.raises(SweepFailed) as caught:
        run(trials, store, **options)
    row = Store(store.root, "kubernetes").table(trials).iloc[0]
    assert row.status == "failed"
    assert row[["samples_per_second", "accuracy", "duration_s"]].isna().all()
    return str(caught.value), time.monotonic() - begin


# --- trials ---------------------------------------------------------------------------------


@pytest.mark.parametrize("model", CASES)
@both
def test_a_trial_is_the_same_as_locally(framework, model, namespace, store, warm):
    """The same numbers come out, but for the times: one worker computes the same everywhere."""
    one = trial(framework, model)
    live, others = Live(), []

    def watch(event):
        live(event)
        others.append(event)

    there = run([one], store, on_event=watch)
    here = measure([one], store=store)
    row, local = there.table.iloc[0], here.table.iloc[0]
    assert (row.status, row.launcher, local.launcher) == ("finished", "kubernetes", "local")
    assert list(there.table.columns) == list(here.table.columns)
    metric = "accuracy" if model == "lenet5" else "perplexity"
    assert row[metric] == pytest.approx(local[metric], rel=1e-3)
    assert there.steps["loss"].iloc[-1] > 0
    assert row.startup_s > 0 and row.duration_s > 0 and row.cores >= 1
    # and it was shown while it ran, each event once
    assert len(live) == len(set(live)) and ("worker", 0, 0) in live
    assert {"kind", "roles"} == set(next(e for e in others if e["kind"] == "pods"))


@pytest.mark.parametrize(("framework", "servers"), [("tensorflow", 2), ("mxnet", 1)])
def test_several_workers(framework, servers, namespace, store):
    """Also with servers in pods of their own."""
    results = run([trial(framework, workers=3, servers=servers)], store)
    found = Store(store.root, "kubernetes").find(results.trials[0])
    logs = sorted(path.stem for path in found.directory.glob("*-*.log"))
    roles = [f"server-{i}" for i in range(servers)] + [f"worker-{i}" for i in range(3)]
    assert logs == sorted(["scheduler-0"] * (framework == "mxnet") + roles)
    assert len(found.record["pods"]) == len(logs)
    assert results.table["oversubscribed"].iloc[0] == (found.record["machine"]["cores"] < 3)


def test_a_trial_is_at_most_six_objects(namespace, store):
    counted = {}

    def count(event):
        if event["kind"] == "ready" and not counted:
            objects = [name for name in namespace.left() if name not in pods()]
            counted["objects"] = objects

    def pods():
        return [pod.metadata.name for pod in namespace.pods()]

    run([trial(workers=2)], store, on_event=count)
    assert 4 <= len(counted["objects"]) <= 6


def test_two_at_once(namespace, store):
    namespace.configure(parallel=2, share_nodes=True)
    seen = set()

    def look(event):
        seen.add(len(namespace.batch.list_namespaced_job(namespace.name).items))

    sweep = Sweep.grid(repeats=2, framework="mxnet", model="lenet5", workers=1, **CASES["lenet5"])
    table = run(sweep, store, on_event=look).table
    assert list(table.status) == ["finished", "finished"]
    assert max(seen) == 4  # each has two Jobs


def test_measurements_are_kept_apart(namespace, store):
    """On one node the second trial finds no room, and is run when the first has ended."""
    namespace.configure(parallel=2, wait_for_room=1)
    sweep = Sweep.grid(repeats=2, framework="mxnet", model="lenet5", workers=1, **CASES["lenet5"])
    table = run(sweep, store).table
    assert list(table.status) == ["finished", "finished"]


@both
def test_workers_have_cores_of_their_own(framework, namespace, store):
    """Every thread of a worker is held to its core, before the clock starts."""
    held = {}

    def look(event):
        if event["kind"] == "step" and not held:
            held.update({i: namespace.cores(f"worker-{i}") for i in range(2)})

    results = run([trial(framework, workers=2, steps=200)], store, on_event=look)
    found = Store(store.root, "kubernetes").find(results.trials[0])
    bound = [found.record["bound"][f"worker {i}"] for i in range(2)]
    assert held == {i: {str(bound[i][0])} for i in range(2)}
    assert [len(each) for each in bound] == [1, 1]
    assert bound[0] != bound[1] or found.record["machine"]["cores"] == 1


# --- labkit that ends -----------------------------------------------------------------------


@both
def test_killed_and_started_again(framework, namespace, start_labkit, tmp_path):
    """The trial goes on in the cluster, and the next labkit finishes with the same pods."""
    values = {"framework": framework, "model": "lenet5", **CASES["lenet5"] | {"steps": 400}}
    labkit = start_labkit("kubernetes", **values)
    for event in labkit.events():
        if event["kind"] == "step":
            break
    labkit.signal(signal.SIGKILL)
    labkit.wait()
    pods = sorted(pod.metadata.uid for pod in namespace.pods())
    assert pods
    seen = []

    def look(event):
        seen.append(sorted(pod.metadata.uid for pod in namespace.pods()))

    results = run([Trial(**values)], Store(tmp_path / "runs"), on_event=look)
    assert results.table.iloc[0].status == "finished"
    assert seen[0] == pods
    assert results.steps["steps"].max() == 400


def test_interrupted(namespace, start_labkit):
    labkit = start_labkit("kubernetes", framework="mxnet", model="lenet5",
                          **CASES["lenet5"] | ENDLESS)  # fmt: skip
    for event in labkit.events():
        if event["kind"] == "step":
            labkit.signal(signal.SIGINT)
            break
    for _ in labkit.events():
        pass
    labkit.wait()
    eventually(lambda: namespace.left() == [], 30)


def test_reproduce_interrupted(namespace, tmp_path):
    """The notebook's trial is ended where it runs; nobody waits for the rest of it."""
    command = ["reproduce", "--profile", "thesis", "--on", "kubernetes", "--only", "6-1-1"]
    with subprocess.Popen(
        [sys.executable, "-c", "from labkit.cli import main; main()", *command],
        cwd=REPOSITORY, env=os.environ | {"LABKIT_OUTPUTS": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as labkit:  # fmt: skip
        eventually(
            lambda: any(pod.status.phase == "Running" for pod in namespace.pods())
            or labkit.poll() is not None,
            60,
        )
        labkit.send_signal(signal.SIGINT)
        begin = time.monotonic()
        said, _ = labkit.communicate(timeout=30)
    assert labkit.returncode == 130, said
    assert time.monotonic() - begin < 20
    assert "interrupted" in said
    # the namespace is looked at when the test ends


# --- replicas that end ----------------------------------------------------------------------

ROLES = [("tensorflow", "server"), ("tensorflow", "worker"),
         ("mxnet", "scheduler"), ("mxnet", "server"), ("mxnet", "worker")]  # fmt: skip


@pytest.mark.parametrize(("framework", "role"), ROLES)
def test_killed(framework, role, namespace, store):
    victim = f"{role}-0"
    struck = []

    def strike(event):
        if event["kind"] == "step" and not struck:
            struck.append(time.monotonic())
            namespace.kill(victim)

    error, _ = failing([trial(framework, workers=2, **ENDLESS)], store, on_event=strike)
    assert time.monotonic() - struck[0] < 30
    assert f"{role} 0 was ended by SIGKILL while training" in error


@pytest.mark.parametrize(("framework", "role"), ROLES)
def test_pod_deleted(framework, role, namespace, store):
    struck = []

    def strike(event):
        if event["kind"] == "step" and not struck:
            struck.append(time.monotonic())
            namespace.delete_pod(f"{role}-0")

    error, _ = failing([trial(framework, workers=2, **ENDLESS)], store, on_event=strike)
    assert time.monotonic() - struck[0] < 30
    assert "was deleted while training by somebody else" in error


FIRST, LAST = "worker-0", "worker-1"
PHASES = {
    # when: what is waited for, who is held back meanwhile, the values of the trial
    "before ready": ((None, "start"), None, ENDLESS),
    "at the barrier": ((FIRST, "ready"), (LAST, "start"), ENDLESS),
    "while training": ((FIRST, "step"), None, ENDLESS),
    "at the end": ((FIRST, "end"), (LAST, "barrier"), {"steps": 400}),
}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("framework", "role"), ROLES)
def test_chaos(framework, role, phase, chaos_round, namespace, store):
    """A process killed and a pod deleted, in turns: the trial fails plainly, or ends right."""
    (who, kind), slow, values = PHASES[phase]
    victim = f"{role}-0"
    if (framework, role, phase) == ("tensorflow", "worker", "at the end"):
        victim = LAST  # the first one is gone at once
    struck = []

    def strike(event):
        here = (f"{event.get('role')}-{event.get('index')}", event["kind"])
        if here == slow:
            namespace.hold_back(LAST)
        if here == (who or victim, kind) and not struck:
            struck.append(time.monotonic())
            (namespace.delete_pod if chaos_round % 2 else namespace.kill)(victim)

    error, _ = failing([trial(framework, workers=2, **values)], store, on_event=strike)
    assert struck, error
    print(f"CHAOS {framework} {role} {phase}: {time.monotonic() - struck[0]:.1f} s")
    assert time.monotonic() - struck[0] < 30
    if chaos_round % 2:
        pod = victim if (framework, role) != ("mxnet", "server") else FIRST  # shares its pod
        assert f"{pod.replace('-', ' ')} was deleted" in error, error
    else:
        assert f"{victim.replace('-', ' ')} was ended by SIGKILL" in error, error


def test_diverged(namespace, store):
    """A loss that is no number is a result."""
    table = run([trial(learning_rate=3e38)], store).table
    assert table.iloc[0].status == "diverged"


# --- logs -----------------------------------------------------------------------------------


@both
def test_a_log_that_is_rotated(framework, namespace, store):
    """What the node has thrown away was read before: nothing is lost, nothing doubled."""
    made = threading.Event()

    def strike(event):
        if event["kind"] == "step" and not made.is_set():
            made.set()
            noise = "import os; out = os.open('/proc/1/fd/1', os.O_WRONLY)\n"
            noise += "for _ in range(12000): os.write(out, b'x' * 1000 + b'\\n')"
            namespace.execute("worker-0", f'python3 -c "{noise}"')

    one = trial(framework, steps=1500)
    results = run([one], store, on_event=strike)
    assert results.table.iloc[0].status == "finished"


@both
def test_connections_that_break_and_stall(framework, namespace, store, monkeypatch, tmp_path):
    """In the middle of lists and of logs: nothing is lost, nothing doubled."""
    server = namespace.api.configuration.host
    host, port = re.fullmatch(r"https://(.+):([0-9]+)", server).groups()
    line = BadLine((host, int(port)))
    config = namespace.kubeconfig.read_text()
    way = f"https://127.0.0.1:{line.port}"
    (tmp_path / "kubeconfig").write_text(config.replace(server, way))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    live = Live()
    results = run([trial(framework, steps=600, workers=2)], store, on_event=live)
    line.close()
    assert results.table.iloc[0].status == "finished"
    assert results.steps["steps"].max() == 600
    assert len(live) == len(set(live))
    assert line.broken >= 2 and line.stalled >= 1


def test_a_list_that_expires_between_two_pages(namespace, monkeypatch):
    """The API server says 410 Gone; what had come is not given twice, and nothing is left out."""
    monkeypatch.setattr(cluster, "PAGE", 1)
    names = {f"page-{number}" for number in range(3)}
    labels = {"app.kubernetes.io/part-of": "labkit"}
    for name in names:
        body = {"metadata": {"name": name, "labels": labels}}
        namespace.core.create_namespaced_config_map(namespace.name, body)
    labkit, gone = Cluster(), []
    refused = labkit._refused
    monkeypatch.setattr(
        labkit, "_refused", lambda status, *said: (gone.append(status), refused(status, *said))[1]
    )
    found = []
    for item in labkit.list("ConfigMap"):
        found.append(item["metadata"]["name"])
        if len(found) == 1:
            forget_the_past(namespace)
    labkit.remove_and_check(cluster.PART_OF)
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


# --- what a cluster refuses -----------------------------------------------------------------


def test_image_missing(namespace, store):
    namespace.configure(image="localhost/nobody-built-this-{framework}:{tag}")
    error, seconds = failing([trial()], store)
    assert "cannot get its image on node" in error
    assert "localhost/nobody-built-this-mxnet" in error and "labkit image build" in error
    assert seconds < 60


def test_no_room(namespace, store):
    namespace.configure(cpu_request=1.0, wait_for_room=2)
    error, seconds = failing([trial(workers=30)], store)
    assert "pods find no node" in error
    assert "Each worker asks for cpu 1.0 and memory 50Mi" in error
    assert "what is free is hidden from you (templates/rbac-nodes.yaml would show it)" in error
    assert "Insufficient cpu" in error
    assert seconds < 40


def test_a_node_is_taken_by_a_trial_of_another_namespace(namespace, store, tmp_path):
    other = Namespace(tmp_path)
    try:
        image = manifests.images.tag("mxnet")
        settings = cluster.Settings(share_nodes=True)
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
        eventually(lambda: other.pods()[0].status.phase == "Running", 30)
        namespace.configure(wait_for_room=2)
        error, _ = failing([trial(batch_size=16)], store)
        assert "anti-affinity" in error and "perhaps of another namespace" in error
        namespace.configure(share_nodes=True)
        assert list(run([trial(batch_size=16)], store).table.status) == ["finished"]
    finally:
        other.delete()


@pytest.fixture
def sees_nodes(namespace):
    """Let labkit see what the nodes have left, as templates/rbac-nodes.yaml does."""
    rbac = client.RbacAuthorizationV1Api(namespace.api)
    role = yaml.safe_load((manifests.TEMPLATES / "rbac-nodes.yaml").read_text())
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
        eventually(lambda: status("small", namespace.name).status.hard, 20)

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
        eventually(lambda: namespace.left() == [], 30)
    error = str(caught.value)
    assert f"labkit may not create Service mxnet-{trial().identity[:12]}" in error
    assert "kubectl apply -n" in error and "templates/rbac.yaml" in error
    assert "could not be deleted: labkit may not list Services" in error


def test_namespace_missing(namespace, store, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", os.environ[ADMIN])
    namespace.configure(namespace="labkit-is-not-there")
    error, seconds = failing([trial()], store)
    assert "namespace 'labkit-is-not-there' does not exist" in error
    assert "kubectl create namespace labkit-is-not-there" in error
    assert seconds < 20


def test_pod_security(namespace, store, monkeypatch, tmp_path):
    shutil.copytree(manifests.TEMPLATES, tmp_path / "templates")
    template = tmp_path / "templates" / "trial.yaml.j2"
    text = template.read_text()
    assert "runAsNonRoot: true" in text
    template.write_text(text.replace("runAsNonRoot: true", "runAsNonRoot: false"))
    monkeypatch.setattr(manifests, "TEMPLATES", tmp_path / "templates")
    error, seconds = failing([trial()], store)
    assert "the namespace's pod security refuses them" in error
    assert "runAsNonRoot != true" in error
    assert seconds < 40


def test_out_of_memory(namespace, store):
    namespace.configure(memory="60Mi")
    error, seconds = failing([trial(workers=1, servers=1)], store)
    assert "because its memory, limited to 60Mi, ran out" in error
    assert seconds < 60


def test_evicted(namespace, store):
    def strike(event):
        if event["kind"] == "step" and event["steps"] < 100 and not struck:
            struck.append(time.monotonic())
            name = namespace.pod_of("worker-1")
            namespace.core.create_namespaced_pod_eviction(
                name, namespace.name, {"metadata": {"name": name}}
            )

    struck = []
    error, _ = failing([trial(workers=2, **ENDLESS)], store, on_event=strike)
    assert time.monotonic() - struck[0] < 30
    assert "worker 1 was evicted while training: is node" in error


def test_node_lost(namespace, store):
    """A node that is not heard of any more: nobody there can end its pods or say that they did."""
    nodes = namespace.core.list_node(label_selector="type=kwok").items
    if not nodes:
        assert os.environ.get("CI") != "true", "no fake nodes"
        pytest.skip("the cluster has no fake nodes that could be lost (label type=kwok)")
    lost = nodes[0].metadata.name
    namespace.configure(
        node_selector={"kubernetes.io/hostname": lost},
        tolerations=[{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
    )
    known = []

    def leave(kind):
        namespace.core.patch_node(lost, {"metadata": {"labels": {"type": kind}}})

    def watch_node():
        """Take the node from what keeps it alive, and note when the cluster has seen that."""
        # What pretends to run pods there would soon end them.
        eventually(lambda: "Running" in [pod.status.phase for pod in namespace.pods()], 60)
        leave(None)
        while not known:
            conditions = namespace.core.read_node(lost).status.conditions
            if any(c.type == "Ready" and c.status == "Unknown" for c in conditions):
                known.append(time.monotonic())
            time.sleep(0.5)

    watcher = threading.Thread(target=watch_node, daemon=True)

    def strike(event):
        if event["kind"] == "submitted":
            watcher.start()

    try:
        error, _ = failing([trial(workers=2, **ENDLESS)], store, on_event=strike)
    finally:
        leave("kwok")
    assert time.monotonic() - known[0] < 30
    assert f"lost its node {lost} before" in error


def test_deadline(namespace, store):
    error, seconds = failing([trial(**ENDLESS)], store, deadline=10)
    assert "did not finish within its deadline of 10 s. Still running: scheduler-0" in error
    assert "worker-0 while training" in error
    assert seconds < 40


def test_unreachable(namespace, store, monkeypatch, tmp_path):
    config = namespace.kubeconfig.read_text()
    (tmp_path / "kubeconfig").write_text(config.replace(namespace.api.configuration.host,
                                                        "https://127.0.0.1:9"))  # fmt: skip
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    error, seconds = failing([trial()], store)
    assert "the API server at https://127.0.0.1:9 has not answered for" in error
    assert seconds < 30


@both
def test_api_server_restarted(framework, namespace, store):
    """Pods train on meanwhile, and nothing of what they say is lost."""
    restarted = []

    def strike(event):
        if event["kind"] == "step" and not restarted:
            restarted.append(threading.Thread(target=restart_api_server))
            restarted[0].start()

    results = run([trial(framework, steps=600, workers=2)], store, on_event=strike)
    restarted[0].join()
    assert results.table.iloc[0].status == "finished"
    assert results.steps["steps"].max() == 600


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


# --- before anything starts -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"paralel": 2}, "paralel: 2: .*did you mean 'parallel'"),
        ({"memory": "much"}, "memory: 'much'"),
        ({"parallel": 0}, "parallel: 0"),
        ({"context": "tset"}, "your kubeconfig has no context 'tset'; did you mean 'test'"),
    ],
)
def test_mistakes_in_the_settings(settings, says, namespace, store):
    namespace.configure(**settings)
    with pytest.raises(ClusterError, match=says):
        run([trial()], store)


def test_no_kubeconfig(namespace, store, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    with pytest.raises(ClusterError, match="no usable kubeconfig"):
        run([trial()], store)


# --- commands -------------------------------------------------------------------------------


def test_commands(namespace, start_labkit):
    def labkit(*arguments):
        done = CliRunner().invoke(main, arguments)
        return done.exit_code, done.output

    check = doctor.cluster()
    assert check.ok and namespace.name in check.found
    assert labkit("ps") == (0, f"no trials in namespace '{namespace.name}'\n")
    assert labkit("clean") == (0, f"nothing of labkit's is in namespace '{namespace.name}'\n")
    one = trial(workers=2, **ENDLESS)
    name = manifests.name_of(one)
    started = start_labkit("kubernetes", **one.model_dump(exclude_none=True))
    for event in started.events():
        if event["kind"] == "step":
            break
    code, table = labkit("ps")
    assert code == 0 and table.splitlines()[1].split()[:6] == [
        name, "lenet5", "2", "32", "0.05", "1",
    ]  # fmt: skip
    assert "scheduler 1/1 running, worker 2/2 running" in table
    code, lines = labkit("logs", name, "--role", "worker", "--index", "1")
    assert code == 0 and "worker-1| @labkit" in lines
    assert "worker-0|" not in lines and "server-1|" not in lines
    code, error = labkit("logs", name[:-1])
    assert code == 1 and f"did you mean '{name}'?" in error
    started.signal(signal.SIGKILL)
    assert labkit("stop", name) == (0, f"{name}: gone\n")
    assert namespace.left() == []
