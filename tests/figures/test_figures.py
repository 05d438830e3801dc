import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text
from tidy_tables import lose, steps, trials

from labkit import analysis, figures
from labkit.errors import LabkitError
from labkit.figures.style import FigureError
from labkit.thesis.figures import FIGURES

pytestmark = pytest.mark.unit

CURVES = {number for number, row in FIGURES.items() if row.tables == ("steps", "table")}


@pytest.fixture(scope="module")
def everything():
    """A store's two tables, with the trials of all figures and some more."""
    small = {"workers": (1, 2, 4), "repeats": 2}
    parts = [
        trials(batch_sizes=(5, 128, 256, 512), **small),
        trials(model="lstm", batch_sizes=(5, 20), learning_rates=(0.05,), **small),
    ]
    table = pd.concat(parts, ignore_index=True)
    return {"table": table, "steps": steps(table[table["model"] == "lenet5"], windows=8)}


@pytest.fixture(scope="module")
def drawn(everything):
    """All figures, drawn once."""
    return {number: draw(number, everything) for number in FIGURES}


def draw(number, tables):
    row = FIGURES[number]
    tables = tables | {"table": row.select(tables["table"])}
    return row.function(*(tables[name] for name in row.tables))


def series(figure):
    """Return what is drawn with error bars: a list of (label, line, bars), in order."""
    found = []
    for container in figure.axes[0].containers:
        line, _, (bars,) = container.lines
        if len(line.get_xdata()):
            ends = np.array([s[:, 1] if len(s) else (math.nan,) * 2 for s in bars.get_segments()])
            found.append((container.get_label(), line, ends))
    return found


def heights(line):
    return line.get_ydata(orig=False)


