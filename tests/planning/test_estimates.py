"""How long a trial would take, how much memory and disk: from runs that are like it."""

import json

import made_runs
import pytest

import labkit
from labkit.planning import Experience, Plan
from labkit.planning.estimate import NOTHING
from labkit.runs import Store
from labkit.settings import CLUSTER

pytestmark = pytest.mark.unit

STARTUP, PAUSE = made_runs.RECORD["startup_s"], 1.0
"""Of made-up runs: seconds until the barrier, and of an evaluation."""


def training(trial):
    """Return the seconds that the slowest worker of a made-up run trains."""
    rest = 1 if trial.workers == 1 and trial.eval_samples != 0 else 2  # until it ends
    return rest + trial.total_steps * made_runs.STEP * trial.workers


def cost(store, trial):
    return Experience(store.runs()).cost(trial)


def test_a_setting_that_was_measured(store):
    trial = made_runs.trial()
    made_runs.add(store, trial)
    found = cost(store, trial.replace(seed=2))
    assert found.seconds == pytest.approx(STARTUP + training(trial) + PAUSE)
    scheduler, servers, workers = 100, 2 * 100, 2 * 201
    assert found.memory == (scheduler + servers + workers) << 20
    [run] = store.runs()
    sizes = sum(path.stat().st_size for path in run.directory.iterdir())
    assert found.disk == pytest.approx(sizes)
    assert found.source == "1 run of this setting"


def test_the_middle_one_of_repeats_counts(store, monkeypatch):
    for seed, step in enumerate((0.1, 0.2, 0.9), start=1):
        monkeypatch.setattr(made_runs, "STEP", step)
        made_runs.add(store, made_runs.trial(seed=seed, workers=1, eval_samples=0))
    found = cost(store, made_runs.trial(seed=4, workers=1, eval_samples=0))
    assert found.seconds == pytest.approx(STARTUP + 2 + 100 * 0.2)
    assert found.source == "3 runs of this setting"


@pytest.mark.parametrize("steps", [50, 400])
def test_more_steps_take_longer_in_proportion(store, steps):
    trial = made_runs.trial()
    made_runs.add(store, trial)
    found = cost(store, trial.replace(steps=steps))
    assert found.seconds == pytest.approx(STARTUP + training(trial) * steps / 100 + PAUSE)


def test_evaluations_count_as_often_as_there_are_some(store):
    trial = made_runs.trial(batch_size=5000)  # 12 steps in a pass
    made_runs.add(store, trial.replace(steps=10))
    once, thrice = (cost(store, trial.replace(steps=steps)).seconds for steps in (12, 36))
    train = training(trial.replace(steps=10)) / 10
    assert once == pytest.approx(STARTUP + 12 * train + PAUSE)
    assert thrice == pytest.approx(STARTUP + 36 * train + 3 * PAUSE)


def test_an_evaluation_that_nobody_has_timed_is_not_counted_and_that_is_said(store):
    made_runs.add(store, made_runs.trial(eval_samples=0))
    made_runs.add(store, made_runs.trial(eval_samples=500, batch_size=500))
    found = cost(store, made_runs.trial())
    assert found.at_least
    assert found.seconds == pytest.approx(STARTUP + training(made_runs.trial(eval_samples=0)))
    assert "evaluations are not counted, as none was timed" in found.source
    assert "at least 24 s" in Plan(store, [made_runs.trial()]).note
    twice = cost(store, made_runs.trial(eval_samples=1000))
    assert twice.seconds == pytest.approx(found.seconds + 2 * PAUSE) and not twice.at_least
    made_runs.add(store, made_runs.trial(batch_size=500))  # which evaluates all, too
    assert cost(store, made_runs.trial()).seconds == pytest.approx(found.seconds + PAUSE)


@pytest.mark.parametrize(("workers", "crowd"), [(3, 1), (4, 1), (8, 2), (6, 1.5)])
def test_more_workers_than_cores_share_them(store, workers, crowd):
    trial = made_runs.trial()
    assert made_runs.MACHINE["cores"] == 4
    made_runs.add(store, trial)
    found = cost(store, trial.replace(workers=workers))
    assert found.seconds == pytest.approx(STARTUP + crowd * training(trial) + PAUSE)
    assert found.memory == (100 + workers * 100 + workers * 201) << 20
    assert found.source == "1 run with workers 2"


def test_less_crowded_than_the_run_is_faster(store):
    trial = made_runs.trial(workers=8)
    made_runs.add(store, trial)
    found = cost(store, trial.replace(workers=4))
    assert found.seconds == pytest.approx(STARTUP + training(trial) / 2 + PAUSE)


