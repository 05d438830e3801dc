"""The window in which all workers train."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit import analysis
from labkit.analysis.equations import MetricError
from labkit.analysis.window import Progress

pytestmark = pytest.mark.unit


def close(value, rel=1e-6):
    return pytest.approx(value, rel=rel, abs=1e-12)


def test_window_of_two_workers_by_hand():
    a = Progress([0, 1, 2, 3, 4], [0, 100, 200, 300, 400])
    b = Progress([0, 2, 5], [0, 100, 400])
    window = analysis.window([a, b])
    assert (window.begin, window.end) == (0, 4)
    # b: two thirds of the way from 100 samples to 400 when a ends, so 300 in 4 s.
    assert window.rates == close([100, 75])
    assert window.samples_per_second == close(175)
    assert window.imbalance == close(25 / 87.5)
    assert math.isnan(window.variation)  # b has a single step window in it


def test_pauses_are_no_training_time():
    a = Progress([0, 1, 3], [0, 10, 20])
    b = Progress([0, 1, 4], [0, 10, 30], pauses=[(1, 2)])
    window = analysis.window([a, b])
    # While b evaluates not all train: what a does meanwhile, 5 samples of 20, counts no more than
    # the time. b has 10 samples in its first second, and half of the next 20 in the last.
    assert window.rates == close([15 / 2, 10])
    assert (window.begin, window.end, window.paused) == (0, 3, 1)


def test_work_beside_an_evaluation_does_not_count():
    """Who is alone on the servers meanwhile is faster: that is no rate of all workers."""
    a = Progress([0, 2, 12, 14], [0, 20, 20, 40], pauses=[(2, 12)])
    steady = Progress([0, 2, 12, 14], [0, 20, 120, 140])
    hurried = Progress([0, 2, 12, 14], [0, 20, 920, 940])
    for b in (steady, hurried):
        assert analysis.window([a, b]).rates == close([10, 10])
        assert analysis.window([b, a]).samples_per_second == close(20)


def test_times_in_which_several_evaluate_are_taken_out_once():
    a = Progress([0, 2, 5, 9], [0, 20, 20, 60], pauses=[(2, 5)])
    b = Progress([0, 3, 6, 9], [0, 30, 30, 60], pauses=[(3, 6)])
    window = analysis.window([a, b])
    assert window.paused == close(4)
    assert window.rates == close([20 / 5 + 30 / 5, 20 / 5 + 30 / 5])


def test_a_pause_counts_only_as_far_as_it_lies_in_the_window():
    a = Progress([0, 2], [0, 20])
    b = Progress([0, 1, 9], [0, 10, 30], pauses=[(1, 7), (8, 8.5)])
    assert analysis.window([a, b]).rates == close([10, 10])


def test_what_comes_before_the_begin_counts_for_nothing():
    """Not even where a worker is ten times as fast there, and pauses across it."""
    a = Progress([0, 1, 2, 3, 4], [0, 100, 110, 120, 130])
    b = Progress([0, 1, 3, 4, 5], [0, 100, 100, 110, 120], pauses=[(1, 3)])
    window = analysis.window([a, b], begin=1.0)
    assert (window.begin, window.end, window.paused) == (1, 4, 2)
    assert window.rates == close([10, 10])
    assert analysis.window([a, b], begin=3.0).rates == close([10, 10])
    with pytest.raises(MetricError, match=r"begins 4 s after the barrier, .*take more steps"):
        analysis.window([a, b], begin=4.0)


def test_in_lock_step_all_wait_for_the_one_that_evaluates():
    """Two workers, a step a second of 10 samples each; the first evaluates after two, for 8 s."""
    first = Progress([0, 2, 11, 12], [0, 20, 30, 40], pauses=[(2, 10)])
    # Its second step ends a moment late; its next gradient is told of early, and waits.
    second = Progress([0, 1, 2.1, 3, 11, 12], [0, 10, 20, 30, 30, 40])
    together = analysis.waiting_together([first, second])
    assert together[1].t.tolist() == [0, 1, 2, 11, 12]
    assert together[1].samples.tolist() == [0, 10, 30, 30, 40]
    window = analysis.window(together)
    assert (window.end, window.paused) == (12, 8)
    assert window.rates == close([10, 10])
    # Taken for one that goes on training meanwhile it would have lost what it does after it.
    assert analysis.window([first, second]).rates[1] < 8


@given(
    st.lists(st.floats(0.6, 3), min_size=2, max_size=12),
    st.floats(0.1, 20),
    st.integers(1, 11),
    st.lists(st.floats(0, 0.2), min_size=13, max_size=13),
)
def test_a_pause_in_lock_step_changes_no_rate(steps, pause, after, late):
    """Whenever it comes, however long it is, and however late the others hear of a step."""
    t = np.cumsum(np.append(0, steps))
    after = min(after, len(steps) - 1)
    paused = t + pause * (np.arange(len(t)) > after)
    samples = 10.0 * np.arange(len(t))
    first = Progress(paused, samples, pauses=[(t[after], t[after] + pause)])
    second = Progress(paused + np.append(0, late[1 : len(t)]), samples)
    found = analysis.window(analysis.waiting_together([first, second]))
    assert found.end - found.paused == close(t[-1])
    assert found.rates[0] == close(samples[-1] / t[-1])
    # Late by 0.2 s of the last step at most.
    assert 0 <= found.rates[0] - found.rates[1] <= 10 * 0.2 / steps[-1] / t[-1] * 1.01 + 1e-9


def test_variation_of_cases_by_hand():
    # Slices of 10, 20, 10 and 20 samples a second: mean 15, standard deviation root(100 / 3).
    uneven = Progress([0, 1, 2, 3, 4], [0, 10, 30, 40, 60])
    assert analysis.window([uneven]).variation == close(math.sqrt(100 / 3) / 15)
    # It is the total that counts: where one is slow while the other is fast, it does not vary.
    other = Progress([0, 1, 2, 3, 4], [0, 20, 30, 50, 60])
    assert analysis.window([uneven, other]).variation == close(0)


def test_variation_takes_ten_slices_and_four_step_windows():
    t = np.arange(21)
    samples = np.concatenate([[0], np.cumsum(np.tile([10, 20], 10))])
    assert analysis.window([Progress(t, samples)]).variation == close(0)  # two in each slice
    assert analysis.window([Progress(t[:6], samples[:6])]).variation > 0.2
    assert analysis.window([Progress(t[:5], samples[:5])]).variation > 0.2
    assert math.isnan(analysis.window([Progress(t[:4], samples[:4])]).variation)


increments = st.lists(st.tuples(st.floats(0.01, 2), st.integers(1, 500)), min_size=1, max_size=25)


@st.composite
def progresses(draw):
    steps = np.array(draw(increments))
    t, samples = np.cumsum(np.vstack([[0, 0], steps]), axis=0).T
    return Progress(t, samples)


teams = st.lists(progresses(), min_size=1, max_size=5)


def same(one, other):
    return other == pytest.approx(one, rel=1e-6, nan_ok=True)


@given(teams, st.floats(0.1, 100))
def test_scaling_time_scales_rates(workers, k):
    before = analysis.window(workers)
    after = analysis.window([Progress(w.t * k, w.samples) for w in workers])
    assert after.end == close(before.end * k)
    assert after.rates == close(before.rates / k)
    assert after.samples_per_second == close(before.samples_per_second / k)
    assert after.imbalance == pytest.approx(before.imbalance, rel=1e-6, abs=1e-6)
    assert after.variation == pytest.approx(before.variation, abs=1e-6, nan_ok=True)


@given(teams, st.integers(2, 9))
def test_scaling_samples_scales_rates(workers, k):
    before = analysis.window(workers)
    after = analysis.window([Progress(w.t, w.samples * k) for w in workers])
    assert after.rates == close(before.rates * k)
    assert after.imbalance == pytest.approx(before.imbalance, rel=1e-6, abs=1e-6)


@given(teams, st.randoms())
def test_the_order_of_workers_is_irrelevant(workers, random):
    before, after = analysis.window(workers), analysis.window(random.sample(workers, len(workers)))
    assert sorted(after.rates) == close(sorted(before.rates))
    assert after.end == before.end
    assert after.samples_per_second == close(before.samples_per_second)
    assert after.imbalance == close(before.imbalance)
    assert after.variation == pytest.approx(before.variation, abs=1e-9, nan_ok=True)


@given(st.lists(st.tuples(increments, st.floats(1, 1000)), min_size=1, max_size=5))
def test_constant_rates_are_found_however_events_are_spaced(workers):
    progress = []
    for steps, rate in workers:
        t = np.concatenate([[0], np.cumsum([seconds for seconds, _ in steps])])
        progress.append(Progress(t, rate * t))
    window = analysis.window(progress)
    rates = np.array([rate for _, rate in workers])
    assert window.rates == close(rates)
    assert window.samples_per_second == close(rates.sum())
    assert window.imbalance == pytest.approx((rates.max() - rates.min()) / rates.mean(), abs=1e-6)
    assert not window.variation > 1e-6


@given(progresses(), st.floats(0, 1), st.floats(0.01, 100))
def test_a_pause_that_shifts_what_follows_leaves_the_rates(worker, where, length):
    begin = float(worker.t[int(where * (len(worker.t) - 2))])  # any point but the last
    later = worker.t + length * (worker.t > begin)
    before = analysis.window([worker])
    after = analysis.window([Progress(later, worker.samples, [(begin, begin + length)])])
    assert after.end == close(before.end + length)
    assert same(before.rates, after.rates)
    assert after.variation == pytest.approx(before.variation, abs=1e-6, nan_ok=True)


@given(teams)
def test_the_window_ends_with_the_first_worker(workers):
    window = analysis.window(workers)
    assert window.end == min(worker.t[-1] for worker in workers)
    first = next(i for i, worker in enumerate(workers) if worker.t[-1] == window.end)
    assert window.rates[first] == close(workers[first].samples[-1] / window.end)
    assert window.imbalance >= 0


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        ([], "no worker"),
        ([Progress([0], [0])], "worker 0 did not train"),
        ([Progress([0, 1], [0, 9]), Progress([0], [0])], "worker 0 did not train"),
        ([Progress([0, 1], [0, 9]), Progress([0, 3], [0, 9], [(0, 2)])], "worker 1 did not train"),
        (
            [Progress([0, 2], [0, 9], [(0, 1)]), Progress([0, 2], [0, 9], [(1, 2)])],
            "one paused",
        ),
        ([Progress([0, 1], [0, 0])], "no sample was trained on"),
    ],
)
def test_where_not_all_train_there_is_no_window(workers, message):
    with pytest.raises(MetricError, match=message):
        analysis.window(workers)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (([], []), "0 times"),
        (([0, 1], [0]), "2 times for 1 counts"),
        (([1, 2], [0, 5]), "begins at 1"),
        (([0, 2], [3, 5]), "with 3 samples"),
        (([0, 1, 1], [0, 1, 2]), "times do not rise"),
        (([0, math.nan], [0, 1]), "times do not rise"),
        (([0, 1, 2], [0, 5, 4]), "samples falls"),
        (([0, 1], [0, math.nan]), "samples falls, or is not a number"),
        (([0, 9], [0, 1], [(2, 1)]), "ends before it begins"),
        (([0, 9], [0, 1], [(1, 3), (2, 4)]), "overlaps"),
        (([0, 9], [0, 1], [(-1, 3)]), "before the barrier"),
        (([0, 0.7, 3.3, 9], [0, 1, 2, 3], [(0.1, 7.7)]), "during a pause"),
    ],
)
def test_what_is_no_progress_is_an_error(values, message):
    with pytest.raises(MetricError, match=message):
        Progress(*values)
