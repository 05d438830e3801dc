"""What is shown of a sweep while it runs: in a terminal, in a notebook, in a file, in lines."""

import io
import json
import re
import threading

import made_runs
import pytest
from rich.console import Console

from labkit.launchers.protocol import (
    NoRoomForTrial,
    Pods,
    Retrying,
    Submitted,
    TrialFailed,
    Waiting,
)
from labkit.progress import SweepProgress, Tally, screens
from labkit.progress.course import DONE, Course, work
from labkit.progress.screens import Lines, Notebook, Terminal
from labkit.replicas.events import Barrier, Evaluation, Step
from labkit.settings import PROGRESS
from labkit.trials import ScriptTrial

pytestmark = pytest.mark.unit

ROLES = {
    "worker": {"Pending": 3, "Running": 2, "Succeeded": 0, "Failed": 0},
    "scheduler": {"Pending": 0, "Running": 1, "Succeeded": 0, "Failed": 0},
}


def event(kind, index=0, **fields):
    """Return an event of a worker."""
    return kind(seq=0, role="worker", index=index, cpu=0.0, **fields)


def step(trial, share, index=0, t=1.0):
    """Return the event of a worker that has taken a share of its steps."""
    steps = round(share * trial.total_steps)
    samples = steps * trial.batch_size
    return event(Step, index, t=t, steps=steps, samples=samples, loss=1.5, accuracy=50.0)


