"""Simulated trials: laws they keep, limits they reach, placements, systems that cannot be."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_systems import LENET, LENET_STEP, mxnet, systems

from labkit import LabkitError
from labkit.simulation import Demands, System, nodes, simulate, stations
from labkit.simulation.nodes import interference, turns
from labkit.simulation.system import for_keys, passing

pytestmark = pytest.mark.unit

BIG = (20_000_000,)
"""Bytes of a network whose server works for bytes, with hardly anything to do for keys."""


# --- laws ---------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(systems)
def test_no_station_is_busier_than_always_and_shares_are_shares(system):
    answer = simulate(system, steps=10)
    assert all(0 <= share <= 1 + 1e-9 for share in answer.utilisation.values())
    assert sum(answer.staleness.values()) == pytest.approx(1)
    assert 0 <= answer.late <= 1
    assert answer.bottleneck in {"no single station", *answer.utilisation}


@settings(max_examples=20, deadline=None)
@given(systems, st.floats(0.01, 100))
def test_the_unit_of_time_does_not_matter(system, unit):
    same = ("variables", "cooling", "hidden", "compute_cv", "server_cv")
    demands = {
        name: value if name in same else value * unit
        for name, value in vars(system.demands).items()
    }
    demands["cooling"] = tuple((unit * a, unit * b) for a, b in system.demands.cooling)
    bandwidth = system.bandwidth and system.bandwidth / unit
    scaled = replace(system, demands=Demands(**demands), bandwidth=bandwidth)
    plain = simulate(system, steps=10)
    with pytest.MonkeyPatch.context() as patch:  # caches are lost in as many units of it
        patch.setattr(nodes, "COLD", unit * nodes.COLD)
        patch.setattr(stations, "PERIOD", unit * stations.PERIOD)
        longer = simulate(scaled, steps=10)
    assert longer.throughput == pytest.approx(plain.throughput / unit, rel=1e-6)
    assert longer.speedup == pytest.approx(plain.speedup, rel=1e-6)


@settings(max_examples=20, deadline=None)
@given(systems)
def test_a_lone_worker_takes_the_sum_of_what_it_demands(system):
    """From one server, whatever the spread; nothing is sent where that is on the same node."""
    demands = replace(system.demands, cooling=(), hidden=0, compute_cv=0, server_cv=0)
    alone = replace(system, demands=demands, workers=1, servers=1, cores=None, share=1)
    step = (
        demands.compute * alone.slowdown + demands.client + demands.server + demands.latency
        + 2 * passing(sum(demands.variables), alone.bandwidth) * (not alone.beside)
    )  # fmt: skip
    answer = simulate(alone, steps=10)
    assert answer.throughput == pytest.approx(1 / step, rel=1e-9)
    assert answer.speedup == 1
    assert answer.staleness == {0: 1.0}


@pytest.mark.parametrize("workers", [2, 5, 12])
@pytest.mark.parametrize("slowdown", [1, 10])
def test_gradients_of_like_workers_are_as_stale_as_there_are_others(workers, slowdown):
    varied = replace(LENET_STEP, compute_cv=0.3, server_cv=0.5)
    answer = simulate(System(varied, workers, slowdown=slowdown), steps=400)
    assert answer.mean_staleness == pytest.approx(workers - 1, rel=0.01)
    in_step = simulate(System(varied, workers, strategy="sync-ps"), steps=50)
    assert in_step.staleness == {0: 1.0}


@settings(max_examples=20, deadline=None)
@given(systems, st.integers(1, 1000))
def test_a_seed_gives_the_same_answer(system, seed):
    assert simulate(system, steps=10, seed=seed) == simulate(system, steps=10, seed=seed)


def test_another_seed_scatters_otherwise():
    varied = System(replace(LENET_STEP, compute_cv=0.5), workers=3)
    assert simulate(varied, seed=1) != simulate(varied, seed=2)


# --- limits -------------------------------------------------------------------------------------


def test_a_busy_server_sets_the_rate():
    answer = simulate(System(LENET_STEP, workers=40))
    assert answer.throughput == pytest.approx(1 / LENET_STEP.server, rel=0.01)
    assert answer.utilisation["server 0"] == pytest.approx(1, rel=0.01)
    assert answer.bottleneck == "server 0"


def test_a_slow_link_sets_the_rate():
    """Nearly: as there are two such links, one of them has nothing to pass now and then."""
    answer = simulate(System(LENET_STEP, workers=40, bandwidth=1e8))
    limit = 1 / passing(sum(LENET), 1e8)
    assert 0.95 * limit < answer.throughput <= limit
    assert answer.bottleneck in ("link to server 0", "link from server 0")


def test_a_link_passes_headers_too():
    assert passing(1448, 1e6) == pytest.approx(8 * 1514 / 1e6)
    assert passing(1448, None) == 0


def test_a_message_has_passed_when_it_has_passed_both_links():
    clock = stations.Clock()
    one, other, into, aside = (stations.Link(clock) for _ in range(4))
    passed = {}
    for name, sender, receiver, seconds in (
        ("short", one, into, 1), ("long", other, into, 2), ("late", other, aside, 3)
    ):  # fmt: skip
        sender.send(seconds, receiver, lambda name: passed.update({name: clock.now}), name)
    clock.run()
    # Both share `into` until the short one has had its second of it, and others share `other`.
    assert passed == pytest.approx({"short": 2, "long": 4, "late": 5})
    assert [link.busy() for link in (one, other, into, aside)] == pytest.approx([1, 5, 3, 3])


def test_messages_share_a_link_evenly():
    """Two workers in step send at once, so both gradients arrive late, and their weights, too."""
    step = Demands(compute=1.0, variables=(1_000_000,))
    once = passing(1_000_000, 8e6)
    answer = simulate(System(step, 2, strategy="sync-ps", bandwidth=8e6), steps=10)
    assert answer.throughput == pytest.approx(2 / (1 + 2 * 2 * once), rel=1e-6)
    # So do asynchronous ones that begin at once, as nothing parts them.
    together = simulate(System(step, 2, bandwidth=8e6), steps=10)
    assert together.throughput == pytest.approx(answer.throughput, rel=1e-6)
    # Slow ones begin one after the other, and do not meet.
    apart = simulate(System(replace(step, compute=10.0), 2, slowdown=2, bandwidth=8e6), steps=10)
    assert apart.throughput == pytest.approx(2 / (20 + 2 * once), rel=1e-6)


def test_shared_cores_set_the_rate():
    answer = simulate(mxnet(10, replace(LENET_STEP, server=0.0), cores=2))
    assert answer.throughput == pytest.approx(2 / (0.12 * turns(sharing=10)), rel=0.01)
    assert answer.bottleneck == "cores"


@pytest.mark.parametrize(("cores", "sharing"), [(0.5, 11), (1.9, 5.5)])
def test_what_others_take_of_the_cores_is_missing(cores, sharing):
    answer = simulate(System(replace(LENET_STEP, server=0.0), workers=10, cores=cores))
    assert answer.throughput == pytest.approx(cores / (0.12 * turns(sharing)), rel=0.01)
    assert answer.utilisation["cores"] == pytest.approx(1, rel=0.01)


def test_a_server_that_interrupts_a_worker_costs_more():
    """On one core other workers compute nearly always while servers work."""
    alone, eight = (simulate(mxnet(n, cores=1)) for n in (1, 8))
    assert alone.throughput == pytest.approx(1 / 0.128, rel=1e-6)
    server = 0.008 * (1 + interference(0.12, sharing=16))
    assert eight.throughput == pytest.approx(1 / (0.12 * turns(16) + server), rel=0.01)


def test_interference_grows_with_those_who_share_a_core_until_nothing_is_left_in_its_caches():
    few, several, many, more = (interference(0.004, sharing) for sharing in (1, 4, 6, 16))
    assert 0 < 2 * few == several < many == more


def test_a_worker_takes_longer_beside_more_than_one_other_until_nothing_is_left_in_its_caches():
    alone, two, four, six, more = (turns(sharing) for sharing in (1, 2, 4, 6, 16))
    assert 1 == alone == two < four < six == more
    step = Demands(compute=0.1, client=0.02)
    few, many, apart = (
        simulate(System(step, workers=workers, cores=cores)).throughput
        for workers, cores in ((2, 1), (7, 2), (7, None))
    )
    assert few == pytest.approx(1 / (0.12 * turns(3)), rel=0.01)
    assert many == pytest.approx(2 / (0.12 * four), rel=0.01)
    assert apart == pytest.approx(7 / 0.12, rel=0.01)


def test_interference_is_less_the_longer_a_gradient_takes():
    """A lone worker's server has lost its caches to that by the time it is asked."""
    none, short, long = (interference(compute, sharing=2) for compute in (0, 0.004, 0.2))
    assert none > short > long > 0
    assert long < 0.05 * none


