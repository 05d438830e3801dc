"""The share of a core that pods of slow trials have; with a stand-in: no cluster is needed."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import made_runs
import pytest
from test_pods import item

from labkit.launchers.kubernetes import circumstances
from labkit.launchers.kubernetes.api import CONTAINER, Cluster
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.kubernetes.launcher import KubernetesLauncher
from labkit.launchers.kubernetes.owners import Owner
from labkit.launchers.kubernetes.pods import Inventory
from labkit.launchers.kubernetes.settings import Settings
from labkit.launchers.kubernetes.shares import Shares
from labkit.launchers.kubernetes.submission import submit
from labkit.launchers.protocol import TrialFailed
from labkit.launchers.tracking import Tracker
from labkit.replicas import events, podlog
from labkit.replicas.events import Barrier, Ready, Step
from labkit.replicas.podlog import OUT, Limited, Output, Sample
from labkit.trials import TrialError

pytestmark = pytest.mark.unit

SLOW = made_runs.trial(workers=2, slowdown=10.0, cpu=0.16)


@pytest.fixture
def slow(api_server):
    """Have a slow trial whose pods run, and what limits them."""
    cluster = Cluster(Settings(cpu_request=0.05))
    submit(cluster, SLOW, 60.0, Owner("me@here", "/runs/1"), print, threading.Event(), 0.02)
    for component, index in (("scheduler", 0), ("worker", 0), ("worker", 1)):
        api_server.set_status(component, index, "running")
    pods, tracker = Inventory({"worker": 2, "scheduler": 1}), Tracker(SLOW)
    pods.update(api_server.of_kind("pods").values())
    shares = Shares(cluster, tracker, pods)

    def update(*ready):
        for index in ready:
            tracker.update(Ready(seq=1, t=1.0, role="worker", index=index, cpu=0.0))
        with ThreadPoolExecutor(2) as pool:
            shares.update(pool)
        return {
            str(pod): api_server.of_kind("pods")[pod.name]["spec"]["containers"][0]["resources"][
                "limits"
            ]["cpu"]
            for pod in pods
        }

    return SimpleNamespace(update=update, pods=pods, server=api_server)


def test_what_a_node_needs_cores_for():
    """A scheduler sleeps; a server beside its worker has no pod of its own."""
    names = ("scheduler", "worker", "worker", "server")
    pods = [SimpleNamespace(pod=SimpleNamespace(component=name)) for name in names]
    node = circumstances.Node("node", pods)
    assert node.cores_needed(made_runs.trial()) == 3
    assert node.cores_needed(made_runs.trial(threads=4)) == 2 * 4 + 1


def test_each_worker_is_limited_when_it_is_ready_and_then_all_others(slow):
    assert slow.update() == {"scheduler 0": 1, "worker 0": 1, "worker 1": 1}
    assert slow.update(1) == {"scheduler 0": 1, "worker 0": 1, "worker 1": "160m"}
    assert set(slow.update(0).values()) == {"160m"}
    asked = [name for method, _, name, _ in slow.server.requests if method == "PATCH"]
    assert len(asked) == len(set(asked)) == 3
    slow.update()
    assert len([1 for method, *_ in slow.server.requests if method == "PATCH"]) == 3


def test_what_is_reserved_is_less_than_the_limit_to_come(slow):
    """Kubernetes lets no pod change its class of service while it runs."""
    for pod in slow.server.of_kind("pods").values():
        (container,) = pod["spec"]["containers"]
        assert container["name"] == CONTAINER
        assert container["resources"]["requests"]["cpu"] < SLOW.cpu


def test_a_cluster_that_is_too_old_says_so(slow):
    slow.server.fail(404, "the server could not find the requested resource", method="PATCH")
    with pytest.raises(ClusterError, match=r"worker 0 cannot have 0\.16 of a core: .* 1\.33"):
        slow.update(0)


def test_without_the_right_nothing_starts(api_server):
    rights = [("pods", "list"), ("jobs", "create")]
    api_server.rules = [{"resources": [what], "verbs": [verb]} for what, verb in rights]
    launcher = KubernetesLauncher(settings=Settings())
    launcher.check([SLOW.replace(cpu=None)])
    with pytest.raises(TrialError, match="cpu: labkit may not resize pods in namespace 'test'"):
        launcher.check([SLOW])
    api_server.rules.append({"resources": ["pods/resize"], "verbs": ["patch"]})
    launcher.check([SLOW])


def test_where_nobody_may_ask_for_rights_trying_tells(api_server):
    api_server.fail(403, "no reviews here", kind="selfsubjectaccessreviews")
    KubernetesLauncher(settings=Settings()).check([SLOW])


# --- what a run keeps of it -----------------------------------------------------------------


def stamp(t):
    """Return the time at which a node, whose clock began at 20:20, had printed a line."""
    return f"2020-02-20T20:{20 + int(t // 60):02}:{t % 60:06.3f}Z"


def log(index, limited, barrier=100.0, seconds=10):
    """Return what a worker's pod prints: it passes the barrier, is limited, and trains."""
    who = {"role": "worker", "index": index, "cpu": 0.0}
    done = {"steps": SLOW.total_steps, "samples": 1, "loss": 1.0, "accuracy": 1.0}
    lines = [(1.0, podlog.Machine("node", "cpu", 2, 1, "system"))]
    for event in (
        Barrier(seq=0, t=barrier, **who),
        Step(seq=1, t=barrier + seconds, **done, **who),
    ):
        text = events.encode(event)[:-1].encode()
        lines.append((event.t, Output(f"worker-{index}", OUT, text)))
    for t in range(90, 120):
        waited = (t - 90) * 0.5
        sample = Sample(float(t), t * 0.5, t * 0.25, waited, 1000 * t, 2000 * t, t * 0.125)
        lines.append((float(t), sample))
    if limited:
        lines.append((limited, Limited(limited, 0.16)))
    return [(stamp(t), entry) for t, entry in sorted(lines, key=lambda line: line[0])]