def labels(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def note(figure):
    return " ".join(figure.get_supxlabel().split())


def texts(figure):
    return [t for t in figure.findobj(Text) if t.get_text() and t.get_visible()]


def look(line):
    return to_hex(line.get_color()), line.get_marker(), line._unscaled_dash_pattern


# --- all figures ----------------------------------------------------------------------------


@pytest.mark.parametrize("number", FIGURES)
def test_every_figure_is_drawn_readably(number, drawn):
    figure = drawn[number]
    axes = figure.axes[0]
    assert axes.get_title("left").startswith(f"{number} ")
    assert axes.get_xlabel() and axes.get_ylabel()
    assert min(text.get_fontsize() for text in texts(figure)) >= 8
    assert not any("not measured" in text.get_text() for text in texts(figure))
    assert "n = 2 repeats" in note(figure) and "95 % intervals" in note(figure)
    assert {text.get_fontname() for text in texts(figure)} == {"DejaVu Sans"}
    # All points lie within the axes, and all notes within the figure.
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    for line in axes.lines:
        x, y = (np.asarray(d, float) for d in (line.get_xdata(), line.get_ydata()))
        drawn = np.isfinite(y)
        assert ((left <= x) & (x <= right) & (low <= y) & (y <= high))[drawn].all()
    frame = figure.bbox.padded(1)
    ticks = [*axes.get_xticklabels(), *axes.get_yticklabels()]  # some lie beyond the limits
    for text in set(texts(figure)) - set(ticks):
        box = text.get_window_extent()
        assert frame.contains(box.x0, box.y0) and frame.contains(box.x1, box.y1), text


def test_figures_leave_nothing_behind_in_matplotlib(tmp_path):
    before = dict(plt.rcParams)
    figures.save(figures.figure_6_3(trials(workers=(1, 2))), tmp_path / "6.3")
    assert plt.get_fignums() == []
    assert dict(plt.rcParams) == before


def test_the_rows_say_what_the_figures_show(drawn):
    assert list(FIGURES) == [
        *("6.1a", "6.1b", "6.2a", "6.2b", "6.3", "6.4a", "6.4b", "6.5a", "6.5b", "6.6", "6.7"),
        *("6.8a", "6.8b", "6.9", "6.10a", "6.10b"),
    ]
    for number, row in FIGURES.items():
        kind, network, batch = row.title.split(", ")[:3]
        title = drawn[number].axes[0].get_title("left")
        assert title.startswith(f"{number} {kind}")
        assert network in title
        assert batch in title or "to" in batch
        assert row.function.__doc__


def test_a_row_selects_its_trials(everything):
    table = everything["table"]
    chosen = FIGURES["6.4b"].select(table)
    assert set(chosen["batch_size"]) == {256, 512}
    assert set(chosen["model"]) == {"lenet5"}
    assert set(FIGURES["6.9"].select(table)["model"]) == {"lstm"}


def test_find_names_the_nearest_figure():
    assert figures.find("6.3") is FIGURES["6.3"]
    with pytest.raises(FigureError, match=r"'6.1': no such figure; did you mean '6\.1"):
        figures.find("6.1")
    with pytest.raises(FigureError, match=r"known: 6\.1a, "):
        figures.find("seven")


def test_a_framework_looks_the_same_in_all_figures(drawn, everything):
    looks = {"TensorFlow": set(), "MXNet": set()}
    for number in set(FIGURES) - CURVES:
        for label, line, _ in series(drawn[number]):
            looks[label].add(look(line))
    only = trials(frameworks=("mxnet",), workers=(1, 2))
    looks["MXNet"].add(look(series(figures.figure_6_3(only))[0][1]))
    (tensorflow,), (mxnet,) = looks["TensorFlow"], looks["MXNet"]
    # In print and to colour-blind eyes they differ by more than their colour.
    assert all(a != b for a, b in zip(tensorflow, mxnet, strict=True))
    # Learning curves have the framework's line and, of a single one, its colour and marker.
    one = FIGURES["6.2a"].select(everything["table"])
    assert look(figures.figure_6_2a(everything["steps"], one).axes[0].lines[0])[:2] == mxnet[:2]


def test_frameworks_to_come_get_styles_of_their_own():
    names = ["tensorflow", "mxnet", *(f"framework {i}" for i in range(12))]
    found = figures.styles(names)
    assert len({(s.colour, s.marker, s.dashes) for s in found.values()}) == len(names)
    assert len({s.colour for s in found.values()}) == 10
    assert {name: found[name] for name in ("tensorflow", "mxnet")} == figures.styles()
    figure = figures.figure_6_3(trials(frameworks=names[1:5], workers=(1, 2)))
    assert labels(figure) == ["MXNet", "framework 0", "framework 1", "framework 2"]


# --- throughput and duration ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "column"), [("6.3", "batches_per_second"), ("6.8b", "epoch_s")]
)
def test_points_are_means_with_their_intervals(number, column):
    table = trials(workers=(1, 2, 5, 25))
    figure = FIGURES[number].function(table)
    assert labels(figure) == ["TensorFlow", "MXNet"]
    for framework, (_, line, bars) in zip(("tensorflow", "mxnet"), series(figure), strict=True):
        groups = table[table["framework"] == framework].groupby("workers")[column]
        expected = [analysis.interval(group) for _, group in groups]
        assert line.get_xdata().tolist() == [1, 2, 5, 25]
        assert heights(line) == pytest.approx([e.mean for e in expected])
        assert bars == pytest.approx(np.array([(e.low, e.high) for e in expected]))
        assert line.get_linestyle() != "None"
    axes = figure.axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "5", "25"]
    assert axes.get_ylim()[0] == 0


def test_frameworks_stand_side_by_side_at_one_x():
    figure = figures.figure_6_3(trials(workers=(1, 2)))
    (_, tensorflow, _), (_, mxnet, _) = series(figure)
    left, right = (line.get_transform().transform((2, 0))[0] for line in (tensorflow, mxnet))
    tick = figure.axes[0].transData.transform((2, 0))[0]
    point = figure.dpi / 72
    assert tick - 3 * point <= left < tick < right <= tick + 3 * point


