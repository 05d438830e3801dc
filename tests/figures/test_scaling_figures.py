"""Throughput, time per epoch, and speedup."""

import numpy as np
import pandas as pd
import pytest
from reading import heights, labels, middle, note, series
from tidy_tables import lose, trials

from labkit import analysis
from labkit.figures import AmbiguousFigure, FigureError, epoch_time, select, speedup, throughput

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("draw", "column"), [(throughput, "batches_per_second"), (epoch_time, "epoch_s")]
)
def test_points_are_means_with_their_intervals(draw, column):
    table = trials(workers=(1, 2, 5, 25))
    figure = draw(table)
    assert labels(figure) == ["TensorFlow", "MXNet"]
    for framework, (_, line, bars) in zip(("tensorflow", "mxnet"), series(figure), strict=True):
        groups = table[table["framework"] == framework].groupby("workers")[column]
        expected = [analysis.geometric_interval(group) for _, group in groups]
        assert line.get_xdata().tolist() == [1, 2, 5, 25]
        assert heights(line) == pytest.approx([e.mean for e in expected])
        assert bars == pytest.approx(np.array([(e.low, e.high) for e in expected]))
        assert line.get_linestyle() != "None"
    axes = figure.axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "5", "25"]
    assert axes.get_ylim()[0] == 0


@pytest.mark.parametrize("draw", [throughput, speedup, epoch_time])
def test_strategies_have_lines_of_their_own(draw):
    """The one's rate is never averaged with the other's, nor compared with its single worker."""
    free = trials(workers=(1, 2))
    waiting = free.assign(
        strategy="sync-ps", trial="sync-" + free["trial"],
        batches_per_second=free["batches_per_second"] / free["workers"],
        epoch_s=free["epoch_s"] * free["workers"],
    )  # fmt: skip
    both = draw(pd.concat([free, waiting], ignore_index=True))
    names = ["TensorFlow, async-ps", "TensorFlow, sync-ps", "MXNet, async-ps", "MXNet, sync-ps"]
    assert [label for label, _, _ in series(both)] == names
    apart = {"async-ps": series(draw(free)), "sync-ps": series(draw(waiting))}
    for (label, line, _), alone in zip(
        series(both),
        [apart[name][i] for i in (0, 1) for name in ("async-ps", "sync-ps")],
        strict=True,
    ):
        assert heights(line) == pytest.approx(heights(alone[1])), label


@pytest.mark.parametrize(("field", "other"), [("strategy", "sync-ps"), ("optimizer", "adagrad")])
def test_what_is_not_the_usual_is_named(field, other):
    table = trials(workers=(1, 2))
    title = throughput(table.assign(**{field: other})).axes[0].get_title("left")
    assert title.endswith(f", {other}")
    assert table[field].iloc[0] not in throughput(table).axes[0].get_title("left")


def test_frameworks_stand_side_by_side_at_one_x():
    figure = throughput(trials(workers=(1, 2)))
    (_, tensorflow, _), (_, mxnet, _) = series(figure)
    left, right = (line.get_transform().transform((2, 0))[0] for line in (tensorflow, mxnet))
    tick = figure.axes[0].transData.transform((2, 0))[0]
    point = figure.dpi / 72
    assert tick - 3 * point <= left < tick < right <= tick + 3 * point


def test_duration_says_that_it_is_computed():
    figure = epoch_time(trials(workers=(1, 2)))
    label = figure.axes[0].get_ylabel()
    assert "time per epoch [s]" in label and "from the measured rate" in label


def test_duration_over_batch_sizes_is_that_of_one_worker():
    table = trials(workers=(1, 2), batch_sizes=(512, 128, 256))
    figure = epoch_time(select(table, workers=1), x="batch_size")
    axes = figure.axes[0]
    assert axes.get_title("left") == "Time per epoch, CNN, 1 worker"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["128", "256", "512"]
    one = table.query("framework == 'mxnet' and workers == 1").groupby("batch_size")["epoch_s"]
    (_, _, _), (label, line, _) = series(figure)
    assert label == "MXNet"
    expected = [analysis.geometric_interval(group).mean for _, group in one]
    assert heights(line) == pytest.approx(expected)


