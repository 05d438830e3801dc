"""Sweeps: what is checked, what is run in which order, and what is said of it at the end."""

import math
import threading
import time

import made_runs
import pytest

from labkit import campaign
from labkit.campaign import SweepFailed, measure
from labkit.datasets import DataError
from labkit.launchers.protocol import NoRoomForTrial, TrialDiverged
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
        self.lock = threading.Lock()

    def __call__(self, deadline):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
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
                raise TrialDiverged(f"{trial.name}: worker 0: the loss became nan")
            made_runs.write(trial, directory)
            return made_runs.RECORD | {"overloaded": trial.seed in self.overloaded}
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


def test_runs_of_another_machine_are_measured_anew_and_that_is_said(store, monkeypatch):
    monkeypatch.setitem(campaign.LAUNCHERS, "local", Place())
    monkeypatch.setattr(campaign.datasets, "verify", lambda dataset: None)
    there = made_runs.MACHINE | {"host": "there"}
    for seed in (1, 2):
        made_runs.add(store, made_runs.trial(seed=seed), machine=there)
    sweep = [made_runs.trial(seed=seed) for seed in (1, 2, 3)]
    note = measure(sweep, store=store).note
    assert note == "3 trials: 3 run, 0 re-used; kept runs not used: 2 of the machine there"
    assert measure(sweep, store=store).note == "3 trials: 0 run, 3 re-used"


@pytest.mark.usefixtures("place", "once")
def test_what_is_left_out_is_said_each_time(store):
    busy = "without a rate (other programs kept the machine busy)"
    diverged = "1 without a result (diverged)"
    assert measured(store, 1, 3).note == f"2 trials: 2 run, 0 re-used, {diverged}"
    assert measured(store, 4, 5).note == f"2 trials: 2 run, 0 re-used, 2 {busy}"
    assert measured(store, 1, 2, 3, 4).note == (
        f"4 trials: 1 run, 3 re-used, {diverged}, 1 {busy}"
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
