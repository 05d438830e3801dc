"""Trials in the pods of a real cluster that go well, also when labkit ends before they do."""

import os
import signal
import subprocess
import sys
import time

import pytest
from processes import REPOSITORY, eventually
from small_trials import CASES, ENDLESS, Live, run, trial, working

from labkit.campaign import measure
from labkit.launchers.protocol import Pods, Waiting
from labkit.replicas import podlog
from labkit.replicas.events import Ready, Step
from labkit.runs import Store
from labkit.trials import Sweep, Trial
from labkit.trials.frameworks import FRAMEWORKS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


@pytest.mark.parametrize(("framework", "model"), [("mxnet", "lenet5"), ("tensorflow", "lstm")])
def test_a_trial_is_the_same_as_locally(framework, model, namespace, store, warm):
    """The same numbers come out, but for the times: one worker computes the same everywhere."""
    one = trial(framework, model)
    live, others = Live(), []

    def observe(event):
        live(event)
        others.append(event)

    there = run([one], store, on_event=observe)
    here = measure([one], store=store)
    row, local = there.table.iloc[0], here.table.iloc[0]
    assert (row.status, row.launcher, local.launcher) == ("finished", "kubernetes", "local")
    assert list(there.table.columns) == list(here.table.columns)
    metric = "accuracy" if model == "lenet5" else "perplexity"
    assert row[metric] == pytest.approx(local[metric], rel=1e-3)
    assert there.steps["loss"].iloc[-1] > 0
    assert row.startup_s > 0 and row.duration_s > 0 and row.cores >= 1
    # and it was shown while it ran, each event once
    assert len(live) == len(set(live)) and ("worker", 0, 0) in live
    assert any(isinstance(event, Pods) and "worker" in event.roles for event in others)


@pytest.mark.parametrize(("framework", "servers"), [("tensorflow", 2), ("mxnet", 1)])
def test_several_workers(framework, servers, namespace, store):
    """Also in lock step, with servers in pods of their own."""
    counted = set()

    def count(event):
        if isinstance(event, Ready):
            pods = [pod.metadata.name for pod in namespace.pods()]
            counted.add(sum(name not in pods for name in namespace.left()))

    several = trial(framework, strategy="sync-ps", workers=3, servers=servers)
    results = run([several], store, on_event=count)
    assert counted and min(counted) >= 4 and max(counted) <= 6  # objects, however many pods
    (found,) = results.runs
    logs = sorted(path.stem for path in found.directory.glob("*-*.log"))
    roles = [f"server-{i}" for i in range(servers)] + [f"worker-{i}" for i in range(3)]
    assert logs == sorted(["scheduler-0"] * (framework == "mxnet") + roles)
    assert len(found.record["pods"]) == len(logs)
    assert results.table["oversubscribed"].iloc[0] == (
        found.record["machine"]["cores"] < 3 + servers
    )


@pytest.mark.alone
def test_slow_nodes(namespace, store):
    """Each worker takes its stretched time, of a core that was calibrated in a pod."""
    namespace.configure(memory_request="300Mi")
    slow = trial(workers=4, steps=5, eval_samples=0, slowdown=20.0)
    results = run([slow], store)
    (found,) = results.runs
    due = 20 * found.record["calibration"]["median"]
    for worker in found.progress():
        assert worker.t[-1] >= slow.steps * due * 0.999
    row = results.table.iloc[0]
    assert not row.oversubscribed
    assert row.compute_ms == pytest.approx(due / 20 * 1000)
    assert 0 <= row.late_share <= 1 and 0 <= row.idle_share <= 1
    assert (found.directory / "calibration" / "worker-0.log").stat().st_size


