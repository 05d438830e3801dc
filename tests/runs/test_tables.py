"""Tables: each number worked out by hand from made-up events."""

import math

import made_runs
import pandas as pd
import pytest

from labkit.analysis import MetricError, summarise
from labkit.runs.run import Run
from labkit.runs.tables import modernise, published
from labkit.trials.models import MODELS

pytestmark = pytest.mark.unit

RATES = ["window_s", "paused_s", "batches_per_second", "samples_per_second", "imbalance",
         "variation", "epoch_s"]  # fmt: skip
NUMBERS = [*RATES, "duration_s", "startup_s", "cpu_ms_per_step", "peak_memory_mb", "accuracy",
           "perplexity", "inference_per_second"]  # fmt: skip
COLUMNS = {
    "framework", "model", "dataset", "strategy", "workers", "servers", "batch_size",
    "learning_rate", "optimizer", "epochs", "steps", "seed", "initializer", "clip_norm",
    "loss_over_time", "variables",
    "eval_samples", "threads", "trial", "identity", "status", "error", "samples_per_epoch",
    "duration_s", "window_s", "paused_s", "batches_per_second", "samples_per_second", "imbalance",
    "variation", "epoch_s", "startup_s", "cpu_ms_per_step", "peak_memory_mb", "accuracy",
    "perplexity", "inference_per_second", "cores", "oversubscribed", "overloaded", "started",
    "host", "cpu_model", "revision", "code", "versions", "load_before", "load_after",
}  # fmt: skip


USE = {
    "scheduler 0": {"seconds": 10.0, "throttled": 0.0, "sent": 1000, "received": 1000},
    "worker 0": {"seconds": 10.0, "throttled": 2.5, "sent": 180e6, "received": 120e6},
    "worker 1": {"seconds": 20.0, "throttled": 4.0, "sent": 240e6, "received": 480e6},
}
"""What pods used, while the workers of `made_runs` made 15 batches a second."""


def test_what_pods_used_of_the_network_and_of_their_share_of_a_core(store):
    trial = made_runs.trial()
    made_runs.add(store, trial, use=USE)
    row = store.results([trial]).table.iloc[0]
    assert row.sent_mb_per_step == pytest.approx((18 + 12) / 15)
    assert row.received_mb_per_step == pytest.approx((12 + 24) / 15)
    assert row.busiest_mbit_per_s == pytest.approx(8 * 24)
    assert row.throttled_share == pytest.approx(0.25)


def test_servers_in_pods_of_their_own_took_what_these_did_while_workers_trained(store):
    trial = made_runs.trial(framework="tensorflow")
    alone = {"seconds": 10.0, "own": 1.2, "throttled": 0.0, "sent": 0, "received": 0}
    made_runs.add(store, trial, use=USE | {"server 0": alone})
    row = store.results([trial]).table.iloc[0]
    assert row.server_cpu_ms_per_update == pytest.approx(1000 * 1.2 / 10 / 15)


def test_servers_that_were_looked_at_took_what_these_did_while_workers_trained(store):
    trial = made_runs.trial(servers=2)
    made_runs.add(store, trial, serving={"seconds": 5.0, "cpu": [0.6, 0.2]})
    row = store.results([trial]).table.iloc[0]
    # In the 10 s in which all train, worker 0 takes 100 steps and worker 1 half of that.
    assert row.server_cpu_ms_per_update == pytest.approx(1000 * 0.8 / 5 * 10 / 150)
    assert row.busiest_server == pytest.approx(0.6 / 0.8)


def test_what_servers_took_is_not_known_where_training_was_too_short_to_look(store):
    trial = made_runs.trial(servers=2)
    made_runs.add(store, trial, serving=None)
    row = store.results([trial]).table.iloc[0]
    assert math.isnan(row.server_cpu_ms_per_update)
    assert math.isnan(row.busiest_server)


