"""Demands of a step from runs with one worker, and what is predicted from them."""

import math
from dataclasses import replace

import made_runs
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from labkit import LabkitError
from labkit.runs.basis import NoDemands, NotMeasured
from labkit.runs.demands import Measured, measured
from labkit.runs.tables import modernise, published
from labkit.runs.whatif import what_if
from labkit.settings import REFERENCE
from labkit.simulation import Demands, simulate
from labkit.simulation.system import passing
from labkit.trials.frameworks import FRAMEWORKS

pytestmark = pytest.mark.unit

WHICH = ("mxnet", "lenet5", 50)


@pytest.fixture
def table(store):
    """Return the table of two repeats with one worker, and one with two."""
    for values in ({"seed": 1}, {"seed": 2}, {"workers": 2}):
        made_runs.add(store, made_runs.trial(**{"workers": 1} | values))
    return store.results().table


def test_demands_are_what_the_replicas_took(table):
    found = measured(table, *WHICH)
    demands = found.demands
    assert demands.compute == pytest.approx(0.05)  # half of each step's 0.1 s
    assert demands.client == 0
    assert demands.server == pytest.approx(0.05)  # of 58 ms, what the worker's core had left
    assert (demands.latency, demands.hidden) == (0, 0)
    assert demands.variables[4] == 1_600_000
    assert found.rates == (pytest.approx(10), pytest.approx(10))
    assert found.samples_per_epoch == 60_000
    # What was put together of it takes as long as what it was taken from.
    assert simulate(found.system(1)).throughput == pytest.approx(10)


def test_what_had_a_share_of_a_core_only_says_nothing_of_whole_ones(table):
    less = table.assign(cpu=0.16, slowdown=10.0, cpu_ms_per_step=99.0)
    both = pd.concat([table.assign(cpu=None), less], ignore_index=True)
    assert measured(both, *WHICH) == measured(table, *WHICH)
    with pytest.raises(LabkitError, match="no run of mxnet lenet5"):
        measured(less, *WHICH)


def test_nodes_with_that_share_of_a_core_come_first(table):
    """Ten times 40 ms of computing; 2 ms of its own and 6 ms of the server are half a slice."""
    less = table.assign(
        cpu=0.16, slowdown=10.0, compute_ms=40.0, cpu_ms_per_step=42.0, launcher="kubernetes",
        server_cpu_ms_per_update=6.0, batches_per_second=2.0,
    )  # fmt: skip
    both = pd.concat([table.assign(cpu=None), less], ignore_index=True)
    found = measured(both, *WHICH, slowdown=10.0, cpu=0.16)
    assert found.demands.compute == pytest.approx(0.04)
    assert found.demands.client == pytest.approx(0.002)
    assert found.demands.server == pytest.approx(0.006)
    assert found.demands.latency == pytest.approx(0.092)
    nodes = {"slowdown": 10.0, "cpu": 0.16}
    assert simulate(found.system(1, **nodes)).throughput == pytest.approx(2)
    assert measured(both, *WHICH, slowdown=10.0, cpu=0.5) == measured(table, *WHICH)


def test_a_network_that_was_limited_says_nothing_of_others(table):
    limited = table.assign(bandwidth=1e8)
    both = pd.concat([table.assign(bandwidth=None), limited], ignore_index=True)
    assert measured(both, *WHICH) == measured(both, *WHICH, bandwidth=1e9)
    assert measured(both, *WHICH) == measured(table, *WHICH)
    with pytest.raises(NoDemands, match="no run of mxnet lenet5"):
        measured(limited, *WHICH)


@pytest.mark.parametrize("framework", ["mxnet", "tensorflow"])
@pytest.mark.parametrize("rate", [2.5, 1.5])
def test_a_network_is_limited_as_these_nodes_had_it(store, framework, rate):
    """Of a step the messages take two times 0.14 s, to a server with a node of its own."""
    made_runs.add(store, made_runs.trial(framework=framework, workers=1))
    limited = store.results().table.assign(
        bandwidth=1e8, launcher="kubernetes", cpu_ms_per_step=50.0, server_cpu_ms_per_update=5.0,
        batches_per_second=rate,
    )  # fmt: skip
    found = measured(limited, framework, "lenet5", 50, bandwidth=1e8)
    assert simulate(found.system(1, bandwidth=1e8)).throughput == pytest.approx(rate, rel=0.01)
    sent = 2 * passing(sum(found.demands.variables), 1e8) * (framework == "tensorflow")
    assert found.demands.latency == pytest.approx(1 / rate - 0.055 - sent, rel=0.01)


