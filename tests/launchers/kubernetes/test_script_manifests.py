"""Scripts of a user's own as the objects of a cluster; no cluster is needed."""

import base64
import json
import re
import subprocess
import sys

import made_scripts
import pytest

from labkit import ScriptTrial
from labkit.launchers.kubernetes import manifests
from labkit.launchers.kubernetes.launcher import KubernetesLauncher
from labkit.launchers.kubernetes.settings import Settings
from labkit.trials import TrialError

pytestmark = pytest.mark.unit


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Stand beside a script that imports a file beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my train.py").write_text("import a_b.c, a_b_c\n" + made_scripts.REPORTS)
    (tmp_path / "a_b").mkdir()
    for name in ("a_b/__init__.py", "a_b/c.py", "a_b_c.py"):
        (tmp_path / name).write_text(f"# {name}, with blanks at the end \n")
    return tmp_path


def trial(**values):
    return ScriptTrial(**{"framework": "mxnet", "script": "my train.py"} | values)


def objects_of(trial):
    objects = manifests.objects(manifests.render(trial, Settings(), 60.0))
    jobs = [each for each in objects if each["kind"] == "Job"]
    (config,) = (each for each in objects if each["kind"] == "ConfigMap")
    return jobs, config


def mounted(trial):
    """Return the files that a pod finds, by their path."""
    jobs, config = objects_of(trial)
    contents = {key: text.encode() for key, text in config["data"].items()}
    contents |= {key: base64.b64decode(text) for key, text in config["binaryData"].items()}
    items = jobs[0]["spec"]["template"]["spec"]["volumes"][0]["configMap"]["items"]
    assert len({item["path"] for item in items}) == len(items) == len(contents)
    return {item["path"]: contents[item["key"]] for item in items}


def test_the_script_and_what_it_imports_travel_to_the_letter(here):
    files = mounted(trial())
    for name in ("my train.py", "a_b/__init__.py", "a_b/c.py", "a_b_c.py"):
        assert files[f"script/{name}"] == (here / name).read_bytes()
    line = json.loads(files["job.json"])["arguments"]
    assert "--script=/labkit/script/my train.py" in line and "--directory=/tmp" in line
    assert str(here) not in json.dumps(objects_of(trial())), "paths of this machine stay here"


def test_keys_are_what_kubernetes_allows_and_differ():
    keys = manifests.keys_of(["s/a/b.py", "s/a-b.py", "s-a/b.py", "s/ä b.py", "s/o b.py"])
    assert len(set(keys.values())) == 5
    assert all(re.fullmatch("[-._a-zA-Z0-9]+", key) for key in keys.values())


def test_a_pod_has_all_that_a_script_needs_to_be_started(here, tmp_path):
    """And it is started there by the code that the trial's identity is of."""
    home = tmp_path / "pod"
    for path, content in mounted(trial()).items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_bytes(content)
    code = (
        "import sys; sys.path.insert(0, '.'); import labkit.replicas.script as script; "
        "from labkit import report; print(script.CODE)"
    )
    done = subprocess.run([sys.executable, "-IS", "-c", code], cwd=home, check=True,
                          capture_output=True, text=True)  # fmt: skip
    assert done.stdout.strip() == trial().sums["code"]


@pytest.mark.parametrize(
    ("values", "roles"),
    [
        ({}, ["barrier", "scheduler", "server", "worker"]),
        ({"framework": "tensorflow"}, ["barrier", "server", "worker"]),
        ({"framework": "torch", "image": "i"}, ["barrier", "worker"]),
    ],
)
def test_pods_know_the_address_of_all_and_meet_at_the_first_worker(here, values, roles):
    job = json.loads(mounted(trial(workers=3, **values))["job.json"])
    assert sorted(job["hosts"]) == roles
    assert job["known"].keys() == job["hosts"].keys() - {"barrier"}
    assert all(sorted(known) == roles for known in job["known"].values())
    (meeting,) = job["hosts"]["barrier"]
    assert meeting.split(":")[0] == job["hosts"]["worker"][0].split(":")[0]
    ports = {host.split(":")[1] for hosts in job["hosts"].values() for host in hosts}
    assert len(ports) == len(roles) and "9003" not in ports
    assert job["secret"]


def test_one_alone_meets_nobody(here):
    job = json.loads(mounted(trial(servers=0))["job.json"])
    assert job["known"] == {"worker": []} and job["hosts"].keys() == {"worker"}


def test_an_image_and_an_interpreter_of_ones_own(here):
    own = trial(framework="torch", image="registry.example.com/me/torch:1", python="/opt/python")
    (job,), config = objects_of(own)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/me/torch:1"
    assert json.loads(config["data"]["job.json"])["python"] == "/opt/python"
    told = json.loads(job["metadata"]["annotations"]["labkit/trial"])
    assert told["model"] == "my train.py" and told["workers"] == 1
    assert trial(image="a") != trial(image="b")


def test_what_cannot_run_in_pods_is_said_at_once(here, api_server):
    (here / "large.py").write_text("x = 1  # " + "x" * (1 << 20))
    (here / "train.py").write_text("import large\n")
    trials = [trial(framework="torch", workers=n) for n in (1, 2)] + [trial(script="train.py")]
    with KubernetesLauncher() as launcher, pytest.raises(TrialError) as error:
        launcher.check(trials)
    said = str(error.value).splitlines()
    assert len(said) == 3, "all of it, and the same once"
    assert "image: missing; labkit has none with PyTorch" in said[1] and "--image" in said[1]
    assert "train.py: 1,048,5" in said[2] and "1,048,576" in said[2]
    launcher.check([trial(framework="torch", image="i"), trial()])