def test_oversubscribed_points_are_hollow_and_joined_by_no_line():
    figure = throughput(trials(workers=(1, 2, 4, 8), cores=2))
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
    hollow = "oversubscribed: more workers and dedicated servers than cores"
    assert labels(figure) == ["TensorFlow", "MXNet", hollow]
    assert "say nothing about scaling" in note(figure)


def test_without_oversubscribed_points_nothing_is_said_of_them():
    figure = throughput(trials(workers=(1, 2)))
    assert "versubscribed" not in note(figure) + " ".join(labels(figure))


def test_what_is_not_measured_is_left_out_and_named():
    table = lose(trials(), framework="mxnet", workers=25)
    table = lose(table, framework="mxnet", workers=50)
    table = lose(table, "diverged", framework="tensorflow", workers=50, seed=2)
    table = lose(table, "finished", overloaded=True, framework="tensorflow", workers=5)
    table = lose(table, "finished", framework="tensorflow", workers=2)
    figure = throughput(table)
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
    figure = throughput(trials(workers=(1, 2), repeats=1))
    assert all(np.isnan(bars).all() for _, _, bars in series(figure))
    assert "(n = 1): no intervals" in note(figure)
    mixed = lose(trials(workers=(1, 2), repeats=2), workers=2, seed=1)
    assert "n = 1 to 2 repeats; bars: 95 % intervals; none where n = 1" in note(throughput(mixed))


@pytest.mark.parametrize("draw", [throughput, epoch_time, speedup])
def test_a_poor_interval_does_not_rule_the_axis(draw):
    table = trials(workers=(1, 2), repeats=2, spread=0)
    poor = (table["framework"] == "mxnet") & (table["workers"] == 2) & (table["seed"] == 1)
    table.loc[poor, ["batches_per_second", "epoch_s"]] *= 1.3
    figure = draw(table)
    highest = max(float(np.max(heights(line))) for _, line, _ in series(figure))
    (low, high) = figure.axes[0].get_ylim()
    assert low == 0 and highest < high <= 1.5 * max(highest, 2)
    ends = np.concatenate([bars for _, _, bars in series(figure)])
    assert ends.max() > high and ends.min() > 0
    assert "Bars that end at the upper edge reach beyond it." in note(figure)
    assert "Geometric means of n = 2 repeats" in note(figure)
    assert "reach beyond" not in note(draw(trials(workers=(1, 2))))


# --- speedup -------------------------------------------------------------------------------


def test_speedup_is_drawn_beside_the_ideal():
    table = trials(model="lstm", batch_sizes=(20,))
    figure = speedup(table)
    expected = analysis.speedups(table).query("framework == 'mxnet'")
    (_, _, _), (label, line, bars) = series(figure)
    assert label == "MXNet"
    assert heights(line) == pytest.approx(expected["speedup"].to_numpy())
    assert bars == pytest.approx(expected[["low", "high"]].to_numpy())
    (ideal,) = [line for line in figure.axes[0].lines if line.get_label() == "ideal"]
    assert ideal.get_xdata().tolist() == ideal.get_ydata().tolist() == [1, 50]
    assert labels(figure) == ["TensorFlow", "MXNet", "ideal"]
    assert figure.axes[0].get_title("left") == "Speedup, RNN, batch 20"


def test_speedup_never_shows_oversubscribed_points():
    figure = speedup(trials(workers=(1, 2, 4, 8), cores=2))
    for _, line, _ in series(figure):
        assert line.get_xdata().tolist() == [1, 2]
    ticks = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert ticks == ["1", "2"]
    why = "oversubscribed (more workers and dedicated servers than cores)"
    left_out = f"Left out, {why}: 4, 8 workers."
    assert left_out in note(figure)


def test_without_one_worker_there_is_no_speedup_and_the_figure_says_so():
    figure = speedup(lose(trials(workers=(1, 2)), framework="mxnet", workers=1))
    (_, tensorflow, _), (_, mxnet, _) = series(figure)
    assert np.isfinite(heights(tensorflow)).all()
    assert np.isnan(heights(mxnet)).all()
    assert "Not measured: MXNet, workers 1 (failed)." in note(figure)
    assert "No speedup of MXNet: its rate with one worker is not measured." in note(figure)
    assert "No speedup of TensorFlow" not in note(figure)


