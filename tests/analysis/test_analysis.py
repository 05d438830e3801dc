import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tidy_tables import lose, trials

from labkit import analysis
from labkit.analysis.equations import MetricError
from labkit.analysis.window import Progress
from labkit.errors import LabkitError

pytestmark = pytest.mark.unit

positive = st.floats(1e-3, 1e6)
factor = st.floats(0.01, 100)


def close(value, rel=1e-6):
    return pytest.approx(value, rel=rel, abs=1e-12)


# --- equations ------------------------------------------------------------------------------


def test_batches_per_second_of_a_case_by_hand():
    # 60,000 images in batches of 512 are 117.1875 batches; 8 epochs 937.5; in 375 s 2.5 a second.
    assert analysis.batches_per_second(60_000, 8, 1, 512, 375) == 2.5
    assert analysis.batches_per_second(60_000, 8, 10, 512, 375) == 25


@given(positive, positive, st.integers(1, 50), st.integers(1, 512), positive, factor)
def test_batches_per_second_scales_with_each_of_its_parts(s, e, w, b, d, k):
    rate = analysis.batches_per_second(s, e, w, b, d)
    assert analysis.batches_per_second(s * k, e, w, b, d) == close(rate * k)
    assert analysis.batches_per_second(s, e * k, w, b, d) == close(rate * k)
    assert analysis.batches_per_second(s, e, w * 3, b, d) == close(rate * 3)
    assert analysis.batches_per_second(s, e, w, b * 3, d) == close(rate / 3)
    assert analysis.batches_per_second(s, e, w, b, d * k) == close(rate / k)


