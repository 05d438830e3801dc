"""The progress of a sweep, as `measure` tells it: what has happened, and where it is shown."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

from labkit.launchers.protocol import NoRoomForTrial, Notice
from labkit.progress.course import Course, TrialCourse
from labkit.progress.screens import Lines, Notebook, Report, Screen, Terminal, kind_of_output
from labkit.progress.tally import Tally
from labkit.replicas.events import Event
from labkit.settings import PROGRESS
from labkit.trials import Trial

SCREENS = {"notebook": Notebook, "terminal": Terminal, "other": Lines}


class SweepProgress:
    """Shows which trials of a sweep run, how far they are, and the time that remains.

    In a notebook and in a terminal what is shown is rewritten; elsewhere lines are printed, but
    seldom.

    Parameters
    ----------
    quiet : bool
        Show nothing.
    course : Course, optional
        For tests, one with a clock of their own.
    """

    def __init__(self, quiet: bool = False, course: Course | None = None) -> None:
        self.course = course or Course()
        self._lock = threading.RLock()
        report = os.environ.get(PROGRESS)
        if report:
            self._screen: Screen = Report(self.course, self._lock, report)
        elif quiet:
            self._screen = Screen(self.course, self._lock)
        else:
            self._screen = SCREENS[kind_of_output()](self.course, self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._screen.close()

    def plan(
        self, trials: Sequence[Trial], seconds: Mapping[Trial, float] | None = None, said: str = ""
    ) -> None:
        """Say which trials will be run, beside those that were said before.

        Parameters
        ----------
        trials : sequence of Trial
        seconds : mapping of Trial to float, optional
            How long each is expected to take, where that is known.
        said : str
            What is planned, in a line.
        """
        with self._lock:
            self.course.plan(trials, seconds or {})
            self._screen.planned(len(trials), said)

    @contextmanager
    def trial(self, trial: Trial) -> Iterator[TrialCourse]:
        """Show a trial from its begin to its end; it has failed unless its `state` says else."""
        with self._lock:
            course = self.course.begin(trial)
            self._screen.changed(course)
        outcome = "failed"
        try:
            yield course
            outcome = course.state
        except NoRoomForTrial:
            outcome = ""
            raise
        except Exception:
            raise
        except BaseException:
            outcome = "ended early"
            raise
        finally:
            with self._lock:
                if outcome:
                    self._screen.ended(self.course.end(trial, outcome))
                else:
                    self.course.again(trial)

    def event(self, trial: Trial, event: Event | Notice) -> None:
        """Take an event of a running trial."""
        with self._lock:
            course = self.course.running[trial]
            course.event(event, self.course.clock())
            self._screen.changed(course)

    def finish(self, tally: Tally) -> None:
        """Say in a line what came of all trials."""
        with self._lock:
            self._screen.finish(tally)