def test_what_a_step_waits_for_is_a_servers_work_as_far_as_slices_left_it_time(store):
    """In 4 ms of a slice 26 of the 38 that 6 ms take of an even share: the rest is hidden."""
    made_runs.add(store, made_runs.trial(framework="tensorflow", workers=1))
    nodes = {"slowdown": 10.0, "cpu": 0.16}
    less = store.results().table.assign(
        **nodes, compute_ms=40.0, cpu_ms_per_step=42.0, launcher="kubernetes",
        server_cpu_ms_per_update=6.0, batches_per_second=1 / 0.4165,
    )  # fmt: skip
    demands = measured(less, "tensorflow", "lenet5", 50, **nodes).demands
    assert demands.hidden == pytest.approx(1 - 4 / 6)
    assert demands.latency == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("framework", ["mxnet", "tensorflow"])
@pytest.mark.parametrize("server", [1.0, 6.0, 15.0, 20.0])
@pytest.mark.parametrize("rate", [2.4, 2.2, 1.9])
def test_a_share_of_a_core_is_given_as_these_nodes_had_it(store, framework, server, rate):
    """So what is taken from one worker does what that did, whenever its server answered."""
    made_runs.add(store, made_runs.trial(framework=framework, workers=1))
    less = store.results().table.assign(
        cpu=0.16, slowdown=10.0, compute_ms=40.0, cpu_ms_per_step=42.0, launcher="kubernetes",
        server_cpu_ms_per_update=server, batches_per_second=rate,
    )  # fmt: skip
    nodes = {"slowdown": 10.0, "cpu": 0.16}
    found = measured(less, framework, "lenet5", 50, **nodes)
    assert found.system(1, **nodes).share == 0.16
    assert simulate(found.system(1, **nodes)).throughput == pytest.approx(rate, rel=1e-3)


def test_what_worker_and_server_took_has_to_fit_in_the_slices_of_their_node(store):
    """In 4 ms of a slice of 16 both may do 4; what one slice does not hold was not done in it."""
    made_runs.add(store, made_runs.trial(workers=1))
    nodes = {"slowdown": 10.0, "cpu": 0.16}
    for taken, server, client in ((3.0, 4.0, 3.0), (9.0, 4.0, 4.0), (9.0, 14.0, 2.0)):
        less = store.results().table.assign(
            **nodes, compute_ms=40.0, cpu_ms_per_step=40 + taken, launcher="kubernetes",
            server_cpu_ms_per_update=server, batches_per_second=1 / 0.404,
        )  # fmt: skip
        demands = measured(less, *WHICH, **nodes).demands
        assert demands.client == pytest.approx(client / 1000)
        assert demands.server == pytest.approx(server / 1000)
        assert demands.hidden == pytest.approx(1 - (4 - client) / server)


def test_a_gradient_that_took_longer_than_the_calibration_says_takes_that_off_its_wait(table):
    """Of 15 ms beyond it only 2 can have been for sending: all else is the gradient's."""
    slow = table.assign(
        slowdown=10.0, compute_ms=40.0, cpu_ms_per_step=55.0, launcher="kubernetes",
        server_cpu_ms_per_update=1.0, batches_per_second=1 / 0.402,
    )  # fmt: skip
    found = measured(slow, *WHICH, slowdown=10.0)
    assert found.demands.client == pytest.approx(0.002)
    assert found.demands.hidden == 1
    alone = simulate(found.system(1, slowdown=10.0))
    assert alone.throughput == pytest.approx(1 / 0.402, rel=0.005)


def test_a_slow_node_that_was_faster_than_the_calibration_says_has_no_time_for_all_else(table):
    fast = table.assign(
        slowdown=10.0, compute_ms=40.0, cpu_ms_per_step=42.0, launcher="kubernetes",
        server_cpu_ms_per_update=1.0, batches_per_second=1 / 0.39,
    )  # fmt: skip
    found = measured(fast, *WHICH, slowdown=10.0)
    assert (found.demands.client, found.demands.latency, found.demands.hidden) == (0, 0, 1)
    assert simulate(found.system(1, slowdown=10.0)).throughput == pytest.approx(1 / 0.4, rel=0.01)


