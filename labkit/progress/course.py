"""How far the trials of a sweep are, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from labkit.launchers.protocol import Notice, Pods, Retrying, Submitted, Waiting
from labkit.replicas.events import Barrier, Evaluation, Event, Rate, Step
from labkit.trials import Trial
from labkit.trials.demand import is_slow

DONE, REUSED = "done", "run by another sweep meanwhile"
"""Outcomes of a trial that has all its samples."""


def work(trial: Trial) -> int:
    """Return the samples that all workers of a trial will train on, together.

    Nobody knows those of a script: it is one piece of work, done when it has ended.
    """
    if trial.total_steps is None:
        return 1
    return trial.total_steps * trial.workers * trial.batch_size


def _in_turn(trial: Trial) -> float:
    """Return the samples that take their time one after the other: slow nodes wait at once."""
    return work(trial) / (trial.workers if is_slow(trial) else 1)


def pods(roles: dict[str, dict[str, int]]) -> str:
    """Return in words how many pods of each kind are how far."""
    return "; ".join(
        f"{kind}s " + ", ".join(f"{n} {state.lower()}" for state, n in states.items() if n)
        for kind, states in roles.items()
    )


def duration(seconds: float) -> str:
    """Return a time that remains, as one would say it."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


@dataclass
class TrialCourse:
    """How far one trial is.

    Attributes
    ----------
    trial : Trial
    number : int
        Its place among those that are run, from 1.
    since : float or None
        Since when it has been on its way; None while it waits.
    state : str
        What it does now, or how it ended.
    remark : str
        What holds until its end.
    roles : dict
        In a cluster: how many pods of each kind are how far.
    rates : dict of int to float
        Samples per second of each worker.
    """

    trial: Trial
    number: int
    since: float | None
    state: str = "starting"
    remark: str = ""
    roles: dict[str, dict[str, int]] = field(default_factory=dict)
    rates: dict[int, float] = field(default_factory=dict)
    _spent: float = 0.0
    _samples: dict[int, int] = field(default_factory=dict)
    _most: int = 0
    _barriers: dict[int, float] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """How many it has been trained on, in this attempt."""
        return sum(self._samples.values())

    @property
    def fraction(self) -> float:
        """How much of it has been done: as much as in any attempt, as a bar must not fall."""
        return max(self._most, self.samples) / work(self.trial)

    @property
    def known(self) -> float:
        """How much of this attempt has been done for certain: of a script, nothing or all."""
        if self.trial.total_steps is None:
            return float(self.state == DONE)
        return self.samples / work(self.trial)

    def seconds(self, now: float) -> float:
        """Return how long this attempt has taken so far, without waiting."""
        return self._spent + (0.0 if self.since is None else now - self.since)

    def left(self, now: float) -> float | None:
        """Return how many seconds it will take from now on; None if nobody can tell."""
        if self.since is None or not self.samples:
            return None
        return self.seconds(now) * (work(self.trial) / self.samples - 1)

    def rest(self, whole: float, now: float) -> float:
        """Return how many of the seconds that all of it takes are left; of a script, by the clock.

        Parameters
        ----------
        whole : float
        now : float
        """
        if self.trial.total_steps is None:
            return max(whole - self.seconds(now), 0.0)
        return whole * (1 - self.known)

    def stop(self, now: float) -> None:
        """Count no more time, until the next event."""
        self._spent, self.since = self.seconds(now), None

    def event(self, event: Event | Notice, now: float) -> None:
        """Take an event of the trial."""
        if isinstance(event, Waiting):
            self.stop(now)
        elif self.since is None:
            self.since = now
        match event:
            case Waiting():
                self.state = f"waits for {event.for_}"
            case Retrying():
                self._most = max(self._most, self.samples)
                self._samples.clear()
                self._barriers.clear()
                self.rates.clear()
                self._spent, self.since = 0.0, now
                self.remark, self.state = f"{event.because}, measuring again", "starting"
            case Submitted():
                self.state = f"submitted as {event.name}"
            case Pods():
                self.roles, self.state = event.roles, pods(event.roles)
            case Barrier():
                self._barriers[event.index] = event.t + event.turn
            case Step():
                self._step(event)
            case Rate():
                self.state = f"prints {event.rate:.4g} {event.unit}/s"
            case Evaluation():
                self.state = f"test {event.metric} {event.value:.4g}"

    def _step(self, event: Step) -> None:
        if self.trial.total_steps is not None:
            self._samples[event.index] = event.samples
        if event.index in self._barriers:
            seconds = event.t - self._barriers[event.index]
            self.rates[event.index] = event.samples / max(seconds, 1e-3)
        trial = self.trial
        judges = bool(trial.evaluations) and event.index == 0
        ends = judges and event.steps % trial.steps_per_epoch == 0
        if ends or (judges and event.steps == trial.total_steps):
            self.state = f"step {event.steps}, evaluating on the test set"
            return
        numbers = {"loss": event.loss, "accuracy": event.accuracy}
        said = [f"{name} {value:.3g}" for name, value in numbers.items() if value is not None]
        self.state = ", ".join([f"step {event.steps}", *said])


