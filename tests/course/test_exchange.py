"""Who works when between workers and their server: laws of a queue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.course.exchange import exchange, schedule
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