@pytest.mark.parametrize(
    ("known", "strategy", "servers", "takes"),
    [(1, "async-ps", 1, 8), (2, "async-ps", 1, 0.75 * 6), (5, "async-ps", 1, 6 - 1 * 5 / 3),
     (5, "sync-ps", 1, 8), (5, "async-ps", 2, 8)],
)  # fmt: skip
def test_a_server_takes_what_it_would_take_without_pauses(
    table, known, strategy, servers, takes
):
    """Drawn on from the most workers that are known, of runs that had as many servers."""
    one = table[table["workers"] == 1].iloc[[0]].assign(
        framework="tensorflow", launcher="kubernetes", strategy=strategy, servers=1,
        oversubscribed=False, batches_per_second=10.0,
    )  # fmt: skip
    rows = [one.assign(workers=n, server_cpu_ms_per_update=ms, batches_per_second=10.0 * n,
                       servers=1 if n == 1 else servers)
            for n, ms in ((1, 8.0), (2, 6.0), (5, 5.0))]  # fmt: skip
    lost = one.assign(workers=4, server_cpu_ms_per_update=np.nan)
    every = pd.concat([*rows, lost], ignore_index=True)
    found = measured(every, "tensorflow", "lenet5", 50, strategy, known=known)
    assert found.demands.server == pytest.approx(takes / 1000)
    assert found.rates == (pytest.approx(10),)
    assert simulate(found.system(1)).throughput == pytest.approx(10)


def _from_five(table, takes):
    """Return what is measured where a server took so many ms beside so many workers."""
    one = table[table["workers"] == 1].iloc[[0]].assign(
        framework="tensorflow", launcher="kubernetes", servers=1, oversubscribed=False,
    )  # fmt: skip
    rows = [one.assign(workers=n, server_cpu_ms_per_update=ms, batches_per_second=10.0 * n)
            for n, ms in takes.items()]  # fmt: skip
    return measured(pd.concat(rows, ignore_index=True), "tensorflow", "lenet5", 50, known=5)


def test_a_server_cools_down_by_what_it_took_longer_for_fewer_workers(table):
    demands = _from_five(table, {1: 8.0, 2: 6.0, 5: 5.0}).demands
    pauses, more = zip(*demands.cooling, strict=True)
    assert pauses == pytest.approx((1 / 50, 1 / 20, 1 / 10))
    assert [demands.server + each for each in more] == pytest.approx([0.005, 0.006, 0.008])
    assert more[0] / pauses[0] == pytest.approx((more[1] - more[0]) / (pauses[1] - pauses[0]))
    slower, longer = zip(*demands.on(0.5).cooling, strict=True)
    assert slower == pauses and longer == pytest.approx([2 * each for each in more])


def test_a_server_takes_at_least_three_quarters_of_what_the_shortest_pause_showed(table):
    """Measured: 36 and 19 ms beside two and five, from which the line goes to 8; it took 22."""
    demands = _from_five(table, {1: 40.0, 2: 36.0, 5: 19.0}).demands
    assert demands.server == pytest.approx(0.75 * 0.019)
    assert demands.cooling[0][1] == pytest.approx(0.25 * 0.019)


@settings(max_examples=100, deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.tuples(*[st.floats(0.001, 18)] * 3))
@example((18.0, 18.0, 5.934))  # 0.005934 - 0.005934 / 0.02 * 0.02 is less than nothing
def test_whatever_servers_took_one_worker_does_what_it_did(table, takes):
    found = _from_five(table, dict(zip((1, 2, 5), takes, strict=True)))
    assert simulate(found.system(1)).throughput == pytest.approx(10, rel=1e-3)


def test_a_server_that_takes_less_beside_fewer_workers_does_not_cool_down(table):
    found = _from_five(table, {1: 4.0, 5: 5.0})
    assert found.demands.server == pytest.approx(0.005)
    assert {more for _, more in found.demands.cooling} == {0}