def test_duration_says_that_it_is_computed():
    figure = figures.figure_6_8b(trials(workers=(1, 2)))
    label = figure.axes[0].get_ylabel()
    assert "time for one epoch [s]" in label and "from the measured rate" in label


def test_duration_over_batch_sizes_is_that_of_one_worker():
    table = trials(workers=(1, 2), batch_sizes=(512, 128, 256))
    figure = figures.figure_6_5b(table)
    axes = figure.axes[0]
    assert axes.get_title("left") == "6.5b Duration with 1 worker, CNN"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["128", "256", "512"]
    one = table.query("framework == 'mxnet' and workers == 1").groupby("batch_size")["epoch_s"]
    (_, _, _), (label, line, _) = series(figure)
    assert label == "MXNet"
    assert heights(line) == pytest.approx(one.mean().to_numpy())


def test_oversubscribed_points_are_hollow_and_joined_by_no_line():
    figure = figures.figure_6_5a(trials(workers=(1, 2, 4, 8), cores=2))
    for k, colour in ((0, "TensorFlow"), (2, "MXNet")):
        (label, measured, _), (unnamed, shared, bars) = series(figure)[k : k + 2]
        assert label == colour and unnamed.startswith("_")
        assert measured.get_xdata().tolist() == [1, 2]
        assert measured.get_markerfacecolor() == measured.get_color()
        assert shared.get_xdata().tolist() == [4, 8]
        assert shared.get_markerfacecolor() == "white"
        assert shared.get_linestyle() == "None"
        assert shared.get_marker() == measured.get_marker()
        assert shared.get_color() == measured.get_color()
        assert np.isfinite(bars).all()
    assert labels(figure) == ["TensorFlow", "MXNet", "oversubscribed: more workers than cores"]
    assert "say nothing about scaling" in note(figure)


def test_without_oversubscribed_points_nothing_is_said_of_them():
    figure = figures.figure_6_3(trials(workers=(1, 2)))
    assert "ime-shared" not in note(figure) + " ".join(labels(figure))


def test_what_is_not_measured_is_left_out_and_named():
    table = lose(trials(), framework="mxnet", workers=25)
    table = lose(table, framework="mxnet", workers=50)
    table = lose(table, "diverged", framework="tensorflow", workers=50, seed=2)
    table = lose(table, "finished", overloaded=True, framework="tensorflow", workers=5)
    table = lose(table, "finished", framework="tensorflow", workers=2)
    figure = figures.figure_6_3(table)
    (_, tensorflow, _), (_, mxnet, _) = series(figure)
    # A gap stays a gap: a line across it would show what was not measured.
    assert np.isnan(heights(tensorflow)).tolist() == [False, True, True, False, False, False]
    assert np.isnan(heights(mxnet)).tolist() == [False] * 4 + [True] * 2
    assert "n = 2 to 3 repeats" in note(figure)
    said = note(figure).partition("Not measured: ")[2]
    assert set(said.removesuffix(".").split("; ")) == {
        "MXNet, workers 25, 50 (failed)",
        "TensorFlow, workers 2 (no number)",
        "TensorFlow, workers 5 (overloaded)",
        "TensorFlow, workers 50 (1 of 3 repeats diverged)",
    }


def test_a_single_run_has_no_bars_and_says_so():
    figure = figures.figure_6_3(trials(workers=(1, 2), repeats=1))
    assert all(np.isnan(bars).all() for _, _, bars in series(figure))
    assert "(n = 1): no intervals" in note(figure)
    mixed = lose(trials(workers=(1, 2), repeats=2), workers=2, seed=1)
    assert "n = 1 to 2 repeats; bars: 95 % intervals; none where n = 1" in note(
        figures.figure_6_3(mixed)
    )


# --- speedup --------------------------------------------------------------------------------


