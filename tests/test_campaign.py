"""Sweeps: what is checked, what is run in which order, and what is said of it at the end."""

import json
import math
import threading
import time

import made_runs
import pytest
from IPython.core.interactiveshell import InteractiveShell

from labkit import analysis, campaign
from labkit.campaign import SweepFailed, measure
from labkit.datasets import DataError
from labkit.launchers.protocol import NoRoomForTrial, TrialDiverged
from labkit.runs import Run, Store
from labkit.settings import PROGRESS
from labkit.trials import Sweep, TrialError

pytestmark = pytest.mark.unit


class Place:
    """A launcher with room for some trials, that would start more; what it runs is made up.

    Parameters
    ----------
    room, parallel : int
    diverged, overloaded : tuple of int
        Seeds of trials that end so.
    """

    def __init__(self, room=1, parallel=1, diverged=(), overloaded=()):
        self.room, self.parallel = room, parallel
        self.diverged, self.overloaded = diverged, overloaded
        self.running, self.most, self.tries, self.stopped = 0, 0, 0, False
        self.meanwhile, self.record = lambda trial: None, {}
        self.change = lambda role, index, lines: lines
        self.lock = threading.Lock()

    def __call__(self, deadline):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def check(self, trials):
        pass

    def stop(self):
        self.stopped = True

    def run(self, trial, directory, on_event):
        with self.lock:
            self.tries += 1
            self.running += 1
            self.most = max(self.most, self.running)
            full = self.running > self.room
        try:
            time.sleep(0.05)
            if full:
                raise NoRoomForTrial(f"{trial.name}: no room")
            if trial.seed in self.diverged:
                raise TrialDiverged(f"{trial.name}: worker 0: the loss became nan", self.record)
            self.meanwhile(trial)
            made_runs.write(trial, directory, self.change)
            told = {"overloaded": trial.seed in self.overloaded}
            return made_runs.RECORD | told | self.record
        finally:
            with self.lock:
                self.running -= 1


# --- before anything starts -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"launcher": "lokal"}, "launcher: 'lokal'; did you mean 'local'\\?; allowed: local, kub"),
        ({"launcher": "kubernets"}, "launcher: 'kubernets'; did you mean 'kubernetes'"),
        ({"deadline": 0}, "deadline: 0; allowed: seconds, more than 0"),
        ({"deadline": math.nan}, "deadline: nan"),
        ({"deadline": math.inf}, "deadline: inf; allowed: seconds, more than 0, at most 1e"),
    ],
)
def test_what_cannot_be_done(options, says, store):
    with pytest.raises(TrialError, match=says):
        measure([made_runs.trial()], store=store, **options)
    assert not store.root.exists()


