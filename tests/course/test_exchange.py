"""Who works when between workers and their server: laws of a queue."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.course.exchange import exchange, exchanges, schedule
from labkit.figures.page import title_of

pytestmark = pytest.mark.unit

times = st.floats(0.1, 10)


@given(times, times, st.integers(1, 6), st.integers(1, 8))
def test_the_server_serves_one_after_the_other_and_is_never_idle_in_vain(
    compute, serve, workers, steps
):
    done = schedule(compute, serve, workers, steps)
    assert len(done) == workers * steps
    for one, other in zip(done, done[1:], strict=False):
        assert other.sent >= one.sent
        assert other.taken == max(one.applied, other.sent)
    for step in done:
        assert step.sent == pytest.approx(step.begin + compute)
        assert step.applied == pytest.approx(step.taken + serve)
    for worker in range(workers):
        mine = [step for step in done if step.worker == worker]
        assert [step.begin for step in mine] == [0, *(step.applied for step in mine[:-1])]


@given(times, times, st.integers(1, 6))
def test_its_rate_is_that_of_workers_or_of_the_server(compute, serve, workers):
    """After the first steps: N / (compute + serve), and never more than 1 / serve."""
    done = schedule(compute, serve, workers, 40)
    begin, end = done[10 * workers].applied, done[30 * workers].applied
    rate = 20 * workers / (end - begin)
    assert rate == pytest.approx(min(workers / (compute + serve), 1 / serve), rel=1e-6)


def test_it_is_drawn():
    figure = exchange({"computing rules": (30.0, 5.0), "serving rules": (10.0, 6.0)})
    assert title_of(figure).startswith("6.0 ")
    assert all(axes.patches for axes in figure.axes)


ROW = {"framework": "mxnet", "workers": 1, "slowdown": None, "compute_ms": math.nan}


def measured(*rows):
    return SimpleNamespace(table=pd.DataFrame([ROW | row for row in rows]))


def test_what_was_measured_with_one_worker_is_drawn():
    results = measured(
        {"cpu_ms_per_step": 30.0, "server_cpu_ms_per_update": 4.0},
        {"cpu_ms_per_step": 34.0, "server_cpu_ms_per_update": 6.0},
        {"workers": 2, "cpu_ms_per_step": 99.0, "server_cpu_ms_per_update": 99.0},
        {"framework": "tensorflow", "cpu_ms_per_step": math.nan},
    )
    ((figure, given, name),) = exchanges(results, "6.3")
    assert given is results and name == "6.3-exchange"
    assert title_of(figure).startswith("6.3 ")
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "MXNet"
    assert max(patch.get_x() + patch.get_width() for patch in axes.patches) == pytest.approx(
        max(step.applied for step in schedule(32.0, 5.0, 3, 3))
    )


def test_on_slow_nodes_computing_takes_as_long_as_it_does_there():
    slow = {"slowdown": 10.0, "compute_ms": 20.0, "cpu_ms_per_step": 25.0}
    ((figure, *_),) = exchanges(measured(slow | {"server_cpu_ms_per_update": 4.0}), "6.3")
    (axes,) = figure.axes
    assert max(patch.get_width() for patch in axes.patches) == pytest.approx(25 + 9 * 20)


def test_without_one_worker_there_is_no_picture():
    alone = {"workers": 2, "cpu_ms_per_step": 9.0, "server_cpu_ms_per_update": 9.0}
    assert list(exchanges(measured(alone), "6.3")) == []
