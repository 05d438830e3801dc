"""What chapter 4 draws of a text, and what it counts by hand in the published run."""

import numpy as np
import pytest

from labkit.course import method
from labkit.runs.tables import published

pytestmark = pytest.mark.unit


def test_counts_fall_with_their_rank_in_any_order():
    counts = [5, 100, 1, 20]
    (axes,) = method.ranks("4 Words", counts).axes
    rank, drawn = axes.lines[0].get_data()
    assert list(rank) == [1, 2, 3, 4] and list(drawn) == [100, 20, 5, 1]
    law = axes.lines[1].get_ydata()
    assert law == pytest.approx([100, 50, 100 / 3, 25])


def test_a_histogram_counts_each_whole_number():
    (axes,) = method.histogram("4 Lengths", "words", "sentences", [3, 3, 1], highlight=2).axes
    assert [bar.get_height() for bar in axes.patches] == [0, 1, 0, 2]
    assert list(axes.lines[0].get_xdata()) == [2, 2]


@pytest.mark.parametrize("name", ["trials", "steps", "evals"])
def test_the_published_run_has_all_three_tables(name):
    table = published(name)
    assert len(table) and set(table.framework) == {"tensorflow", "mxnet"}


def test_the_published_rates_follow_from_the_published_reports():
    """The window by hand, as the notebook teaches it, for every trial that has a rate."""
    trials, steps = published("trials"), published("steps")
    compared = 0
    # Where the window begins with the training: pods with a share of a core are limited first.
    plain = trials[(trials.paused_s.abs() < 1e-6) & trials.cpu.isna()]
    for _, trial in plain.iterrows():
        reports = steps[steps.trial == trial.trial]
        last = reports.groupby("worker").tail(1)
        end = last.t.min()
        done = sum(
            np.interp(end, [0, *own.t], [0, *own.samples]) for _, own in reports.groupby("worker")
        )
        by_hand = done / (trial.batch_size * end)
        assert by_hand == pytest.approx(trial.batches_per_second, rel=1e-6)
        compared += 1
    assert compared > 50
