"""Progress of a sweep, live: bars in a terminal or a notebook, or lines for whoever asked."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from labkit.launchers.protocol import Notice, Pods, Submitted, Waiting
from labkit.replicas.events import Barrier, Evaluation, Event, Step
from labkit.settings import PROGRESS
from labkit.trials import Trial

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live



def work(trial: Trial) -> int:
    """Return the samples that all workers of a trial will train on, together."""
    return trial.total_steps * trial.workers * trial.batch_size


def pods(roles: dict[str, dict[str, int]]) -> str:
    """Return in words how many pods of each kind are how far."""
    return "; ".join(
        f"{kind}s " + ", ".join(f"{n} {state.lower()}" for state, n in states.items() if n)
        for kind, states in roles.items()
    )


def duration(seconds: float) -> str:
    """Return a time that remains, as one would say it."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


class SweepProgress:
    """Shows which trial of a sweep runs, how far it is, and the time that remains.

    Parameters
    ----------
    trials : sequence of Trial
        What will be run.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        self.trials = trials
        self.total = sum(map(work, trials))
        self._before = 0  # samples of the trials that are over
        self._now: dict[Trial, dict[int, int]] = {}  # samples of each worker of those that run
        self._texts: dict[Trial, str] = {}
        self._lock = threading.RLock()
        self._begun = time.monotonic()
        self._report = os.environ.get(PROGRESS)
        self._bar = None

    def __enter__(self) -> Self:
        if not self._report and self.trials:
            self._open()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def _open(self) -> None:
        from tqdm.auto import tqdm

        self._bar = tqdm(
            total=self.total,
            leave=False,
            mininterval=0.3,
            bar_format="{desc} {percentage:3.0f}% {bar} {elapsed} < {remaining}{postfix}",
        )

    def begin(self, trial: Trial) -> None:
        """Say that a trial starts."""
        with self._lock:
            self._now[trial] = {}
            number = list(self.trials).index(trial) + 1
            self._texts[trial] = f"trial {number} of {len(self.trials)}: {trial.name[:-13]}"
            self._show(trial, "starting")

    def event(self, trial: Trial, event: Event | Notice) -> None:
        """Take an event of a running trial."""
        with self._lock:
            match event:
                case Waiting():
                    self._show(trial, f"waits for {event.for_}")
                case Submitted():
                    self._show(trial, f"submitted as {event.name}")
                case Pods():
                    self._show(trial, pods(event.roles))
                case Step():
                    self._now[trial][event.index] = event.samples
                    quality = f", loss {event.loss:.3g}"
                    if event.accuracy is not None:
                        quality += f", accuracy {event.accuracy:.3g}"
                    self._show(trial, f"step {event.steps}{quality}")
                case Evaluation():
                    self._show(trial, f"test {event.metric} {event.value:.4g}")

    def end(self, trial: Trial) -> None:
        """Say that a trial is over."""
        with self._lock:
            self._before += work(trial)
            self._now.pop(trial)
            self._show(trial, "done")

    def _show(self, trial: Trial, state: str) -> None:
        text = self._texts[trial]
        now = sum(sum(workers.values()) for workers in self._now.values())
        done = min(self._before + now, self.total)
        if self._bar is not None:
            self._bar.set_description_str(text, refresh=False)
            self._bar.set_postfix_str(state, refresh=False)
            self._bar.n = done
            self._bar.refresh()
        elif self._report:
            seconds = time.monotonic() - self._begun
            left = seconds * (self.total - done) / done if done else None
            with open(self._report, "a") as file:
                file.write(json.dumps({"text": text, "state": state, "left": left}) + "\n")


@dataclass
class _Shown:
    """What is shown of a trial in a cluster."""

    number: int
    since: float  # when the first worker began to train, or before that, when it was submitted
    state: str = ""
    roles: dict[str, dict[str, int]] = field(default_factory=dict)
    begun: dict[int, float] = field(default_factory=dict)
    rates: dict[int, float] = field(default_factory=dict)


class ClusterProgress(SweepProgress):
    """Shows a bar for each trial that runs, and how far the pods of each of its roles are.

    Parameters
    ----------
    trials : sequence of Trial
        What will be run.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        super().__init__(trials)
        self._shown: dict[Trial, _Shown] = {}
        self._live: Live | None = None

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.stop()

    def _open(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(
            console=Console(stderr=True), refresh_per_second=2, transient=True,
            get_renderable=self._table,
        )  # fmt: skip
        self._live.start()

    def begin(self, trial: Trial) -> None:
        """Say that a trial starts."""
        with self._lock:
            number = list(self.trials).index(trial) + 1
            self._shown[trial] = _Shown(number, time.monotonic())
            super().begin(trial)

    def event(self, trial: Trial, event: Event | Notice) -> None:
        """Take an event of a running trial."""
        with self._lock:
            shown = self._shown[trial]
            if isinstance(event, Pods):
                shown.roles = event.roles
            elif isinstance(event, Barrier):
                if not shown.begun:
                    shown.since = time.monotonic()
                shown.begun[event.index] = event.t
            elif isinstance(event, Step) and event.index in shown.begun:
                seconds = event.t - shown.begun[event.index]
                shown.rates[event.index] = event.samples / max(seconds, 1e-3)
            super().event(trial, event)

    def end(self, trial: Trial) -> None:
        """Say that a trial is over."""
        with self._lock:
            super().end(trial)
            self._shown.pop(trial)

    def _show(self, trial: Trial, state: str) -> None:
        self._shown[trial].state = state
        super()._show(trial, state)

    def _table(self) -> Group:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        states = ("Pending", "Running", "Succeeded", "Failed")
        parts = []
        with self._lock:
            for trial, shown in self._shown.items():
                done, due = sum(self._now[trial].values()), work(trial)
                left = ""
                if done:
                    seconds = time.monotonic() - shown.since
                    left = f"about {duration(seconds * (due - done) / done)} left"
                bar = Table.grid(padding=(0, 2))
                bar.add_row(ProgressBar(due, done, width=30), f"{done / due:.0%}", left)
                roles = Table("role", *map(str.lower, states), "samples/s", box=None)
                for role, counts in shown.roles.items():
                    rate = sum(shown.rates.values()) if role == "worker" else 0
                    numbers = (str(counts[name] or "") for name in states)
                    roles.add_row(role, *numbers, f"{rate:.0f}" if rate else "")
                title = f"trial {shown.number} of {len(self.trials)}: {trial.name[:-13]}"
                parts += [title, bar, shown.state, roles]
        return Group(*parts)
