"""What chapter 2.4 computes and draws: costs, delays, and the staleness of real gradients."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from labkit.analysis import staleness
from labkit.course import scaling_out
from labkit.errors import LabkitError

pytestmark = pytest.mark.unit

FRAMEWORKS = ("tensorflow", "mxnet")


def said(figure):
    return {text.get_text() for text in figure.findobj(Text) if text.get_text()}


def largest_root(rate, delay):
    return abs(np.roots([1, -1, *[0] * (delay - 1), rate] if delay else [1, rate - 1])).max()


@pytest.mark.parametrize("delay", range(13))
def test_at_the_bound_the_slowest_solution_neither_grows_nor_shrinks(delay):
    bound = scaling_out.bound(delay)
    assert largest_root(bound, delay) == pytest.approx(1)
    assert largest_root(0.98 * bound, delay) < 1 < largest_root(1.02 * bound, delay)


@given(rate=st.floats(0.01, 1.9))
def test_without_a_delay_it_is_gradient_descent(rate):
    weights = scaling_out.delayed(rate, 0, steps=20)
    assert weights == pytest.approx((1 - rate) ** np.arange(21))


@given(delay=st.integers(1, 12), share=st.sampled_from([0.9, 1.1]))
def test_delayed_descent_keeps_to_its_recurrence_and_to_the_bound(delay, share):
    rate = share * float(scaling_out.bound(delay))
    weights = scaling_out.delayed(rate, delay, steps=900)
    old = np.concatenate([np.ones(delay), weights])[: len(weights) - 1]
    assert np.diff(weights) == pytest.approx(-rate * old)
    late, later = abs(weights[300:600]).max(), abs(weights[600:]).max()
    assert (later < late) == (share < 1)


@given(
    speeds=st.lists(st.floats(0.5, 2), min_size=1, max_size=6), seed=st.integers(0, 2**32 - 1)
)
def test_the_mean_staleness_is_that_of_all_others_whatever_the_speeds(speeds, seed):
    random = np.random.default_rng(seed)
    ends = [np.cumsum(random.gamma(4, speed / 4, 400)) for speed in speeds]
    last = min(each[-1] for each in ends)
    found = staleness([each[: np.searchsorted(each, last) + 1] for each in ends])
    assert found.mean() == pytest.approx(len(speeds) - 1, abs=0.1 * len(speeds))


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("workers", [2, 5, 10])
def test_when_the_steps_of_real_workers_ended_is_published(framework, workers):
    run = scaling_out.trace(framework, workers)
    assert run.name.startswith(f"{framework}-lenet5-w{workers}-")
    assert framework in run.where and len(run.ends) == workers
    assert run.staleness.mean() == pytest.approx(workers - 1, abs=0.2)


def test_a_straggler_of_a_real_run_has_the_stale_gradients():
    run = scaling_out.uneven()
    fast, slow = run.ends
    assert slow[-1] == pytest.approx(1.7 * fast[-1], rel=0.02)
    counted = (fast[1:] <= fast[-1]).sum()
    found = run.staleness
    assert found[:counted].mean() < 1 < found[counted:].mean()
    assert found.mean() == pytest.approx(1, abs=0.1)


def test_no_such_run_is_published():
    with pytest.raises(LabkitError, match="'mxnet', workers: 77: of no such"):
        scaling_out.trace("mxnet", 77)


def test_the_timeline_shows_how_stale_each_gradient_was():
    ends = [np.array([1.0, 4.0, 4.5]), np.array([1.5, 3.0, 6.0]), np.array([2.0, 3.5, 5.0])]
    run = scaling_out.Trace("mxnet-made-up", "nowhere", ends)
    (axes,) = scaling_out.timeline(run).axes
    lanes = sorted(axes.texts, key=lambda text: text.get_position()[1])
    assert [int(text.get_text()) for text in lanes] == run.staleness.tolist() == [4, 0, 1, 1]
    assert len(axes.patches) == 9


def test_a_split_costs_a_message_for_each_value_that_another_machine_needs():
    found = said(scaling_out.split())
    assert {"nothing to send", "4 values cross", "11 values cross"} <= found


def test_synchronous_steps_take_as_long_as_their_slowest():
    figure = scaling_out.rounds(np.array([[1.0, 2.0], [3.0, 1.0]]))
    assert {"synchronous: 5.0 s", "asynchronous: 3.5 s on average"} <= said(figure)
    assert "Waiting makes the same 2 steps 43 % longer" in figure.get_suptitle()


def test_a_stale_gradient_leads_uphill():
    (axes,) = scaling_out.stale(learning_rate=0.6, workers=3).axes
    _, path, fresh = axes.lines
    assert path.get_ydata()[-1] > path.get_ydata()[-2] > fresh.get_ydata()[0]
    assert path.get_xdata() == pytest.approx([-2, -0.8, 0.4, 1.6])


@pytest.mark.parametrize(("rate", "verdict"), [(0.2, "converges"), (0.5, "does not converge")])
def test_the_explorer_says_what_comes(rate, verdict):
    assert f"delay 4, rate {rate}: {verdict}" in said(scaling_out.explore_delay(rate, 4))


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_a_step_demands_was_measured(framework):
    demands = scaling_out.step(framework, 128)
    assert demands.compute > 0
    assert demands.compute < scaling_out.step(framework, 512).compute


def test_all_steps_are_those_of_one_machine(monkeypatch):
    rows = scaling_out.published()
    one = rows[(rows["model"] == "lenet5") & (rows["batch_size"] == 5) & (rows["workers"] == 1)]
    elsewhere = one.assign(
        host="elsewhere", started="2100-01-01T00:00:00+0000", cpu_ms_per_step=1e6
    )
    before = scaling_out.step("mxnet", 5)
    both = pd.concat([rows, elsewhere], ignore_index=True)
    monkeypatch.setattr(scaling_out, "published", lambda: both)
    assert scaling_out.step("mxnet", 5) == before


def test_lines_and_points_are_drawn():
    counts = [2, 4]
    (costs,) = scaling_out.costs(counts, {"one": [1.0, 2.0], "two": [3.0, 4.0]}, 0.5).axes
    assert len(costs.lines) == 3
    (speedups,) = scaling_out.speedups(counts, {"law": [1.5, 2.0]}, {"seen": [1.4, 1.9]}).axes
    assert [line.get_label() for line in speedups.lines] == ["ideal", "law", "seen"]
    assert said(scaling_out.data_parallel()) >= {"batch 1", "batch 3"}
