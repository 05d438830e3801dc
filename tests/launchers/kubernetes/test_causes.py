"""Replicas and pods of a real cluster that end or cannot start: the error names the cause."""

import threading
import time

import pytest
from processes import cannot, eventually
from small_trials import ENDLESS, failing, trial, working

from labkit.launchers.protocol import Submitted
from labkit.replicas.events import Barrier, End, Event, Ready, Start, Step

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


ROLES = [("tensorflow", "server"), ("tensorflow", "worker"),
         ("mxnet", "scheduler"), ("mxnet", "server"), ("mxnet", "worker")]  # fmt: skip


@pytest.mark.parametrize(("framework", "role"), ROLES)
def test_killed(framework, role, namespace, store):
    victim = f"{role}-0"
    struck = []

    def strike(event):
        if isinstance(event, Step) and not struck:
            struck.append(time.monotonic())
            namespace.kill(victim)

    error, _ = failing([trial(framework, workers=2, **ENDLESS)], store, on_event=strike)
    assert time.monotonic() - struck[0] < 30
    assert f"{role} 0 was ended by SIGKILL while training" in error


# A server of its own pod, and one in its worker's; what is in a pod makes no other difference.
@pytest.mark.parametrize(("framework", "role"), [("tensorflow", "server"), ("mxnet", "worker")])
def test_pod_deleted(framework, role, namespace, store):
    struck = []

    def strike(event):
        if isinstance(event, Step) and not struck:
            struck.append(time.monotonic())
            namespace.delete_pod(f"{role}-0")

    error, _ = failing([trial(framework, workers=2, **ENDLESS)], store, on_event=strike)
    assert time.monotonic() - struck[0] < 30
    assert "was deleted while training by somebody else" in error


FIRST, LAST = "worker-0", "worker-1"
PHASES = {
    # when: what is waited for, who is held back meanwhile, the values of the trial
    "before ready": ((None, Start), None, ENDLESS),
    "at the barrier": ((FIRST, Ready), (LAST, Start), ENDLESS),
    "while training": ((FIRST, Step), None, ENDLESS),
    "at the end": ((FIRST, End), (LAST, Barrier), {"steps": 400}),
}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("framework", "role"), ROLES)
def test_chaos(framework, role, phase, chaos_round, namespace, store):
    """A process killed and a pod deleted, in turns: the trial fails plainly, or ends right."""
    (who, kind), slow, values = PHASES[phase]
    victim = f"{role}-0"
    if (framework, role, phase) == ("tensorflow", "worker", "at the end"):
        victim = LAST  # the first one is gone at once
    struck = []

    def strike(event):
        if not isinstance(event, Event):
            return
        here = event.replica, type(event)
        if here == slow:
            namespace.hold_back(LAST)
        if here == (who or victim, kind) and not struck:
            struck.append(time.monotonic())
            (namespace.delete_pod if chaos_round % 2 else namespace.kill)(victim)

    error, _ = failing([trial(framework, workers=2, **values)], store, on_event=strike)
    assert struck, error
    print(f"CHAOS {framework} {role} {phase}: {time.monotonic() - struck[0]:.1f} s")
    assert time.monotonic() - struck[0] < 30
    if chaos_round % 2:
        pod = victim if (framework, role) != ("mxnet", "server") else FIRST  # shares its pod
        assert f"{pod.replace('-', ' ')} was deleted" in error, error
    else:
        assert f"{victim.replace('-', ' ')} was ended by SIGKILL" in error, error


def test_image_missing(namespace, store, tmp_path):
    """That of the settings, and one that a script is to have."""
    namespace.configure(
        image="localhost/nobody-built-this-{framework}:{tag}", parallel=2, share_nodes=True
    )
    own = "localhost/nor-this:1"
    error, seconds = failing([trial(), working(tmp_path, "True", image=own)], store)
    assert error.count("cannot get its image on node") == 2
    assert "localhost/nobody-built-this-mxnet" in error and "labkit image build" in error
    assert f"--image says that it is {own}" in error
    assert seconds < 60


def test_out_of_memory(namespace, store):
    namespace.configure(memory="60Mi")
    error, seconds = failing([trial(workers=1, servers=1)], store)
    assert "because its memory, limited to 60Mi, ran out" in error
    assert seconds < 60


def test_evicted(namespace, store):
    def strike(event):
        if isinstance(event, Step) and event.steps < 100 and not struck:
            struck.append(time.monotonic())
            name = namespace.pod_of("worker-1")
            namespace.core.create_namespaced_pod_eviction(
                name, namespace.name, {"metadata": {"name": name}}
            )

    struck = []
    error, _ = failing([trial(workers=2, **ENDLESS)], store, on_event=strike)
    assert time.monotonic() - struck[0] < 30
    assert "worker 1 was evicted while training: is node" in error


def test_node_lost(namespace, store):
    """A node that is not heard of any more: nobody there can end its pods or say that they did."""
    nodes = namespace.core.list_node(label_selector="type=kwok").items
    if not nodes:
        cannot("the cluster has no fake nodes that could be lost (label type=kwok)")
    lost = nodes[0].metadata.name
    # As real nodes say, and trials require.
    namespace.core.patch_node(lost, {"metadata": {"labels": {"kubernetes.io/arch": "amd64"}}})
    namespace.configure(
        node_selector={"kubernetes.io/hostname": lost},
        tolerations=[{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
    )
    known = []

    def leave(kind):
        namespace.core.patch_node(lost, {"metadata": {"labels": {"type": kind}}})

    def lose():
        """Take the node from what keeps it alive, and have the cluster take it for lost."""
        # What pretends to run pods there would soon end them.
        eventually(lambda: "Running" in [pod.status.phase for pod in namespace.pods()], 60)
        leave(None)
        # What its controllers write after 50 s of silence, and act upon; a last sign of life that
        # was under way may come after it.
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}

        def is_given_up():
            pods = namespace.pods()
            if not pods or any(pod.metadata.deletion_timestamp for pod in pods):
                return True
            conditions = namespace.core.read_node(lost).status.conditions
            if "Unknown" not in [c.status for c in conditions if c.type == "Ready"]:
                known[:] = [time.monotonic()]
                namespace.core.patch_node_status(lost, {"status": {"conditions": [unknown]}})
            return False

        eventually(is_given_up, 120)

    def strike(event):
        if isinstance(event, Submitted):
            threading.Thread(target=lose, daemon=True).start()

    try:
        error, _ = failing([trial(workers=2, **ENDLESS)], store, on_event=strike)
    finally:
        leave("kwok")
    assert time.monotonic() - known[0] < 30
    assert f"lost its node {lost} before" in error


def test_deadline(namespace, store):
    error, seconds = failing([trial(**ENDLESS)], store, deadline=40)
    assert "did not finish within its deadline of 40 s. Still running: scheduler-0" in error
    assert "worker-0 while training" in error
    assert seconds < 90
