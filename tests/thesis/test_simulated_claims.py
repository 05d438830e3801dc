"""What claims would become on nodes like the thesis's: simulated, beside the verdicts."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from tidy_tables import trials

from labkit import claims
from labkit.runs.demands import measured
from labkit.runs.whatif import what_if
from labkit.thesis.claims import find
from labkit.thesis.claims.checks import ACCURACY, COMPUTING, RATE, TIME, Point
from labkit.thesis.claims.nodes import Sample
from labkit.thesis.claims.simulated import ANSWERS, BANDWIDTH, SLOWDOWNS, Simulated, ThesisNodes

pytestmark = pytest.mark.unit

SLOW, SLOWER = SLOWDOWNS
POINT = Point("tensorflow", "lenet5", 128, 0.025)


@pytest.fixture(scope="module")
def table():
    """Return runs with one worker of one framework."""
    return trials(("tensorflow",), (1,), (128,)).assign(
        cpu_ms_per_step=150.0, samples_per_epoch=60_000, host="here", launcher="local",
        started="2026-01-01T00:00:00+0000", server_cpu_ms_per_update=40.0,
    )  # fmt: skip


def test_points_are_simulated_on_slow_nodes_with_their_network(table):
    nodes = ThesisNodes(table)
    one = measured(table, "tensorflow", "lenet5", 128)
    for slowdown in SLOWDOWNS:
        for workers in (1, 25):
            found = what_if(one, [workers], slowdown=slowdown, bandwidth=BANDWIDTH)
            rate = found.forecasts[0].throughput
            sampled = nodes.sample(POINT.at(workers), RATE, slowdown)
            assert sampled.values.tolist() == [rate]
            (seconds,) = nodes.sample(POINT.at(workers), TIME, slowdown).values
            assert seconds == pytest.approx(60_000 // 128 * workers / rate)


@pytest.mark.parametrize("column", [ACCURACY, COMPUTING])
def test_what_the_model_does_not_know_is_not_simulated(table, column):
    assert ThesisNodes(table).sample(POINT, column, SLOW).missing
    assert "not run with one worker" in ThesisNodes(table[:0]).sample(POINT, RATE, SLOW).missing


def test_one_machine_is_simulated_from(table):
    """The one that ran last, whatever another had run before."""
    before = table.assign(host="there", started="2025-01-01T00:00:00+0000", framework="mxnet")
    both = ThesisNodes(pd.concat([table, before], ignore_index=True))
    mxnet = Point("mxnet", "lenet5", 128, 0.025)
    assert both.sample(mxnet, RATE, SLOW).missing
    assert not both.sample(POINT, RATE, SLOW).missing


def test_it_is_one_that_ran_for_rates(table):
    """Not another that ran later, to see what is learnt."""
    learnt = table.assign(
        host="there", started="2027-01-01T00:00:00+0000", framework="mxnet", eval_samples=10_000
    )
    both = ThesisNodes(pd.concat([table.assign(eval_samples=0), learnt], ignore_index=True))
    assert both.sample(Point("mxnet", "lenet5", 128, 0.025), RATE, SLOW).missing
    assert not both.sample(POINT, RATE, SLOW).missing


def made(efficiency):
    """Return nodes on which each worker does some share of what one does alone, by slowdown."""

    def sample(point, column, slowdown):
        share = efficiency[slowdown]
        if share is None:
            return Sample(missing="not run")
        return Sample(np.array([point.workers * (share if point.workers > 1 else 1.0)]))

    return SimpleNamespace(sample=sample)


@pytest.mark.parametrize(
    ("slow", "slower", "follows"),
    [(0.95, 1.0, "yes"), (0.5, 0.89, "no"), (0.8, 0.95, "depends on how slow"),
     (0.95, 0.8, "depends on how slow"), (None, 0.95, "not simulated"),
     (None, None, "not simulated")],
)  # fmt: skip
def test_a_claim_follows_if_it_holds_however_slow_they_were(slow, slower, follows):
    """Of efficiencies of at least 0.9 with up to 25 workers."""
    checks = find("6.1.5d").checks
    found = Simulated.of(checks, made({SLOW: slow, SLOWER: slower}))
    assert found.follows == follows
    assert found.record == {"from_slow_nodes": follows, "simulated": found.evidence}
    if follows == "not simulated":
        assert not found.evidence
    else:
        values = f"{slow:.3g} with slowdown {SLOW:g}, {slower:.3g} with slowdown {SLOWER:g}"
        assert f"{values}; near ideal: at least 0.9" in found.evidence


def test_verdicts_do_not_rest_on_it(table):
    plain, beside = (claims(table, simulated=asked).about("6.1.5", "6.1.1a")
                     for asked in (False, True))  # fmt: skip
    assert [v.verdict for v in plain] == [v.verdict for v in beside]
    assert plain.follow == "" and "from_slow_nodes" not in plain.table
    assert set(beside.table["from_slow_nodes"]) <= set(ANSWERS)
    assert sum(int(part.split()[0]) for part in beside.follow.split(", ")) == len(beside)
    assert beside.about("6.1.1a")[0].simulated.follows == "not simulated"