def test_what_labkit_took_in_a_servers_pod_is_not_the_servers(store):
    trial = made_runs.trial(framework="tensorflow")
    alone = {"seconds": 10.0, "own": 1.2, "agent": 0.3, "throttled": 0.0, "sent": 0, "received": 0}
    made_runs.add(store, trial, use=USE | {"server 0": alone})
    row = store.results([trial]).table.iloc[0]
    assert row.server_cpu_ms_per_update == pytest.approx(1000 * 0.9 / 10 / 15)


def test_what_such_servers_took_is_not_known_if_one_of_them_told_nothing(store):
    """What the other took would pass for what both did."""
    trial = made_runs.trial(framework="tensorflow", servers=2)
    one = {"seconds": 10.0, "own": 1.2, "throttled": 0.0, "sent": 0, "received": 0}
    pods = dict.fromkeys([*USE, "server 0", "server 1"], "node")
    made_runs.add(store, trial, use=USE | {"server 0": one}, pods=pods)
    assert math.isnan(store.results([trial]).table.iloc[0].server_cpu_ms_per_update)


def test_what_such_servers_took_is_not_known_of_runs_that_counted_their_start(store):
    trial = made_runs.trial(framework="tensorflow")
    alone = {"seconds": 10.0, "throttled": 0.0, "sent": 0, "received": 0}
    made_runs.add(store, trial, use=USE | {"server 0": alone})
    assert math.isnan(store.results([trial]).table.iloc[0].server_cpu_ms_per_update)


def test_the_window_of_limited_pods_begins_when_all_are(store):
    trial = made_runs.trial(slowdown=10.0, cpu=0.5)
    made_runs.add(store, trial, limited_s=4.0, calibration={"median": 0.01})
    row = store.results([trial]).table.iloc[0]
    assert row.cpu == 0.5
    assert row.window_s == pytest.approx(6)
    assert row.batches_per_second == pytest.approx(15)


def test_a_row_worked_out_by_hand(store):
    trial = made_runs.trial()
    made_runs.add(store, trial)
    table = store.results([trial]).table
    assert set(table) >= COLUMNS
    row = table.iloc[0]
    assert row.trial.startswith(trial.name)
    assert row.identity == trial.identity
    assert (row.status, row.error, row.overloaded) == ("finished", None, False)
    # Worker 0 takes 100 steps of 50 images in 10 s, worker 1 half of that.
    assert row.duration_s == pytest.approx(20)
    assert row.window_s == pytest.approx(10)
    assert row.paused_s == 0  # worker 0 evaluates when it has taken its last step
    assert row.samples_per_second == pytest.approx(500 + 250)
    assert row.batches_per_second == pytest.approx(15)
    assert row.samples_per_epoch == 60_000
    assert row.epoch_s == pytest.approx(60_000 / 375)
    assert row.imbalance == pytest.approx(250 / 375)
    assert row.variation == pytest.approx(0, abs=1e-9)
    assert row.startup_s == 1.5
    assert row.cpu_ms_per_step == pytest.approx(1000 * 0.5 * (10 + 20) / 200)  # no evaluation
    assert row.input_ms_per_step == pytest.approx((2 + 4) / 2)
    assert row.evaluation_ms_per_step == pytest.approx(1000 * 1.0 / 100)  # worker 0's steps
    assert row.cpu_variation == pytest.approx(0, abs=1e-9)  # all steps take worker 0 as long
    # Each of the two servers takes 6 s for 103 steps of each worker, three of them warming up.
    assert row.server_cpu_ms_per_update == pytest.approx(1000 * 2 * 6 / 206)
    assert row.busiest_server == pytest.approx(1 / 2)
    assert row.peak_memory_mb == 201
    assert row.accuracy == 87.5
    assert math.isnan(row.perplexity)
    assert row.inference_per_second == 20_000
    assert (row.host, row.cpu_model, row.cores) == ("here", "a processor", 4)
    assert row.congestion_control == "cubic"
    assert (row.revision, row.started) == ("0123456789ab", "2020-02-20T20:20:20+0000")
    assert row.versions == "mxnet 1.0, python 3.11.0"
    assert (row.load_before, row.load_after, row.other_cpu) == (0.25, 1.75, 0.125)
    assert not row.oversubscribed


