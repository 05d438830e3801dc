"""A namespace of a real cluster, in which labkit has the least rights it needs."""

import pytest
from clusters import Namespace
from processes import eventually

from labkit.settings import CLUSTER


@pytest.fixture(scope="package")
def shared_namespace(tmp_path_factory):
    """Have a namespace; without a cluster the tests that ask for it are not collected."""
    namespace = Namespace(tmp_path_factory.mktemp("namespace"))
    yield namespace
    namespace.delete()


@pytest.fixture
def namespace(shared_namespace, monkeypatch, once):
    """Have labkit work in a namespace, which is empty when the test has ended."""
    monkeypatch.setenv("KUBECONFIG", str(shared_namespace.kubeconfig))
    monkeypatch.setenv(CLUSTER, str(shared_namespace.settings))
    shared_namespace.configure()
    yield shared_namespace
    # A kubelet that was busy, or lost its API server, may need minutes to end its pods.
    eventually(lambda: not shared_namespace.being_deleted(), 240)
    assert shared_namespace.left() == []