class Course:
    """How far a sweep is.

    Parameters
    ----------
    clock : callable
        Returns the time in seconds.

    Attributes
    ----------
    running : dict of Trial to TrialCourse
    added : int
        How many trials have been added to those of the beginning.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.running: dict[Trial, TrialCourse] = {}
        self.added = 0
        self._begun = clock()
        self._planned: list[Trial] = []
        self._expected: dict[Trial, float] = {}
        self._ended: dict[Trial, TrialCourse] = {}

    def plan(self, trials: Sequence[Trial], seconds: Mapping[Trial, float] | None = None) -> None:
        """Add trials that will be run, with the seconds that are expected of them, if any are."""
        self.added += len(trials) if self._planned else 0
        self._planned += trials
        self._expected |= seconds or {}

    def begin(self, trial: Trial) -> TrialCourse:
        """Have a trial start; return how far it is."""
        number = self._planned.index(trial) + 1
        course = self.running[trial] = TrialCourse(trial, number, self.clock())
        return course

    def end(self, trial: Trial, outcome: str) -> TrialCourse:
        """Have a trial end; return how far it came."""
        course = self._ended[trial] = self.running.pop(trial)
        course.stop(self.clock())
        course.state = outcome
        return course

    def again(self, trial: Trial) -> None:
        """Have a trial that found no room wait for its turn once more."""
        self.running.pop(trial)

    @property
    def trials(self) -> int:
        """How many trials will be run, as far as is known."""
        return len(self._planned)

    @property
    def ended(self) -> int:
        """How many have ended, well or not."""
        return len(self._ended)

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning, waiting and all."""
        return self.clock() - self._begun

    @property
    def fraction(self) -> float:
        """How much of all the work has been done; what failed was not done."""
        done = 0.0
        for trial, course in (self._ended | self.running).items():
            whole = course.state in (DONE, REUSED)
            done += work(trial) * (1.0 if whole else course.fraction)
        return done / sum(map(work, self._planned)) if self._planned else 0.0

    @property
    def left(self) -> float | None:
        """Seconds until all have ended; None if nobody can tell.

        As long for each sample as it took so far: without waiting, and without attempts that
        do not count. Where it was expected how long all take, samples count for the seconds that
        were expected of them, and that these are right for as much as one trial more.
        """
        now = self.clock()
        size, counted_on = self._expected, 0.0
        if all(trial in size for trial in self._planned):
            counted_on = sum(size.values()) / max(len(size), 1)
        else:
            size = {trial: _in_turn(trial) for trial in self._planned}
        counted = [*self.running.values(), *self._ended.values()]
        done = sum(size[c.trial] * c.known for c in counted)
        if not done + counted_on:
            return None
        seconds = sum(course.seconds(now) for course in counted if course.known)
        each = (seconds + counted_on) / (done + counted_on)
        begun = self._ended | self.running
        due = sum(each * size[trial] for trial in self._planned if trial not in begun)
        due += sum(c.rest(each * size[c.trial], now) for c in self.running.values())
        return due / max(len(self.running), 1)

    def title(self, course: TrialCourse) -> str:
        """Return which of the trials one is."""
        return f"trial {course.number} of {self.trials}: {course.trial.name[:-13]}"

    def state(self, course: TrialCourse) -> str:
        """Return what a trial does, and what is to be remarked of it."""
        return "; ".join(filter(None, [course.remark, course.state]))

    def summary(self) -> str:
        """Return in a line how far the sweep is."""
        minutes, seconds = divmod(int(self.elapsed), 60)
        said = [f"{self.ended} of {self.trials} trials", f"{self.fraction:.0%}"]
        if self.added:
            said[0] += f" ({self.added} of them more repeats, for precise intervals)"
        said.append(f"{minutes}:{seconds:02d} so far")
        if (left := self.left) and any(
            course.since is not None for course in self.running.values()
        ):
            said.append(f"about {duration(left)} left")
        return ", ".join(said)