def test_a_server_that_has_lost_its_own_core_costs_more():
    """Two workers and a server are more than two cores, and no more than three."""
    two, three, apart = (simulate(System(LENET_STEP, 2, cores=n)) for n in (2, 3, None))
    server = 0.008 * (1 + interference(0.12, 1.5))
    assert two.throughput == pytest.approx(2 / (0.12 + server), rel=0.01)
    assert three.throughput == pytest.approx(apart.throughput, rel=1e-6)


def test_three_workers_on_two_cores_do_less_than_two_or_four():
    """Measured: 125, beside 140 and 135 batches/s (MXNet, LeNet-5, batch 16)."""
    demands = Demands(0.0078, server=0.0033, variables=LENET)
    two, three, four = (
        simulate(System(demands, n, n, placement="hash", beside=True, cores=2)).throughput
        for n in (2, 3, 4)
    )
    assert three < min(two, four)


def test_a_server_without_threads_uses_no_more_than_one_of_the_cores_that_it_shares():
    demands = Demands(compute=0.1, server=0.05, variables=BIG)
    in_turn, threads = (
        simulate(System(demands, workers=6, cores=8, threads=threads)).throughput
        for threads in (False, True)
    )
    assert in_turn == pytest.approx(1 / 0.05, rel=0.01)
    assert threads > 1.5 * in_turn


