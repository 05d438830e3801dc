"""Plateaus of one batch size beside a guess, and beside what another batch size predicts."""

import math

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.thesis.plateaus import beside, plateaus, with_more

pytestmark = pytest.mark.unit


def table(*rows):
    """Return what `plateaus` does, of (batch size, workers, updates, share in percent)."""
    low = pd.DataFrame(rows, columns=["batch_size", "workers", "updates", "share"])
    low["samples"] = low["updates"] * low["batch_size"] // low["workers"]
    return low.set_index(["batch_size", "workers"])


@given(
    st.integers(1, 5000), st.integers(1, 64), st.integers(1, 64), st.integers(1, 64),
)  # fmt: skip
def test_plateaus_that_are_equally_long_in_updates_are_predicted(updates, batch, n, m):
    each = updates * n * m  # so that nothing is rounded
    low = table((batch, n, each, 50), (batch + 7, m, each, 50))
    found = beside(low, batch, [n], None).table
    assert found.loc[n, "predicted"] == pytest.approx(found.loc[n, "measured"], abs=0.1)
    assert abs(found.loc[n, "predicted off [%]"]) <= 0.1


def test_a_guess_stands_beside_both():
    low = table((5, 1, 1800, 40), (5, 10, 2000, 50), (32, 5, 1900, 80))
    found = beside(low, 5, [1, 10], [4500, 2000]).table
    assert found["guess"].tolist() == [4500, 2000]
    assert found["predicted"].tolist() == [9500, 950]
    assert found["measured"].tolist() == [9000, 1000]
    assert found["guess off [%]"].tolist() == [-50, 100]
    assert found["predicted off [%]"].tolist() == [5.6, -5]


def test_a_plateau_without_end_predicts_nothing_and_measures_nothing():
    found = beside(table((5, 1, 1800, 99), (32, 1, 480, 100)), 5, [1, 10], None)
    assert found.table.map(math.isnan).all(axis=None)
    assert found.reading == (
        "No prediction: no trial with another batch size was seen to leave a plateau. "
        "Not measured with 1, 10 (workers): no plateau, or no end of it."
    )
    nothing = plateaus(pd.DataFrame(), ["batch_size", "workers"])
    assert beside(nothing, 5, [1, 10], None).reading == found.reading
    assert "No prediction" not in beside(table((32, 1, 480, 80)), 5, [1], None).reading


def by_framework(*rows):
    """Return what `plateaus` does, of (framework, workers, updates, share in percent)."""
    low = pd.DataFrame(rows, columns=["framework", "workers", "updates", "share"])
    return low.set_index(["framework", "workers"])


def test_how_much_longer_plateaus_are_with_more_workers():
    """Of the most and the fewest; a plateau without end, or none at all, is no number."""
    low = by_framework(
        ("mxnet", 1, 400, 80), ("mxnet", 2, 1, 1), ("mxnet", 5, 500, 60),
        ("tensorflow", 1, 0, 0), ("tensorflow", 5, 90, 20),
    )  # fmt: skip
    found = with_more(low, 2.0)
    assert found.table["guess"].tolist() == [2, 2]
    assert found.table["predicted"].tolist() == [1, 1]
    assert found.table.loc["mxnet", "measured"] == 1.25
    assert math.isnan(found.table.loc["tensorflow", "measured"])
    assert "as with 1 does the plateau take with 5?" in repr(found)
    assert "Not measured: TensorFlow, as not both" in repr(found)
    assert "guess" not in with_more(low, None).table


def test_without_any_report_nothing_is_longer():
    assert "Not measured." in repr(with_more(by_framework(), 2.0))