@pytest.mark.alone
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_slow_nodes_with_a_share_of_a_core(framework, namespace, store):
    """Pods start with whole cores, and are limited at the barrier; a dedicated server, too."""
    namespace.configure(memory_request="300Mi", cpu_request=0.1)
    slow = trial(framework, workers=2, steps=60, eval_samples=0, slowdown=20.0, cpu=0.25)
    results = run([slow], store)
    (found,) = results.runs
    assert found.record["limited_s"] < found.window.end
    other = {"mxnet": "scheduler 0", "tensorflow": "server 0"}[framework]
    assert set(found.record["use"]) == {"worker 0", "worker 1", other}
    row = results.table.iloc[0]
    # All gradients go to a dedicated server; of two servers beside workers, each sends as many
    # weights to the other's worker as that keeps gradients to itself.
    weights = 4e-6 * sum(map(int, row.variables.split()))
    assert row.sent_mb_per_step == pytest.approx(weights, rel=0.2)
    assert row.received_mb_per_step == pytest.approx(weights, rel=0.2)
    assert row.busiest_mbit_per_s > 0 and row.throttled_share >= 0
    limits = [
        entry.cores
        for path in (found.directory / "pods").iterdir()
        for line in path.read_bytes().splitlines()
        if isinstance(entry := podlog.decode(podlog.split_time(line)[1]), podlog.Limited)
    ]
    assert limits == [pytest.approx(0.25)] * 3


def test_two_at_once(namespace, store):
    namespace.configure(parallel=2, share_nodes=True)
    seen = set()

    def observe(event):
        seen.add(len(namespace.batch.list_namespaced_job(namespace.name).items))

    sweep = Sweep.grid(repeats=2, framework="mxnet", model="lenet5", workers=1, **CASES["lenet5"])
    table = run(sweep, store, on_event=observe).table
    assert list(table.status) == ["finished", "finished"]
    assert max(seen) == 4  # each has two Jobs


@pytest.mark.alone
def test_measurements_are_kept_apart(namespace, store):
    """On one node the second trial finds no room, and is run when the first has ended."""
    namespace.configure(parallel=2, wait_for_room=1)
    sweep = Sweep.grid(repeats=2, framework="mxnet", model="lenet5", workers=1, **CASES["lenet5"])
    table = run(sweep, store).table
    assert list(table.status) == ["finished", "finished"]


@pytest.mark.alone
def test_workers_have_cores_of_their_own(namespace, store):
    """Every thread of a worker, of which TensorFlow has many, is held to its core in time."""
    held = {}

    def observe(event):
        if isinstance(event, Step) and not held:
            held.update({i: namespace.cores(f"worker-{i}") for i in range(2)})

    results = run([trial("tensorflow", workers=2, steps=200)], store, on_event=observe)
    (found,) = results.runs
    bound = [found.record["bound"][f"worker {i}"] for i in range(2)]
    assert held == {i: {str(bound[i][0])} for i in range(2)}
    assert [len(each) for each in bound] == [1, 1]
    assert bound[0] != bound[1] or found.record["machine"]["cores"] == 1


def test_diverged(namespace, store):
    """A loss that is no number is a result."""
    (row,) = run([trial(learning_rate=3e38)], store).table.itertuples()
    assert (row.status, row.launcher) == ("diverged", "kubernetes")
    (fine,) = run([trial()], store).table.itertuples()
    where = ("host", "cpu_model", "cores", "congestion_control")
    assert [getattr(row, name) for name in where] == [getattr(fine, name) for name in where]


ENOUGH = "/tmp/enough"


def test_a_log_that_is_rotated(namespace, store, tmp_path):
    """What the node has thrown away was read before: nothing is lost, nothing doubled."""
    first = []

    def observe(event):
        if not isinstance(event, Step):
            return
        pod = namespace.pod_of("worker-0")
        begin = namespace.core.read_namespaced_pod_log(pod, namespace.name, limit_bytes=200)
        if not first:
            first.append(begin)
            noise = "import os; out = os.open('/proc/1/fd/1', os.O_WRONLY)\n"
            noise += "for _ in range(12000): os.write(out, b'x' * 1000 + b'\\n')"
            namespace.execute("worker-0", f'python3 -c "{noise}"')
        elif begin != first[0] and len(first) == 1:
            first.append(begin)
            namespace.execute("worker-0", f"touch {ENOUGH}")

    live = Live()
    until = f"not os.path.exists({ENOUGH!r})"
    results = run([working(tmp_path, until)], store, on_event=lambda e: (observe(e), live(e)))
    assert results.table.iloc[0].status == "finished"
    assert len(first) == 2, "its log was never rotated"
    assert len(live) == len(set(live)) > 3