@pytest.mark.parametrize(("cores", "together"), [(2, 1 + interference(0.12, 1.5)), (None, 1.5)])
def test_a_server_uses_all_cores_that_it_shares(cores, together):
    """Gradients that come at once are served at once, if each takes longer; else in turn."""
    answer = simulate(System(LENET_STEP, 2, strategy="sync-ps", cores=cores, threads=bool(cores)))
    assert answer.throughput == pytest.approx(2 / (0.12 + together * 0.008), rel=1e-6)


def test_slow_nodes_begin_one_after_the_other():
    """Two cores would not do for forty that all compute at the same moment."""
    answer = simulate(mxnet(40, slowdown=50, cores=2))
    assert answer.late == 0
    assert answer.speedup == pytest.approx(40, rel=0.001)
    in_step = simulate(mxnet(40, slowdown=10, cores=2, strategy="sync-ps"))
    assert in_step.late > 0.5


def test_workers_that_do_not_meet_scale_ideally():
    answer = simulate(System(LENET_STEP, workers=10, slowdown=100))
    assert answer.speedup == pytest.approx(10, rel=0.01)
    assert answer.bottleneck == "no single station"


@pytest.mark.parametrize("cores", [None, 1])
def test_bandwidth_without_end_is_none(cores):
    varied = replace(LENET_STEP, compute_cv=0.3)
    fast, none = (
        simulate(System(varied, 4, 2, bandwidth=bandwidth, cores=cores))
        for bandwidth in (1e18, None)
    )
    assert fast.throughput == pytest.approx(none.throughput, rel=1e-6)