def recorded(*limited, server=()):
    """Return the record of a run whose workers' pods were limited then, on one node.

    What a dedicated `server` has printed, it has on another one.
    """
    pods = [item("worker", index, "Succeeded") for index in range(2)]
    if server:
        pods.append(item("server", 0, "Succeeded"))
        pods[-1]["spec"]["nodeName"] = "another"
    known = Inventory({"worker": 2, "server": len(pods) - 2})
    known.update(pods)
    entries = {("worker", index): log(index, t) for index, t in enumerate(limited)}
    entries["server", 0] = server
    logs = SimpleNamespace(
        of=lambda pod: SimpleNamespace(entries=lambda: entries[pod.component, pod.index])
    )
    submission = SimpleNamespace(trial=SLOW, submitted=0.0, image="i")
    return circumstances.record(submission, "cluster", known, logs)


def test_the_window_begins_when_the_last_pod_is_limited():
    assert recorded(99.0, 102.5)["limited_s"] == 2.5
    assert recorded(98.0, 99.0)["limited_s"] == 0


def test_what_pods_used_while_all_were_limited():
    """Of 10 s of training 7.5 s are left, in each of which they wait half of the time."""
    use = recorded(102.5, 99.0)["use"]
    assert use["worker 0"] == use["worker 1"]
    assert use["worker 0"] == pytest.approx(
        {"seconds": 7.5, "own": 1.875, "throttled": 3.75, "sent": 7500, "received": 15_000,
         "agent": 0.9375}
    )  # fmt: skip


def test_a_server_on_a_node_of_its_own_has_used_something_too():
    """By that node's own clock, which is 1,000 s ahead."""
    ready = events.encode(Ready(seq=0, t=1091.0, role="server", index=0, cpu=0.0))[:-1].encode()
    server = [
        (stamp(1.0), podlog.Machine("another", "cpu", 2, 1, "system")),
        (stamp(91.0), Output("server-0", OUT, ready)),
        (stamp(99.0), Limited(1099.0, 0.16)),
        *((stamp(t), Sample(1000.0 + t, t * 0.5, t * 0.25, 0.0, 100 * t, 700 * t))
          for t in range(90, 120)),
    ]  # fmt: skip
    use = recorded(102.5, 99.0, server=server)["use"]
    assert use["server 0"] == pytest.approx(
        {"seconds": 7.5, "own": 1.875, "throttled": 0, "sent": 750, "received": 5250, "agent": 0}
    )


def test_a_pod_that_was_never_limited_yields_no_number():
    with pytest.raises(TrialFailed, match=r"worker 1 ended before it had 0\.16 of a core"):
        recorded(101.0, None)


def test_all_that_trains_is_limited_sooner_or_later():
    """Whatever the order in which workers come to the barrier."""
    for order in itertools.permutations(range(3)):
        trial = SLOW.replace(workers=3)
        tracker, calls = Tracker(trial), []
        pods = Inventory({"worker": 3, "scheduler": 1})
        pods.update([item("worker", i, "Running") for i in range(3)])
        pods.update([*(item("worker", i, "Running") for i in range(3)),
                     item("scheduler", 0, "Running")])  # fmt: skip
        connection = SimpleNamespace(
            request=lambda *_, name, body, calls=calls: calls.append(name)
        )
        shares = Shares(SimpleNamespace(connection=connection), tracker, pods)
        for index in order:
            tracker.update(Ready(seq=1, t=1.0, role="worker", index=index, cpu=0.0))
            with ThreadPoolExecutor(1) as pool:
                shares.update(pool)
        assert len(calls) == len(set(calls)) == 4
        assert calls[:2] == [f"worker-{i}-abc/resize" for i in order[:2]]