class Clock:
    """A clock that goes when it is told to."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def progress(clock, monkeypatch):
    """Return the progress of a sweep that is shown nowhere."""
    monkeypatch.delenv(PROGRESS, raising=False)
    return SweepProgress(quiet=True, course=Course(clock))


@pytest.fixture
def trials():
    return [made_runs.trial(seed=seed, workers=1) for seed in (1, 2)]


# --- what is known --------------------------------------------------------------------------


def test_waiting_is_said_and_is_not_training_time(progress, clock, trials):
    """After 17 s of waiting and 3 s of training half of the first, 9 s are left, not a minute."""
    progress.plan(trials)
    with progress.trial(trials[0]) as course:
        progress.event(trials[0], Waiting("another trial"))
        clock.now = 17.0
        assert progress.course.state(course) == "waits for another trial"
        assert progress.course.left is None
        assert "0:17 so far" in progress.course.summary()
        progress.event(trials[0], event(Barrier, t=0.0))
        clock.now = 20.0
        progress.event(trials[0], step(trials[0], 0.5))
        assert progress.course.left == pytest.approx(3 + 6)
        assert "0:20 so far, about 9 s left" in progress.course.summary()


def test_a_retry_is_said_and_the_bar_does_not_fall(progress, clock, trials):
    progress.plan(trials[:1])
    with progress.trial(trials[0]) as course:
        clock.now = 96.0
        progress.event(trials[0], step(trials[0], 0.96))
        assert progress.course.fraction == pytest.approx(0.96)
        progress.event(trials[0], Retrying("the machine was busy"))
        assert "the machine was busy, measuring again" in progress.course.state(course)
        clock.now = 106.0
        progress.event(trials[0], step(trials[0], 0.2))
        assert progress.course.fraction == pytest.approx(0.96)
        assert progress.course.left == pytest.approx(40)  # 10 s for a fifth, this time
        assert "measuring again; step 20" in progress.course.state(course)


def test_what_is_expected_is_left_at_first_and_what_it_takes_corrects_it(progress, clock, trials):
    progress.plan(trials, dict.fromkeys(trials, 20.0))
    assert progress.course.left == pytest.approx(40)
    with progress.trial(trials[0]) as course:
        assert progress.course.left == pytest.approx(40)
        clock.now = 20.0
        progress.event(trials[0], step(trials[0], 0.5))  # twice as slow as expected
        assert progress.course.left == pytest.approx((20 + 20) / (10 + 20) * 30)
        clock.now = 40.0
        progress.event(trials[0], step(trials[0], 1.0))
        course.state = DONE
    assert 20 < progress.course.left < 40


@pytest.mark.parametrize(("slowdown", "left"), [(20, 30), (None, 300)])
def test_ten_slow_nodes_take_no_longer_than_one(progress, clock, slowdown, left):
    """They wait at the same time; workers that compute all the time may have to share cores."""
    one, ten = (made_runs.trial(workers=n, slowdown=slowdown) for n in (1, 10))
    progress.plan([one, ten])
    with progress.trial(one) as course:
        for share in (0.5, 1.0):
            clock.now = 30 * share
            progress.event(one, step(one, share))
        course.state = DONE
    assert progress.course.left == pytest.approx(left)


@pytest.fixture
def scripts(tmp_path):
    """Return three repeats of a script."""
    script = tmp_path / "train.py"
    script.write_text("print('training')")
    return [ScriptTrial(framework="mxnet", script=str(script), seed=seed) for seed in (1, 2, 3)]


def test_scripts_go_by_the_clock_and_one_that_has_ended_corrects_the_others(
    progress, clock, scripts
):
    progress.plan(scripts, dict.fromkeys(scripts, 20.0))
    with progress.trial(scripts[0]) as course:
        clock.now = 15.0
        assert progress.course.left == pytest.approx(5 + 40)
        clock.now = 40.0  # twice as long as expected
        assert progress.course.left == pytest.approx(40)
        course.state = DONE
    each = (40 + 20) / (20 + 20) * 20
    assert progress.course.left == pytest.approx(2 * each)
    with progress.trial(scripts[1]):
        clock.now = 50.0
        assert progress.course.left == pytest.approx(2 * each - 10)


def test_of_scripts_that_nobody_expected_the_first_says_how_long_the_others_take(
    progress, clock, scripts
):
    progress.plan(scripts[:2])
    with progress.trial(scripts[0]) as course:
        clock.now = 30.0
        assert progress.course.left is None
        course.state = DONE
    with progress.trial(scripts[1]):
        clock.now = 40.0
        assert progress.course.left == pytest.approx(20)
        clock.now = 70.0  # nobody knows, then
        assert "left" not in progress.course.summary()


def test_what_is_not_expected_of_all_is_not_counted_on(progress, trials):
    progress.plan(trials, {trials[0]: 20.0})
    assert progress.course.left is None


def test_added_repeats_change_the_total_and_are_said(progress, clock, trials):
    progress.plan(trials[:1])
    with progress.trial(trials[0]) as course:
        clock.now = 10.0
        progress.event(trials[0], step(trials[0], 1.0))
        course.state = DONE
    assert "1 of 1 trials, 100%" in progress.course.summary()
    progress.plan(trials[1:])
    said = progress.course.summary()
    assert "1 of 2 trials (1 of them more repeats, for precise intervals), 50%" in said
    with progress.trial(trials[1]) as course:
        assert progress.course.title(course).startswith("trial 2 of 2: ")
        assert progress.course.left == pytest.approx(10)


@pytest.mark.parametrize(
    ("error", "said"), [(TrialFailed, "failed"), (KeyboardInterrupt, "ended")]
)
def test_what_ended_badly_is_not_done(progress, trials, error, said):
    progress.plan(trials[:1])
    with pytest.raises(error), progress.trial(trials[0]) as course:
        progress.event(trials[0], step(trials[0], 0.3))
        raise error
    assert progress.course.fraction == pytest.approx(0.3)
    assert said in course.state


def test_what_found_no_room_comes_again(progress, trials):
    progress.plan(trials)
    with pytest.raises(NoRoomForTrial), progress.trial(trials[0]):
        raise NoRoomForTrial("no room")
    assert (progress.course.ended, progress.course.fraction) == (0, 0)
    with progress.trial(trials[0]) as course:
        course.state = DONE
    assert (progress.course.ended, progress.course.fraction) == (1, 0.5)


def test_evaluation_is_said(progress):
    trial = made_runs.trial(workers=2)
    progress.plan([trial])
    with progress.trial(trial) as course:
        progress.event(trial, step(trial, 0.5))
        assert progress.course.state(course) == "step 50, loss 1.5, accuracy 50"
        progress.event(trial, step(trial, 1.0, index=1))
        assert "evaluating" not in progress.course.state(course)  # that is worker 0's task
        progress.event(trial, step(trial, 1.0))
        assert progress.course.state(course) == "step 100, evaluating on the test set"
        found = {"steps": 100, "metric": "accuracy", "value": 87.5, "loss": 0.1, "samples": 9}
        progress.event(trial, event(Evaluation, t=9.0, seconds=1.0, pause=1.0, **found))
        assert progress.course.state(course) == "test accuracy 87.5"


# --- a terminal -----------------------------------------------------------------------------


def screen(course):
    """Return what a narrow terminal would show."""
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(Terminal(course, threading.RLock()).table())
    return console.export_text()


def test_a_table_of_roles_and_a_bar_a_trial(progress, clock):
    trials = [made_runs.trial(seed=1, workers=5), made_runs.trial(seed=2, workers=5)]
    progress.plan(trials)
    with progress.trial(trials[0]), progress.trial(trials[1]):
        for trial in trials:
            progress.event(trial, Pods(ROLES))
        samples = work(trials[0]) // 5  # a fifth of it all, by each of two workers
        for index in (0, 1):
            progress.event(trials[0], event(Barrier, index, t=10.0))
            clock.now += 1.0
            progress.event(trials[0], step(trials[0], 1.0, index, t=12.0))
        text = screen(progress.course)
        assert "0 of 2 trials, 20%, 0:02 so far, about 4 s left" in text  # two at once
        assert "1 of 2: mxnet-lenet5-w5" in text and "2 of 2: mxnet-lenet5-w5" in text
        bars = [line.split() for line in text.splitlines() if "%" in line][1:]
        assert bars[0][0] == 12 * "━" and bars[0][1:3] == ["40%", "about"]
        assert bars[1] == ["0%"]  # and no guess yet of what is left
        rows = [line.split() for line in text.splitlines()]
        assert ["worker", "3", "2", str(samples)] in rows  # a second: two workers in two seconds
        assert ["worker", "3", "2"] in rows  # nothing measured yet
        assert ["scheduler", "1"] in rows
        progress.event(trials[1], Waiting("a node"))
        assert "waits for a node" in screen(progress.course)
        assert max(map(len, text.splitlines())) <= 80
    assert "1 of 2: " not in screen(progress.course)


def test_what_stays_in_a_terminal_is_broken_there(progress, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    Terminal(progress.course, threading.RLock()).finish(Tally(run={"one"}, aside="kept " * 20))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 2 and max(map(len, lines)) <= 40


# --- a file ---------------------------------------------------------------------------------


def test_a_report_instead(trials, monkeypatch, tmp_path):
    monkeypatch.setenv(PROGRESS, str(tmp_path / "report"))
    with SweepProgress() as progress:
        progress.plan(trials)
        with progress.trial(trials[0]) as course:
            progress.event(trials[0], Submitted("mxnet-1", 4))
            progress.event(trials[0], Pods(ROLES))
            course.state = DONE
        progress.finish(Tally(run={"a"}))
    *lines, last = [json.loads(line) for line in (tmp_path / "report").read_text().splitlines()]
    assert [line["state"] for line in lines] == [
        "starting", "submitted as mxnet-1",
        "workers 3 pending, 2 running; schedulers 1 running", "done",
    ]  # fmt: skip
    assert [line["ended"] for line in lines] == [False, False, False, True]
    assert lines[-1]["text"].startswith("trial 1 of 2: mxnet-lenet5-w1")
    assert last["tally"]["run"] == ["a"]


# --- lines that stay ------------------------------------------------------------------------


def test_elsewhere_few_lines_are_printed_without_any_bar(trials, monkeypatch, capsys):
    monkeypatch.delenv(PROGRESS, raising=False)
    with SweepProgress() as progress:
        progress.plan(trials)
        with progress.trial(trials[0]) as course:
            for share in range(1, 100):
                progress.event(trials[0], step(trials[0], share / 100))
            course.state = DONE
        with pytest.raises(TrialFailed), progress.trial(trials[1]):
            raise TrialFailed("why")
        progress.finish(Tally(run={"a"}))
    captured = capsys.readouterr()
    assert captured.out == "" and "\r" not in captured.err and "\x1b" not in captured.err
    begin, first, second, end = captured.err.splitlines()
    assert begin == "2 trials to run"
    assert first.startswith("trial 1 of 2: mxnet-lenet5-w1-b50-lr0.1-s1: done")
    assert second.startswith("trial 2 of 2: mxnet-lenet5-w1-b50-lr0.1-s2: failed")
    assert end == "1 trial: 1 run, 0 re-used"


def test_now_and_then_a_line_says_what_happens_also_while_nothing_does(
    progress, clock, trials, monkeypatch
):
    said, three = [], threading.Event()

    def echo(line):
        said.append(line)
        if len(said) > 6:
            three.set()

    monkeypatch.setattr(Lines, "interval", 0.01)
    progress.plan(trials)
    with progress.trial(trials[0]):
        progress.event(trials[0], Waiting("another trial"))
        lines = Lines(progress.course, threading.RLock(), echo)
        lines.planned(2)
        clock.now = 60.0
        assert three.wait(60)
        lines.close()
        count = len(said)
    assert said[-1] == "0 of 2 trials, 0%, 1:00 so far"
    assert said[-2].endswith(": waits for another trial")
    assert screens.SELDOM >= 60 and len(said) == count


def test_quiet_means_nothing(trials, monkeypatch, capsys):
    monkeypatch.delenv(PROGRESS, raising=False)
    with SweepProgress(quiet=True) as progress:
        progress.plan(trials)
        with progress.trial(trials[0]) as course:
            course.state = DONE
        progress.finish(Tally(run={"a"}))
    assert capsys.readouterr() == ("", "")


# --- a notebook -----------------------------------------------------------------------------


class Display:
    """Notes what an output of a notebook shows."""

    def __init__(self, monkeypatch):
        self.shown = []
        monkeypatch.setattr("IPython.display.display", self.display)

    def display(self, html, display_id):
        assert display_id
        self.update(html)
        return self

    def update(self, html):
        self.shown.append(html.data)


def test_one_output_of_a_notebook_is_rewritten_and_ends_as_a_line(
    progress, clock, trials, monkeypatch
):
    display = Display(monkeypatch)
    notebook = Notebook(progress.course, threading.RLock())
    progress.plan(trials)
    notebook.planned(2)
    with progress.trial(trials[0]) as course:
        clock.now = 5.0
        progress.event(trials[0], step(trials[0], 0.5))
        progress.event(trials[0], Pods(ROLES))
        notebook.tick()
        shown = display.shown[-1]
        assert "<progress value='0.500' max='1'>" in shown and "0 of 2 trials, 25%" in shown
        assert "<td>worker</td><td>3</td><td>2</td>" in shown
        clock.now = 6.0  # nothing happens, but time goes on
        notebook.tick()
        assert "0:06 so far" in display.shown[-1]
        assert re.search(r"at \d\d:\d\d:\d\d", display.shown[-1])  # it may be an old page
        course.state = DONE
    notebook.finish(Tally(run={"a"}))
    notebook.close()
    assert display.shown[-1] == "<p>1 trial: 1 run, 0 re-used</p>"


def test_an_interrupted_sweep_leaves_nothing_in_a_notebook_that_seems_to_go_on(
    progress, trials, monkeypatch
):
    display = Display(monkeypatch)
    notebook = Notebook(progress.course, threading.RLock())
    progress.plan(trials)
    notebook.planned(2)
    notebook.close()
    assert display.shown[-1] == ""