def test_nobody_waits_for_a_link_within_a_node():
    assert simulate(mxnet(1, bandwidth=1.0)) == replace(
        simulate(mxnet(1)), utilisation=simulate(mxnet(1, bandwidth=1.0)).utilisation
    )


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_workers_in_step_that_are_alike_queue_at_the_server(workers):
    """They are sent the weights one after the other; the last gradient is added up last of all."""
    answer = simulate(System(LENET_STEP, workers, strategy="sync-ps"))
    step = LENET_STEP.compute + (workers + 1) / 2 * LENET_STEP.server
    assert answer.throughput == pytest.approx(workers / step, rel=0.01)


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_what_servers_do_once_a_step_is_not_done_for_each_gradient(workers):
    partly = replace(LENET_STEP, per_step=0.006)
    answer = simulate(System(partly, workers, strategy="sync-ps"))
    step = 0.12 + (workers + 1) / 2 * 0.002 + 0.006
    assert answer.throughput == pytest.approx(workers / step, rel=1e-6)
    assert simulate(System(partly, workers)) == simulate(System(LENET_STEP, workers))


@pytest.mark.parametrize("strategy", ["async-ps", "sync-ps"])
@pytest.mark.parametrize("per_step", [0.0, 0.003, 0.008])
def test_a_lone_worker_does_not_wait_for_what_is_hidden(strategy, per_step):
    """Whatever of it is done for each gradient, and whatever once a step."""
    demands = replace(LENET_STEP, hidden=0.75, per_step=per_step, client=0.01, latency=0.001)
    answer = simulate(System(demands, strategy=strategy), steps=10)
    assert answer.throughput == pytest.approx(1 / (0.12 + 0.01 + 0.001 + 0.008 - 0.006), rel=1e-9)


def test_work_after_the_answer_keeps_the_server_but_not_the_worker():
    hidden = replace(LENET_STEP, hidden=0.75)
    assert simulate(System(hidden)).throughput == pytest.approx(1 / 0.122, rel=1e-6)
    assert simulate(System(hidden, workers=40)).throughput == pytest.approx(1 / 0.008, rel=0.01)


def test_threads_are_no_more_of_a_server_than_there_is():
    answer = simulate(System(LENET_STEP, workers=80, threads=True))
    assert answer.throughput == pytest.approx(1 / LENET_STEP.server, rel=0.01)
    assert answer.bottleneck == "server 0"


def test_gradients_that_come_together_leave_a_server_with_threads_together():
    """Then it stands idle until they are back, although it is what keeps workers waiting.

    Measured: 9.2 batches/s, where one worker after the other would get 13 (TensorFlow, an LSTM at
    batch 5, 25 slow nodes with 0.16 of a core).
    """
    demands = Demands(compute=0.152, server=0.077, variables=BIG)
    in_turn, threads = (
        simulate(System(demands, workers=25, slowdown=10, threads=threads)).throughput
        for threads in (False, True)
    )
    assert in_turn == pytest.approx(13, rel=0.01)
    assert 0.6 * in_turn < threads < 0.9 * in_turn


def test_gradients_of_many_small_keys_do_not_stay_together():
    """Less of what a server does comes before the thread that applies them one by one.

    Measured: a server that uses 97 % of its share (TensorFlow, LeNet-5 at batch 24, 25 slow nodes
    with 0.16 of a core).
    """
    small, big = (
        simulate(
            System(
                Demands(compute=0.098, server=0.044, variables=variables),
                workers=25, slowdown=10, threads=True, share=0.16,
            )
        ).throughput
        for variables in (LENET, BIG)
    )  # fmt: skip
    assert small == pytest.approx(1 / 0.044, rel=0.03)
    assert big < 0.85 * small


def test_workers_for_all_of_whom_there_is_just_time_come_to_meet():
    """Their first gradients take longer, so that they do not stay apart.

    They do where these keep the server busy, as measured: not if it works 84 % of the time.
    """
    demands = Demands(compute=0.152, server=0.077, variables=BIG)
    ten, seventeen, twenty = (
        simulate(System(demands, workers, slowdown=10, threads=True)).throughput * 1.597 / workers
        for workers in (10, 17, 20)
    )
    assert (ten, seventeen) == pytest.approx((1, 1), rel=1e-3)
    assert twenty < 0.9


