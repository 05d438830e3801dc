"""What users and clusters have wrong, each said in one error: with a stand-in for a cluster."""

import pytest
from click.testing import CliRunner
from small_trials import trial

from labkit.cli import main
from labkit.launchers.kubernetes import status
from labkit.launchers.kubernetes.api import Cluster
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.kubernetes.launcher import KubernetesLauncher
from labkit.launchers.kubernetes.owners import Owner
from labkit.launchers.kubernetes.settings import Settings
from labkit.launchers.kubernetes.submission import submit
from labkit.launchers.protocol import TrialFailed
from labkit.settings import CLUSTER

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("content", [b"a: [b", b"hello", b"- a", b"\x00\xff", b"\ta: b"])
def test_a_kubeconfig_that_is_none(content, tmp_path, monkeypatch):
    (tmp_path / "kubeconfig").write_bytes(content)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    with pytest.raises(ClusterError, match="kubeconfig is no kubeconfig that can be read"):
        Cluster(Settings())


def test_a_pod_without_a_token(tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    with pytest.raises(ClusterError, match="this pod has no token for its cluster"):
        Cluster(Settings())


@pytest.mark.parametrize("image", ["reg/{name}", "reg/{}", "reg/{framework"])
def test_an_image_that_cannot_be_filled_in(image, tmp_path, monkeypatch):
    (tmp_path / "cluster.toml").write_text(f'image = "{image}"')
    monkeypatch.setenv(CLUSTER, str(tmp_path / "cluster.toml"))
    with pytest.raises(ClusterError, match="image: .*{framework} and {tag} are all"):
        Settings.load()


@pytest.mark.parametrize("said", [
    'admission webhook "policy.example.com" denied the request: no team label',
    "ValidatingAdmissionPolicy 'labels' with binding 'all' denied request: no team label",
])  # fmt: skip
def test_a_policy_of_the_cluster(said, api_server, tmp_path):
    """Not a matter of rights, though the status is the same."""
    api_server.fail(403, said, method="POST")
    with KubernetesLauncher() as runner, pytest.raises(TrialFailed) as caught:
        runner.run(trial(), tmp_path, lambda event: None)
    assert "a policy of the cluster forbids to create Job" in str(caught.value)
    assert said in str(caught.value) and "rbac" not in str(caught.value)


def test_a_list_of_trials_asks_for_no_pods(api_server, tmp_path):
    """A trial may have a thousand of them, and two Jobs say how far they are."""
    submit(Cluster(Settings()), trial(), 60.0, Owner.here(tmp_path), print, None)
    api_server.requests.clear()
    assert CliRunner().invoke(main, ["ps"]).exit_code == 0
    assert [kind for _, kind, *_ in api_server.requests if kind != "namespaces"] == ["jobs"]


def test_logs_are_followed_from_before_the_pods_start(api_server, tmp_path, monkeypatch):
    made = submit(Cluster(Settings()), trial(), 60.0, Owner.here(tmp_path), print, None)
    looks = []

    def start(seconds):
        """Have the pods start while they are waited for."""
        looks.append(seconds)
        for component in ("scheduler", "worker"):
            api_server.set_status(component, 0, "running")
        name = api_server.pod("worker", 0)["metadata"]["name"]
        api_server.logs[name] = b"2020-02-20T20:20:20Z worker-0| hello\n"

    monkeypatch.setattr(status.time, "sleep", start)
    monkeypatch.setattr(status, "POLL_RATE", 0.1)
    done = CliRunner().invoke(main, ["logs", made.name, "--follow"])
    assert done.exit_code == 0
    assert looks == [20.0]  # for two pods at a tenth of a pod a second
    assert f"waits for the pods of {made.name}: 0 of 2 have started" in done.output
    assert "worker-0| hello" in done.output
