"""Trials as the objects of a cluster, as text; no cluster is needed."""

import base64
import json
import re
import subprocess
import sys

import made_runs
import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.cli import main
from labkit.figures import deployment
from labkit.launchers.kubernetes import manifests
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.kubernetes.settings import Settings
from labkit.replicas import HERE, SHARED
from labkit.trials.frameworks import FRAMEWORKS

pytestmark = pytest.mark.unit

DEFAULT = Settings()


def rendered(trial, settings=DEFAULT, **values):
    return manifests.objects(manifests.render(trial, settings, 60.0, **values))


def of_kind(objects, kind):
    return [thing for thing in objects if thing["kind"] == kind]


def pods(objects):
    """Return the pod templates, by component."""
    return {
        job["metadata"]["labels"]["app.kubernetes.io/component"]: job["spec"]["template"]
        for job in of_kind(objects, "Job")
    }


trials = st.builds(
    lambda framework, workers, servers: made_runs.trial(
        framework=framework, workers=workers, **({"servers": servers} if servers else {})
    ),
    st.sampled_from(sorted(FRAMEWORKS)),
    st.integers(1, 1000),
    st.integers(0, 5),
)


@settings(max_examples=30)
@given(trials)
def test_there_are_few_objects_and_one_name_for_all(trial):
    objects = rendered(trial)
    name = manifests.name_of(trial)
    assert len(objects) <= 6
    for kind in ("Service", "ConfigMap", "NetworkPolicy"):
        assert len(of_kind(objects, kind)) == 1
    for thing in objects:
        labels = thing["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == name
        assert labels["app.kubernetes.io/part-of"] == "labkit"
        assert thing["metadata"]["name"].startswith(name)
    (service,) = of_kind(objects, "Service")
    for template in pods(objects).values():
        assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
        assert template["spec"]["subdomain"] == service["metadata"]["name"]


@settings(max_examples=30)
@given(trials)
def test_every_replica_has_one_pod_and_one_address(trial):
    objects = rendered(trial)
    (config,) = of_kind(objects, "ConfigMap")
    hosts = json.loads(config["data"]["job.json"])["hosts"]
    addresses = [host for group in hosts.values() for host in group]
    assert len(set(addresses)) == len(addresses)
    assert {role: len(group) for role, group in hosts.items()} == {
        "worker": trial.workers,
        "server": trial.servers,
    } | ({"scheduler": 1} if FRAMEWORKS[trial.framework].scheduler else {})
    held = {}
    for job in of_kind(objects, "Job"):
        assert job["spec"]["completions"] == job["spec"]["parallelism"]
        for role in job["spec"]["template"]["spec"]["containers"][0]["args"]:
            held[role] = job["metadata"]["name"], job["spec"]["completions"]
    service = of_kind(objects, "Service")[0]["metadata"]["name"]
    for role, group in hosts.items():
        job, count = held[role]
        names = [f"{job}-{index}" for index in range(count)]
        assert [host.split(":")[0] for host in group] == [f"{name}.{service}" for name in names]
        assert max(map(len, names)) <= 57  # a pod's own name has six letters more


@pytest.mark.parametrize("strategy", ["async-ps", "sync-ps"])
def test_who_opens_a_connection_knows_the_address(strategy):
    """TensorFlow's servers fetch gradients; MXNet's scheduler tells all where the others are."""

    def known(framework):
        made = made_runs.trial(framework=framework, workers=3, servers=2, strategy=strategy)
        (config,) = of_kind(rendered(made), "ConfigMap")
        return json.loads(config["data"]["job.json"])["known"]

    assert known("tensorflow") == {"server": ["server", "worker"], "worker": ["server"]}
    roles = ("scheduler", "server", "worker")
    assert known("mxnet") == {role: ["scheduler"] for role in roles}


def test_the_more_replicas_the_longer_they_have_to_be_found():
    """Fifty pods take two and a half minutes to start on two cores."""

    def patience(workers, **waiting):
        made = made_runs.trial(framework="tensorflow", workers=workers)
        (config,) = of_kind(rendered(made, Settings(**waiting)), "ConfigMap")
        return json.loads(config["data"]["job.json"])["rendezvous_timeout"]

    assert patience(1) >= 120 and patience(50) >= 2 * 146
    assert patience(2, wait_for_room=900.0) == patience(2, wait_for_room=0.0) + 900


def test_a_server_beside_each_worker_or_in_pods_of_its_own():
    def roles(**values):
        objects = rendered(made_runs.trial(workers=3, **values))
        return {kind: template["spec"]["containers"][0]["args"]
                for kind, template in pods(objects).items()}  # fmt: skip

    assert roles(framework="mxnet") == {
        "scheduler": ["scheduler"], "worker": ["server", "worker"],
    }  # fmt: skip
    assert roles(framework="mxnet", servers=2) == {
        "scheduler": ["scheduler"], "server": ["server"], "worker": ["worker"],
    }  # fmt: skip
    assert roles(framework="tensorflow") == {"server": ["server"], "worker": ["worker"]}
    single = rendered(made_runs.trial(strategy="single", workers=1))
    assert [*pods(single)] == ["worker"]


def arguments(objects):
    (config,) = of_kind(objects, "ConfigMap")
    return json.loads(config["data"]["job.json"])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_slow_nodes_share_cores(framework):
    """They reserve what they compute for, and are bound to no core; servers are as ever."""
    slow = rendered(made_runs.trial(framework=framework, workers=3, slowdown=10.0), compute=0.125)
    job = arguments(slow)
    assert "--compute=0.125" in job["arguments"]
    assert job["worker_arguments"] == [["--slowdown=10.0"]] * 3
    assert job["cores_per_worker"] == 0
    requests = {
        kind: template["spec"]["containers"][0]["resources"]["requests"]["cpu"]
        for kind, template in pods(slow).items()
    }
    assert requests["worker"] == 0.1
    assert requests.get("server", 1) == 1


def test_a_core_that_is_calibrated_is_one_of_today():
    alone = made_runs.trial(strategy="single", workers=1, slowdown=1.0)
    job = arguments(rendered(alone))
    assert job["cores_per_worker"] == 1
    assert not any(argument.startswith("--compute") for argument in job["arguments"])


def test_slow_nodes_without_a_calibration():
    with pytest.raises(ClusterError, match="cannot be rendered with slowdown 2, since nobody"):
        rendered(made_runs.trial(slowdown=2.0))


def test_the_last_worker_is_the_slowest():
    trial = made_runs.trial(workers=3, slowdown=10.0, slowdown_spread=2.0)
    assert arguments(rendered(trial, compute=0.1))["worker_arguments"] == [
        ["--slowdown=10.0"], ["--slowdown=15.0"], ["--slowdown=20.0"],
    ]  # fmt: skip


def mounted(objects):
    """Return the files that a container finds, by their path."""
    (config,) = of_kind(objects, "ConfigMap")
    volume, _ = pods(objects)["worker"]["spec"]["volumes"]
    items = volume["configMap"]["items"]
    contents = {key: text.encode() for key, text in config["data"].items()}
    contents |= {k: base64.b64decode(v) for k, v in config.get("binaryData", {}).items()}
    assert sorted(item["key"] for item in items) == sorted(contents)
    return {item["path"]: contents[item["key"]] for item in items}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_trainer_is_in_it_to_the_letter(framework):
    files = mounted(rendered(made_runs.trial(framework=framework)))
    for name in (*SHARED, *manifests.AGENT, f"train_{framework}.py"):
        assert files[f"labkit/replicas/{name}"] == (HERE / name).read_bytes()


MODEL = b"""DATASETS = ("fashion-mnist",)
METRIC = "accuracy"
EVAL_BATCH = 1

def mxnet(mx, inputs):
    return inputs
"""


@settings(max_examples=30)
@given(st.text(st.sampled_from("x \t\r\n\x85\u2028\U0001f600")))
def test_a_users_model_is_in_it_to_the_byte(tmp_path_factory, comment):
    """Its checksum is part of the trial's identity, and computed again in the pod."""
    path = tmp_path_factory.mktemp("model") / "my model.py"
    path.write_bytes(MODEL + re.sub(r"([\r\n]|^)", r"\1#", comment).encode())
    trial = made_runs.trial(model=str(path))
    files = mounted(rendered(trial))
    name = json.loads(files["job.json"])["arguments"][0].removeprefix("--model=/labkit/")
    assert files[name] == path.read_bytes()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_pod_has_all_that_it_imports(framework, tmp_path):
    """Of labkit nothing else is imported, and nothing but the standard library by the agent."""
    objects = rendered(made_runs.trial(framework=framework))
    for path, content in mounted(objects).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    agent = pods(objects)["worker"]["spec"]["containers"][0]["command"][-1]
    imports = f"import sys; sys.path.insert(0, '.'); import {agent}"
    for flags, code in (("-IS", imports), ("-I", f"{imports}; import labkit.replicas.loop")):
        subprocess.run([sys.executable, flags, "-c", code], cwd=tmp_path, check=True)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_pods_meet_the_restricted_standard(framework):
    """The rules are those of the Pod Security Standards, level restricted."""
    for template in pods(rendered(made_runs.trial(framework=framework))).values():
        pod, (container,) = template["spec"], template["spec"]["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod["automountServiceAccountToken"] is False
        kinds = {kind for volume in pod["volumes"] for kind in volume if kind != "name"}
        assert kinds == {"configMap", "emptyDir"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_limits_the_network_has_one_right_more_and_nothing_else_has(framework):
    def templates(**values):
        return pods(rendered(made_runs.trial(framework=framework, workers=3, **values)))

    free = templates()
    for kind, template in templates(bandwidth=2e8).items():
        (first,) = template["spec"].pop("initContainers")
        (container,) = template["spec"]["containers"]
        assert first["args"] == ["200000000bit"]
        assert (first["image"], first["resources"]) == (container["image"], container["resources"])
        assert first["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}
        del container["volumeMounts"], template["spec"]["volumes"]
        other = free[kind]["spec"]
        del other["containers"][0]["volumeMounts"], other["volumes"]
        assert template["spec"]["securityContext"] == other["securityContext"]
        assert container == other["containers"][0]


def test_nothing_stays_for_ever_or_is_tried_twice():
    objects = rendered(made_runs.trial(), owner_uid="1234", submitted=17.5)
    first, *others = objects
    assert first["metadata"]["name"].endswith("-worker")
    assert "ownerReferences" not in first["metadata"]
    for thing in others:
        (owner,) = thing["metadata"]["ownerReferences"]
        assert (owner["name"], owner["uid"]) == (first["metadata"]["name"], "1234")
    for job in of_kind(objects, "Job"):
        spec = job["spec"]
        assert spec["backoffLimit"] == 0
        wait = Settings().wait_for_room
        assert spec["activeDeadlineSeconds"] == 60 + wait + manifests.DEADLINE_MARGIN
        assert 0 < spec["ttlSecondsAfterFinished"] < 86400
        assert job["metadata"]["annotations"]["labkit/identity"] == made_runs.trial().identity
        assert float(job["metadata"]["annotations"]["labkit/submitted"]) == 17.5


def test_requests_and_limits():
    trial = made_runs.trial(threads=4)
    worker = pods(rendered(trial))["worker"]["spec"]["containers"][0]["resources"]
    assert worker == {
        "requests": {"cpu": 4, "memory": "2Gi"}, "limits": {"cpu": 4, "memory": "2Gi"},
    }  # fmt: skip
    less = Settings(cpu_request=0.5, memory="1Gi", memory_request="100Mi")
    worker = pods(rendered(trial, less))["worker"]["spec"]["containers"][0]["resources"]
    assert worker == {
        "requests": {"cpu": 0.5, "memory": "100Mi"}, "limits": {"cpu": 4, "memory": "1Gi"},
    }  # fmt: skip
    more = pods(rendered(made_runs.trial(), Settings(cpu_request=8.0)))["worker"]
    assert more["spec"]["containers"][0]["resources"]["requests"]["cpu"] == 1


@pytest.mark.parametrize(
    ("values", "role"),
    [
        ({"framework": "mxnet"}, "scheduler"),
        ({"framework": "tensorflow"}, "server"),
        ({"strategy": "single", "workers": 1}, None),
    ],
)
def test_who_coordinates_the_workers(values, role):
    job = json.loads(mounted(rendered(made_runs.trial(**values)))["job.json"])
    assert job["coordinator"] == role


@pytest.mark.parametrize(("share_nodes", "cores"), [(False, 4), (True, 0)])
def test_workers_are_bound_where_no_other_trial_is(share_nodes, cores):
    settings = Settings(share_nodes=share_nodes)
    (config,) = of_kind(rendered(made_runs.trial(threads=4), settings), "ConfigMap")
    assert json.loads(config["data"]["job.json"])["cores_per_worker"] == cores


def test_which_nodes():
    def terms(**settings):
        found = {}
        for kind, template in pods(rendered(made_runs.trial(), Settings(**settings))).items():
            affinity = template["spec"].get("affinity", {}).get("podAntiAffinity", {})
            found[kind] = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
        return found

    apart = terms()
    assert {kind: len(list_) for kind, list_ in apart.items()} == {"scheduler": 1, "worker": 1}
    (term,) = apart["worker"]
    operators = [e["operator"] for e in term["labelSelector"]["matchExpressions"]]
    assert operators == ["In", "NotIn"]
    assert term["namespaceSelector"] == {}  # of all namespaces
    assert terms(share_nodes=True) == {"scheduler": [], "worker": []}
    alone = terms(share_nodes=True, one_worker_per_node=True)
    assert alone["scheduler"] == []
    assert alone["worker"][0]["topologyKey"] == "kubernetes.io/hostname"
    chosen = Settings(node_selector={"pool": "a"}, tolerations=[{"key": "k"}])
    pod = pods(rendered(made_runs.trial(), chosen))["worker"]["spec"]
    assert pod["nodeSelector"].items() >= {"pool": "a"}.items()
    assert {"key": "k"} in pod["tolerations"]


def test_only_on_nodes_that_can_run_the_images():
    for template in pods(rendered(made_runs.trial())).values():
        assert template["spec"]["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
    own = Settings(node_selector={"kubernetes.io/arch": "other"})
    pod = pods(rendered(made_runs.trial(), own))["worker"]["spec"]
    assert pod["nodeSelector"] == {"kubernetes.io/arch": "other"}


def test_autoscalers_leave_its_pods_where_they_are():
    for template in pods(rendered(made_runs.trial())).values():
        assert template["metadata"]["annotations"] == {
            "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
            "karpenter.sh/do-not-disrupt": "true",
        }


@settings(max_examples=30)
@given(trials)
def test_only_pods_of_the_trial_are_let_in(trial):
    objects = rendered(trial)
    (policy,) = of_kind(objects, "NetworkPolicy")
    own = {"matchLabels": {"app.kubernetes.io/instance": manifests.name_of(trial)}}
    assert policy["spec"] == {
        "podSelector": own,
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": own}]}],
    }
    for template in pods(objects).values():
        assert own["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_each_submission_has_a_secret_of_its_own():
    """It is in one object, so that all pods have the same, whoever has created which of them."""
    found = set()
    for _ in range(3):
        objects = rendered(made_runs.trial())
        secret = json.loads(mounted(objects)["job.json"])["secret"]
        assert len(secret) >= 32
        assert [o["kind"] for o in objects if secret in json.dumps(o)] == ["ConfigMap"]
        found.add(secret)
    assert len(found) == 3


def test_both_versions_of_ip():
    objects = rendered(made_runs.trial())
    (service,) = of_kind(objects, "Service")
    assert service["spec"]["ipFamilyPolicy"] == "PreferDualStack"
    (container,) = pods(objects)["worker"]["spec"]["containers"]
    (own,) = [variable for variable in container["env"] if variable["name"] == "POD_IPS"]
    assert own["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIPs"}}


@settings(max_examples=30)
@given(trials)
def test_a_queue_admits_a_trial_as_a_whole(trial):
    """All its pods are one group of Kueue's; Jobs with a queue would be admitted one by one."""
    queued = rendered(trial, Settings(queue="team-a"))
    groups = set()
    for template in pods(queued).values():
        labels, notes = template["metadata"]["labels"], template["metadata"]["annotations"]
        assert labels["kueue.x-k8s.io/queue-name"] == "team-a"
        groups.add((
            labels["kueue.x-k8s.io/pod-group-name"],
            notes["kueue.x-k8s.io/pod-group-total-count"],
        ))  # fmt: skip
        assert notes["kueue.x-k8s.io/retriable-in-group"] == "false"
    total = sum(job["spec"]["completions"] for job in of_kind(queued, "Job"))
    assert groups == {(manifests.name_of(trial), str(total))}
    for job in of_kind(queued, "Job"):
        assert not any("kueue" in label for label in job["metadata"]["labels"])
    assert "kueue" not in manifests.render(trial, DEFAULT, 60.0)


def test_public_images_have_a_name_of_their_own():
    (ours,) = {image_of(template) for template in pods(rendered(made_runs.trial())).values()}
    public = Settings(public_images=True)
    (theirs,) = {image_of(t) for t in pods(rendered(made_runs.trial(), public)).values()}
    assert theirs == f"{ours}-public"
    lstm = made_runs.trial(model="lstm", batch_size=20)
    with pytest.raises(ClusterError, match="ptb.*public_images"):
        rendered(lstm, public)


def image_of(template):
    return template["spec"]["containers"][0]["image"]


def test_render_prints_it():
    flags = ["--framework", "mxnet", "--model", "lenet5", "--workers", "2", "--batch-size", "32",
             "--learning-rate", "0.1", "--steps", "5"]  # fmt: skip
    done = CliRunner().invoke(main, ["render", *flags])
    assert done.exit_code == 0
    assert [o["kind"] for o in yaml.safe_load_all(done.output)] == [
        "Job", "Job", "Service", "ConfigMap", "NetworkPolicy",
    ]  # fmt: skip
    wrong = CliRunner().invoke(main, ["render", *flags, "--workers", "0"])
    assert wrong.exit_code == 1 and "workers: 0; allowed: 1 or more" in wrong.output


def test_the_picture_has_all_of_it():
    objects = rendered(made_runs.trial(framework="mxnet", workers=9))
    figure = deployment(objects)
    words = [text.get_text() for text in figure.axes[0].texts]
    for thing in objects:
        assert any(thing["metadata"]["name"] in word for word in words)
    assert any("9 pods" in word for word in words)
    assert {"worker 0", "server 0", "worker 8", "scheduler 0", "…"} <= set(words)
    assert "worker 4" not in words