def test_a_server_receives_in_eight_threads():
    """TensorFlow's: of sixteen gradients eight wait until their threads are done with another."""
    clock, ends = stations.Clock(), []
    server = nodes.Server(clock, stations.Cores(clock, 16), threads=True)
    for worker in range(16):
        server.take(worker, 1.0, lambda worker: ends.append((clock.now, worker)), worker)
    server.serve()
    clock.run()
    assert ends == [(pytest.approx(1 + worker // 8), worker) for worker in range(16)]


def test_gradients_that_leave_the_cache_before_they_are_applied_cost_more():
    """If eight are received at the same time; one worker's gradient alone stays there."""
    fit, do_not, alone = (
        simulate(
            System(
                Demands(compute=0.5, server=0.05, variables=(size,)),
                workers, threads=True, share=0.16,
            )
        ).throughput
        for size, workers in ((4_000_000, 60), (20_000_000, 60), (20_000_000, 1))
    )  # fmt: skip
    assert fit == pytest.approx(1 / 0.05, rel=0.01)
    # 0.3 ns a byte of nearly all gradients, at the share of a core that the server has.
    assert do_not == pytest.approx(1 / (0.05 + 0.3e-9 * 20e6 / 0.16), rel=0.1)
    assert alone == pytest.approx(1 / 0.508, rel=0.01)


def test_threads_change_nothing_for_workers_that_do_not_meet():
    in_turn, threads = (
        simulate(System(LENET_STEP, workers=4, slowdown=100, threads=threads)).throughput
        for threads in (False, True)
    )
    assert threads == pytest.approx(in_turn, rel=1e-6)


def test_a_server_with_threads_hides_nothing_beside_others():
    """Whose gradients come when they like, so that some find others there."""
    hidden = replace(LENET_STEP, hidden=1, compute_cv=0.3)
    one, eight = (simulate(System(hidden, n, threads=True)).throughput for n in (1, 8))
    assert one == pytest.approx(1 / 0.12, rel=0.01)
    assert 0.8 * 8 * one < eight < 0.97 * 8 * one


def test_beside_others_a_server_with_threads_hides_what_a_free_core_does():
    hidden = replace(LENET_STEP, hidden=1, compute_cv=0.3)
    one, eight = (simulate(System(hidden, n, threads=True, cores=16)).throughput for n in (1, 8))
    assert eight == pytest.approx(8 * one, rel=0.01)


@pytest.mark.parametrize("threads", [False, True])
def test_a_server_takes_longer_the_longer_ago_it_was_asked(threads):
    demands = Demands(compute=0.5, server=0.01, cooling=((2, 0.04),))
    one, often = (
        simulate(System(demands, workers, slowdown=2, threads=threads)).throughput
        for workers in (1, 400)
    )
    step = (1 + 0.01) / (1 - 0.02)
    assert one == pytest.approx(1 / step, rel=1e-6)
    assert often == pytest.approx(1 / 0.01, rel=0.06)


@pytest.mark.parametrize("machine", [{}, {"threads": True}, {"threads": True, "share": 0.16}])
@pytest.mark.parametrize("cooling", [((0.01, 0.05),), ((0.2, 0.01), (0.4, 0.05)), ((0.6, 0.06),)])
def test_a_server_is_no_colder_than_after_its_longest_pause(machine, cooling):
    """However long a step takes, and if being cold costs more than the pause was long."""
    demands = Demands(compute=0.5, server=0.02, cooling=cooling)
    warm = replace(demands, server=0.07, cooling=())
    once, as_if = (simulate(System(each, **machine)).throughput for each in (demands, warm))
    assert once == pytest.approx(as_if, rel=1e-9 if cooling[-1][0] < 0.5 else 0.03)


def test_between_pauses_a_server_cools_down_evenly():
    demands = Demands(compute=0.5, server=0.02, cooling=((0.25, 0.01), (0.75, 0.05)))
    answer = simulate(System(demands))
    step = (0.5 + 0.02 + 0.01 - 0.25 * 0.08) / (1 - 0.08)
    assert answer.throughput == pytest.approx(1 / step, rel=1e-6)


def test_servers_that_share_a_gradient_share_what_it_costs_to_be_cold():
    demands = Demands(compute=0.5, server=0.02, cooling=((0.1, 0.03),), variables=(40, 40))
    answer = simulate(System(demands, servers=2))
    assert answer.throughput == pytest.approx(1 / (0.5 + 0.05 / 2), rel=1e-6)


def test_nothing_cools_down_in_lock_step():
    cold = System(replace(LENET_STEP, cooling=((1.0, 0.5),)), workers=4, strategy="sync-ps")
    assert simulate(cold) == simulate(replace(cold, demands=LENET_STEP))


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("strategy", ["async-ps", "sync-ps"])
def test_a_thousand_gradients_for_which_nothing_is_left_to_do_come_at_once(threads, strategy):
    """Not one from within the other."""
    demands = Demands(compute=0.1, cooling=((1.0, 0.05),))
    system = System(demands, workers=1000, threads=threads, strategy=strategy)
    assert simulate(system, steps=5).throughput <= 1000 / 0.1 * (1 + 1e-9)


def test_a_lone_worker_may_find_its_own_gradient_still_worked_on():
    """Then something can be hidden all the same: nobody else is in the way."""
    demands = Demands(compute=0.01, server=0.008, hidden=1, compute_cv=0.5)
    in_turn, threads = (
        simulate(System(demands, threads=threads), steps=2000).throughput
        for threads in (False, True)
    )
    assert threads == pytest.approx(1 / 0.01, rel=0.01)
    assert in_turn < 0.97 * threads


@pytest.mark.parametrize("compute", [0.0, 0.001, 0.1])
@pytest.mark.parametrize("strategy", ["async-ps", "sync-ps"])
@pytest.mark.parametrize("workers", [1, 8])
def test_what_is_done_after_the_answer_is_done_all_the_same(compute, strategy, workers):
    demands = Demands(compute=compute, server=0.02, hidden=1)
    system = System(demands, workers, strategy=strategy, threads=True)
    most = min(1 / 0.02, workers / compute if compute else math.inf)
    assert simulate(system, steps=1000).throughput <= 1.02 * most


@pytest.mark.parametrize(
    ("server", "wall"),
    [
        (0.05, 0.05 * 0.16),  # in one slice, at full speed
        (0.25, 0.2 + 0.05 * 0.16),  # in two whole slices and half of a third
    ],
)
def test_a_share_of_a_core_is_given_in_slices(server, wall):
    demands = Demands(compute=0.5, server=server)
    answer = simulate(System(demands, threads=True, share=0.16), steps=20)
    assert answer.throughput == pytest.approx(1 / (0.5 + wall), rel=1e-6)


@pytest.mark.parametrize("hidden", [0, 1])
def test_a_node_has_its_slices_for_worker_and_server_together(hidden):
    """A step that takes up a whole slice takes a period."""
    demands = Demands(compute=0.05, server=0.05, hidden=hidden)
    answer = simulate(System(demands, beside=True, share=0.16), steps=50)
    assert answer.throughput == pytest.approx(10, rel=0.01)


def test_worker_and_server_may_use_a_slice_at_the_same_time():
    """What is done after the answer does not keep a worker from receiving it."""
    demands = Demands(compute=0.01, client=0.02, server=0.01, hidden=1)
    answer = simulate(System(demands, beside=True, share=0.16, slowdown=20.0), steps=20)
    assert answer.throughput == pytest.approx(1 / (0.2 + 0.02 * 0.16), rel=1e-6)


def test_slices_are_no_more_than_a_share():
    demands = Demands(compute=0.5, server=0.05)
    answer = simulate(System(demands, workers=40, threads=True, share=0.16))
    assert answer.throughput == pytest.approx(1 / 0.05, rel=0.01)


def test_convoys_shorter_than_a_slice_lasts_cost_nothing():
    """A server that stands idle for less than a period has not used less of its share."""
    demands = Demands(compute=0.011, server=0.016, variables=(4_000_000,))
    evenly, sliced = (
        simulate(System(demands, workers=10, slowdown=10, threads=True, share=share)).throughput
        for share in (1.0, 0.16)
    )
    assert evenly < 0.9 * sliced
    assert sliced > 0.95 / 0.016


def test_slow_nodes_on_few_cores_are_late_when_the_host_cannot_keep_up():
    few, many = (simulate(mxnet(n, slowdown=10, cores=2)) for n in (5, 40))
    assert few.late == 0
    assert few.speedup == pytest.approx(5, rel=0.01)
    assert 0.5 < many.late <= 1
    assert many.bottleneck == "cores"


def test_a_node_shared_by_worker_and_server_is_slower_than_two_nodes():
    apart = simulate(System(LENET_STEP, 4, 4, placement="hash"))
    assert simulate(mxnet(4)).throughput < apart.throughput


# --- stragglers ----------------------------------------------------------------------------------


several = st.integers(2, 12)
spreads = st.floats(1, 8)


@settings(max_examples=25, deadline=None)
@given(several, spreads, st.floats(1, 50))
@example(5, 1.5, 1.5625)
def test_workers_that_do_not_meet_do_what_each_does_alone(workers, spread, slowdown):
    """Together the sum of 1 / step time; in step as many as there are over the slowest's time."""
    # with 0.3 no gradient takes four times the mean, and so none longer than its stretched time
    step = Demands(compute=0.1, latency=0.02, compute_cv=0.3 if slowdown > 4 else 0)
    system = System(step, workers, slowdown=slowdown, slowdown_spread=spread)
    times = [0.02 + 0.1 * slowdown * (1 + (spread - 1) * i / (workers - 1))
             for i in range(workers)]  # fmt: skip
    apart = simulate(system, steps=10)
    assert apart.throughput == pytest.approx(sum(1 / t for t in times))
    together = simulate(replace(system, strategy="sync-ps"), steps=10)
    assert together.throughput == pytest.approx(workers / max(times))


def test_gradients_that_take_longer_than_they_are_stretched_to_are_late():
    """Of an exponential distribution, one in eight is more than 5 % beyond twice its mean."""
    alike = System(LENET_STEP, 4, slowdown=2)
    assert simulate(alike).late == 0
    varied = replace(alike, demands=replace(LENET_STEP, compute_cv=1.0))
    assert simulate(varied, steps=2000).late == pytest.approx(np.exp(-2.1), rel=0.1)


@settings(max_examples=15, deadline=None)
@given(several, st.floats(1, 4), st.sampled_from(["async-ps", "sync-ps"]))
def test_slower_workers_never_do_more(workers, spread, strategy):
    alike = System(LENET_STEP, workers, strategy=strategy, slowdown=10)
    slower = replace(alike, slowdown_spread=spread)
    slowest = replace(alike, slowdown=10 * spread)
    least, found, most = (simulate(each, steps=60).throughput for each in (slowest, slower, alike))
    assert least * 0.99 <= found <= most * 1.01


@pytest.mark.parametrize("spread", [1.5, 4])
def test_gradients_are_as_stale_as_there_are_others_whoever_is_slow(spread):
    """Each update lies between two turns of every other worker, just not evenly."""
    system = System(LENET_STEP, 6, slowdown=10, slowdown_spread=spread)
    answer = simulate(system, steps=400)
    assert answer.mean_staleness == pytest.approx(5, rel=0.02)
    assert max(answer.staleness) > 5 > min(answer.staleness)


def test_a_spread_is_nothing_to_a_lone_worker():
    alone = System(LENET_STEP, slowdown=10)
    assert simulate(replace(alone, slowdown_spread=3)) == simulate(alone)


def test_the_first_worker_is_as_slow_as_the_slowdown_and_the_last_by_the_spread():
    assert System(LENET_STEP, 3, slowdown=10, slowdown_spread=2).slowdowns == [10, 15, 20]


# --- placement ----------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(systems)
def test_every_byte_is_somewhere(system):
    sizes, shares = system.placed()
    assert sizes.sum() == pytest.approx(sum(system.demands.variables))
    assert shares.sum() >= 1 - 1e-9
    assert (shares[sizes == 0] == 0).all()


@settings(max_examples=50, deadline=None)
@given(systems)
def test_what_is_not_for_keys_is_for_bytes(system):
    sizes, shares = system.placed()
    keys = for_keys(system)
    assert ((keys >= 0) & (keys <= 1)).all()
    assert (keys[sizes == 0] == 0).all()
    for_bytes = shares * (1 - keys)
    assert for_bytes / for_bytes.sum() == pytest.approx(sizes / sizes.sum())


def test_eight_keys_are_more_than_half_of_what_a_server_does_for_lenet5():
    assert for_keys(System(LENET_STEP)) == pytest.approx([2.4 / (1.72432 + 2.4)])


def test_mxnet_keeps_small_keys_whole_and_splits_big_ones():
    sizes, shares = mxnet(10).placed()
    assert sizes.max() == 1_600_000
    assert np.count_nonzero(sizes) == 8  # a key each
    big = replace(LENET_STEP, variables=(4_000_000, 3_999_996))
    sizes, _ = mxnet(4, big).placed()
    assert sorted(sizes) == [1_000_000, 1_000_000, 1_000_000, 4_999_996]


def test_tensorflow_gives_each_server_a_variable_in_turn():
    sizes, _ = System(replace(LENET_STEP, variables=(4, 8, 12)), servers=2).placed()
    assert list(sizes) == [16, 8]


# --- what cannot be -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"workers": 0}, "workers: 0; allowed: whole numbers from 1 on"),
        ({"workers": 2.0}, "workers: 2.0; allowed: whole numbers from 1 on"),
        ({"servers": math.inf}, "servers: inf; allowed: whole numbers from 1 on"),
        ({"strategy": "asinc-ps"}, "did you mean 'async-ps'?"),
        ({"placement": "hsh"}, "did you mean 'hash'?"),
        ({"slowdown": 0.5}, "slowdown: 0.5; allowed: 1 or more"),
        ({"slowdown_spread": 0.9}, "slowdown_spread: 0.9; allowed: 1 or more"),
        ({"bandwidth": 0}, "bandwidth: 0; allowed"),
        ({"cores": 0}, "cores: 0; allowed"),
        ({"share": 0}, "share: 0; allowed"),
        ({"beside": True, "workers": 2}, "1 servers with 2 workers"),
        ({"demands": Demands(0.0)}, "a step has to take some time"),
        ({"demands": Demands(-1.0, server=2)}, "compute: -1.0; allowed: 0 or more"),
        ({"share": 0.5}, "share: 0.5; allowed: only of servers with threads"),
        ({"share": 0.5, "threads": True, "cores": 2}, "share: 0.5; allowed: only"),
        ({"beside": True, "threads": True}, "threads: servers beside workers; allowed"),
        ({"demands": Demands(1.0, hidden=2)}, "hidden: 2; allowed: a share"),
        ({"demands": Demands(1.0, cooling=((0, 1),))}, "cooling: ((0, 1),); allowed"),
        ({"demands": Demands(1.0, cooling=((2, 1), (1, 1)))}, "allowed: longer and longer"),
        ({"demands": Demands(1.0, cooling=((1, -1),))}, "cooling: ((1, -1),); allowed"),
        ({"demands": Demands(1.0, per_step=2)}, "per_step: 2; allowed: at most server"),
        ({"demands": Demands(1.0, variables=())}, "variables: (); allowed"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_system_that_cannot_be_is_refused(values, said):
    with pytest.raises(LabkitError) as refused:
        System(**{"demands": LENET_STEP} | values)
    assert said in str(refused.value)


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(LabkitError, match="workers: 0.*slowdown: 0"):
        System(LENET_STEP, workers=0, slowdown=0)
    with pytest.raises(LabkitError, match="steps: 1"):
        simulate(System(LENET_STEP), steps=1)
