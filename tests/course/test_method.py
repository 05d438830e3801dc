"""What chapter 4 shows of data sets and of the published run."""

from types import SimpleNamespace

import numpy as np
import pytest

from labkit.course import method

pytestmark = pytest.mark.unit


def made_up(images=40):
    """Return a data set whose images of class c are all of the grey c + 1."""
    labels = np.arange(images) % 10
    inputs = np.repeat(labels + 1, 28 * 28).reshape(images, 28, 28).astype(np.uint8)
    return SimpleNamespace(train_inputs=inputs, train_labels=labels)


def test_each_class_has_a_column_of_its_own_images():
    figure = method.gallery({"made up": made_up()}, {"made up": method.CLASSES}, rows=2)
    (axes,) = figure.axes
    pixels = axes.images[0].get_array()
    assert pixels.shape == (2 * method.CELL, 10 * method.CELL)
    for label, place in enumerate(axes.get_xticks()):
        column = pixels[:, int(place) - method.CELL // 2 : int(place) + method.CELL // 2]
        assert set(np.unique(column)) == {0, label + 1}
    names = [label.get_text().replace("\n", "") for label in axes.get_xticklabels()]
    assert names[0] == "T-shirt" and len(names) == 10


def test_the_seed_chooses_the_images():
    data, names = made_up(400), {"made up": method.DIGITS}
    data.train_inputs = np.random.default_rng(0).integers(1, 255, (400, 28, 28), np.uint8)
    figures = [method.gallery({"made up": data}, names, seed=seed) for seed in (1, 1, 2)]
    one, same, other = (figure.axes[0].images[0].get_array() for figure in figures)
    assert (one == same).all() and (one != other).any()


def test_there_is_a_block_for_each_data_set():
    data = {"first": made_up(), "second": made_up()}
    figure = method.gallery(data, {"first": method.DIGITS, "second": method.CLASSES})
    assert [axes.get_ylabel() for axes in figure.axes] == ["first", "second"]


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
    table = method.published(name)
    assert len(table) and set(table.framework) == {"tensorflow", "mxnet"}


def test_the_published_rates_follow_from_the_published_reports():
    """The window by hand, as the notebook teaches it, for every trial that has a rate."""
    trials, steps = method.published("trials"), method.published("steps")
    compared = 0
    for _, trial in trials[trials.paused_s.abs() < 1e-6].iterrows():
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
