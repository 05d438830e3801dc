"""The cluster of a benchmark: a namespace of its own in that for tests, or the user's."""

import contextlib
import os
import tempfile
from pathlib import Path

from labkit.settings import CLUSTER

ADMIN = "LABKIT_TEST_CLUSTER"
"""Environment variable with the kubeconfig of an administrator of a cluster for tests."""

SMALL = """
cpu_request = 0.02
memory = "1500Mi"
memory_request = "50Mi"
"""
"""What lets many pods find room on one small node."""


@contextlib.contextmanager
def own_namespace(settings=SMALL):
    """Have labkit work in a new namespace of the cluster for tests, if one is named.

    Without one, nothing is done: then it works in the cluster of the user's kubeconfig, as
    ``cluster.toml`` says.

    Parameters
    ----------
    settings : str
        The content of ``cluster.toml``, without the namespace.

    Yields
    ------
    tuple of str and CoreV1Api
        The namespace's name, and a connection with an administrator's rights.
    """
    if not os.environ.get(ADMIN):
        yield None, None
        return
    from kubernetes import client, config

    core = client.CoreV1Api(config.new_client_from_config(os.environ[ADMIN]))
    name = f"labkit-bench-{os.getpid()}"
    core.create_namespace({"metadata": {"name": name}})
    try:
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "cluster.toml")
            file.write_text(f'namespace = "{name}"\n{settings}')
            os.environ.update({"KUBECONFIG": os.environ[ADMIN], CLUSTER: str(file)})
            yield name, core
    finally:
        core.delete_namespace(name)
