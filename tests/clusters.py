"""A namespace of a real cluster, in which labkit works with the least rights."""

import base64
import contextlib
import itertools
import json
import os
import random
import secrets
import select
import socket
import threading

import yaml
from kinds import ADMIN
from kubernetes import client, config, utils
from kubernetes.stream import stream
from processes import REPOSITORY, eventually

SETTINGS = {
    "cpu_request": 0.02,
    "memory": "1500Mi",
    "memory_request": "50Mi",
}
"""What lets many pods find room on one small node."""


def connect():
    """Return an administrator's connection to the cluster."""
    return config.new_client_from_config(os.environ[ADMIN])


def toml(value):
    """Return a value as TOML writes it."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


class Namespace:
    """A namespace of its own, and a service account in it that has templates/rbac.yaml's Role.

    Parameters
    ----------
    directory : Path
        Where its kubeconfig and ``cluster.toml`` are left.
    level : str
        The Pod Security Standard that is enforced.
    """

    def __init__(self, directory, level="restricted"):
        self.api = connect()
        self.core = client.CoreV1Api(self.api)
        self.batch = client.BatchV1Api(self.api)
        self.directory = directory
        self.name = f"labkit-test-{secrets.token_hex(3)}"
        labels = {"pod-security.kubernetes.io/enforce": level}
        self.core.create_namespace({"metadata": {"name": self.name, "labels": labels}})
        for manifest in yaml.safe_load_all((REPOSITORY / "templates/rbac.yaml").read_text()):
            utils.create_from_dict(self.api, manifest, namespace=self.name)
        self.kubeconfig = directory / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(self._kubeconfig()))
        self.settings = directory / "cluster.toml"
        self.usual = dict(SETTINGS)
        self.configure()

    def _kubeconfig(self):
        token = self.core.create_namespaced_service_account_token(
            "labkit", self.name, {"spec": {"expirationSeconds": 7200}}
        ).status.token
        settings = self.api.configuration
        cluster = {"server": settings.host}
        if settings.ssl_ca_cert:
            with open(settings.ssl_ca_cert, "rb") as file:
                cluster["certificate-authority-data"] = base64.b64encode(file.read()).decode()
        return {
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "labkit", "user": {"token": token}}],
            "contexts": [{
                "name": "test",
                "context": {"cluster": "test", "user": "labkit", "namespace": self.name},
            }],
        }  # fmt: skip

    def configure(self, **settings):
        """Write ``cluster.toml``."""
        lines = [f"{name} = {toml(value)}" for name, value in (self.usual | settings).items()]
        self.settings.write_text("\n".join(lines))

    def pods(self):
        return self.core.list_namespaced_pod(self.name).items

    def pod_of(self, replica):
        """Return the name of the pod that holds a replica such as ``worker-1``."""
        role, _, index = replica.rpartition("-")
        for pod in self.pods():
            held = pod.metadata.labels["batch.kubernetes.io/job-completion-index"]
            if role in pod.spec.containers[0].args and held == index:
                return pod.metadata.name
        raise LookupError(replica)

    def delete_pod(self, replica):
        """Delete a pod at once, as kubectl delete --force does."""
        self.core.delete_namespaced_pod(self.pod_of(replica), self.name, grace_period_seconds=0)

    def kill(self, replica):
        """Kill a replica's process inside its pod."""
        self.execute(replica, f"{self._find(replica)}; kill -9 $pid")

    def cores(self, replica):
        """Return the cores on which the threads of a replica's process may run."""
        status = "sed -n 's/^Cpus_allowed_list:\\s*//p' /proc/$pid/task/*/status 2>/dev/null"
        return set(self.execute(replica, f"{self._find(replica)}; {status}").split())

    def hold_back(self, replica):
        """Leave a replica's process a tenth of its time, for half a minute."""
        loop = "kill -STOP $pid; sleep 0.09; kill -CONT $pid; sleep 0.01"
        script = f"{self._find(replica)}; (for _ in $(seq 300); do {loop}; done) >/dev/null 2>&1 &"
        self.execute(replica, script)

    @staticmethod
    def _find(replica):
        """Return the shell's words for the process of a replica; they do not find themselves."""
        role, _, index = replica.rpartition("-")
        return (
            "for p in /proc/[0-9]*; do "
            f"if tr '\\0' ' ' <$p/cmdline | grep -q -- '--role={role}[ ]--index={index} '; "
            "then pid=${p#/proc/}; fi; done"
        )

    def execute(self, replica, script):
        """Run a script of the shell in a replica's pod; return what it prints."""
        pod = self.pod_of(replica)
        # The stream module changes the client that it is given.
        core = client.CoreV1Api(connect())
        return stream(
            core.connect_get_namespaced_pod_exec, pod, self.name, command=["sh", "-c", script],
            stdout=True, stderr=True, stdin=False, tty=False,
        )  # fmt: skip

    def _objects(self):
        """Return all that labkit has in the namespace."""
        listings = (
            self.core.list_namespaced_pod, self.core.list_namespaced_service,
            self.core.list_namespaced_config_map, self.batch.list_namespaced_job,
        )  # fmt: skip
        found = [item for listing in listings for item in listing(self.name).items]
        return [item for item in found if item.metadata.name != "kube-root-ca.crt"]

    def left(self):
        """Return what labkit has left in the namespace."""
        return [item.metadata.name for item in self._objects()]

    def being_deleted(self):
        """Return what has been deleted, or its owner has, and is still there."""
        objects = self._objects()
        there = {item.metadata.uid for item in objects}
        return [
            item.metadata.name
            for item in objects
            if item.metadata.deletion_timestamp
            or any(owner.uid not in there for owner in item.metadata.owner_references or [])
        ]

    def delete(self):
        """Delete the namespace; return when it has gone."""
        self.core.delete_namespace(self.name)
        names = self.core.list_namespace
        eventually(lambda: self.name not in [n.metadata.name for n in names().items], 120)


class BadLine:
    """A way to the API server on which connections break and stall: a proxy for TCP.

    Parameters
    ----------
    address : tuple of str and int
        Of the API server.
    """

    def __init__(self, address):
        self.address = address
        self.chance = random.Random(1)
        self.broken = self.stalled = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        for number in itertools.count(1):
            try:
                client, _ = self.listener.accept()
            except OSError:  # closed
                return
            stalls, breaks = number % 5 == 3, number % 4 == 0
            left = self.chance.randrange(3_000, 30_000) * (1 if stalls or breaks else 4)
            work = (client, left, stalls)
            threading.Thread(target=self._pass_on, args=work, daemon=True).start()

    def _pass_on(self, client, left, stalls):
        """Pass `left` bytes on to the client, and then no more."""
        try:
            server = socket.create_connection(self.address)
        except OSError:  # the API server is down
            client.close()
            return
        with client, server:
            ends = {client: server, server: client}
            while left > 0:
                for end in select.select([client, server], [], [])[0]:
                    try:
                        piece = end.recv(4096)
                        ends[end].sendall(piece)
                    except OSError:
                        return
                    if not piece:
                        return
                    left -= len(piece) * (end is server)
            if stalls:
                self.stalled += 1
                with contextlib.suppress(OSError):
                    while client.recv(4096):  # until the client gives up
                        pass
            self.broken += 1

    def close(self):
        self.listener.close()
