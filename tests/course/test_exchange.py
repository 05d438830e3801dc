"""Who works when between workers and their server: laws of a queue."""

import made_runs
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


def widths(figure):
    """Return how long what is drawn takes, in milliseconds, by the title of its panel."""
    return {
        axes.get_title(loc="left"): {round(patch.get_width(), 3) for patch in axes.patches}
        for axes in figure.axes
    }


def test_what_was_measured_with_one_worker_is_drawn(store):
    """A step of the made-up runs takes 100 ms, half of it computing."""
    for values in ({"seed": 1}, {"seed": 2}, {"workers": 2}):
        made_runs.add(store, made_runs.trial(**{"workers": 1} | values))
    made_runs.add(store, made_runs.trial(framework="tensorflow", workers=2))
    results = store.results()
    ((figure, given, name),) = exchanges(results, "6.3")
    assert given is results and name == "6.3-exchange"
    assert title_of(figure).startswith("6.3 ")
    assert widths(figure).keys() == {"MXNet"}
    assert {50.0} <= widths(figure)["MXNet"]


@pytest.mark.parametrize(("cpu", "computing"), [(None, 10 * 4 + 46), (0.5, 10 * 4 + 60)])
def test_on_slow_nodes_computing_takes_as_long_as_it_does_there(store, cpu, computing):
    """Of 50 ms of CPU 4 are the gradient's; with half a core the rest fills the step."""
    slow = made_runs.trial(framework="tensorflow", workers=1, slowdown=10.0, cpu=cpu)
    made_runs.add(store, slow, calibration={"median": 0.004}, other_cpu=0.0)
    ((figure, *_),) = exchanges(store.results(), "6.3")
    assert computing in widths(figure)["TensorFlow"]


def test_without_one_worker_there_is_no_picture(store):
    made_runs.add(store, made_runs.trial(workers=2))
    assert list(exchanges(store.results(), "6.3")) == []