@pytest.mark.parametrize(("size", "served"), [("5000000", (1, 5)), ("400000", (1, 5, 25))])
def test_what_a_full_cache_costs_is_not_told_by_a_server_that_is_busy(table, size, served):
    """It is simulated, so that what an update took with it would count it twice."""
    one = table[table["workers"] == 1].iloc[[0]].assign(
        framework="tensorflow", launcher="kubernetes", servers=1, oversubscribed=False,
        variables=size,
    )  # fmt: skip
    rows = [one.assign(workers=n, server_cpu_ms_per_update=ms, batches_per_second=rate)
            for n, ms, rate in ((1, 8.0, 2.0), (5, 6.0, 10.0), (25, 10.0, 60.0))]  # fmt: skip
    found = measured(pd.concat(rows, ignore_index=True), "tensorflow", "lenet5", 50, known=25)
    assert found.served == served


def test_a_server_that_is_busy_has_no_pauses_to_lose(table):
    one = table[table["workers"] == 1].iloc[[0]].assign(
        framework="tensorflow", launcher="kubernetes", servers=1, oversubscribed=False,
    )  # fmt: skip
    rows = [one.assign(workers=n, server_cpu_ms_per_update=ms, batches_per_second=rate)
            for n, ms, rate in ((1, 6.0, 10.0), (10, 4.1, 100.0), (25, 4.0, 110.0))]  # fmt: skip
    found = measured(pd.concat(rows, ignore_index=True), "tensorflow", "lenet5", 50, known=25)
    assert found.served == (1, 25)
    assert [found.demands.server + each for _, each in found.demands.cooling] == pytest.approx(
        [0.004, 0.006]
    )


def test_pauses_too_alike_to_tell_are_left_out_one_by_one(table):
    """Of one worker not much longer than of two, whose own is as long again as of five."""
    one = table[table["workers"] == 1].iloc[[0]].assign(
        framework="tensorflow", launcher="kubernetes", servers=1, oversubscribed=False,
    )  # fmt: skip
    rows = [one.assign(workers=n, server_cpu_ms_per_update=ms, batches_per_second=rate)
            for n, ms, rate in ((1, 6.0, 12.0), (2, 5.0, 20.0), (5, 4.0, 40.0))]  # fmt: skip
    every = pd.concat(rows, ignore_index=True)
    assert measured(every, "tensorflow", "lenet5", 50, known=5).served == (2, 5)


@pytest.mark.parametrize("rate", [197.0, 203.0])
def test_twice_as_many_workers_tell_what_pauses_cost_whatever_chance_did(table, rate):
    one = table[table["workers"] == 1].iloc[[0]].assign(
        framework="tensorflow", launcher="kubernetes", servers=1, oversubscribed=False,
    )  # fmt: skip
    rows = [one.assign(workers=n, server_cpu_ms_per_update=ms, batches_per_second=each)
            for n, ms, each in ((1, 6.0, 100.0), (2, 5.0, rate))]  # fmt: skip
    every = pd.concat(rows, ignore_index=True)
    found = measured(every, "tensorflow", "lenet5", 50, known=2)
    assert found.demands.server == pytest.approx(0.004, rel=0.02)
    assert found.served == (1, 2)


def test_runs_that_did_not_count_a_workers_cpu_time_are_said_to_lack_it(table):
    for lacking in (table.drop(columns="cpu_ms_per_step"), table.assign(cpu_ms_per_step=math.nan)):
        with pytest.raises(NoDemands, match="cpu_ms_per_step"):
            measured(lacking, *WHICH)


def test_of_servers_beside_workers_the_busiest_counts(table):
    """With two, all but one hold little: what the busiest takes is most of what both do."""
    one = table[table["workers"] == 1].iloc[[0]].assign(
        launcher="kubernetes", servers=1, oversubscribed=False, batches_per_second=5.0,
        cpu_ms_per_step=50.0,
    )  # fmt: skip
    two = one.assign(workers=2, servers=2, busiest_server=0.9, batches_per_second=10.0,
                     server_cpu_ms_per_update=60.0)  # fmt: skip
    every = pd.concat([one, two], ignore_index=True)
    alone, both = (measured(every, *WHICH, known=known) for known in (1, 2))
    of_two = both.system(2).placed()[1].max()
    assert both.demands.server * of_two == pytest.approx(0.9 * 0.06)
    assert alone.demands.server == pytest.approx(one["server_cpu_ms_per_update"].iloc[0] / 1000)


