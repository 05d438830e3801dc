"""Guess, prediction and measurement side by side."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from reading import heights, labels, middle, note, series
from tidy_tables import lose, trials

from labkit import analysis, predict
from labkit.figures import FigureError, forecast, speedup
from labkit.figures.page import title_of

pytestmark = pytest.mark.unit

NAMES = ["measured", "from throughput", "simulated", "guess"]


def made(workers=(1, 2, 5, 10), **how):
    return trials(**{"frameworks": ("mxnet",), "workers": workers} | how)


def forecasts(table, workers=(10,), level=0.9):
    """Return two forecasts from trials with few workers: one of them twice as high."""
    few = analysis.summarise(table.query("workers <= 5")).set_index("workers")["mean"]
    low = predict(few.to_dict(), workers=workers, level=level)
    high = replace(low, forecasts=tuple(twice(each) for each in low.forecasts))
    return {"from throughput": low, "simulated": high}


def twice(each):
    return replace(each, throughput=2 * each.throughput, low=2 * each.low, high=2 * each.high)


def rate_of_one(table):
    return analysis.geometric_interval(table.query("workers == 1")["batches_per_second"]).mean


def test_guess_prediction_and_measurement_are_drawn():
    table = made()
    found = forecasts(table)
    figure = forecast(table, found, {10: 7.5})
    assert labels(figure) == [*NAMES, "ideal"]
    (_, measured, _), *predicted, (_, guess, _) = series(figure)
    expected = analysis.speedups(table)["speedup"]
    assert measured.get_xdata().tolist() == [1, 2, 5, 10]
    assert heights(measured) == pytest.approx(expected.to_numpy())
    for (_, line, bars), each in zip(predicted, found.values(), strict=True):
        (only,) = each.forecasts
        assert line.get_xdata().tolist() == [10]
        assert heights(line) == pytest.approx([only.throughput / rate_of_one(table)])
        assert bars == pytest.approx(np.array([(only.low, only.high)]) / rate_of_one(table))
    assert (guess.get_xdata().tolist(), heights(guess).tolist()) == ([10], [7.5])
    ticks = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert ticks == ["1", "2", "5", "10"]
    assert len({(line.get_color(), line.get_marker()) for _, line, _ in series(figure)}) == 4


def test_markers_of_one_number_of_workers_hide_none_of_each_other():
    table = made()
    figure = forecast(table, forecasts(table), {10: 7.5})
    places = [line.get_transform().transform((10, 0))[0] for _, line, _ in series(figure)]
    apart = np.diff(sorted(places)) * 72 / figure.dpi
    assert apart.min() >= series(figure)[0][1].get_markersize()
    assert places[0] == pytest.approx(figure.axes[0].transData.transform((10, 0))[0])


def test_measured_points_look_as_in_other_figures():
    table = made()
    (_, here, _), *_ = series(forecast(table, forecasts(table)))
    ((_, there, _),) = series(speedup(table))
    for look in ("get_color", "get_marker", "get_linestyle"):
        assert getattr(here, look)() == getattr(there, look)()


def test_the_title_says_what_of_and_on_which_nodes():
    table = made()
    assert title_of(forecast(table, {})) == "Prediction, MXNet, CNN, batch 512"
    slow = forecast(table.assign(slowdown=20.0), {}, title="8 {}")
    assert title_of(slow).split("\n") == [
        "8 Prediction, MXNet, CNN, batch 512", "slow nodes (computing takes 20 times as long)",
    ]  # fmt: skip


def test_it_says_what_the_bars_are():
    table = made()
    both = note(forecast(table, forecasts(table, level=0.8)))
    assert "n = 3 repeats; bars: 95 % intervals" in both
    assert "Bars of predictions: 80 % intervals." in both
    once = made(repeats=1)
    assert "One run each (n = 1): no intervals." in note(forecast(once, forecasts(once)))
    assert "predictions" not in note(forecast(table, {}))


def test_without_a_guess_or_a_forecast_the_others_are_drawn():
    table = made()
    assert labels(forecast(table, forecasts(table))) == [*NAMES[:3], "ideal"]
    assert labels(forecast(table, {}, {10: 9})) == ["measured", "guess", "ideal"]


def test_more_workers_than_were_measured_have_their_place():
    table = made(workers=(1, 2, 5))
    figure = forecast(table, forecasts(table, workers=(10, 25)), {50: 30})
    _, (_, predicted, _), *_ = series(figure)
    assert predicted.get_xdata().tolist() == [10, 25]
    assert figure.axes[0].get_xlim()[1] > 50
    (ideal,) = [line for line in figure.axes[0].lines if line.get_label() == "ideal"]
    assert ideal.get_xdata().tolist() == [1, 50]


def test_a_wide_interval_does_not_rule_the_axis_and_no_point_is_cut_off():
    table = made()
    found = forecasts(table)["from throughput"]
    wide = replace(found, forecasts=(replace(found.forecasts[0], high=1e6),))
    figure = forecast(table, {"wide": wide}, {10: 40})
    assert 40 < figure.axes[0].get_ylim()[1] <= 60
    assert "Bars that end at the upper edge reach beyond it." in note(figure)


# --- what was not measured ------------------------------------------------------------------


def test_a_lost_point_is_named_and_all_else_is_drawn():
    table = made()
    lost = lose(table, "finished", overloaded=True, workers=10)
    figure = forecast(lost, forecasts(table), {10: 7.5})
    (_, measured, _), *others = series(figure)
    assert np.isnan(heights(measured)).tolist() == [False, False, False, True]
    assert [label for label, _, _ in others] == NAMES[1:]
    assert "Not measured: MXNet, workers 10 (overloaded)." in note(figure)
    assert not figure.empty


def test_without_one_worker_there_is_nothing_to_be_a_multiple_of():
    table = made()
    figure = forecast(lose(table, workers=1), forecasts(table), {10: 7.5})
    assert "not measured: there is no rate with one worker to compare with" in middle(figure)
    assert figure.empty and "Not measured: MXNet, workers 1 (failed)." in note(figure)
    assert all(np.isnan(heights(line)).all() for _, line, _ in series(figure))


def test_where_nothing_was_measured_it_says_so():
    table = made()
    assert "not measured" in middle(forecast(lose(table, framework="mxnet"), {}))


def test_oversubscribed_points_show_no_speedup():
    table = made(cores=2)
    figure = forecast(table, forecasts(table))
    (_, measured, _), *_ = series(figure)
    assert measured.get_xdata().tolist() == [1, 2]
    assert "Left out, oversubscribed" in note(figure) and "5, 10 workers" in note(figure)
    nothing = forecast(made(workers=(2, 4), cores=1), forecasts(table), {10: 7.5})
    assert "not measured: all trials are oversubscribed" in middle(nothing)


# --- what cannot be one forecast ------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (trials(workers=(1, 2)), r"framework: mxnet, tensorflow, .*framework='mxnet'"),
        (made(batch_sizes=(128, 512)), r"batch_size: 128, 512, .*batch_size=128"),
        (pd.concat([made(), made().assign(steps=9)], ignore_index=True), "steps: 9, 200, "),
    ],
)  # fmt: skip
def test_trials_that_differ_in_more_than_their_workers_are_refused(table, said):
    with pytest.raises(FigureError, match=said):
        forecast(table, {})


def test_tables_of_something_else_are_refused():
    with pytest.raises(FigureError, match="the table is empty"):
        forecast(made().iloc[:0], {})
    with pytest.raises(FigureError, match="no column batches_per_second"):
        forecast(made().drop(columns="batches_per_second"), {})
