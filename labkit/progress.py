"""Progress of a sweep, live: a bar in a terminal or a notebook, or lines for whoever asked."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from typing import Any, Self

from .trials import Trial

REPORT = "LABKIT_PROGRESS"
"""Environment variable with a file to which progress is appended instead of drawing a bar."""


def work(trial: Trial) -> int:
    """Return the samples that all workers of a trial will train on, together."""
    return trial.total_steps * trial.workers * trial.batch_size


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
        self._now: dict[int, int] = {}
        self._text = ""
        self._number = 0
        self._begun = time.monotonic()
        self._report = os.environ.get(REPORT)
        self._bar = None

    def __enter__(self) -> Self:
        if not self._report and self.trials:
            from tqdm.auto import tqdm

            self._bar = tqdm(
                total=self.total,
                leave=False,
                mininterval=0.3,
                bar_format="{desc} {percentage:3.0f}% {bar} {elapsed} < {remaining}{postfix}",
            )
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def begin(self, trial: Trial) -> None:
        """Say that a trial starts."""
        self._number += 1
        self._now = {}
        self._text = f"trial {self._number} of {len(self.trials)}: {trial.name[:-13]}"
        self._show("starting")

    def event(self, event: dict[str, Any]) -> None:
        """Take an event of the running trial."""
        if event["kind"] == "waiting":
            self._show(f"waits for {event['for']}")
        elif event["kind"] == "step":
            self._now[event["index"]] = event["samples"]
            quality = "".join(
                f", {name} {event[name]:.3g}" for name in ("loss", "accuracy") if name in event
            )
            self._show(f"step {event['steps']}{quality}")
        elif event["kind"] == "eval":
            self._show(f"test {event['metric']} {event['value']:.4g}")

    def end(self, trial: Trial) -> None:
        """Say that a trial is over."""
        self._before += work(trial)
        self._now = {}
        self._show("done")

    def _show(self, state: str) -> None:
        done = min(self._before + sum(self._now.values()), self.total)
        if self._bar is not None:
            self._bar.set_description_str(self._text, refresh=False)
            self._bar.set_postfix_str(state, refresh=False)
            self._bar.n = done
            self._bar.refresh()
        elif self._report:
            seconds = time.monotonic() - self._begun
            left = seconds * (self.total - done) / done if done else None
            with open(self._report, "a") as file:
                file.write(json.dumps({"text": self._text, "state": state, "left": left}) + "\n")