@pytest.mark.parametrize("name", ["samples", "epochs", "workers", "batch_size", "duration"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_batches_per_second_of_nothing_is_an_error_that_names_it(name, value):
    good = {"samples": 100, "epochs": 1, "workers": 1, "batch_size": 10, "duration": 1}
    with pytest.raises(MetricError, match=f"^{name}: {value}"):
        analysis.batches_per_second(**good | {name: value})


def test_speedup_of_a_case_by_hand():
    assert analysis.speedup(30, 7.5) == 4


@given(positive, positive, factor)
def test_speedup_compares_rates_in_any_unit(rate, one, k):
    assert analysis.speedup(rate, rate) == 1
    assert analysis.speedup(rate * k, one * k) == close(analysis.speedup(rate, one))
    assert analysis.speedup(one, rate) == close(1 / analysis.speedup(rate, one))


@pytest.mark.parametrize("rates", [(0, 1), (1, 0), (-1, 1), (1, -1), (math.nan, 1), (1, math.inf)])
def test_speedup_of_nothing_is_an_error(rates):
    with pytest.raises(MetricError, match="rate"):
        analysis.speedup(*rates)


def test_accuracy_of_a_case_by_hand():
    assert analysis.accuracy(45, 60) == 75
    assert analysis.accuracy(0, 7) == 0
    assert analysis.accuracy(7, 7) == 100


@given(st.integers(1, 10_000), st.data())
def test_right_and_wrong_answers_are_all_answers(total, data):
    correct = data.draw(st.integers(0, total))
    parts = analysis.accuracy(correct, total) + analysis.accuracy(total - correct, total)
    assert parts == close(100)


@pytest.mark.parametrize(
    "answers", [(0, 0), (1, 0), (-1, 2), (3, 2), (math.nan, 2), (1, math.nan)]
)
def test_accuracy_of_impossible_answers_is_an_error(answers):
    with pytest.raises(MetricError, match="correct|total"):
        analysis.accuracy(*answers)


def test_entropy_and_perplexity_of_a_case_by_hand():
    # -(ln 1/2 + ln 1/4) / 2 = (3 ln 2) / 2, and e to it is the root of 8.
    assert analysis.entropy([0.5, 0.25]) == close(1.5 * math.log(2))
    assert analysis.perplexity(analysis.entropy([0.5, 0.25])) == close(math.sqrt(8))


@given(st.integers(1, 10_000), st.integers(1, 20))
def test_a_guess_among_k_has_perplexity_k(k, targets):
    assert analysis.perplexity(analysis.entropy(np.full(targets, 1 / k))) == close(k)


@given(st.lists(st.floats(1e-6, 1), min_size=1), st.randoms())
def test_entropy_is_a_mean_over_targets_in_any_order(p, random):
    shuffled = random.sample(p, len(p))
    assert analysis.entropy(shuffled) == close(analysis.entropy(p))
    assert analysis.entropy([p, p]) == close(analysis.entropy(p))
    assert analysis.entropy(p) >= 0


@pytest.mark.parametrize("p", [[], [0.5, 0], [-0.1], [1.1], [math.nan]])
def test_entropy_of_what_is_no_probability_is_an_error(p):
    with pytest.raises(MetricError, match="probabilities"):
        analysis.entropy(p)


def test_perplexity_at_its_ends():
    assert analysis.perplexity(0) == 1
    assert analysis.perplexity(1e4) == math.inf
    for entropy in (-0.1, math.nan):
        with pytest.raises(MetricError, match="entropy"):
            analysis.perplexity(entropy)


def test_a_metric_error_is_one_that_users_see():
    assert issubclass(MetricError, LabkitError)
    assert issubclass(MetricError, ValueError)


# --- the window -----------------------------------------------------------------------------


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
    # b trained for 2 of the 3 s: 10 samples in the first, half of the next 20 in the last.
    assert window.rates == close([20 / 3, 10])


def test_a_pause_counts_only_as_far_as_it_lies_in_the_window():
    a = Progress([0, 2], [0, 20])
    b = Progress([0, 1, 9], [0, 10, 30], pauses=[(1, 7), (8, 8.5)])
    assert analysis.window([a, b]).rates == close([10, 10])


def test_steadiness_of_cases_by_hand():
    # Slices of 10, 20, 10 and 20 samples a second: mean 15, standard deviation root(100 / 3).
    uneven = Progress([0, 1, 2, 3, 4], [0, 10, 30, 40, 60])
    assert uneven.rates(end=4, slices=4) == close([10, 20, 10, 20])
    assert analysis.window([uneven]).variation == close(math.sqrt(100 / 3) / 15)
    # It is the total that counts: where one is slow while the other is fast, it is steady.
    other = Progress([0, 1, 2, 3, 4], [0, 20, 30, 50, 60])
    assert analysis.window([uneven, other]).variation == close(0)


def test_steadiness_takes_ten_slices_and_four_step_windows():
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


# --- intervals ------------------------------------------------------------------------------


def test_interval_with_tabulated_t_values():
    found = analysis.interval([1, 2, 3])  # standard error 1 / root 3, t(0.975, 2) = 4.30265
    assert (found.mean, found.n) == (2, 3)
    assert found.low == close(2 - 4.30265 / math.sqrt(3), rel=1e-5)
    assert found.high == close(2 + 4.30265 / math.sqrt(3), rel=1e-5)
    found = analysis.interval([10, 12])  # standard error 1, t(0.975, 1) = 12.7062
    assert (found.low, found.high) == (close(11 - 12.7062, 1e-5), close(11 + 12.7062, 1e-5))
    found = analysis.interval([1, 2, 3], level=0.9)  # t(0.95, 2) = 2.91999
    assert found.high == close(2 + 2.91999 / math.sqrt(3), rel=1e-5)


def test_a_single_repeat_has_no_interval():
    for found in (analysis.interval([7]), analysis.speedup_interval([7], [7, 8])):
        assert math.isnan(found.low) and math.isnan(found.high)
        assert found.n == 1
    assert analysis.interval([7]).mean == 7


def test_intervals_hold_the_true_value_as_often_as_they_say():
    random = np.random.default_rng(4)
    hits = ratios = 0
    for _ in range(1500):
        found = analysis.interval(random.normal(50, 5, 4))
        hits += found.low <= 50 <= found.high
        many = np.exp(random.normal(math.log(30), 0.10, 5))
        one = np.exp(random.normal(math.log(10), 0.03, 4))
        found = analysis.speedup_interval(many, one)
        ratios += found.low <= 3 <= found.high
    assert 0.93 < hits / 1500 < 0.97
    assert 0.93 < ratios / 1500 < 0.97


@given(st.lists(positive, min_size=2, max_size=8), factor, st.randoms())
def test_interval_scales_with_its_values_in_any_order(values, k, random):
    one = analysis.interval(values)
    other = analysis.interval([k * v for v in random.sample(values, len(values))])
    for end in ("low", "mean", "high"):
        expected = pytest.approx(k * getattr(one, end), abs=1e-6 * k * max(values))
        assert getattr(other, end) == expected
    assert one.low <= one.mean <= one.high


def test_speedup_interval_of_a_case_by_hand():
    # Logs: means 1.1 and 0.1; squared errors 0.01 and 0.01 / 3; degrees of freedom
    # (0.04 / 3)^2 / (0.01^2 / 1 + (0.01 / 3)^2 / 2) = 1.684.
    found = analysis.speedup_interval(np.exp([1.0, 1.2]), np.exp([0, 0.1, 0.2]))
    half = stats.t.ppf(0.975, 32 / 19) * math.sqrt(0.04 / 3)
    assert found.mean == close(math.e)
    assert (found.low, found.high) == (close(math.exp(1 - half)), close(math.exp(1 + half)))
    assert found.n == 2


rates = st.lists(st.floats(50, 200), min_size=2, max_size=8)


@given(rates, rates, factor)
def test_speedup_interval_follows_welch_and_does_not_depend_on_the_unit(many, one, k):
    found = analysis.speedup_interval(many, one)
    if min(np.std(many), np.std(one)) > 1e-3:
        welch = stats.ttest_ind(np.log(many), np.log(one), equal_var=False)
        low, high = welch.confidence_interval(0.95)
        assert (found.low, found.high) == (close(math.exp(low)), close(math.exp(high)))
    scaled = analysis.speedup_interval([k * r for r in many], [k * r for r in one])
    assert scaled.mean == close(found.mean)
    swapped = analysis.speedup_interval(one, many)
    assert swapped.mean == close(1 / found.mean)
    assert swapped.low == close(1 / found.high)
    assert found.n == min(len(many), len(one))


@given(rates)
def test_speedup_of_equal_rates_is_one(values):
    found = analysis.speedup_interval(values, values)
    assert found.mean == close(1)
    assert found.low <= found.mean <= found.high


def test_repeats_that_agree_exactly_leave_no_doubt():
    found = analysis.speedup_interval([8, 8], [2, 2, 2])
    assert (found.mean, found.low, found.high) == (close(4), close(4), close(4))


@pytest.mark.parametrize("values", [[], [1, math.nan], [1, math.inf]])
def test_interval_of_what_is_not_measured_is_an_error(values):
    with pytest.raises(MetricError, match="values"):
        analysis.interval(values)


@pytest.mark.parametrize("values", [[], [1, math.nan], [1, 0], [-1]])
def test_speedup_interval_of_what_is_no_rate_is_an_error(values):
    with pytest.raises(MetricError, match="rates: "):
        analysis.speedup_interval(values, [1, 2])
    with pytest.raises(MetricError, match="rates_of_one: "):
        analysis.speedup_interval([1, 2], values)


@pytest.mark.parametrize("level", [0, 1, 95, math.nan])
def test_a_level_is_between_0_and_1(level):
    with pytest.raises(MetricError, match="level"):
        analysis.interval([1, 2], level)


# --- tables ---------------------------------------------------------------------------------


def test_summarise_has_a_row_a_configuration():
    table = trials(workers=(1, 2), batch_sizes=(128, 256), repeats=3)
    summary = analysis.summarise(table)
    assert len(summary) == 8
    assert set(summary["n"]) == {3}
    one = table.query("framework == 'mxnet' and workers == 2 and batch_size == 128")
    row = summary.query("framework == 'mxnet' and workers == 2 and batch_size == 128").iloc[0]
    expected = analysis.interval(one["batches_per_second"])
    assert (row["mean"], row["low"], row["high"]) == (expected.mean, expected.low, expected.high)
    assert "seed" not in summary and "learning_rate" in summary


def test_summarise_takes_any_column():
    table = trials(workers=(1,), repeats=2)
    row = analysis.summarise(table, "epoch_s").query("framework == 'tensorflow'").iloc[0]
    assert row["mean"] == close(table.query("framework == 'tensorflow'")["epoch_s"].mean())


def test_summarise_counts_only_what_was_measured():
    table = lose(trials(workers=(1, 2)), framework="mxnet", workers=1, seed=2)
    table = lose(table, framework="mxnet", workers=2)
    summary = analysis.summarise(table).set_index(["framework", "workers"])
    assert summary.loc[("mxnet", 1), "n"] == 2
    assert summary.loc[("mxnet", 2), "n"] == 0
    assert summary.loc[("mxnet", 2), ["mean", "low", "high"]].isna().all()


def test_summarise_keeps_oversubscribed_and_other_trials_apart():
    table = pd.concat([trials(workers=(4,), cores=8), trials(workers=(4,), cores=2)])
    assert len(analysis.summarise(table)) == 4


def test_speedups_by_hand():
    table = trials(frameworks=("mxnet",), workers=(1, 4), repeats=2)
    table["batches_per_second"] = [8.0, 12.5, 20.0, 45.0]  # geometric means 10 and 30
    found = analysis.speedups(table).set_index("workers")
    assert found.loc[1, ["speedup", "low", "high"]].tolist() == [1, 1, 1]
    expected = analysis.speedup_interval([20, 45], [8, 12.5])
    assert found.loc[4, "speedup"] == close(3) == close(expected.mean)
    assert found.loc[4, ["low", "high"]].tolist() == [expected.low, expected.high]
    assert found.loc[4, "n"] == 2


def test_speedups_compare_with_one_worker_of_the_same_configuration():
    table = trials(workers=(1, 2), batch_sizes=(128, 512), spread=0)
    found = analysis.speedups(table).query("workers == 2")
    assert len(found) == 4
    for framework, half in (("tensorflow", 120), ("mxnet", 60)):
        expected = 2 / (1 + 2 / half) * (1 + 1 / half)
        of_it = found.loc[found["framework"] == framework, "speedup"]
        assert of_it.tolist() == close([expected] * 2)


def test_oversubscribed_trials_have_no_speedup():
    found = analysis.speedups(trials(workers=(1, 2, 4), cores=2))
    assert set(found["workers"]) == {1, 2}
    nothing = analysis.speedups(trials(workers=(2, 4), cores=1))
    assert nothing.empty and "speedup" in nothing


def test_speedups_without_either_rate_are_nan():
    without_one = analysis.speedups(lose(trials(workers=(1, 2)), framework="mxnet", workers=1))
    row = without_one.query("framework == 'mxnet' and workers == 2").iloc[0]
    assert row[["speedup", "low", "high"]].isna().all()
    assert row["n"] == 0
    without_many = analysis.speedups(lose(trials(workers=(1, 2)), framework="mxnet", workers=2))
    found = without_many.query("framework == 'mxnet'").set_index("workers")["speedup"]
    assert found[1] == 1 and math.isnan(found[2])


def test_speedups_refuse_to_choose_between_baselines():
    other = trials(frameworks=("tensorflow",), workers=(1, 2)).assign(servers=2)
    with pytest.raises(MetricError, match=r"servers: \[1, 2\] with one worker"):
        analysis.speedups(pd.concat([trials(workers=(1, 2)), other]))


def test_tables_without_the_column_are_an_error():
    with pytest.raises(MetricError, match="no column loss"):
        analysis.summarise(trials(), "loss")
    with pytest.raises(MetricError, match="no column oversubscribed"):
        analysis.speedups(trials().drop(columns="oversubscribed"))