def test_a_gradient_uses_up_a_share_of_a_core_for_longer(table):
    """Not the wait: so there is less of it for the server in the same pod."""
    found = measured(table, *WHICH)
    system = found.system(1, cpu=0.5, slowdown=8.0)
    assert system.demands.compute == pytest.approx(found.demands.compute / 0.5)
    assert system.slowdown * system.demands.compute == pytest.approx(8 * found.demands.compute)
    assert system.share == 0.5
    whole = found.system(1, cpu=0.5)  # is not stretched: it has a core for the gradient
    assert (whole.demands.compute, whole.slowdown, whole.share) == (found.demands.compute, 1, 1)


def test_threads_of_tensorflows_server_count_where_they_share_a_core(store):
    for framework in ("tensorflow", "mxnet"):
        made_runs.add(store, made_runs.trial(framework=framework, workers=1))
    threaded, in_turn = (
        measured(store.results().table, framework, "lenet5", 50)
        for framework in ("tensorflow", "mxnet")
    )
    assert threaded.system(2, cpu=0.5).threads and threaded.system(2, cores=2.0).threads
    assert threaded.system(2, cpu=0.5).share == 0.5
    assert not threaded.system(2).threads
    assert not in_turn.system(2, cpu=0.5).threads
    assert threaded.system(2, cores=2.0, cpu=0.5).share == 1


def test_servers_beside_workers_have_no_threads_that_count(table, monkeypatch):
    threaded = replace(FRAMEWORKS["mxnet"], server_threads=True)
    monkeypatch.setitem(FRAMEWORKS, "mxnet", threaded)
    found = measured(table, *WHICH)
    assert not found.system(2, cpu=0.5).threads
    assert found.system(2, servers=1, cpu=0.5).threads


def test_a_server_with_a_core_of_its_own_works_while_the_worker_does(store):
    made_runs.add(store, made_runs.trial(framework="tensorflow", workers=1))
    found = measured(store.results().table, "tensorflow", "lenet5", 50)
    assert found.demands.server == pytest.approx(6 / 103)
    assert found.demands.hidden == pytest.approx(1 - 0.05 / (6 / 103))
    assert simulate(found.system(1)).throughput == pytest.approx(10)


def test_a_run_without_servers_tells_computing_from_pushing(store, table):
    made_runs.add(store, made_runs.trial(strategy="single"))
    with_single = store.results().table
    rows = with_single["strategy"] == "single"
    with_single.loc[rows, "cpu_ms_per_step"] = 40.0
    demands = measured(with_single, *WHICH).demands
    assert (demands.compute, demands.client) == (pytest.approx(0.04), pytest.approx(0.01))
    with_single.loc[rows, "host"] = "elsewhere"
    assert measured(with_single, *WHICH).demands.client == 0


def test_a_table_that_does_not_say_what_servers_took_leaves_them_the_rest(table):
    old = table.drop(columns=["server_cpu_ms_per_update", "cpu_variation"])
    demands = measured(old, *WHICH).demands
    assert demands.server == pytest.approx(0.05)
    assert (demands.latency, demands.hidden, demands.compute_cv) == (0, 0, 0)


@pytest.mark.parametrize(
    "column", ["overloaded", "oversubscribed", "slowdown", "threads"], ids=lambda name: name
)
def test_runs_that_do_not_show_what_a_step_takes_are_left_out(table, column):
    second = table["seed"] == 2
    spoilt = table.assign(slowdown=None)
    if column == "overloaded":
        spoilt.loc[second, "batches_per_second"] = float("nan")
    else:
        spoilt[column] = spoilt[column].astype(object)
        spoilt.loc[second, column] = {"oversubscribed": True, "slowdown": 10, "threads": 2}[column]
    assert len(measured(spoilt, *WHICH).rates) == 1


def test_slow_nodes_are_taken_from_slow_nodes_if_there_are_any(table):
    """Ten times 40 ms of computing, 10 ms of its own, 30 ms of the server, 60 ms of waiting."""
    slow = table[table["seed"] == 1].assign(
        slowdown=10.0, compute_ms=40.0, server_cpu_ms_per_update=30.0, batches_per_second=2.0
    )
    both = pd.concat([table.assign(slowdown=None), slow], ignore_index=True)
    demands = measured(both, *WHICH, slowdown=10).demands
    assert (demands.compute, demands.client) == (pytest.approx(0.04), pytest.approx(0.01))
    assert (demands.server, demands.latency) == (pytest.approx(0.03), pytest.approx(0.06))
    again = simulate(measured(both, *WHICH, slowdown=10).system(1, slowdown=10.0))
    assert again.throughput == pytest.approx(2)
    assert measured(both, *WHICH, slowdown=3) == measured(table, *WHICH)


