"""The thesis's figures by number: which trials they show, and how they are called."""

from types import SimpleNamespace

import pandas as pd
import pytest
from tidy_tables import steps, trials

from labkit import thesis
from labkit.errors import LabkitError
from labkit.figures import AmbiguousFigure, FigureError
from labkit.figures.page import title_of
from labkit.thesis.figures import FIGURES, as_in_the_thesis, draw, find, shown

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def everything():
    """All trials of the thesis's grid that its figures show, and some more, with their steps."""
    grid = {"workers": (1, 2, 10, 50), "repeats": 2, "cores": 64}
    learning = {**grid, "repeats": 1, "batch_sizes": (5, 512)}
    parts = [
        trials(batch_sizes=(128, 256, 512), **grid).assign(eval_samples=0),
        trials(model="lstm", batch_sizes=(5, 20), learning_rates=(0.05,), **grid)
        .assign(eval_samples=0),
        trials(initializers=("xavier", "uniform"), learning_rates=(0.025, 0.1, 0.05), **learning)
        .assign(eval_samples=10_000),
        trials(frameworks=("mxnet",), workers=(50,), batch_sizes=(128,), repeats=1)
        .assign(eval_samples=1000, steps=40),
    ]  # fmt: skip
    parts[-1]["trial"] += "-of-chapter-5"
    table = pd.concat(parts, ignore_index=True)
    table["eval_samples"] = table["eval_samples"].astype(int)
    some = table[(table["model"] == "lenet5") & (table["eval_samples"] == 10_000)]
    return SimpleNamespace(table=table, steps=steps(some, windows=6))


def of(number, everything):
    """Return what the notebook of a figure has measured."""
    return SimpleNamespace(
        table=as_in_the_thesis(number, everything.table), steps=everything.steps
    )


def test_all_published_figures_are_there():
    assert list(FIGURES) == [
        *("5", "6.1a", "6.1b", "6.1a-initializer", "6.1b-initializer", "6.1a-rate", "6.1b-rate"),
        *("6.2a", "6.2b", "6.2a-updates", "6.2b-updates", "6.3", "6.4a", "6.4b", "6.5a", "6.5b"),
        *("6.6", "6.7", "6.8a", "6.8b", "6.9", "6.10a", "6.10b"),
    ]


@pytest.mark.parametrize("number", [number for number in FIGURES if number != "5"])
def test_a_figure_is_drawn_from_all_that_was_ever_run(number, everything):
    title = title_of(draw(number, of(number, everything)))
    number, kind = number.partition("-")[0], find(number).caption.split(", ")[0].rstrip("s")
    assert title.startswith(f"{number} ")
    if kind in ("Learning curve", "Throughput", "Speedup", "Time per epoch"):
        assert title.startswith(f"{number} {kind}, ")


def test_a_figure_says_what_along_its_axis(everything):
    for number, label in (("6.2a", "samples"), ("6.2a-updates", "updates"), ("6.1a", "updates"),
                          ("6.4b", "batch size"), ("6.8b", "workers")):  # fmt: skip
        figure = draw(number, of(number, everything))
        assert label in figure.axes[0].get_xlabel()


@pytest.mark.parametrize(
    ("number", "column", "values"),
    [
        ("6.1a", "framework", {"tensorflow"}),
        ("6.1a", "initializer", {"xavier"}),
        ("6.1b", "initializer", {"uniform"}),
        ("6.1b-initializer", "initializer", {"xavier", "uniform"}),
        ("6.1b-rate", "learning_rate", {0.1, 0.05}),
        ("6.2a", "workers", {1}),
        ("6.2b", "workers", {10}),
        ("6.2a", "batch_size", {5, 512}),
        ("6.4b", "batch_size", {256, 512}),
        ("6.5b", "workers", {1}),
        ("6.5a", "eval_samples", {0}),
        ("6.9", "model", {"lstm"}),
    ],
)
def test_a_figure_shows_its_trials(number, column, values, everything):
    assert set(shown(number, of(number, everything)).table[column]) == values


def test_6_2b_shows_whatever_has_several_workers():
    table = trials(workers=(1, 2, 4), batch_sizes=(5,), repeats=1)
    assert set(shown("6.2b", table).table["workers"]) == {2, 4}
    with pytest.raises(FigureError, match="6.2b: workers is 1 in all trials"):
        shown("6.2b", table[table["workers"] == 1])


def test_trials_of_other_settings_are_not_mixed_in(everything):
    with pytest.raises(AmbiguousFigure):
        draw("6.5a", everything.table[everything.table["model"] == "lenet5"])
    small = trials(batch_sizes=(32,))
    said = "6.3: no trial .* batch_size 512, only with 32; --batch-size 32 .* --profile NAME"
    with pytest.raises(FigureError, match=said):
        as_in_the_thesis("6.3", small.assign(eval_samples=0))
    with pytest.raises(FigureError, match="framework: tensorflow is in none of the trials"):
        draw("6.1a", trials(frameworks=("mxnet",)))


def test_what_is_left_out_of_a_figure_is_named():
    table = trials(workers=(1, 2), batch_sizes=(256, 512), repeats=1)
    large = (table["framework"] == "mxnet") & (table["batch_size"] == 512)
    notes = shown("6.4b", table[~(large & (table["workers"] == 1))]).notes
    said = "Left out: MXNet, batch 512, which was run with workers 2 only."
    assert [note for note in notes if note.startswith("Left out")] == [said]
    assert not any(note.startswith("Left out") for note in shown("6.4b", table).notes)


def test_a_rate_may_come_from_trials_with_an_evaluation():
    evaluated = trials(batch_sizes=(128,)).assign(eval_samples=None)
    assert len(as_in_the_thesis("6.6", evaluated)) == len(evaluated)
    alone = evaluated.assign(eval_samples=0, trial=evaluated["trial"] + "-alone")
    both = pd.concat([evaluated, alone])
    assert set(as_in_the_thesis("6.6", both)["eval_samples"]) == {0}
    assert len(as_in_the_thesis("6.6", both, but=["eval_samples"])) == len(both)


def test_an_empty_table_is_a_clear_error(everything):
    for number in FIGURES:
        with pytest.raises(FigureError, match="the table is empty: .* run the trials first"):
            draw(number, SimpleNamespace(table=everything.table.iloc[:0], steps=everything.steps))


def test_find_names_the_nearest_figure():
    assert find("6.3") is FIGURES["6.3"]
    with pytest.raises(FigureError, match=r"'6.1': no such figure; did you mean '6\.1"):
        find("6.1")
    with pytest.raises(LabkitError, match=r"known: 5, 6\.1a, "):
        find("seven")


def test_figure_5_shows_the_objects_of_its_trial(everything):
    figure = draw("5", of("5", everything))
    words = " ".join(text.get_text() for text in figure.axes[0].texts)
    assert title_of(figure) == "5 What a trial is in a cluster"
    assert "50 pods" in words and "worker 49" in words and "ConfigMap" in words


def test_the_room_is_found_from_the_face():
    assert thesis.words.INITIALIZERS["mxnet"] == "uniform"
    assert {"deployment", "figures", "rates", "words"} <= set(dir(thesis))
