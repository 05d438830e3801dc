"""The analysis: against the simulation, where its assumptions hold, and at its limits."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_systems import LENET, LENET_STEP, dedicated, mxnet

from labkit import LabkitError
from labkit.simulation import Demands, System, analyse, expected_maximum, simulate
from labkit.simulation.system import passing

pytestmark = pytest.mark.unit


# --- against the simulation ---------------------------------------------------------------------


def random_system(random):
    """Return a system inside the assumptions of mean value analysis."""
    demands = Demands(
        compute=10 ** random.uniform(-2, 0),
        client=random.uniform(0, 0.02),
        server=10 ** random.uniform(-2.5, -0.5),
        latency=random.choice([0, 0.01]),
        compute_cv=random.uniform(0, 0.5),  # of a delay the distribution does not matter
        server_cv=1.0,
    )
    slowdown = random.choice([1.0, 1.0, 3.0, 10.0])
    # A stretched time and a link's are always the same: who meets at the link once, always does.
    limited = slowdown == 1 and random.random() < 0.5
    return System(
        replace(demands, variables=(1_600_000,)),
        workers=int(random.integers(1, 21)),
        servers=int(random.integers(1, 4)),  # all but one have nothing to serve
        placement=random.choice(["hash", "round-robin"]),
        slowdown=slowdown,
        bandwidth=10 ** random.uniform(7.5, 9.5) if limited else None,
    )


def test_simulation_and_mean_value_analysis_agree():
    """Within 3 % on 200 random systems: throughput, and how busy the server and its link are."""
    random = np.random.default_rng(12)
    for seed in range(200):
        system = random_system(random)
        simulated = simulate(system, steps=max(3000 // system.workers, 2), seed=seed)
        analysed = analyse(system)
        assert simulated.throughput == pytest.approx(analysed.throughput, rel=0.03), system
        for station in analysed.utilisation:
            assert simulated.utilisation[station] == pytest.approx(
                analysed.utilisation[station], abs=0.03
            ), (station, system)


@pytest.mark.parametrize("cv", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("workers", [2, 5, 20])
@pytest.mark.parametrize(("server", "per_step"), [(0.0, 0.0), (0.008, 0), (0.1, 0), (0.1, 0.06)])
def test_simulation_and_analysis_agree_on_workers_in_step(workers, cv, server, per_step):
    """Nearly: the analysis lets each gradient arrive when it is to be expected."""
    demands = replace(LENET_STEP, server=server, per_step=per_step, compute_cv=cv)
    system = System(demands, workers, strategy="sync-ps")
    simulated = simulate(system, steps=800).throughput
    assert simulated == pytest.approx(analyse(system).throughput, rel=0.05)


@pytest.mark.parametrize("workers", [1, 2, 10])
@pytest.mark.parametrize(
    "demands",
    [
        Demands(0.1, server=0.01, hidden=0.5),
        Demands(0.001, client=0.02, server=0.01),
        Demands(0.05, client=0.004, latency=0.001, server=0.02, hidden=0.5, per_step=0.008),
    ],
)
def test_simulation_and_analysis_agree_on_what_follows_an_answer_in_step(demands, workers):
    system = System(demands, workers, strategy="sync-ps")
    simulated = simulate(system, steps=100).throughput
    assert simulated == pytest.approx(analyse(system).throughput, rel=0.01)


@pytest.mark.parametrize("spread", [1.5, 4])
@pytest.mark.parametrize("workers", [2, 6, 20])
@pytest.mark.parametrize("server", [0.0, 0.01, 0.05, 0.2])
@pytest.mark.parametrize("strategy", ["async-ps", "sync-ps"])
def test_simulation_and_analysis_agree_on_stragglers(strategy, server, workers, spread):
    """Nearly: asynchronous ones are taken for like ones that are together as fast."""
    demands = Demands(0.1, server=server, server_cv=1.0 if strategy == "async-ps" else 0)
    system = System(demands, workers, strategy=strategy, slowdown=3, slowdown_spread=spread)
    simulated = simulate(system, steps=max(3000 // workers, 2)).throughput
    assert simulated == pytest.approx(analyse(system).throughput, rel=0.03)


@pytest.mark.parametrize("workers", [1, 4, 16])
@pytest.mark.parametrize(
    ("beside", "bandwidth", "low"),
    [(False, 1e8, 0.94), (False, 1e9, 0.97), (True, 1e8, 0.64), (True, 1e9, 0.96)],
)
def test_the_analysis_is_cautious_about_links_of_several_servers(workers, bandwidth, beside, low):
    """Servers that work at the same time use them at the same time, most of all beside workers."""
    demands = replace(LENET_STEP, compute_cv=0.5)
    make = mxnet if beside else partial(System, servers=4)
    system = make(workers=workers, demands=demands, bandwidth=bandwidth)
    simulated, analysed = simulate(system, steps=400).throughput, analyse(system).throughput
    assert low * simulated <= analysed <= 1.04 * simulated


# --- limits -------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(dedicated, st.integers(1, 30))
def test_throughput_keeps_to_the_asymptotic_bounds(system, workers):
    """Of Denning and Buzen: N lone workers, and the rate of the busiest station."""
    several = replace(system, workers=workers, strategy="async-ps", cores=None)
    answer = analyse(several)
    assert answer.throughput <= workers * analyse(several.alone).throughput * (1 + 1e-9)
    assert max(answer.utilisation.values()) <= 1 + 1e-9
    assert 0 < answer.speedup <= workers * (1 + 1e-9)


@settings(max_examples=20, deadline=None)
@given(dedicated)
def test_a_lone_worker_takes_the_sum_of_what_it_demands(system):
    demands = replace(system.demands, hidden=0, compute_cv=0)
    alone = replace(system, demands=demands, workers=1, servers=1, cores=None)
    step = (
        demands.compute * alone.slowdown + demands.client + demands.server + demands.latency
        + 2 * passing(sum(demands.variables), alone.bandwidth)
    )  # fmt: skip
    assert analyse(alone).throughput == pytest.approx(1 / step, rel=1e-9)


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("compute", [0.001, 0.1])
def test_a_lone_worker_waits_for_what_is_hidden_when_it_asks_again(compute, servers):
    demands = Demands(compute, server=0.02, hidden=0.5, variables=(40, 40))
    system = System(demands, servers=servers)
    assert analyse(system).throughput == pytest.approx(simulate(system).throughput, rel=1e-3)


def test_one_bottleneck_is_reached():
    served = analyse(System(LENET_STEP, workers=500))
    assert served.throughput == pytest.approx(1 / LENET_STEP.server, rel=1e-3)
    sent = analyse(System(LENET_STEP, workers=500, bandwidth=1e8))
    assert sent.throughput == pytest.approx(1 / passing(sum(LENET), 1e8), rel=1e-2)
    assert (served.bottleneck, sent.bottleneck) == ("server 0", "link to server 0")


def test_bandwidth_without_end_is_none():
    fast, none = (analyse(mxnet(8, bandwidth=bandwidth)) for bandwidth in (1e18, None))
    assert fast.throughput == pytest.approx(none.throughput, rel=1e-9)


@pytest.mark.parametrize("count", [1, 2, 10, 100])
def test_the_longest_of_exponential_times_is_a_harmonic_number(count):
    harmonic = sum(1 / k for k in range(1, count + 1))
    assert expected_maximum(3.0, 1.0, [0] * count) == pytest.approx(3 * harmonic, rel=1e-6)


@given(st.floats(1e-3, 1e3), st.floats(0.01, 1.5), st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_the_longest_of_more_is_longer(mean, cv, count):
    fewer, more = (expected_maximum(mean, cv, [0] * n) for n in (count, count + 1))
    assert mean * (1 - 1e-6) <= fewer < more
    assert expected_maximum(mean, 0.0, [0] * count) == mean
    last = expected_maximum(mean, cv, [0] * count + [3 * mean])
    assert max(fewer, 4 * mean) * (1 - 1e-6) <= last <= 3 * mean + more * (1 + 1e-6)


def test_shared_cores_are_left_to_the_simulation():
    with pytest.raises(LabkitError, match="cores: 2 that all share.*simulate"):
        analyse(System(LENET_STEP, workers=4, cores=2))