def test_the_same_strategy_comes_first(table):
    in_step = table.assign(strategy="sync-ps", cpu_ms_per_step=60.0)
    both = pd.concat([table, in_step], ignore_index=True)
    assert measured(both, *WHICH).demands.compute == pytest.approx(0.05)
    assert measured(both, *WHICH, strategy="sync-ps").demands.compute == pytest.approx(0.06)
    assert measured(table, *WHICH, strategy="sync-ps") == measured(table, *WHICH)


def test_what_lock_step_asks_of_servers_beyond_each_gradient_is_done_once_a_step(store):
    """As far as a run without lock step, on the same machine, tells the two apart."""
    made_runs.add(store, made_runs.trial(framework="tensorflow", workers=1))
    alone = store.results().table.assign(server_cpu_ms_per_update=20.0)
    in_step = alone.assign(strategy="sync-ps", server_cpu_ms_per_update=30.0)
    which = ("tensorflow", "lenet5", 50, "sync-ps")

    def per_step(*tables):
        return measured(pd.concat(tables, ignore_index=True), *which).demands.per_step

    assert per_step(alone, in_step) == pytest.approx(0.01)
    assert per_step(in_step) == per_step(alone) == 0
    assert per_step(alone.assign(host="elsewhere"), in_step) == 0
    assert per_step(alone.assign(server_cpu_ms_per_update=40.0), in_step) == 0


def test_different_machines_are_not_averaged(table):
    elsewhere = table.assign(
        host="there", cpu_ms_per_step=500.0, started="2019-01-01T00:00:00+0000"
    )
    both = pd.concat([table, elsewhere], ignore_index=True)
    assert measured(both, *WHICH).demands.compute == pytest.approx(0.05)
    assert measured(both, *WHICH).circumstances["host"] == "here"


def test_runs_for_their_rates_come_before_those_that_were_evaluated(table):
    rates = table.assign(eval_samples=0)
    longer = table.assign(
        host="there", eval_samples=10_000, cpu_ms_per_step=500.0,
        started="2100-01-01T00:00:00+0000",
    )  # fmt: skip
    both = pd.concat([rates, longer], ignore_index=True)
    assert measured(both, *WHICH) == measured(rates, *WHICH)
    assert measured(longer, *WHICH).circumstances["host"] == "there"


def test_without_a_run_it_says_which_one_would_do(table):
    with pytest.raises(LabkitError) as refused:
        measured(table, "tensorflow", "lenet5", 50)
    assert "labkit run --framework tensorflow --model lenet5 --batch-size 50 --workers 1" in str(
        refused.value
    )


def test_without_any_run_it_says_which_one_would_do(store):
    with pytest.raises(NotMeasured, match="labkit run --framework mxnet --model lenet5"):
        measured(store.results().table, *WHICH)


@pytest.mark.parametrize("values", [{"oversubscribed": True}, {"threads": 2}], ids=str)
def test_runs_that_do_not_count_are_not_asked_for_once_more(table, values):
    with pytest.raises(NoDemands, match="do not say what a step demands") as refused:
        measured(table.assign(**values), *WHICH)
    assert not isinstance(refused.value, NotMeasured)


def test_servers_that_are_not_beside_the_worker_do_not_share_its_core(table):
    """Four of them in parallel may take longer than the worker waits."""
    four = table.assign(
        servers=4, cpu_ms_per_step=96.0, server_cpu_ms_per_update=12.0, busiest_server=0.25
    )
    local, pods = (measured(four.assign(launcher=name), *WHICH) for name in ("local", "pods"))
    assert local.demands == pods.demands
    assert local.served == pods.served == (1,)


def test_servers_are_those_of_the_framework(table):
    found = measured(table, *WHICH)
    assert found.system(4).beside and found.system(4).servers == 4
    assert found.system(4).placement == "hash"
    assert not found.system(4, servers=2).beside


