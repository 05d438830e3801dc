"""What a plan says is what `measure` then does; it starts nothing and writes nothing."""

import tempfile
from pathlib import Path

import made_runs
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labkit import campaign, plan
from labkit.campaign import measure
from labkit.datasets import DataError
from labkit.planning import Plan
from labkit.runs import Store
from labkit.trials import Sweep, TrialError

pytestmark = pytest.mark.unit


@pytest.fixture
def place(monkeypatch):
    """Have a launcher that makes runs up, and data sets that are always there."""
    place = made_runs.Place()
    monkeypatch.setitem(campaign.LAUNCHERS, "local", place)
    return place


def grid(**values):
    return Sweep.grid(
        framework="mxnet", model="lenet5", batch_size=50, learning_rate=0.1, steps=100,
        **{"workers": [1, 2]} | values,
    )  # fmt: skip


SETTINGS = [made_runs.trial(workers=workers, steps=20) for workers in (1, 2, 3)]


@settings(max_examples=15)
@given(
    repeats=st.lists(st.integers(1, 4), min_size=3, max_size=3),
    there=st.sets(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=6),
    busy=st.booleans(),
    force=st.booleans(),
    precision=st.none() | st.just(0.1),
    most=st.integers(1, 6),
)
def test_what_is_kept_is_never_measured_and_the_parts_make_the_whole(
    repeats, there, busy, force, precision, most
):
    sweep = [
        one.replace(seed=seed)
        for one, count in zip(SETTINGS, repeats, strict=True)
        for seed in range(1, count + 1)
    ]
    with tempfile.TemporaryDirectory() as directory:
        store = Store(Path(directory))
        for place, seed in there:
            overloaded = busy and seed == 1
            made_runs.add(store, SETTINGS[place].replace(seed=seed), overloaded=overloaded)
        found = {t for t in sweep if (run := store.find(t)) and not run.overloaded}
        planned = Plan(store, sweep, precision=precision, max_repeats=most, force=force)
        table, due = planned.table, planned.due
        assert not set(due) & set(planned.kept)
        assert set(sweep) <= set(planned.kept) | set(planned.missing)
        assert set(sweep) & set(planned.kept) == (set() if force else found)
        assert len(set(due)) == len(due)
        assert table["kept"].sum() == len(planned.kept)
        assert table["to_measure"].sum() == len(due)
        assert table["kept"].sum() + table["to_measure"].sum() == len({*planned.kept, *due})
        known = planned.seconds(due)
        assert table["seconds"].sum() == pytest.approx(sum(known.values()))
        for trial in due:
            assert planned.cost(trial).seconds == known.get(trial)
        if precision is None:
            assert set(due) <= set(sweep) and planned.at_most == 0


@settings(max_examples=6)
@given(
    there=st.sets(st.tuples(st.integers(0, 2), st.integers(1, 3))),
    precision=st.none() | st.just(0.1),
)
@example(there={(0, 2), (1, 2), (2, 2)}, precision=0.1)  # a whole round is kept, the next is not
def test_what_was_planned_is_measured_in_that_order(there, precision):
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as directory:
        launcher = made_runs.Place()
        patch.setitem(campaign.LAUNCHERS, "local", launcher)
        store = Store(Path(directory))
        for place, seed in there:
            made_runs.add(store, SETTINGS[place].replace(seed=seed))
        planned = plan(SETTINGS, store=store, precision=precision)
        assert launcher.ran == []
        measure(SETTINGS, store=store, precision=precision, quiet=True)
        # Made-up runs are all alike, so that no more repeats are needed than must be.
        assert launcher.ran[: len(planned.missing)] == planned.missing
        assert set(launcher.ran) == set(planned.due)
        assert plan(SETTINGS, store=store, precision=precision).due == []


def test_repeats_for_precision_are_counted(store, place):
    planned = plan(grid(), store=store, precision=0.1, max_repeats=5)
    assert (len(planned.missing), len(planned.later), planned.at_most) == (2, 4, 4)
    assert "6 trials: 0 kept, 6 to measure, 4 more at most for precision" in planned.note
    assert planned.table["at_most_more"].tolist() == [2, 2]
    assert "at_most_more" not in plan(grid(), store=store).table


@pytest.mark.usefixtures("place")
def test_what_diverged_is_not_repeated(store):
    made_runs.add(store, grid()[0], status="diverged", error="nan")
    planned = plan(grid(), store=store, precision=0.1)
    assert {trial.workers for trial in planned.due} == {2}


