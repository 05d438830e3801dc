"""The paper: readable, the same bytes every time, whatever has been set elsewhere."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from reading import labels, note, results, texts
from tidy_tables import trials

from labkit.figures import (
    FigureError,
    epoch_time,
    learning_curve,
    save,
    select,
    speedup,
    throughput,
)
from labkit.figures.page import title_of
from labkit.figures.selection import tables

pytestmark = pytest.mark.unit

KINDS = (throughput, speedup, epoch_time, learning_curve)


@pytest.fixture(scope="module")
def made():
    """What `measure` would return."""
    return results(trials(workers=(1, 2, 4), batch_sizes=(128, 512), repeats=2), windows=8)


@pytest.mark.parametrize("draw", KINDS)
@pytest.mark.parametrize("panels", [None, "batch_size"])
def test_figures_are_readable(draw, panels, made):
    figure = draw(made, panels=panels)
    assert title_of(figure)
    assert min(text.get_fontsize() for text in texts(figure)) >= 8
    assert not any("not measured" in text.get_text() for text in texts(figure))
    assert "n = 2 repeats" in note(figure) and "95 % intervals" in note(figure)
    assert {text.get_fontname() for text in texts(figure)} == {"DejaVu Sans"}
    assert len(labels(figure)) == len(set(labels(figure)))
    frame = figure.bbox.padded(1)
    ticks = []
    for axes in figure.axes:  # all points lie within the axes, and all texts within the figure
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        # but not all ends of intervals, which do not rule an axis
        caps = {cap for container in axes.containers for cap in container.lines[1]}
        for line in set(axes.lines) - caps:
            x, y = (np.asarray(d, float) for d in (line.get_xdata(), line.get_ydata()))
            inside = (left <= x) & (x <= right) & (low <= y) & (y <= high)
            assert inside[np.isfinite(y)].all()
        ticks += [*axes.get_xticklabels(), *axes.get_yticklabels()]  # some beyond the limits
    for text in set(texts(figure)) - set(ticks):
        box = text.get_window_extent()
        assert frame.contains(box.x0, box.y0) and frame.contains(box.x1, box.y1), text


def test_a_long_legend_stands_beside_the_axes_and_above_the_notes():
    """As of the published trials of all machines, of which some do not say all about theirs."""
    one = trials(workers=(1, 2), repeats=2)
    machines = pd.concat(
        [
            one.assign(
                trial=f"{number}-" + one["trial"], host=f"a-machine-with-a-long-name-{number}",
                congestion_control="" if number else "bbr",
            )
            for number in range(5)
        ],
        ignore_index=True,
    )  # fmt: skip
    figure = speedup(machines)
    (legend,) = figure.legends
    box = legend.get_window_extent()
    (notes,) = (text for text in texts(figure) if text.get_text() == figure.get_supxlabel())
    assert figure.bbox.padded(1).contains(box.x1, box.y1)
    assert box.x0 > figure.axes[0].bbox.x1 and box.y0 > notes.get_window_extent().y1
    assert figure.axes[0].bbox.width > 0.3 * figure.bbox.width
    assert any("congestion control unknown" in " ".join(label.split()) for label in labels(figure))


@pytest.mark.parametrize("draw", KINDS)
def test_the_bytes_depend_on_the_trials_alone(draw, tmp_path):
    """Not on the order of rows, on where the tables come from, nor on matplotlib's settings."""
    made = results(trials(workers=(1, 2)), windows=8)

    def content(of, formats=("svg",)):
        return [file.read_bytes() for file in save(draw(of), tmp_path / "x", formats)]

    expected = content(made, ("svg", "png"))
    assert b"<svg" in expected[0] and b"<dc:date>" not in expected[0]

    shuffled = results(made.table.sample(frac=1, random_state=3))
    shuffled.steps = made.steps.sample(frac=1, random_state=4)
    assert expected[:1] == content(shuffled)
    assert tables(shuffled).table.equals(tables(made).table)  # to the last bit of each mean

    for name in ("table", "steps"):
        getattr(made, name).to_parquet(tmp_path / f"{name}.parquet", index=False)
        setattr(shuffled, name, pd.read_parquet(tmp_path / f"{name}.parquet"))
    assert expected[:1] == content(shuffled)

    with mpl.rc_context({"figure.dpi": 33, "font.size": 20, "lines.linewidth": 9}):
        assert expected == content(made, ("svg", "png"))


def test_figures_leave_nothing_behind_in_matplotlib(made, tmp_path):
    before = dict(plt.rcParams)
    save(throughput(made), tmp_path / "6.3")
    assert plt.get_fignums() == []
    assert dict(plt.rcParams) == before


def test_save_keeps_a_number_and_takes_some_formats(made, tmp_path):
    figure = throughput(made)
    assert [path.name for path in save(figure, f"{tmp_path}/6.3")] == ["6.3.svg", "6.3.png"]
    (png,) = save(figure, tmp_path / "deep" / "x", ["png"])
    content = png.read_bytes()
    assert png == tmp_path / "deep" / "x.png"
    width, height = (int.from_bytes(content[i : i + 4]) for i in (16, 20))
    assert (width, height) == (round(6.3 * 150), round(4.2 * 150))
    assert figure._repr_png_()[:4] == content[:4]  # what Jupyter shows


def test_select_keeps_the_trials_with_some_values(made):
    some = select(made, framework="mxnet", workers=[1, 2])
    assert set(some.table["framework"]) == {"mxnet"}
    assert set(some.table["workers"]) == {1, 2}
    assert set(some.steps["trial"]) == set(some.table["trial"])
    assert set(select(some, workers=2).steps["workers"]) == {2}
    with pytest.raises(FigureError, match="workers: 7 is in none of the trials, only 1, 2, 4"):
        select(made, workers=7)
    with pytest.raises(FigureError, match="select: no column 'worker'; did you mean 'workers'"):
        select(made, worker=1)


def test_tables_are_checked():
    with pytest.raises(FigureError, match="the table is empty"):
        tables(pd.DataFrame())