def test_a_model_of_unknown_size_has_no_bandwidth(table):
    own = table.assign(model="my_mlp.py")
    found = measured(own, "mxnet", "my_mlp.py", 50)
    assert found.system(4).workers == 4
    with pytest.raises(LabkitError, match="bandwidth: how large the variables of my_mlp.py"):
        found.system(4, bandwidth=1e9)


def test_a_models_size_is_what_its_workers_said(table):
    own = table.assign(model="my_mlp.py", variables="1000 20")
    found = measured(own, "mxnet", "my_mlp.py", 50)
    assert found.demands.variables == (4000, 80)
    assert found.system(4, bandwidth=1e9).bandwidth == 1e9


def test_optimizers_are_not_pooled(table):
    """Servers have more to do for some than for others."""
    table.loc[table["seed"] == 2, "optimizer"] = "adagrad"
    plain, adaptive = (measured(table, *WHICH, optimizer=o) for o in ("sgd", "adagrad"))
    assert len(plain.rates) == len(adaptive.rates) == 1
    with pytest.raises(LabkitError, match="no run of mxnet lenet5"):
        measured(table[table["optimizer"] == "sgd"], *WHICH, optimizer="adagrad")


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [("servers", 1, 2), ("clip_norm", None, 5.0), ("clip_norm", 5.0, None)],
)
def test_what_asks_for_more_is_not_pooled(table, field, one, other):
    table[field] = table[field].astype(object)
    table.loc[table["seed"] == 1, [field, "started"]] = one, "2026-01-01"
    table.loc[table["seed"] == 2, [field, "started"]] = other, "2026-01-02"
    assert measured(table, *WHICH).rates == tuple(
        table[(table["seed"] == 2) & (table["workers"] == 1)]["batches_per_second"]
    )


def test_a_forecast_of_one_worker_is_what_was_measured(table):
    one = what_if(measured(table, *WHICH), [1]).forecasts[0]
    assert (one.throughput, one.speedup) == (pytest.approx(10), 1)
    assert one.limit == "none in sight"


def test_more_repeats_and_fewer_workers_are_surer(table):
    found = measured(table, *WHICH)
    few, many = what_if(found, [2, 16]).forecasts
    assert few.low < few.throughput < few.high
    assert many.high / many.low > few.high / few.low
    wide = what_if(found, [2], level=0.99).forecasts[0]
    assert wide.low < few.low and wide.high > few.high


def test_a_slow_nodes_wait_is_certain(table):
    """Of a hundred times as long computing but a hundredth is real, and some sending."""
    rates = measured(table, *WHICH)
    alone, real, slow = (
        what_if(rates, [n], slowdown=slowdown).forecasts[0]
        for n, slowdown in ((1, 1.0), (50, 1.0), (50, 100.0))
    )

    def width(forecast):
        return np.log(forecast.high / forecast.low)

    assert width(alone) < width(slow) < width(alone) + 0.1 * (width(real) - width(alone))


def test_in_lock_step_the_wait_for_the_slowest_is_certain(table):
    rates, nodes = measured(table, *WHICH), {"strategy": "sync-ps", "slowdown": 100.0}
    alike, apart = (
        what_if(rates, [8], **nodes, slowdown_spread=spread).forecasts[0] for spread in (1, 3)
    )
    assert apart.high / apart.low <= alike.high / alike.low


def test_near_what_a_server_with_threads_can_do_convoys_make_an_interval_wide():
    """Of 18 workers that just do not come in convoys, and 20 that do; 10 are far from it."""

    def widths(framework):
        step = Demands(compute=0.0255, server=0.0123, variables=(20_000_000,))
        one = Measured(framework, "lstm", step, (0.6, 0.6), 1000, 5, {}, True, (1, 2, 5))
        found = what_if(one, [10, 18, 20], slowdown=62.5, cpu=0.16, servers=1).forecasts
        assert all(each.low <= each.throughput <= each.high for each in found)
        return [each.high / each.low for each in found]

    in_turn, (far, just, convoys) = widths("mxnet"), widths("tensorflow")
    assert max(*in_turn, far) < 1.1
    assert min(just, convoys) > 1.3