def test_no_data(store, tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_DATA", str(tmp_path))
    with pytest.raises(DataError, match="is missing; fetch it with: labkit data"):
        measure([made_runs.trial()], store=store)
    assert not store.root.exists()


# --- what is said ---------------------------------------------------------------------------


@pytest.fixture
def place(monkeypatch):
    """Have another launcher, which is called ``place``."""
    place = Place(diverged=(3,), overloaded=(4, 5))
    monkeypatch.setitem(campaign.LAUNCHERS, "place", place)
    return place


def measured(store, *seeds, **options):
    sweep = Sweep([made_runs.trial(seed=seed) for seed in seeds])
    return measure(sweep, "place", store=store, **options)


@pytest.mark.usefixtures("place", "once")
def test_what_was_run_and_what_was_re_used(store):
    assert measured(store, 1).note == "1 trial: 1 run, 0 re-used"
    assert measured(store, 1, 2).note == "2 trials: 1 run, 1 re-used"
    assert measured(store, 1, 2, 6, 7).note == "4 trials: 2 run, 2 re-used"
    assert measured(store, 1, 2, 6, 7).note == "4 trials: 0 run, 4 re-used"
    assert measured(store, 1, 2, force=True).note == "2 trials: 2 run, 0 re-used"


@pytest.mark.usefixtures("once")
def test_a_diverged_run_was_where_its_launcher_says(store, place):
    place.record = {"launcher": "place", "machine": made_runs.MACHINE | {"host": "far away"}}
    (row,) = measured(store, 3).table.itertuples()
    assert (row.status, row.launcher, row.host) == ("diverged", "place", "far away")
    place.record = {}
    (row,) = measured(store, 3, force=True).table.itertuples()
    assert row.host == "here" and row.started.startswith("20")


@pytest.mark.usefixtures("once")
def test_a_run_that_is_found_wanting_was_where_its_launcher_says(store, place):
    place.record = {"launcher": "place", "machine": made_runs.MACHINE | {"host": "far away"}}
    place.change = lambda role, index, lines: lines[:-1]  # no replica says how it ended
    with pytest.raises(SweepFailed):
        measured(store, 1)
    (failed,) = (store.root / ".failed").iterdir()
    record = Run.read(failed).record
    assert (record["launcher"], record["machine"]["host"]) == ("place", "far away")


def test_runs_of_another_machine_are_measured_anew_and_that_is_said(store, monkeypatch):
    monkeypatch.setitem(campaign.LAUNCHERS, "local", Place())
    there = made_runs.MACHINE | {"host": "there"}
    for seed in (1, 2):
        made_runs.add(store, made_runs.trial(seed=seed), machine=there)
    sweep = [made_runs.trial(seed=seed) for seed in (1, 2, 3)]
    note = measure(sweep, store=store).note
    assert note == "3 trials: 3 run, 0 re-used; kept runs not used: 2 of the machine there"
    assert measure(sweep, store=store).note == "3 trials: 0 run, 3 re-used"


@pytest.mark.usefixtures("place", "once")
def test_what_is_left_out_is_said_each_time(store):
    busy = "without a rate (the machine was too busy)"
    diverged = "1 without a result (diverged)"
    assert measured(store, 1, 3).note == f"2 trials: 2 run, 0 re-used, {diverged}"
    assert measured(store, 4, 5).note == f"2 trials: 2 run, 0 re-used, 2 {busy}"
    assert measured(store, 1, 2, 3, 4).note == (
        f"4 trials: 2 run, 2 re-used, {diverged}, 1 {busy}"
    )


@pytest.mark.usefixtures("place", "once")
def test_results_show_what_differs_and_what_was_run(store):
    results = measured(store, 1, 3)
    head, *rows, note = repr(results).splitlines()
    assert head.split()[-4:] == ["batches_per_second", "oversubscribed", "overloaded", "accuracy"]
    assert [row.split()[2:4] for row in rows] == [["1", "finished"], ["3", "diverged"]]
    assert rows[0].split()[-1] == "87.5" and rows[1].split()[-1] == "-"
    assert note == results.note
    html = results._repr_html_()
    assert "<td>finished</td>" in html and html.endswith(f"<p>{note}</p>")


def test_a_busy_machine_is_tried_again(store, place):
    assert len(measured(store, 1, 4).runs) == 2
    assert place.tries == 2 + 1


# --- without a rate -------------------------------------------------------------------------


@pytest.mark.usefixtures("once")
def test_a_rate_that_is_missing_is_measured_at_the_next_call(store, place):
    assert measured(store, 1, 4).table["batches_per_second"].notna().tolist() == [True, False]
    place.overloaded = ()
    results = measured(store, 1, 4)
    assert results.table["batches_per_second"].notna().all()
    assert results.note == "2 trials: 1 run, 1 re-used"
    assert measured(store, 1, 4).note == "2 trials: 0 run, 2 re-used"


def test_what_is_oversubscribed_anyway_is_not_tried_again_nor_called_overloaded(store, place):
    trial = made_runs.trial(seed=4, workers=made_runs.MACHINE["cores"] + 1)
    results = measure([trial], "place", store=store)
    row = results.table.iloc[0]
    assert place.tries == 1
    assert (bool(row.oversubscribed), bool(row.overloaded)) == (True, False)
    assert row.batches_per_second > 0
    assert results.note == "1 trial: 1 run, 0 re-used"
    assert measure([trial], "place", store=store).note == "1 trial: 0 run, 1 re-used"


@pytest.mark.parametrize("seed", [1, 4])
def test_a_short_window_is_not_judged_whatever_the_load_was(seed, store, place, monkeypatch):
    monkeypatch.setattr(made_runs, "STEP", 0.03)
    trial = made_runs.trial(seed=seed, workers=1, steps=10)  # 0.3 s
    for run in (1, 0):
        results = measure([trial], "place", store=store)
        row = results.table.iloc[0]
        assert row.overloaded is None
        assert row.batches_per_second == pytest.approx(1 / 0.03)
        assert results.note == (
            f"1 trial: {run} run, {1 - run} re-used, 1 not judged (trained together for less than "
            "1 s: too short to tell whether other programs held it up)"
        )
        assert results.short["overloaded"].tolist() == ["not judged"]
    assert place.tries == 1


@pytest.mark.usefixtures("once")
def test_what_another_sweep_has_finished_meanwhile_is_re_used(store, place):
    first, second = made_runs.trial(seed=1), made_runs.trial(seed=2)
    elsewhere = Store(store.root, "place")
    place.meanwhile = lambda trial: made_runs.add(elsewhere, second, launcher="place")
    assert measure([first, second], "place", store=store).note == "2 trials: 1 run, 1 re-used"
    assert place.tries == 1


@pytest.mark.usefixtures("place", "once")
def test_each_call_ends_with_one_line(store, capsys, monkeypatch, tmp_path):
    for _ in range(2):
        note = measured(store, 1, 4).note
        assert capsys.readouterr().err.splitlines()[-1] == note
    monkeypatch.setenv(PROGRESS, str(tmp_path / "report"))
    runs = measured(store, 1, 4).runs
    assert capsys.readouterr().err == ""
    *_, last = (tmp_path / "report").read_text().splitlines()
    one, four = (run.directory.name for run in runs)
    assert json.loads(last)["tally"] == {
        "run": [four], "reused": [one], "diverged": [], "overloaded": [four], "unjudged": [],
        "aside": "",
    }  # fmt: skip


# --- rounds and repeats ---------------------------------------------------------------------


def grid(**values):
    return Sweep.grid(
        framework=["mxnet", "tensorflow"], model="lenet5", workers=[1, 2], batch_size=50,
        learning_rate=0.1, steps=100, **values,
    )  # fmt: skip


@pytest.mark.usefixtures("once")
def test_settings_take_turns_and_frameworks_stay_together_within_a_round(store, place):
    ran = []
    place.meanwhile = ran.append
    place.overloaded = place.diverged = ()
    # Sorted by setting, as a sweep may be that was put together from several.
    sweep = Sweep(sorted(grid(repeats=3), key=lambda trial: (trial.workers, trial.framework)))
    results = measure(sweep, "place", store=store)
    assert [trial.seed for trial in ran] == [1] * 4 + [2] * 4 + [3] * 4
    for seed in range(3):
        names = [trial.framework for trial in ran[4 * seed : 4 * seed + 4]]
        assert names in (["mxnet"] * 2 + ["tensorflow"] * 2, ["tensorflow"] * 2 + ["mxnet"] * 2)
    assert [run.trial for run in results.runs] == list(sweep)  # and are returned as asked for


class Scattered:
    """Has each run of a setting take as long for a step as a list says, by seed."""

    def __init__(self, place, seconds):
        self.seconds, self.ran = seconds, []
        place.overloaded = place.diverged = ()
        place.meanwhile = self

    def __call__(self, trial):
        self.ran.append(trial)
        made_runs.STEP = self.seconds(trial)


@pytest.fixture
def scattered(place, monkeypatch):
    """Return a function that has runs differ."""
    monkeypatch.setattr(made_runs, "STEP", made_runs.STEP)
    return lambda seconds: Scattered(place, seconds)


def test_repeats_are_added_until_the_interval_is_narrow_enough(store, scattered):
    uneven = {1: 0.10, 2: 0.12, 3: 0.10, 4: 0.11}  # 26 % after three, 14 % after four
    how = scattered(lambda trial: 0.1 if trial.workers == 1 else uneven[trial.seed])
    results = measure(grid(), "place", precision=0.15, store=store)
    table = results.table.groupby(["framework", "workers"])["seed"].agg(list)
    assert table.xs(1, level="workers").tolist() == [[1, 2, 3]] * 2
    assert table.xs(2, level="workers").tolist() == [[1, 2, 3, 4]] * 2
    assert [trial.seed for trial in how.ran] == [1] * 4 + [2] * 4 + [3] * 4 + [4] * 2
    for rates in results.table.groupby(["framework", "workers"])["batches_per_second"]:
        assert analysis.geometric_interval(rates[1]).half_width <= 0.15
    assert results.note == "14 trials: 14 run, 0 re-used"
    again = measure(grid(repeats=3), "place", precision=0.15, store=store)
    assert again.note == "14 trials: 0 run, 14 re-used"
    # As precise as before suffices; asked for more, the next repeat follows.
    assert measure(grid(), "place", store=store).note == "4 trials: 0 run, 4 re-used"


def test_there_are_no_more_repeats_than_allowed(store, scattered):
    scattered(lambda trial: 0.1 * 2**trial.seed)
    results = measure(grid(), "place", precision=0.1, max_repeats=4, store=store)
    assert sorted(results.table["seed"]) == [1] * 4 + [2] * 4 + [3] * 4 + [4] * 4
    assert len(measure(grid(), "place", precision=0.1, max_repeats=1, store=store).runs) == 4
    five = measure(grid(repeats=5), "place", precision=0.1, max_repeats=4, store=store)
    assert len(five.runs) == 20


@pytest.mark.usefixtures("once")
def test_what_gives_no_rate_is_not_repeated_for_precision(store, place):
    # Seed 3 diverges, and with seed 4 the machine is busy.
    trials = Sweep([made_runs.trial(seed=seed, workers=seed - 1) for seed in (2, 3, 4)])
    table = measure(trials, "place", precision=0.1, store=store).table
    assert table.groupby("workers")["seed"].agg(list).tolist() == [[2, 3], [3], [4]]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"precision": 0}, "precision: 0; allowed: more than 0, such as 0.1"),
        ({"precision": math.nan}, "precision: nan"),
        ({"max_repeats": 0}, "max_repeats: 0; allowed: a whole number from 1"),
        ({"max_repeats": 2.5}, "max_repeats: 2.5"),
    ],
)
def test_repeats_that_cannot_be(options, says, store):
    with pytest.raises(TrialError, match=says):
        measure([made_runs.trial()], store=store, **options)