def test_forced_trials_are_measured_though_they_are_kept(store, place):
    made_runs.add(store, grid()[0])
    assert plan(grid(), store=store, force=True).missing == list(grid())
    assert plan(grid(), store=store).missing == [grid()[1]]


def test_nothing_is_started_and_nothing_written(store, place):
    planned = plan(grid(), store=store, precision=0.1)
    assert repr(planned) and planned._repr_html_()
    assert not store.root.exists()
    made_runs.add(store, grid()[0])
    before = sorted((path, path.stat().st_mtime_ns) for path in store.root.rglob("*"))
    assert repr(plan(grid(), store=store)) and plan(grid(), store=store)._repr_html_()
    assert sorted((path, path.stat().st_mtime_ns) for path in store.root.rglob("*")) == before
    assert place.ran == []


def test_what_cannot_be_measured_cannot_be_planned(store, tmp_path, monkeypatch):
    with pytest.raises(TrialError, match="launcher: 'lokal'; did you mean 'local'"):
        plan(grid(), "lokal", store=store)
    with pytest.raises(TrialError, match="precision: 0"):
        plan(grid(), store=store, precision=0)
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    with pytest.raises(DataError, match="is missing; fetch it with: labkit data"):
        plan(grid(), store=store)


# --- what is said ---------------------------------------------------------------------------


@pytest.mark.usefixtures("place")
def test_a_plan_reads_well(store):
    made_runs.add(store, grid()[0])
    made_runs.add(store, grid()[1].replace(seed=2))
    planned = plan(grid(), store=store)
    assert planned.note == (
        "2 trials: 1 kept, 1 to measure, about 24 s, up to 702 MiB of memory, "
        f"{planned.note.split(', ')[-1]}"
    )
    assert planned.note.endswith("KiB on disk")
    head, first, second, note = repr(planned).splitlines()
    assert head.split() == [
        "workers", "kept", "to_measure", "time", "memory", "disk", "estimated_from",
    ]  # fmt: skip
    assert first.split() == ["1", "1", "0"]
    assert second.split()[:5] == ["2", "0", "1", "24", "s"]
    assert second.endswith("1 run of this setting") and note == planned.note
    assert planned._repr_html_().endswith(f"<p>{planned.note}</p>")


@pytest.mark.usefixtures("place")
def test_nothing_to_go_by_is_said(store):
    planned = plan(grid(workers=[1]), store=store)
    assert planned.note == "1 trial: 0 kept, 1 to measure, how long they take is unknown"
    assert "nothing alike has been measured here" in repr(planned)
    made_runs.add(store, grid()[0])
    planned = plan([grid()[1], made_runs.trial(model="lstm", batch_size=20)], store=store)
    assert "for 1 of these (1 unknown)" in planned.note and "memory" not in planned.note


@pytest.mark.usefixtures("place")
def test_runs_that_are_not_used_and_room_that_lacks_are_said(store, monkeypatch):
    there = made_runs.MACHINE | {"host": "there"}
    made_runs.add(store, grid()[0], machine=there)
    made_runs.add(store, grid()[1])
    monkeypatch.setattr("labkit.launchers.local.memory.free", lambda: (300 << 20, 2**33))
    planned = plan([grid()[0], grid()[1].replace(seed=2)], store=store)
    assert planned.remarks == [
        "kept runs not used: 1 of the machine there",
        "there may be too little memory: 300 MiB are free",
    ]
    monkeypatch.setattr("labkit.planning.words._free", lambda place: 1 << 20)
    assert any("too little room in" in line for line in plan(grid(), store=store).remarks)


def test_a_sweep_says_what_it_will_do_unless_it_is_to_be_quiet(store, place, capsys):
    made_runs.add(store, grid()[0])
    measure(grid(), store=store, quiet=True)
    assert capsys.readouterr().err == ""
    measure(grid(repeats=2), store=store)
    first, *_ = capsys.readouterr().err.splitlines()
    assert first.startswith("4 trials: 2 kept, 2 to measure, about ")
    measure(grid(repeats=2), store=store)  # nothing starts, so there is nothing to be said before
    assert capsys.readouterr().err == "4 trials: 0 run, 4 re-used\n"


def test_a_damaged_run_is_no_reason_not_to_measure_others(store, place):
    run = made_runs.add(store, made_runs.trial(workers=4))
    (run.directory / "run.json").write_text("{")
    assert plan(grid(), store=store).note.endswith("how long they take is unknown")


def test_of_a_function_nothing_is_planned(store):
    with pytest.raises(TrialError, match="plan: takes trials"):
        plan(lambda job: None, store=store)
