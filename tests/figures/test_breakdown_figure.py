"""Where the time of a step goes, as bars."""

import pandas as pd
import pytest
from reading import labels, middle, note
from tidy_tables import lose, trials

from labkit.analysis import step_times
from labkit.figures import FigureError, breakdown, throughput
from labkit.figures.page import title_of

pytestmark = pytest.mark.unit


def table(**values):
    found = trials(workers=(1, 2, 5), **values)
    step = 1000 * found["workers"] / found["batches_per_second"]
    return found.assign(cpu_ms_per_step=0.7 * step, server_cpu_ms_per_update=1.0)


def test_bars_are_shares_of_a_step():
    found = table(frameworks=("mxnet",))
    figure = breakdown(found)
    (axes,) = figure.axes
    heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
    assert heights[0] == pytest.approx([70] * 3) and heights[1] == pytest.approx([30] * 3)
    assert labels(figure) == ["computing", "waiting"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "5"]
    said = [f"{value:.3g} ms" if value < 999.5 else f"{value / 1000:.3g} s"
            for value in step_times(found)["step"]]  # fmt: skip
    assert [text.get_text() for text in axes.texts] == said
    assert "Where the time goes, MXNet, CNN, batch 512" in title_of(figure)
    assert "5 workers: 30 % of a step is waiting" in note(figure)


def test_input_has_a_part_of_its_own_where_it_was_measured():
    found = table(frameworks=("mxnet",))
    found["input_ms_per_step"] = 0.2 * 1000 * found["workers"] / found["batches_per_second"]
    figure = breakdown(found)
    heights = [bars[0].get_height() for bars in figure.axes[0].containers]
    assert heights == pytest.approx([20, 50, 30])
    assert labels(figure) == ["input", "computing", "waiting"]
    assert "Computing is the worker's other CPU time, with its part" in note(figure)
    assert "Where input was not measured" not in note(figure)
    found.loc[found["workers"] > 1, "input_ms_per_step"] = None  # runs of an earlier version
    figure = breakdown(found)
    heights = [[bar.get_height() for bar in bars] for bars in figure.axes[0].containers]
    assert heights[:2] == [pytest.approx([20, 0, 0]), pytest.approx([50, 70, 70])]
    assert "Where input was not measured, it is part of computing." in note(figure)


def test_each_configuration_has_a_panel():
    figure = breakdown(table(batch_sizes=(128, 512)))
    assert [axes.get_title("left") for axes in figure.axes] == [
        f"{name}, batch {size}" for name in ("TensorFlow", "MXNet") for size in (128, 512)
    ]
    assert breakdown(table(), panels="framework").axes[0].get_title("left") == "TensorFlow"


def test_what_is_oversubscribed_is_marked():
    figure = breakdown(table(cores=2, frameworks=("mxnet",)))
    assert "oversubscribed" in labels(figure)
    hatched = [bar.get_hatch() for bar in figure.axes[0].containers[0]]
    assert hatched == ["", "", ".."]
    assert "2 workers: 30 %" in note(figure)  # the most that have cores of their own


def test_what_cannot_be_drawn_is_refused():
    found = table(frameworks=("mxnet",), batch_sizes=(1, 2, 4, 8, 16), learning_rates=(0.1, 0.2))
    with pytest.raises(FigureError, match="10 panels, for all that differs in batch_size, lea"):
        breakdown(found)
    with pytest.raises(FigureError, match="several configurations have the same number of work"):
        breakdown(table(batch_sizes=(128, 512)), panels="framework")
    with pytest.raises(FigureError, match="no column cpu_ms_per_step"):
        breakdown(trials())


def test_what_is_missing_is_named():
    found = table(frameworks=("mxnet",))
    assert "2 (failed)" in note(breakdown(lose(found, workers=2)))
    figure = breakdown(lose(found, model="lenet5"))
    assert figure.empty and "not measured: the trials failed" in middle(figure)


def test_panels_below_each_other_share_the_lowest_labels():
    """Four panels need two rows, of which the upper has no labels but where nothing is below."""
    sizes = (64, 128, 256, 512)
    figure = throughput(table(batch_sizes=sizes), panels="batch_size")
    shown = [bool(axes.get_xlabel()) for axes in figure.axes]
    assert shown == [False, True, True, True]
    figure.draw_without_rendering()
    visible = [any(t.label1.get_visible() for t in axes.xaxis.get_major_ticks())
               for axes in figure.axes]  # fmt: skip
    assert visible == shown


def test_slow_nodes_have_panels_of_their_own():
    found = table(frameworks=("mxnet",))
    some = found.assign(slowdown=20.0, compute_ms=1.0, trial="slow-" + found["trial"])
    figure = breakdown(pd.concat([found.assign(slowdown=None), some], ignore_index=True))
    assert sorted(axes.get_title("left").split()[0] for axes in figure.axes) == ["nodes", "slow"]