def test_if_all_is_oversubscribed_no_speedup_is_measured():
    figure = speedup(trials(workers=(2, 4), cores=1))
    assert "not measured: all trials are oversubscribed" in middle(figure)
    assert figure.empty == "all trials are oversubscribed"
    assert not any(line.get_label() == "ideal" for line in figure.axes[0].lines)
    assert "Left out, oversubscribed" in note(figure)


# --- lines and panels -----------------------------------------------------------------------


def test_what_varies_becomes_a_line():
    figure = throughput(trials(workers=(1, 2), batch_sizes=(128, 512)))
    assert labels(figure) == [
        *("TensorFlow, batch 128", "TensorFlow, batch 512"),
        *("MXNet, batch 128", "MXNet, batch 512"),
    ]
    assert figure.axes[0].get_title("left") == "Throughput, CNN"
    figure = speedup(trials(frameworks=("mxnet",), workers=(1, 2), batch_sizes=(128, 512)))
    assert labels(figure) == ["batch 128", "batch 512", "ideal"]
    assert figure.axes[0].get_title("left") == "Speedup, MXNet, CNN"


@pytest.mark.parametrize("draw", [throughput, speedup])
def test_several_machines_have_a_line_each_and_are_named(draw):
    table = trials(frameworks=("mxnet",), workers=(1, 2)).assign(
        cpu_model="EPYC", code="0f", versions="mxnet 1.9.1"
    )
    alone = labels(draw(table.assign(host="a")))
    both = pd.concat(
        [table.assign(host=host, cores=cores, trial=table["trial"] + host)
         for host, cores in (("a", 64), ("b", 32))]
    )  # fmt: skip
    assert "host" not in " ".join(alone)
    assert [text for text in labels(draw(both)) if "ideal" not in text] == ["host a", "host b"]
    with pytest.raises(AmbiguousFigure, match="host: "):
        draw(both, lines="batch_size")
    assert labels(draw(select(both, host="a"))) == alone


def test_each_framework_has_its_own_versions_and_code_which_is_no_difference():
    table = trials(workers=(1, 2)).assign(host="a", cpu_model="EPYC")
    for column in ("code", "versions"):
        table[column] = table["framework"] + f" {column}"
    assert labels(throughput(table)) == ["TensorFlow", "MXNet"]
    newer = table.assign(versions="tensorflow 3", trial=table["trial"] + "-new")
    mixed = pd.concat([table, newer[newer["framework"] == "tensorflow"]])
    said = labels(throughput(mixed))
    assert sum("TensorFlow" in text for text in said) == 2
    assert any("tensorflow 3" in text for text in said)


def test_panels_share_out_the_trials():
    table = pd.concat(
        [trials(workers=(1, 2)), trials(workers=(1, 2), model="lstm")], ignore_index=True
    )
    figure = throughput(table, panels="model")
    assert [axes.get_title("left") for axes in figure.axes] == ["CNN", "RNN"]
    assert figure.get_suptitle() == "Throughput, batch 512"
    assert labels(figure) == ["TensorFlow", "MXNet"]
    for panel, model in enumerate(["lenet5", "lstm"]):
        of_it = table[(table["model"] == model) & (table["framework"] == "mxnet")]
        groups = of_it.groupby("workers")["batches_per_second"]
        expected = [analysis.geometric_interval(group).mean for _, group in groups]
        (_, _, _), (_, line, _) = series(figure, panel)
        assert heights(line) == pytest.approx(expected)
    figure = speedup(trials(workers=(1, 2)), panels=["framework"])
    assert [axes.get_title("left") for axes in figure.axes] == ["TensorFlow", "MXNet"]


def test_frameworks_and_models_to_come_are_drawn_too():
    table = trials(frameworks=("pytorch", "jax"), workers=(1, 2)).assign(model="mine/my_mlp.py")
    for draw in (throughput, speedup, epoch_time):
        figure = draw(table)
        assert labels(figure)[:2] == ["jax", "pytorch"]
        assert ", my_mlp, batch 512" in figure.axes[0].get_title("left")


def test_a_title_replaces_the_derived_one_or_takes_it_in():
    table = trials(workers=(1, 2))
    assert throughput(table, title="Mine").axes[0].get_title("left") == "Mine"
    title = throughput(table, title="7 {}").axes[0].get_title("left")
    assert title == "7 Throughput, CNN, batch 512"


