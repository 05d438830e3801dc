"""A namespace of a real cluster, in which labkit has the least rights it needs."""

import os

import pytest
from clusters import ADMIN, Namespace

from labkit.settings import CLUSTER


@pytest.fixture(scope="package")
def shared_namespace(tmp_path_factory):
    """Have a namespace, or say how to get one."""
    if not os.environ.get(ADMIN):
        how = f"set {ADMIN} to an administrator's kubeconfig of a cluster that has labkit's images"
        if os.environ.get("CI") == "true":
            pytest.fail(how)
        pytest.skip(how)
    place = Namespace(tmp_path_factory.mktemp("namespace"))
    yield place
    place.delete()


@pytest.fixture
def namespace(shared_namespace, monkeypatch, once):
    """Have labkit work in a namespace, which is empty when the test has ended."""
    monkeypatch.setenv("KUBECONFIG", str(shared_namespace.kubeconfig))
    monkeypatch.setenv(CLUSTER, str(shared_namespace.settings))
    shared_namespace.configure()
    yield shared_namespace
    assert shared_namespace.left() == []
