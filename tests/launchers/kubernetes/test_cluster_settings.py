"""What cluster.toml says, and what is said of mistakes in it; no cluster is needed."""

import json

import pytest

from labkit.launchers.kubernetes.api import Cluster
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.kubernetes.settings import Settings
from labkit.settings import CLUSTER, TEMPLATES

pytestmark = pytest.mark.unit


def test_the_template_of_the_settings_says_the_defaults(monkeypatch, tmp_path):
    text = (TEMPLATES / "cluster.toml").read_text()
    monkeypatch.setenv(CLUSTER, str(TEMPLATES / "cluster.toml"))
    assert Settings.load() == Settings()
    for name in Settings.model_fields:
        assert f"{name} = " in text
    monkeypatch.setenv(CLUSTER, str(tmp_path / "none.toml"))
    with pytest.raises(ClusterError, match="none.toml cannot be read"):
        Settings.load()
    (tmp_path / "bad.toml").write_text("namespace = ")
    monkeypatch.setenv(CLUSTER, str(tmp_path / "bad.toml"))
    with pytest.raises(ClusterError, match="bad.toml: Invalid value"):
        Settings.load()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("paralel = 2", "paralel: 2: .*did you mean 'parallel'"),
        ('memory = "much"', "memory: 'much'"),
        ("parallel = 0", "parallel: 0"),
        ("parallel = '2'", "parallel: '2': [^;]*$"),
        ("one_worker_a_node = true", "one_worker_a_node: .*did you mean 'one_worker_per_node'"),
    ],
)
def test_mistakes_are_named(line, says, monkeypatch, tmp_path):
    (tmp_path / "cluster.toml").write_text(line)
    monkeypatch.setenv(CLUSTER, str(tmp_path / "cluster.toml"))
    with pytest.raises(ClusterError, match=says):
        Settings.load()


def test_a_context_that_the_kubeconfig_does_not_have(monkeypatch, tmp_path):
    cluster = {"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}
    context = {"name": "test", "context": {"cluster": "c", "user": "u"}}
    user = {"name": "u", "user": {"token": "t"}}
    content = {"apiVersion": "v1", "kind": "Config", "current-context": "test"}
    content |= {"clusters": [cluster], "contexts": [context], "users": [user]}
    (tmp_path / "kubeconfig").write_text(json.dumps(content))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    assert Cluster(Settings()).namespace == "default"
    with pytest.raises(ClusterError, match="no context 'tset'; did you mean 'test'"):
        Cluster(Settings(context="tset"))


def test_no_kubeconfig(monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    with pytest.raises(ClusterError, match="no usable kubeconfig"):
        Cluster(Settings())
