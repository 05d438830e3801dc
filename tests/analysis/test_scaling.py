"""From tables of trials to rates and speedups."""

import math

import pandas as pd
import pytest
from tidy_tables import lose, trials

from labkit import analysis
from labkit.analysis.equations import MetricError

pytestmark = pytest.mark.unit


def close(value, rel=1e-6):
    return pytest.approx(value, rel=rel, abs=1e-12)


def test_summarise_has_one_row_per_configuration():
    table = trials(workers=(1, 2), batch_sizes=(128, 256), repeats=3)
    summary = analysis.summarise(table)
    assert len(summary) == 8
    assert set(summary["n"]) == {3}
    one = table.query("framework == 'mxnet' and workers == 2 and batch_size == 128")
    row = summary.query("framework == 'mxnet' and workers == 2 and batch_size == 128").iloc[0]
    expected = analysis.geometric_interval(one["batches_per_second"])
    assert (row["mean"], row["low"], row["high"]) == (expected.mean, expected.low, expected.high)
    assert "seed" not in summary and "learning_rate" in summary


def test_summarise_takes_any_column():
    table = trials(workers=(1,), repeats=2)
    row = analysis.summarise(table, "epoch_s").query("framework == 'tensorflow'").iloc[0]
    times = table.query("framework == 'tensorflow'")["epoch_s"]
    assert row["mean"] == close(math.sqrt(times.iloc[0] * times.iloc[1]))
    rate = analysis.summarise(table).query("framework == 'tensorflow'").iloc[0]
    assert row["mean"] * rate["mean"] == close(60_000 / 512)


def test_no_interval_in_a_table_reaches_below_zero():
    table = trials(frameworks=("mxnet",), workers=(1,), repeats=2)
    table["batches_per_second"] = [45.0, 50.3]  # Student's t of two repeats is 12.7
    table["imbalance"] = [0.0, 0.1]
    for metric in ("batches_per_second", "imbalance"):
        row = analysis.summarise(table, metric).iloc[0]
        assert 0 <= row["low"] <= row["mean"] <= row["high"]
    table["change"] = [-2.0, 2.0]
    assert analysis.summarise(table, "change").iloc[0]["low"] < -2


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


DIFFERENCES = [
    ("host", "a", "b"), ("cpu_model", "Xeon", "EPYC"), ("cores", 64, 32), ("code", "0f", "1e"),
    ("congestion_control", "bbr", "cubic"),
    ("versions", "mxnet 1.9.1", "mxnet 1.9.0"),
]  # fmt: skip


def mixed(column, *values, seeds=2):
    """Return the trials of one framework, of which some differ in more than their seeds."""
    tables = [trials(frameworks=("mxnet",), workers=(1, 2), repeats=seeds) for _ in values]
    return pd.concat(
        [table.assign(**{column: value}) for table, value in zip(tables, values, strict=True)]
    )


@pytest.mark.parametrize(("column", "one", "other"), DIFFERENCES)
def test_what_differs_is_never_pooled(column, one, other):
    table = mixed(column, one, other)
    summary = analysis.summarise(table)
    assert len(summary) == 4 and set(summary["n"]) == {2}
    assert len(analysis.summarise(mixed(column, one, one))) == 2
    curves = analysis.speedups(table)
    assert sorted(curves[column].unique()) == sorted([one, other])
    # and what has one worker's rate only elsewhere has no speedup
    table = table[(table["workers"] == 1) == (table[column] == one)]
    assert analysis.speedups(table).set_index("workers")["speedup"].isna().to_dict() == {
        1: False,
        2: True,
    }


def test_one_seed_of_two_trainers_is_no_interval():
    summary = analysis.summarise(mixed("code", "0f", "1e", seeds=1))
    assert set(summary["n"]) == {1} and summary["low"].isna().all()


def test_a_failure_before_any_version_was_told_counts_beside_the_others():
    table = lose(mixed("versions", "mxnet 1.9.1"), workers=2, seed=2)
    table.loc[table["status"] == "failed", "versions"] = ""
    summary = analysis.summarise(table).set_index("workers")
    assert summary["n"].to_dict() == {1: 2, 2: 1}
    assert set(summary["versions"]) == {"mxnet 1.9.1"}


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