@pytest.mark.parametrize(
    ("served", "cpu", "said"),
    [((1,), 1.0, "batches/s."), ((1,), 0.16, "measure 2 and 5 workers, too."),
     ((1, 5), 0.16, "what servers take, from those with 1 and 5."),
     ((1, 2, 5), 0.16, "from those with 1, 2 and 5.")],
)  # fmt: skip
def test_a_forecast_says_beside_how_many_workers_servers_were_looked_at(table, served, cpu, said):
    found = replace(measured(table, *WHICH), served=served)
    assert what_if(found, [2], cpu=cpu).note.endswith(said)


def test_how_many_are_worth_it_is_looked_for_between_those_asked_for(table):
    found = what_if(measured(table, *WHICH), [1, 8, 64])
    most = found.worth(0.5)
    assert 1 < most < 64 and most != 8
    speedup = what_if(found.measured, [most, most + 1]).forecasts
    assert speedup[0].speedup >= 0.5 * most
    assert speedup[1].speedup < 0.5 * (most + 1)


def test_a_pass_costs_its_nodes_for_its_time(table):
    found = what_if(measured(table, *WHICH), [1, 2], servers=1)
    # 1200 batches at 10 a second, on a node with worker and server.
    assert found.cost(1, price=3.0) == pytest.approx(3.0 * 120 / 3600)
    two = found.forecasts[1].throughput  # and the server's own node
    assert found.cost(2, price=3.0) == pytest.approx(3 * 3.0 * 1200 / two / 3600)


@pytest.mark.parametrize(
    ("values", "said"),
    [({"workers": []}, "workers"), ({"workers": [0]}, "workers"), ({"workers": [1.5]}, "workers"),
     ({"workers": [10**6]}, "requests or more"),
     ({"workers": [2], "level": 1.0}, "level"), ({"workers": [2], "slowdown": 0.1}, "slowdown")],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(table, values, said):
    with pytest.raises(LabkitError, match=said):
        what_if(measured(table, *WHICH), **values)


def test_whole_numbers_of_workers_may_be_fractions_of_a_table_with_gaps(table):
    one = measured(table, *WHICH)
    assert what_if(one, [2.0, 4.0]).forecasts == what_if(one, [2, 4]).forecasts


def test_only_what_has_servers_of_its_own_may_need_more_workers(table):
    """Beside a worker, and in lock step, what servers take is taken from one worker alone."""
    for launcher in ("local", "kubernetes"):
        found = measured(table.assign(servers=table.workers, launcher=launcher), *WHICH, known=2)
        assert (found.served == ()) == (launcher == "local")
        assert "measure 2 and 5" not in what_if(found, [2], cpu=0.16).note


def test_scripts_are_not_simulated(table):
    """What they ask of servers is unknown; their rates can still be predicted from."""
    scripts = table.assign(strategy="script", samples_per_epoch=float("nan"))
    with pytest.raises(LabkitError, match="labkit results --model lenet5 --output mine.csv"):
        measured(scripts, *WHICH)
    unknown = scripts.assign(batch_size=float("nan"), batches_per_second=float("nan"))
    with pytest.raises(LabkitError, match="is a script"):
        measured(unknown, *WHICH)


def test_the_interval_holds_what_others_would_do_at_a_link():
    """Simulated, ten slow workers always meet at the server's link: seven do more."""
    node = {"slowdown": 6.0, "bandwidth": 2e9}
    one = measured(published("trials"), "tensorflow", "lstm", 5, **node)
    seven, ten = what_if(one, [7, 10], **node).forecasts
    assert ten.throughput < seven.throughput < ten.high


def test_what_labkit_took_beside_a_server_would_pass_for_the_servers_own_work():
    """As docs/simulation.md says of the model: the first lone worker's run counts both."""
    kept = modernise(pd.read_csv(REFERENCE / "convoys" / "agent.csv"))
    nodes = {"slowdown": 62.5, "cpu": 0.16}
    truth = kept.set_index("workers").loc[25, "batches_per_second"]
    errors = []
    for _, lone in kept[kept["workers"] == 1].groupby("revision", sort=False):
        one = measured(lone, "tensorflow", "lenet5", 128, known=math.inf, **nodes)
        (throughput,) = what_if(one, [25], **nodes).table["throughput"]
        errors.append(f"{throughput / truth - 1:.1%}")
    assert errors == ["-49.9%", "0.3%", "0.1%"]
