"""Speedup over the slowdown: lines that are simulated, points that were measured."""

import pandas as pd
import pytest
from reading import heights, labels, note, series
from tidy_tables import trials

from labkit import LabkitError, analysis
from labkit.figures import AmbiguousFigure, FigureError, save, slowdown
from labkit.figures.page import title_of
from labkit.figures.slowdown import SLOWDOWNS
from labkit.figures.style import style
from labkit.figures.words import NODES
from labkit.runs.demands import measured
from labkit.runs.whatif import what_if
from labkit.trials.nodes import NODE

pytestmark = pytest.mark.unit

COUNTS = (4, 8)


def made(frameworks=("tensorflow",), slow=(20.0,), **how):
    """Return trials of which some ran on slow nodes, where workers seldom meet."""
    ways = {"frameworks": frameworks, "workers": (1, *COUNTS), "cores": 4} | how
    parts = [trials(**ways).query("workers == 1").assign(slowdown=None)]
    for times in slow:
        part = trials(**ways).assign(slowdown=times, oversubscribed=False, steps=20)
        rate = part["workers"] * 1.5 / times * (1 + 0.01 * part["seed"])
        parts.append(part.assign(batches_per_second=rate, trial=part["trial"] + f"-{times}"))
    table = pd.concat([part.astype({"slowdown": object}) for part in parts], ignore_index=True)
    return table.assign(
        slowdown_spread=None, cpu_ms_per_step=600.0, samples_per_epoch=60_000, host="here",
        server_cpu_ms_per_update=150.0,
    )  # fmt: skip


def dotted(figure, panel=0):
    """Return the simulated lines by their labels."""
    return {line.get_label(): line for line in figure.axes[panel].lines
            if "simulated" in line.get_label()}  # fmt: skip


def test_lines_are_simulated_from_one_worker():
    table = made()
    figure = slowdown(table, workers=COUNTS)
    lines = dotted(figure)
    assert list(lines) == ["8 workers, simulated", "4 workers, simulated"]
    one = measured(table, "tensorflow", "lenet5", 512)
    for count in COUNTS:
        line = lines[f"{count} workers, simulated"]
        assert line.get_xdata().tolist() == list(SLOWDOWNS)
        for times, height in zip(SLOWDOWNS, heights(line), strict=True):
            if times in (1.0, 5.0, 40.0):
                (found,) = what_if(one, [count], slowdown=times).forecasts
                assert height == pytest.approx(found.speedup)
        assert heights(line)[-1] == pytest.approx(count, rel=0.02)
        assert line._unscaled_dash_pattern[1] == (1.0, 2.0)
    # One server takes 150 ms for an update: at most some 5 per second, of 1.3 alone.
    assert heights(lines["8 workers, simulated"])[0] < 6


def test_points_are_measured_and_no_line_joins_them():
    table = made(slow=(20.0, 60.0))
    figure = slowdown(table, workers=COUNTS)
    found = analysis.speedups(table).query("workers > 1").set_index(["workers", "slowdown"])
    drawn = {label: (line, bars) for label, line, bars in series(figure)}
    assert set(drawn) == {"4 workers, measured", "8 workers, measured"}
    for count in COUNTS:
        line, bars = drawn[f"{count} workers, measured"]
        assert line.get_linestyle() == "None"
        assert line.get_xdata().tolist() == [20, 60]
        for place, times in enumerate((20.0, 60.0)):
            expected = found.loc[(count, times)]
            assert heights(line)[place] == pytest.approx(expected["speedup"])
            assert bars[place] == pytest.approx([expected["low"], expected["high"]])
        assert dotted(figure)[f"{count} workers, simulated"].get_xdata()[-1] == 60
    assert "Points: measured. Geometric means of n = 3 repeats; bars: 95 % intervals." in note(
        figure
    )
    assert "simulated" in note(figure) and "network takes no time" in note(figure)


def test_each_setting_has_a_panel():
    both = slowdown(made(("mxnet", "tensorflow")), workers=(4,))
    assert [axes.get_title("left") for axes in both.axes] == ["TensorFlow", "MXNet"]
    assert title_of(both) == "Speedup on slow nodes, CNN, batch 512"
    lines = [f"{framework}, 4 workers" for framework in ("TensorFlow", "MXNet")]
    assert labels(both) == [
        *(f"{line}, measured" for line in lines), *(f"{line}, simulated" for line in lines),
        "ideal",
    ]  # fmt: skip
    one = made(("mxnet", "tensorflow"), slow=())
    fewer = slowdown(one.assign(workers=one["framework"].map({"mxnet": 8, "tensorflow": 1})),
                     workers=(4,))  # fmt: skip
    assert [axes.get_title("left") for axes in fewer.axes] == ["TensorFlow"]
    assert "No panel, as there is no run with one worker: MXNet." in note(fewer)
    alone = slowdown(made(), workers=(4,), title="Mine: {}")
    assert title_of(alone) == "Mine: Speedup on slow nodes, CNN, TensorFlow, batch 512"


@pytest.mark.parametrize("frameworks", [("mxnet",), ("tensorflow",), ("mxnet", "tensorflow")])
def test_lines_have_the_colours_that_these_workers_have_in_all_figures(frameworks):
    figure = slowdown(made(frameworks), workers=COUNTS)
    for panel, framework in enumerate(sorted(frameworks, reverse=True)):  # as their table has it
        drawn = dotted(figure, panel).values()
        for line, count in zip(drawn, reversed(COUNTS), strict=True):
            setting = {"framework": framework, "model": "lenet5", "batch_size": 512}
            how = style(setting | {"workers": count})
            assert (line.get_color(), line.get_linewidth()) == (how.colour, how.width)


@pytest.mark.parametrize(
    ("other", "shown"),
    [({"host": "there"}, 0), ({"slowdown_spread": 2.0}, 0), ({"status": "finished"}, 1)],
    ids=["another machine", "stragglers", "the same"],
)
def test_points_that_are_no_comparison_are_left_out(other, shown):
    table = made()
    for name, value in other.items():
        table.loc[table["slowdown"].notna(), name] = value
    figure = slowdown(table, workers=(4,))
    assert len(series(figure)) == shown
    assert ("another machine" in note(figure)) == ("host" in other)
    assert ("No points" in note(figure)) == (not shown)


def test_without_others_slow_nodes_are_simulated_from():
    table = made()
    figure = slowdown(table[table["slowdown"].notna()], workers=(4,))
    assert heights(dotted(figure)["4 workers, simulated"])[-1] == pytest.approx(4, rel=0.05)


def test_the_order_of_the_trials_does_not_matter(tmp_path):
    table = made()
    paths = [
        save(slowdown(rows, workers=(4,)), tmp_path / name, ["svg"])[0]
        for name, rows in (("one", table), ("two", table.sample(frac=1, random_state=1)))
    ]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_what_cannot_be_drawn_is_one_clear_error():
    table = made()
    with pytest.raises(LabkitError, match="no run of tensorflow lenet5 at batch size 512 with one"
                       ) as refused:  # fmt: skip
        slowdown(table[table["workers"] > 1])
    assert "labkit run --framework tensorflow" in str(refused.value)
    with pytest.raises(FigureError, match=r"workers: \[1, 4\]; allowed: numbers from 2 on"):
        slowdown(table, workers=(4, 1))
    with pytest.raises(AmbiguousFigure, match="learning_rate: .* with 4 workers and slowdown 20"):
        slowdown(pd.concat([table, table.assign(learning_rate=0.1)]), workers=(4,))


def test_whatever_nodes_are_like_there_are_words_for_it():
    assert tuple(NODES) == NODE
