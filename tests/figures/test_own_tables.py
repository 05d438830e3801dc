"""Figures of tables of one's own: the same pictures, without what only trials have."""

import io

import matplotlib
import pandas as pd
import pytest
from reading import heights, labels, note, series

from labkit import LabkitError, learning_curve, select, speedup, throughput
from labkit.analysis import geometric_interval, speedup_interval
from labkit.figures.page import title_of
from labkit.figures.style import style

pytestmark = pytest.mark.unit

OLD = {1: (20.0, 20.5), 2: (39.0, 38.0), 4: (70.0, 71.0)}


def table(**rates):
    """Return a table of series, each with the rates of its repeats by the number of workers."""
    return pd.DataFrame(
        [
            {"series": name, "workers": n, "throughput": x}
            for name, of in rates.items() for n, repeats in of.items() for x in repeats
        ]
    )  # fmt: skip


def test_points_are_geometric_means_with_intervals_from_repeats():
    figure = throughput(table(old=OLD))
    [(label, line, ends)] = series(figure)
    found = [geometric_interval(rates) for rates in OLD.values()]
    assert label == "old"
    assert heights(line) == pytest.approx([each.mean for each in found])
    assert ends.ravel() == pytest.approx([end for each in found for end in (each.low, each.high)])
    assert "n = 2 repeats" in note(figure)
    assert figure.axes[0].get_ylabel() == "throughput"


def test_speedups_are_of_one_worker():
    figure = speedup(table(old=OLD))
    [(_, line, ends)] = series(figure)
    assert heights(line)[0] == 1
    found = speedup_interval(OLD[4], OLD[1])
    assert heights(line)[-1] == pytest.approx(found.mean)
    assert ends[-1] == pytest.approx((found.low, found.high))


def test_a_file_is_drawn_as_its_table(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("throughput [images/s];workers\n1,5;1\n3;2\n")
    figure = throughput(path)
    [(label, line, _)] = series(figure)
    assert label == "mine"
    assert heights(line) == pytest.approx([1.5, 3])
    assert figure.axes[0].get_ylabel() == "throughput [images/s]"
    assert title_of(figure) == "Throughput"
    assert "One run each" in note(figure)
    [(_, line, _)] = series(throughput(select(path, workers=2)))
    assert heights(line) == pytest.approx([3])


def test_each_series_has_a_line_and_each_host():
    figure = throughput(table(old=OLD, new=OLD))
    assert labels(figure) == ["new", "old"]
    hosts = throughput(table(old=OLD).assign(host=["a", "b"] * 3))
    assert [label for label, *_ in series(hosts)] == ["host a", "host b"]


def test_series_are_told_apart_and_look_the_same_in_every_figure():
    looks = {style({"series": name}).colour for name in ("old", "new", "before", "after")}
    assert len(looks) == 4
    assert style({"series": "mxnet"}) == style({"framework": "mxnet"})


def test_a_series_without_one_worker_is_named():
    figure = speedup(table(old=OLD, new={2: (1.0, 1.1)}))
    assert "No speedup of new: its rate with one worker is not measured." in note(figure)
    assert "speedup" in figure.axes[0].get_ylabel() and not figure.empty


def test_a_wide_table_says_how_it_was_understood(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("workers,a,b\n1,2,3\n2,4,5\n")
    assert "mine.csv has no column throughput: a and b are taken for series." in note(
        throughput(path)
    )


def test_what_a_dollar_stands_for_is_its_writers_affair():
    """And no mathematics, which it would be misread as, or fail as."""
    title, drawing = "from $0.05 to $0.10 an hour", io.StringIO()
    figure = throughput(table(**{"$HOME/a_$N": OLD, "a $ x_{ $": OLD}), title=title)
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(drawing, format="svg")
    for words in (title, "$HOME/a_$N", "a $ x_{ $"):
        assert words in drawing.getvalue()


def test_learning_curves_need_more_than_that(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("workers,throughput\n1,2\n")
    with pytest.raises(LabkitError, match="a table of throughputs has no steps"):
        learning_curve(path)
