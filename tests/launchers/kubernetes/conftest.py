"""A namespace of a real cluster with the least rights labkit needs, and a stand-in for one."""

import pytest
from api_server import ApiServer
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
def namespace(shared_namespace, monkeypatch, once, request):
    """Have labkit work in a namespace, which is empty when the test has ended.

    Unless the test has to be alone, its trials share nodes with those of tests beside it.
    """
    monkeypatch.setenv("KUBECONFIG", str(shared_namespace.kubeconfig))
    monkeypatch.setenv(CLUSTER, str(shared_namespace.settings))
    shared_namespace.usual["share_nodes"] = not request.node.get_closest_marker("alone")
    shared_namespace.configure()
    yield shared_namespace
    # A kubelet that was busy, or lost its API server, may need minutes to end its pods.
    eventually(lambda: not shared_namespace.being_deleted(), 240)
    assert shared_namespace.left() == []


@pytest.fixture
def api_server(monkeypatch, tmp_path):
    """Have labkit talk to a stand-in for an API server, in which nothing is yet."""
    server = ApiServer()
    server.write_kubeconfig(tmp_path / "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.delenv(CLUSTER, raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield server
    server.close()