@pytest.mark.parametrize("where", ["lines", "panels"])
def test_a_mistyped_column_is_met_with_the_nearest(where):
    with pytest.raises(FigureError, match=f"{where}: .*'batchsize'; did you mean 'batch_size'"):
        throughput(trials(workers=(1, 2)), **{where: "batchsize"})
    with pytest.raises(FigureError, match=f"{where}: 'workers' is along the horizontal axis"):
        throughput(trials(workers=(1, 2)), **{where: "workers"})


def test_what_is_not_asked_for_but_varies_is_ambiguous():
    table = trials(workers=(1, 2), batch_sizes=(128, 512), learning_rates=(0.1, 0.2))
    message = r"learning_rate: 0.\d, 0.\d.*select\(results, learning_rate=.*lines='learning_rate'"
    with pytest.raises(AmbiguousFigure, match=message):
        throughput(table, lines="batch_size")
    assert len(labels(throughput(table))) == 8


def test_trials_of_different_lengths_share_no_line_unasked():
    short, long = trials(workers=(1, 2)), trials(workers=(1, 2)).assign(steps=400)
    long["trial"] += "-long"
    table = pd.concat([short, long], ignore_index=True)
    with pytest.raises(AmbiguousFigure, match="steps: 200, 400") as caught:
        throughput(table)
    assert (caught.value.column, sorted(caught.value.values)) == ("steps", [200, 400])
    assert labels(throughput(select(table, steps=400))) == ["TensorFlow", "MXNet"]
    figure = throughput(select(table, framework="mxnet"), lines="steps")
    assert labels(figure) == ["steps 200", "steps 400"]
    looks = {(line.get_color(), line.get_marker()) for _, line, _ in series(figure)}
    assert len(looks) == 2


def test_a_point_measured_both_ways_is_ambiguous():
    shared = trials(workers=(2,), cores=1).assign(cores=64)
    shared["trial"] += "-elsewhere"
    table = pd.concat([trials(workers=(1, 2)), shared], ignore_index=True)
    with pytest.raises(AmbiguousFigure, match="oversubscribed: .* of TensorFlow, workers 2"):
        throughput(table)


# --- nothing to draw, and wrong tables ------------------------------------------------------


@pytest.mark.parametrize("draw", [throughput, speedup, epoch_time])
def test_where_nothing_was_measured_the_figure_says_so(draw):
    figure = draw(lose(trials(workers=(1, 2)), model="lenet5"))
    why = {speedup: "there is no rate with one worker to compare with"}
    assert f"not measured: {why.get(draw, 'the trials failed')}" in middle(figure)
    assert not draw(trials(workers=(1, 2))).empty
    assert "Not measured: " in note(figure)
    assert "n = " not in note(figure)


@pytest.mark.parametrize("draw", [throughput, speedup, epoch_time])
def test_tables_that_hold_nothing_of_it_are_a_clear_error(draw):
    with pytest.raises(FigureError, match="the table is empty: .* run the trials first"):
        draw(trials().iloc[:0])
    with pytest.raises(FigureError, match="no column oversubscribed"):
        draw(trials().drop(columns="oversubscribed"))
    with pytest.raises(FigureError, match="no column (batches_per_second|epoch_s)"):
        draw(trials().drop(columns=["batches_per_second", "epoch_s"]))


def test_an_axis_that_does_not_exist_is_an_error():
    with pytest.raises(FigureError, match="x: no column 'workes'; did you mean 'workers'"):
        epoch_time(trials(), x="workes")


@pytest.mark.parametrize("draw", [throughput, speedup])
def test_rates_that_scripts_report_are_named_as_such(draw):
    table = trials(workers=(1, 2)).assign(model="train.py", strategy="script", reported=True)
    assert "Not measured, but reported by the script: train." in note(draw(table))
    assert "reported" not in note(draw(trials(workers=(1, 2))))


def test_a_script_that_does_not_say_its_batch_size_is_drawn_in_samples():
    table = trials(workers=(1, 2)).assign(batch_size=np.nan, batches_per_second=np.nan)
    figure = throughput(table)
    assert figure.axes[0].get_ylabel() == "samples per second"
    assert not speedup(table).empty
