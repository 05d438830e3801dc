"""The short table: what differs in columns, within the terminal's width, no two rows alike."""

import pandas as pd
import pytest
from tidy_tables import steps, trials

from labkit.cli.table import short

pytestmark = pytest.mark.unit


def rows(text):
    """Return the words of the table's rows, below its headings."""
    return [line.split() for line in text.splitlines() if line[:1].strip() and ": " not in line]


def test_what_is_the_same_everywhere_is_said_once():
    table = trials(frameworks=("mxnet",), workers=(1, 2), repeats=2)
    head, _, *lines = short(table).splitlines()
    assert head == ("In all trials: framework mxnet, model lenet5, batch_size 512, "
                    "learning_rate 0.025, steps 200")  # fmt: skip
    assert "mxnet" not in "\n".join(lines)
    assert lines[0].split() == ["workers", "seed", "batches_per_second"]
    assert len(lines) == 1 + 4


def test_steps_are_shown_where_they_tell_rows_apart():
    table = trials(frameworks=("mxnet",), workers=(1,), repeats=1)
    both = pd.concat([table, table.assign(steps=936, trial=table["trial"] + "-longer")])
    shown = short(both)
    assert "200" in shown and "936" in shown
    assert "steps" not in shown.splitlines()[0]


def test_no_two_rows_are_alike():
    table = trials(frameworks=("mxnet",), workers=(1,), repeats=1)
    table = table.assign(batches_per_second=1.0)
    elsewhere = table.assign(host="b", trial=table["trial"] + "-b")
    shown = short(pd.concat([table.assign(host="a"), elsewhere])).splitlines()
    assert shown[-1] != shown[-2]
    assert "host" in shown[-3]


@pytest.mark.parametrize("width", [80, 60, 40])
def test_lines_keep_to_the_width_and_what_finds_no_room_is_named(width):
    table = trials(initializers=("default", "xavier"), batch_sizes=(128, 512), repeats=2)
    table = table.assign(accuracy=88.0, perplexity=123.0)
    shown = short(table, width=width)
    assert max(map(len, shown.splitlines())) <= width
    joined = " ".join(shown.split())
    assert all(name in joined for name in ("initializer", "accuracy", "perplexity", "batch"))
    assert "No room" not in short(table)
    if width == 80:  # what matters most has room
        assert "No room for batches_per_second" not in joined and "second" in joined


def test_a_rate_says_what_it_is_worth_or_why_there_is_none():
    table = trials(frameworks=("mxnet",), workers=(1, 2, 4, 8, 16), repeats=1, cores=8)
    table["overloaded"] = [False, True, None, False, False]
    table.loc[3, "status"] = "diverged"
    lines = short(table).splitlines()
    cells = [line.split()[-1] for line in lines[3:8]]
    assert cells[1] == "overloaded" and cells[3] == "diverged"
    assert [cell[-1] in "*?" for cell in cells] == [False, False, True, False, True]
    assert lines[8].startswith("* oversubscribed") and lines[9].startswith("? too short")


@pytest.mark.parametrize("name", ["steps", "evals"])
def test_the_other_tables_too(name):
    table = trials(workers=(1, 2), repeats=1).assign(epochs=None)
    frame = steps(table, windows=3)
    if name == "evals":
        frame = frame[frame["worker"] == 0].assign(metric="accuracy", value=80.0, seconds=1.0)
    shown = short(frame, name, 80)
    assert max(map(len, shown.splitlines())) <= 80
    assert len(set(shown.splitlines()[3:])) == len(shown.splitlines()[3:])