def test_speedup_is_drawn_beside_the_ideal():
    table = trials(model="lstm", batch_sizes=(20,))
    figure = figures.figure_6_7(table)
    expected = analysis.speedups(table).query("framework == 'mxnet'")
    (_, _, _), (label, line, bars) = series(figure)
    assert label == "MXNet"
    assert heights(line) == pytest.approx(expected["speedup"].to_numpy())
    assert bars == pytest.approx(expected[["low", "high"]].to_numpy())
    (ideal,) = [line for line in figure.axes[0].lines if line.get_label() == "ideal"]
    assert ideal.get_xdata().tolist() == ideal.get_ydata().tolist() == [1, 50]
    assert labels(figure) == ["TensorFlow", "MXNet", "ideal"]
    assert figure.axes[0].get_title("left") == "6.7 Speedup, RNN, batch 20"


def test_speedup_never_shows_oversubscribed_points():
    figure = figures.figure_6_6(trials(workers=(1, 2, 4, 8), cores=2))
    for _, line, _ in series(figure):
        assert line.get_xdata().tolist() == [1, 2]
    ticks = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert ticks == ["1", "2"]
    assert "Left out, oversubscribed (more workers than cores): 4, 8 workers." in note(figure)


def test_without_one_worker_there_is_no_speedup_and_the_figure_says_so():
    figure = figures.figure_6_6(lose(trials(workers=(1, 2)), framework="mxnet", workers=1))
    (_, tensorflow, _), (_, mxnet, _) = series(figure)
    assert np.isfinite(heights(tensorflow)).all()
    assert np.isnan(heights(mxnet)).all()
    assert "Not measured: MXNet, workers 1 (failed)." in note(figure)
    assert "No speedup of MXNet: its rate with one worker is not measured." in note(figure)
    assert "No speedup of TensorFlow" not in note(figure)


def test_if_all_is_oversubscribed_no_speedup_is_measured():
    figure = figures.figure_6_6(trials(workers=(2, 4), cores=1))
    assert "not measured" in [text.get_text() for text in texts(figure)]
    assert not any(line.get_label() == "ideal" for line in figure.axes[0].lines)
    assert "Left out, oversubscribed" in note(figure)


# --- learning curves ------------------------------------------------------------------------


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
    figure = figures.figure_6_1b(frame, table, x=x)
    (line, *_) = figure.axes[0].lines
    assert line.get_xdata() == pytest.approx(end * np.array([1, 3, 5]) / 6)
    assert heights(line) == pytest.approx([10, 40, 70])
    assert label in figure.axes[0].get_xlabel()


def test_a_learning_curve_weighs_steps_not_reports():
    frame, table = hand_made(workers=1)
    # One window of 1 step and one of 29, over the same steps as the cells that they fill.
    frame = frame.iloc[:2].assign(steps=[1, 30], updates=[1, 30], accuracy=[100.0, 10.0])
    (line, *_) = figures.figure_6_1b(frame, table).axes[0].lines
    # The first of two cells of 15 steps holds the step with 100 and 14 with 10.
    assert heights(line) == pytest.approx([(100 + 14 * 10) / 15, 10])


def test_a_learning_curve_is_the_mean_of_all_workers():
    frame, table = hand_made()
    frame.loc[frame["worker"] == 1, "accuracy"] += 10
    (line, *_) = figures.figure_6_1b(frame, table).axes[0].lines
    assert heights(line) == pytest.approx([15, 45, 75])


def test_bands_are_intervals_over_repeats():
    frame, table = hand_made(seeds=(1, 2, 3))
    for trial, more in zip(table["trial"], (0, 3, 9), strict=True):
        frame.loc[frame["trial"] == trial, "accuracy"] += more
    figure = figures.figure_6_1b(frame, table)
    (band,) = figure.axes[0].collections
    y = band.get_paths()[0].vertices[:, 1]
    first = analysis.interval([10, 13, 19])
    last = analysis.interval([70, 73, 79])
    assert y.min() == pytest.approx(first.low)
    assert y.max() == pytest.approx(last.high)
    assert "n = 3 repeats; bands: 95 % intervals" in note(figure)


