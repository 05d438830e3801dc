"""Learning curves."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from reading import heights, labels, middle, note, results
from tidy_tables import lose, steps, trials

from labkit import analysis
from labkit.figures import FigureError, learning_curve, select

pytestmark = pytest.mark.unit


def given(frame, table, framework):
    """Return tables as `measure` returns them, of one framework."""
    return select(SimpleNamespace(table=table, steps=frame), framework=framework)


def curve(table, framework, **options):
    """Draw the learning curves of one framework."""
    return learning_curve(select(results(table), framework=framework), **options)


def hand_made(accuracy=(10, 40, 70), workers=2, seeds=(1,), **columns):
    """Return tables of trials of which every worker reports three windows of 10 steps."""
    table = trials(frameworks=("mxnet",), workers=(workers,), repeats=len(seeds))
    rows = [
        {"trial": trial, "worker": worker, "steps": 10 * (i + 1), "accuracy": float(a)}
        for trial in table["trial"]
        for worker in range(workers)
        for i, a in enumerate(accuracy)
    ]
    frame = pd.DataFrame(rows)
    frame["updates"] = frame["steps"] * workers
    frame["samples"] = frame["steps"] * 512
    frame["t"] = frame["steps"] / 4
    return frame, table.assign(**columns)


@pytest.mark.parametrize(
    ("x", "end", "label"),
    [("updates", 60, "updates"), ("samples", 15_360, "samples"), ("t", 7.5, "time")],
)
def test_a_learning_curve_by_hand(x, end, label):
    frame, table = hand_made()
    figure = learning_curve(given(frame, table, "mxnet"), x=x)
    (line, *_) = figure.axes[0].lines
    assert line.get_xdata() == pytest.approx(end * np.array([1, 3, 5]) / 6)
    assert heights(line) == pytest.approx([10, 40, 70])
    assert label in figure.axes[0].get_xlabel()


def test_a_learning_curve_weighs_steps_not_reports():
    frame, table = hand_made(workers=1)
    # One window of 1 step and one of 29, over the same steps as the cells that they fill.
    frame = frame.iloc[:2].assign(steps=[1, 30], updates=[1, 30], accuracy=[100.0, 10.0])
    (line, *_) = learning_curve(given(frame, table, "mxnet")).axes[0].lines
    # The first of two cells of 15 steps holds the step with 100 and 14 with 10.
    assert heights(line) == pytest.approx([(100 + 14 * 10) / 15, 10])


def test_a_learning_curve_is_the_mean_of_all_workers():
    frame, table = hand_made()
    frame.loc[frame["worker"] == 1, "accuracy"] += 10
    (line, *_) = learning_curve(given(frame, table, "mxnet")).axes[0].lines
    assert heights(line) == pytest.approx([15, 45, 75])


def test_bands_are_intervals_over_repeats():
    frame, table = hand_made(seeds=(1, 2, 3))
    for trial, more in zip(table["trial"], (0, 3, 9), strict=True):
        frame.loc[frame["trial"] == trial, "accuracy"] += more
    figure = learning_curve(given(frame, table, "mxnet"))
    (band,) = figure.axes[0].collections
    y = band.get_paths()[0].vertices[:, 1]
    first = analysis.interval([10, 13, 19])
    last = analysis.interval([70, 73, 79])
    assert y.min() == pytest.approx(first.low)
    assert y.max() == pytest.approx(last.high)
    assert "n = 3 repeats; bands: 95 % intervals" in note(figure)


def test_what_varies_tells_the_lines_apart():
    table = trials(workers=(1, 2), learning_rates=(0.025, 0.1), repeats=1)
    figure = curve(table, "tensorflow")
    assert labels(figure) == [
        *("1 worker, rate 0.025", "1 worker, rate 0.1"),
        *("2 workers, rate 0.025", "2 workers, rate 0.1"),
    ]
    assert figure.axes[0].get_title("left") == "Learning curve, TensorFlow, CNN, batch 512"
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata())]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 4
    table = trials(workers=(2,), initializers=("default", "xavier"), repeats=1)
    figure = curve(table, "mxnet")
    assert labels(figure) == ["initializer default", "initializer xavier"]
    assert figure.axes[0].get_title("left").endswith("rate 0.025, 2 workers")


def test_servers_and_steps_tell_lines_apart_only_where_nothing_else_does():
    table = trials(workers=(1, 2), repeats=1)  # mxnet: a server beside each worker
    table["steps"] = 400 // table["workers"]  # and fewer steps where there are more
    assert labels(curve(table, "mxnet")) == ["1 worker", "2 workers"]
    table = trials(frameworks=("tensorflow",), workers=(2,), repeats=1)
    more = table.assign(servers=2, trial="with two servers")
    table = pd.concat([table, more], ignore_index=True)
    assert labels(curve(table, "tensorflow")) == ["1 server", "2 servers"]


@pytest.mark.parametrize("x", ["updates", "samples"])
def test_oversubscribed_learning_curves_stay_valid_and_say_so(x):
    table = trials(workers=(1, 2, 4), cores=2)
    figure = curve(table, "tensorflow", x=x)
    assert "4 workers" in labels(figure)
    assert f"4 workers: valid on an oversubscribed machine: counts {x}, not seconds." in note(
        figure
    )


def test_oversubscribed_learning_curves_over_time_carry_a_warning():
    table = trials(workers=(1, 4), cores=2)
    said = note(curve(table, "tensorflow", x="t"))
    left = "Oversubscribed (more workers and dedicated servers than cores): 4 workers; these"
    assert left in said
    assert "valid" not in said
    table = trials(workers=(1, 2), cores=2)
    assert "versubscribed" not in note(curve(table, "tensorflow", x="t"))


def test_trials_that_failed_have_no_learning_curve():
    table = trials(workers=(1, 2, 4), learning_rates=(0.1,), repeats=2)
    frame = steps(table)
    table = lose(table, "diverged", framework="mxnet", workers=4)
    table = lose(table, framework="mxnet", workers=2, seed=1)
    figure = learning_curve(given(frame, table, "mxnet"))
    assert labels(figure) == ["1 worker", "2 workers"]
    said = note(figure).partition("Not measured: ")[2]
    assert said == "MXNet, workers 2 (1 of 2 repeats failed); MXNet, workers 4 (diverged)."


def test_an_overloaded_machine_spoils_seconds_but_not_updates():
    table = trials(workers=(1, 2), repeats=1)
    frame = steps(table)
    table = lose(table, "finished", overloaded=True, workers=2)
    assert labels(learning_curve(given(frame, table, "tensorflow"))) == ["1 worker", "2 workers"]
    figure = learning_curve(given(frame, table, "tensorflow"), x="t")
    assert labels(figure) == ["1 worker"]
    assert "TensorFlow, workers 2 (overloaded)" in note(figure)


def test_a_repeat_that_ends_early_ends_the_line():
    frame, table = hand_made(seeds=(1, 2))
    late = frame["trial"] == table["trial"][1]
    frame.loc[late, "t"] *= 2
    figure = learning_curve(given(frame, table, "mxnet"), x="t")
    assert max(figure.axes[0].lines[0].get_xdata()) < 7.5


def test_a_mistyped_x_is_an_error():
    with pytest.raises(FigureError, match="x: 'update'; did you mean 'updates'.*allowed: updates"):
        learning_curve(results(trials(workers=(1,))), x="update")


def test_panels_are_learning_curves_of_their_own():
    figure = learning_curve(results(trials(workers=(1, 2), repeats=1)), panels="framework")
    assert [axes.get_title("left") for axes in figure.axes] == ["TensorFlow", "MXNet"]
    assert labels(figure) == ["1 worker", "2 workers"]
    assert [len(axes.lines) for axes in figure.axes] == [2, 2]


def test_a_table_alone_has_no_learning_curve():
    with pytest.raises(FigureError, match="no steps; give the figure what `measure` returned"):
        learning_curve(trials(workers=(1,)))


def test_where_no_trial_reported_the_figure_says_so():
    made = results(trials(workers=(1, 2)))
    made.table = lose(made.table, model="lenet5")
    assert "Not measured: " in note(learning_curve(made))
    assert "not measured: the trials failed" in middle(learning_curve(made))
    made.steps = pd.DataFrame()  # as a store returns it if nothing has finished
    assert "Not measured: " in note(learning_curve(made))


def test_a_curve_of_one_report_is_a_dot():
    made = results(trials(workers=(1, 2), repeats=2), windows=1)
    made.steps.loc[made.steps["trial"].str.startswith("mxnet"), "accuracy"] -= 40  # no dot on dots
    figure = learning_curve(made)
    axes = figure.axes[0]
    axes.get_legend().remove()  # which has the same colours
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3] / 255
    assert len(axes.lines) == 4
    for line in axes.lines:
        assert len(line.get_xdata()) == 1
        near = np.abs(pixels - to_rgb(line.get_color())).max(axis=-1) < 0.02
        assert near.sum() > 5, line.get_label()
    assert not figure.empty


def test_trials_without_a_report_leave_no_empty_axes():
    made = results(trials(workers=(1,), repeats=1))
    made.steps = made.steps.iloc[:0]
    figure = learning_curve(made)
    assert "not measured: the trials reported no number" in middle(figure)
    assert labels(figure) == []