def test_published_throughputs_are_known_to_15_percent():
    """Those of the thesis's figures, which are repeated at least three times."""
    found = summarise(published(), "batches_per_second")
    repeated = found[(found["n"] >= 3) & found["model"].isin(MODELS)]
    assert len(repeated) >= 20
    half_widths = (repeated["high"] - repeated["low"]) / 2 / repeated["mean"]
    assert half_widths.max() <= 0.15


def test_a_row_of_text(store):
    trial = made_runs.trial(model="lstm", framework="tensorflow", batch_size=20)
    made_runs.add(store, trial)
    row = store.results().table.iloc[0]
    assert row.perplexity == 321
    assert math.isnan(row.accuracy)
    assert row.samples_per_epoch == 30_980  # sequences of 30 words, in whole batches


@pytest.mark.parametrize(("workers", "threads", "shared"), [
    (4, 1, False), (5, 1, True), (2, 2, False), (3, 2, True),
])  # fmt: skip
def test_time_sharing_is_told(workers, threads, shared, store):
    made_runs.add(store, made_runs.trial(workers=workers, threads=threads))
    assert bool(store.results().table.oversubscribed[0]) is shared


@pytest.mark.parametrize(("servers", "shared"), [(1, False), (2, False), (3, True)])
def test_dedicated_servers_need_cores(servers, shared, store):
    """The machine has four: two workers leave two to servers, whatever the framework."""
    made_runs.add(store, made_runs.trial(framework="tensorflow", servers=servers))
    assert bool(store.results().table.oversubscribed[0]) is shared


def test_servers_beside_workers_share_their_cores(store):
    made_runs.add(store, made_runs.trial(framework="mxnet", workers=4))
    made_runs.add(store, made_runs.trial(framework="mxnet", workers=4, servers=1))
    table = store.results().table.set_index("servers")
    assert table.oversubscribed.to_dict() == {4: False, 1: True}


@pytest.mark.parametrize("status", ["failed", "diverged"])
def test_no_number_without_success(status, store):
    trial = made_runs.trial()
    made_runs.add(store, trial, status=status, error="why")
    row = store.results([trial]).table.iloc[0]
    assert (row.status, row.error) == (status, "why")
    assert row[NUMBERS].isna().all()
    assert store.results([trial]).steps.empty
    assert store.results([trial]).evals.empty


def test_no_rate_of_a_machine_that_was_busy_with_other_things(store):
    made_runs.add(store, made_runs.trial(), overloaded=True)
    row = store.results().table.iloc[0]
    assert (row.status, row.overloaded) == ("finished", True)
    assert row[RATES].isna().all()
    assert row.accuracy == 87.5


def test_steps(store):
    trial = made_runs.trial()
    made_runs.add(store, trial)
    steps = store.results([trial]).steps
    assert set(steps) >= {"trial", "framework", "workers", "batch_size", "learning_rate",
                          "initializer", "seed", "dataset"}  # fmt: skip
    mine = steps[steps.worker == 1].reset_index(drop=True)
    assert len(steps) == 20
    assert mine.t.tolist() == pytest.approx([2 * n for n in range(1, 11)])
    assert mine.steps.tolist() == [10 * n for n in range(1, 11)]
    assert mine.samples.tolist() == [500 * n for n in range(1, 11)]
    # While worker 1 takes a step, worker 0 takes two, until it has taken its 100.
    assert mine.updates.tolist() == pytest.approx([30, 60, 90, 120, 150, *range(160, 201, 10)])
    assert mine.loss.tolist() == pytest.approx([2 - n / 10 for n in range(1, 11)])
    assert mine.accuracy.tolist() == pytest.approx([10 + 8 * n for n in range(1, 11)])


def test_in_lock_step_all_workers_take_one_update_together(store):
    trial = made_runs.trial(strategy="sync-ps")
    made_runs.add(store, trial)
    steps = store.results([trial]).steps
    assert (steps.updates == steps.steps).all() and steps.updates.max() == 100