def test_what_varies_tells_the_lines_apart():
    table = trials(workers=(1, 2), learning_rates=(0.025, 0.1), repeats=1)
    figure = figures.figure_6_1a(steps(table), table)
    assert labels(figure) == [
        *("1 worker, rate 0.025", "1 worker, rate 0.1"),
        *("2 workers, rate 0.025", "2 workers, rate 0.1"),
    ]
    assert figure.axes[0].get_title("left") == "6.1a Learning curve, TensorFlow, CNN, batch 512"
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata())]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 4
    table = trials(workers=(2,), initializers=("default", "xavier"), repeats=1)
    figure = figures.figure_6_1b(steps(table), table)
    assert labels(figure) == ["initializer default", "initializer xavier"]
    assert figure.axes[0].get_title("left").endswith("rate 0.025, 2 workers")


def test_servers_and_steps_tell_lines_apart_only_where_nothing_else_does():
    table = trials(workers=(1, 2), repeats=1)  # mxnet: a server beside each worker
    table["steps"] = 400 // table["workers"]  # and fewer steps where there are more
    assert labels(figures.figure_6_1b(steps(table), table)) == ["1 worker", "2 workers"]
    table = trials(frameworks=("tensorflow",), workers=(2,), repeats=1)
    more = table.assign(servers=2, trial="with two servers")
    table = pd.concat([table, more], ignore_index=True)
    assert labels(figures.figure_6_1a(steps(table), table)) == ["servers 1", "servers 2"]


def test_figures_of_6_2_choose_their_workers():
    table = trials(workers=(1, 2, 4), batch_sizes=(5,), repeats=1)
    frame = steps(table)
    assert labels(figures.figure_6_2a(frame, table)) == ["MXNet"]
    assert labels(figures.figure_6_2b(frame, table)) == ["2 workers", "4 workers"]
    with pytest.raises(FigureError, match="workers"):
        figures.figure_6_2b(frame, table[table["workers"] == 1])


@pytest.mark.parametrize("x", ["updates", "samples"])
def test_oversubscribed_learning_curves_stay_valid_and_say_so(x):
    table = trials(workers=(1, 2, 4), cores=2)
    figure = figures.figure_6_1a(steps(table), table, x=x)
    assert "4 workers" in labels(figure)
    assert f"4 workers: valid on a oversubscribed machine: counts {x}, not seconds." in note(figure)


def test_oversubscribed_learning_curves_over_time_carry_a_warning():
    table = trials(workers=(1, 4), cores=2)
    said = note(figures.figure_6_1a(steps(table), table, x="t"))
    assert "Oversubscribed: 4 workers on fewer cores; these are not the seconds" in said
    assert "valid" not in said
    table = trials(workers=(1, 2), cores=2)
    assert "ime-shared" not in note(figures.figure_6_1a(steps(table), table, x="t"))


def test_trials_that_failed_have_no_learning_curve():
    table = trials(workers=(1, 2, 4), learning_rates=(0.1,), repeats=2)
    frame = steps(table)
    table = lose(table, "diverged", framework="mxnet", workers=4)
    table = lose(table, framework="mxnet", workers=2, seed=1)
    figure = figures.figure_6_1b(frame, table)
    assert labels(figure) == ["1 worker", "2 workers"]
    said = note(figure).partition("Not measured: ")[2]
    assert said == "MXNet, workers 2 (1 of 2 repeats failed); MXNet, workers 4 (diverged)."