def test_killed_and_started_again(namespace, start_labkit, tmp_path):
    """The trial goes on in the cluster, and the next labkit finishes with the same pods."""
    values = {"framework": "mxnet", "model": "lenet5", **CASES["lenet5"] | {"steps": 200}}
    labkit = start_labkit("kubernetes", **values)
    for event in labkit.events():
        if event["kind"] == "step":
            break
    labkit.signal(signal.SIGKILL)
    labkit.wait()
    pods = sorted(pod.metadata.uid for pod in namespace.pods())
    assert pods
    seen = []

    def observe(event):
        seen.append(sorted(pod.metadata.uid for pod in namespace.pods()))

    results = run([Trial(**values)], Store(tmp_path / "runs"), on_event=observe)
    assert results.table.iloc[0].status == "finished"
    assert seen[0] == pods
    assert results.steps["steps"].max() == 200


def test_interrupted(namespace, start_labkit):
    labkit = start_labkit("kubernetes", framework="mxnet", model="lenet5",
                          **CASES["lenet5"] | ENDLESS)  # fmt: skip
    for event in labkit.events():
        if event["kind"] == "step":
            labkit.signal(signal.SIGINT)
            break
    for _ in labkit.events():
        pass
    labkit.wait()
    eventually(lambda: namespace.left() == [])


def signalled(command, number, namespace, tmp_path):
    """Signal a command when a pod of its trial runs; return what it said, its code and seconds."""
    with subprocess.Popen(
        [sys.executable, "-c", "from labkit.cli import main; main()", *command],
        cwd=REPOSITORY, env=os.environ | {"LABKIT_OUTPUTS": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as labkit:  # fmt: skip
        eventually(
            lambda: any(pod.status.phase == "Running" for pod in namespace.pods())
            or labkit.poll() is not None,
            120,
        )
        labkit.send_signal(number)
        begin = time.monotonic()
        said, _ = labkit.communicate(timeout=60)
    return said, labkit.returncode, time.monotonic() - begin


def test_ended_by_a_batch_system(namespace, tmp_path):
    """Or by `timeout`, or a hub that culls: as by Ctrl-C."""
    command = [
        "run", "--launcher", "kubernetes", "--framework", "mxnet", "--model", "lenet5",
        "--workers", "1", "--batch-size", "32", "--learning-rate", "0.05", "--steps", "100000",
    ]  # fmt: skip
    said, code, _ = signalled(command, signal.SIGTERM, namespace, tmp_path)
    assert "ended by SIGTERM; everything started has been ended" in said
    assert code == 128 + signal.SIGTERM
    # the namespace is looked at when the test ends


@pytest.mark.alone
def test_two_sweeps_take_turns(namespace, start_labkit, store, tmp_path):
    """The second says for whom it waits, although it may wait for room for a second only."""
    namespace.configure(wait_for_room=1)
    busy = working(tmp_path, "time.monotonic() < began + 15")
    first = start_labkit("kubernetes", **busy.model_dump(exclude_none=True))
    events = first.events()
    next(event for event in events if event["kind"] == "step")
    said = []

    def observe(event):
        if isinstance(event, Waiting):
            said.append(event.for_)

    results = run([trial(batch_size=16)], store, on_event=observe)
    for _ in events:
        pass
    assert first.wait() == 0
    assert any("the room of mxnet-" in each and "@" in each for each in said)
    assert list(results.table.status) == ["finished"]


def test_reproduce_interrupted(namespace, tmp_path):
    """The notebook's trial is ended where it runs; nobody waits for the rest of it."""
    command = ["reproduce", "--profile", "thesis", "--launcher", "kubernetes", "--only", "6-1-1"]
    said, code, seconds = signalled(command, signal.SIGINT, namespace, tmp_path)
    assert code == 130, said
    assert seconds < 20
    assert "interrupted" in said
    # the namespace is looked at when the test ends