@pytest.mark.parametrize(("strategy", "others"), [("async-ps", 7.78), ("sync-ps", 10)])
def test_who_waits_for_an_evaluation_does_not_train_meanwhile(strategy, others, tmp_path):
    """A step a second; worker 0 evaluates from the second second to the tenth."""
    trial = made_runs.trial(strategy=strategy, batch_size=10, steps=4)
    evaluation = {"metric": "accuracy", "value": 50.0, "loss": 1.0, "seconds": 7.0, "pause": 8.0}
    told = {
        0: [(1, "step", 1), (2, "step", 2), (10, "eval", 2), (11, "step", 3), (12, "step", 4)],
        1: [(1, "step", 1), (2, "step", 2), (11, "step", 3), (12, "step", 4)],
    }
    for role, count in trial.replicas.items():
        for index in range(count):
            events = [(0, "barrier", {}), (13, "end", {"peak_bytes": 1})]
            events[1:1] = [
                (t, kind, {"steps": steps, "samples": 10 * steps, "loss": 1.0}
                 | (evaluation if kind == "eval" else {}))
                for t, kind, steps in (told[index] if role == "worker" else [])
            ]  # fmt: skip
            lines = [
                made_runs.line({"seq": seq, "t": t, "role": role, "index": index, "cpu": 0.0,
                                "kind": kind} | fields)
                for seq, (t, kind, fields) in enumerate(events)
            ]  # fmt: skip
            (tmp_path / f"{role}-{index}.log").write_text("".join(lines))
    window = Run(trial, tmp_path, made_runs.RECORD).window
    assert (window.end, window.paused) == (12, 8)
    assert window.rates == pytest.approx([10, others], rel=0.001)


def test_steps_of_text_have_no_accuracy(store):
    made_runs.add(store, made_runs.trial(model="lstm"))
    assert store.results().steps.accuracy.isna().all()


def test_evals(store):
    made_runs.add(store, made_runs.trial())
    evals = store.results().evals
    assert len(evals) == 1
    assert evals.t[0] == pytest.approx(11)
    assert (evals.metric[0], evals.value[0]) == ("accuracy", 87.5)
    assert (evals.samples[0], evals.seconds[0]) == (10_000, 0.5)
    assert {"trial", "framework", "workers", "steps"} <= set(evals)


def test_tables_hold_the_trials_that_are_asked_for_in_their_order(store):
    trials = [made_runs.trial(seed=seed) for seed in (3, 1, 2)]
    for trial in trials:
        made_runs.add(store, trial)
    assert store.results(trials).table.seed.tolist() == [3, 1, 2]
    assert store.results(trials[:1]).table.seed.tolist() == [3]
    assert sorted(store.results().table.seed) == [1, 2, 3]


def test_names_of_earlier_versions(store):
    old = pd.DataFrame({"trial": ["a"], "time_shared": [True], "steadiness": [0.1]})
    assert list(modernise(old)) == ["trial", "oversubscribed", "variation"]
    made_runs.add(store, made_runs.trial(), time_shared=True)
    assert store.results().table.oversubscribed.tolist() == [True]


def test_a_pause_that_reaches_into_the_steps_before_it_is_no_progress(tmp_path):
    """Of a script's the account makes sure; of others it would be a wrong run."""
    trial = made_runs.trial(batch_size=10, steps=2, workers=1)
    told = [
        ("barrier", 0.0, {}),
        ("step", 1.0, {"steps": 2, "samples": 20, "loss": 1.0}),
        ("eval", 2.0, {"steps": 2, "metric": "accuracy", "value": 50.0, "loss": 1.0,
                       "samples": 10, "seconds": 1.0, "pause": 3.0}),
        ("end", 3.0, {"steps": 2, "samples": 20, "peak_bytes": 1}),
    ]  # fmt: skip
    lines = [
        made_runs.line({"seq": seq, "t": t, "role": "worker", "index": 0, "cpu": 0.0,
                        "kind": kind} | fields)
        for seq, (kind, t, fields) in enumerate(told)
    ]  # fmt: skip
    (tmp_path / "worker-0.log").write_text("".join(lines))
    with pytest.raises(MetricError, match="a pause begins before the barrier"):
        Run(trial, tmp_path, made_runs.RECORD).window  # noqa: B018