def test_an_overloaded_machine_spoils_seconds_but_not_updates():
    table = trials(workers=(1, 2), repeats=1)
    frame = steps(table)
    table = lose(table, "finished", overloaded=True, workers=2)
    assert labels(figures.figure_6_1a(frame, table)) == ["1 worker", "2 workers"]
    figure = figures.figure_6_1a(frame, table, x="t")
    assert labels(figure) == ["1 worker"]
    assert "TensorFlow, workers 2 (overloaded)" in note(figure)


def test_a_repeat_that_ends_early_ends_the_line():
    frame, table = hand_made(seeds=(1, 2))
    late = frame["trial"] == table["trial"][1]
    frame.loc[late, "t"] *= 2
    figure = figures.figure_6_1b(frame, table, x="t")
    assert max(figure.axes[0].lines[0].get_xdata()) < 7.5


# --- nothing to draw, and wrong tables ------------------------------------------------------


@pytest.mark.parametrize("number", ["6.1a", "6.3", "6.4b", "6.6"])
def test_where_nothing_was_measured_the_figure_says_so(number, everything):
    table = lose(everything["table"], seed=1)
    table = lose(table, seed=2)
    figure = draw(number, everything | {"table": table})
    assert "not measured" in [text.get_text() for text in texts(figure)]
    assert "Not measured: " in note(figure)
    assert "n = " not in note(figure)


@pytest.mark.parametrize("number", FIGURES)
def test_an_empty_table_is_a_clear_error(number, everything):
    empty = {name: table.iloc[:0] for name, table in everything.items()}
    with pytest.raises(FigureError, match="the table is empty: .* run the trials first"):
        draw(number, empty)
    with pytest.raises(FigureError, match="the table is empty"):
        FIGURES[number].function(*(pd.DataFrame() for _ in FIGURES[number].tables))
    assert issubclass(FigureError, LabkitError)


def test_another_table_is_a_clear_error(everything):
    with pytest.raises(FigureError, match="no column batches_per_second"):
        figures.figure_6_3(everything["steps"])
    with pytest.raises(FigureError, match="no column"):
        figures.figure_6_1a(everything["table"], everything["table"])


def test_other_frameworks_than_the_figures_are_an_error():
    table = trials(frameworks=("mxnet",), workers=(1,))
    with pytest.raises(FigureError, match="framework: the table has only mxnet"):
        figures.figure_6_1a(steps(table), table)


def test_a_mistyped_x_is_an_error():
    frame, table = hand_made()
    with pytest.raises(FigureError, match="x: 'update'; did you mean 'updates'.*allowed: updates"):
        figures.figure_6_1b(frame, table, x="update")


@pytest.mark.parametrize("number", sorted(set(FIGURES) - CURVES))
def test_several_configurations_at_one_point_are_refused(number):
    table = trials(workers=(1, 2), learning_rates=(0.025, 0.1))
    with pytest.raises(FigureError, match="learning_rate: 0.025, 0.1.*select one"):
        FIGURES[number].function(table)


# --- save -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["6.1a", "6.6"])
def test_save_writes_the_same_svg_and_png_every_time(number, drawn, everything, tmp_path):
    saved = []
    for name, figure in (("one", drawn[number]), ("two", draw(number, everything))):
        svg, png = figures.save(figure, tmp_path / name / number)
        assert (svg, png) == (tmp_path / name / f"{number}.svg", tmp_path / name / f"{number}.png")
        saved.append((svg.read_bytes(), png.read_bytes()))
    assert saved[0] == saved[1]
    svg, png = saved[0]
    assert b"<svg" in svg and b"<dc:date>" not in svg
    width, height = (int.from_bytes(png[i : i + 4]) for i in (16, 20))
    assert (width, height) == (round(6.3 * 150), round(4.2 * 150))


def test_save_takes_a_string_and_keeps_the_number(drawn, tmp_path):
    svg, png = figures.save(drawn["6.3"], f"{tmp_path}/6.3")
    assert [path.name for path in (svg, png)] == ["6.3.svg", "6.3.png"]