# --- interrupted ----------------------------------------------------------------------------


def test_who_interrupts_is_told_in_a_line_what_is_kept(store, place):
    def interrupt(trial):
        if trial.seed == 2:
            raise KeyboardInterrupt

    place.meanwhile = interrupt
    with pytest.raises(KeyboardInterrupt) as caught:
        measured(store, 1, 2, 6)
    assert str(caught.value) == (
        "interrupted; what ran has been ended, what had finished is kept (1 trial of this call), "
        "and the same call goes on from there"
    )
    shell = InteractiveShell()
    shown = []
    shell._showtraceback = lambda kind, error, lines: shown.extend(lines)
    shell.showtraceback((caught.type, caught.value, caught.tb))
    assert shown == [str(caught.value)]
    place.meanwhile = lambda trial: None
    assert measured(store, 1, 2, 6).note == "3 trials: 2 run, 1 re-used"


# --- several at once ------------------------------------------------------------------------


@pytest.mark.parametrize("room", [1, 2, 9])
def test_trials_that_find_no_room_wait_for_others(room, store, monkeypatch):
    place = Place(room, parallel=3)
    monkeypatch.setitem(campaign.LAUNCHERS, "place", place)
    sweep = [made_runs.trial(seed=seed) for seed in range(6)]
    table = measure(sweep, "place", store=store).table
    assert list(table.status) == ["finished"] * 6
    assert list(table.seed) == list(range(6))
    assert place.most <= 3 and place.tries >= 6


def test_a_trial_that_finds_no_room_alone_fails(store, monkeypatch):
    place = Place(0, parallel=2)
    monkeypatch.setitem(campaign.LAUNCHERS, "place", place)
    sweep = [made_runs.trial(seed=seed) for seed in range(3)]
    with pytest.raises(SweepFailed, match="3 of 3 trials failed"):
        measure(sweep, "place", store=store)
    assert place.tries < 12


def test_an_interrupt_stops_those_that_run(store, monkeypatch):
    place = Place(9, parallel=2)
    monkeypatch.setitem(campaign.LAUNCHERS, "place", place)

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(campaign, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure([made_runs.trial(seed=seed) for seed in range(3)], "place", store=store)
    assert place.stopped