def test_slow_nodes_wait_and_share_no_core(store):
    trial = made_runs.trial(slowdown=20.0, eval_samples=0)
    calibration = {"median": 0.001, "overloaded": False}
    made_runs.add(store, trial, calibration=calibration)
    found = cost(store, trial.replace(workers=40))
    assert found.seconds == pytest.approx(cost(store, trial).seconds)
    assert cost(store, trial.replace(slowdown=10.0)).seconds is None


def test_the_nearest_run_is_asked(store):
    for batch, workers in ((50, 4), (64, 2), (500, 2), (50, 1)):
        made_runs.add(store, made_runs.trial(batch_size=batch, workers=workers))
    near = {
        (50, 3): "workers 4",  # 1.33 times, of the same batch size
        (64, 8): "workers 2",
        (400, 2): "batch size 500",
        (5000, 1): "batch size 500, workers 2",
    }
    for (batch, workers), said in near.items():
        found = cost(store, made_runs.trial(batch_size=batch, workers=workers))
        assert found.source == f"1 run with {said}"


@pytest.mark.parametrize(
    "other",
    [
        {"framework": "tensorflow"},
        {"model": "lstm", "batch_size": 20},
        {"strategy": "sync-ps"},
        {"threads": 2},
        {"slowdown": 5.0},
    ],
)
def test_what_is_not_alike_says_nothing(store, other):
    made_runs.add(store, made_runs.trial())
    found = cost(store, made_runs.trial(**other))
    assert (found.seconds, found.memory, found.disk, found.source) == (None, None, None, NOTHING)


def test_neither_do_runs_that_have_not_finished_or_are_of_another_machine(store):
    made_runs.add(store, made_runs.trial(), status="diverged", error="nan")
    assert cost(store, made_runs.trial()).source == NOTHING
    there = made_runs.MACHINE | {"host": "there"}
    made_runs.add(store, made_runs.trial(seed=2), machine=there)
    planned = Plan(store, [made_runs.trial(seed=3)])
    assert planned.cost(planned.due[0]).source == NOTHING
    made_runs.add(store, made_runs.trial(seed=4))
    planned = Plan(store, [made_runs.trial(seed=3)])
    assert planned.cost(planned.due[0]).source == "1 run of this setting"


def test_a_run_that_is_not_whole_says_nothing(store):
    run = made_runs.add(store, made_runs.trial())
    log = run.directory / "worker-1.log"
    log.write_text(log.read_text()[:500])
    assert cost(store, made_runs.trial(seed=2)).source == NOTHING


HERE, ELSEWHERE = "https://192.0.2.1:6443", "https://192.0.2.2:6443"


def add_in_cluster(store, trial, nodes=2, cores=1, cluster=HERE, **record):
    """Put a made-up run into a store as one of a cluster, whose machine is its first node."""
    node = made_runs.MACHINE | {"cores": cores}
    nodes = {f"node-{number}": node for number in range(nodes)}
    made_runs.add(store, trial, launcher="kubernetes", machine=node | {"host": cluster},
                  nodes=nodes, **{"oversubscribed": False} | record)  # fmt: skip


@pytest.fixture
def pods(tmp_path):
    """Return an empty store of a cluster's runs."""
    return Store(tmp_path / "runs", "kubernetes")


def test_in_a_cluster_each_worker_has_a_core_however_many_there_are(pods):
    trial = made_runs.trial(eval_samples=0)
    add_in_cluster(pods, trial)
    found = cost(pods, trial.replace(workers=40))
    assert found.seconds == pytest.approx(STARTUP + training(trial))


@pytest.mark.parametrize(("workers", "crowd"), [(8, 1), (16, 2), (2, 1 / 2)])
def test_pods_that_shared_cores_share_those_of_all_their_nodes(pods, workers, crowd):
    trial = made_runs.trial(workers=8, eval_samples=0)
    add_in_cluster(pods, trial, nodes=2, cores=2, oversubscribed=True)
    found = cost(pods, trial.replace(workers=workers, seed=2))
    assert found.seconds == pytest.approx(STARTUP + training(trial) * crowd)


def test_only_runs_of_the_cluster_where_it_will_run_count(pods, tmp_path, monkeypatch):
    monkeypatch.delenv(CLUSTER, raising=False)
    trial = made_runs.trial(eval_samples=0)
    for seed, cluster in enumerate((ELSEWHERE, HERE, ELSEWHERE), start=2):
        add_in_cluster(pods, trial.replace(seed=seed), cluster=cluster)
    for server, runs in ((HERE, "1 run"), (ELSEWHERE, "2 runs")):
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(pointing_to(server)))
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        [source] = labkit.plan([trial], "kubernetes", store=pods).table["estimated_from"]
        assert source == f"{runs} of this setting"


def pointing_to(server):
    """Return a kubeconfig of one cluster."""
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
