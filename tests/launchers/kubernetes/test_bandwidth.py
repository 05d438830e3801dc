"""Trials on a real cluster whose pods' network is limited."""

import shutil

import pytest
from clusters import Namespace
from small_trials import failing, run, trial

from labkit.launchers.kubernetes import manifests
from labkit.settings import CLUSTER, TEMPLATES
from labkit.trials.frameworks import FRAMEWORKS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.fixture
def privileged(tmp_path, monkeypatch, once):
    """Have labkit work in a namespace where pods may have more rights than labkit's need."""
    namespace = Namespace(tmp_path, "privileged")
    monkeypatch.setenv("KUBECONFIG", str(namespace.kubeconfig))
    monkeypatch.setenv(CLUSTER, str(namespace.settings))
    namespace.configure(cpu_request=0.1, share_nodes=True)
    yield namespace
    namespace.delete()


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_node_passes_no_more_than_its_bandwidth(framework, privileged, store):
    """Each update brings the server all gradients, and takes all weights from it."""
    bits = 2e7
    slow = trial(framework, workers=2, servers=1, steps=12, eval_samples=0, bandwidth=bits)
    row = run([slow], store).table.iloc[0]
    sizes = 32 * sum(map(int, row.variables.split()))
    assert row.batches_per_second * sizes < 1.05 * bits
    assert row.busiest_mbit_per_s < 1.1 * bits / 1e6


def test_a_namespace_that_allows_no_more_rights_says_what_it_takes(namespace, store):
    error, seconds = failing([trial(bandwidth=1e8)], store)
    assert "the namespace's pod security refuses them" in error
    assert "the level `privileged`; leave out bandwidth" in error
    assert seconds < 40


def test_a_node_whose_kernel_cannot_limit_a_network(privileged, store, monkeypatch, tmp_path):
    shutil.copytree(TEMPLATES, tmp_path / "templates")
    template = tmp_path / "templates" / "trial.yaml.j2"
    text = template.read_text()
    assert "type ifb" in text
    template.write_text(text.replace("type ifb", "type unheard-of"))
    monkeypatch.setattr(manifests, "TEMPLATES", tmp_path / "templates")
    error, seconds = failing([trial(bandwidth=1e8)], store)
    assert "could not limit its network" in error
    assert "Unknown device type" in error
    assert "Its last lines" not in error
    assert seconds < 60
