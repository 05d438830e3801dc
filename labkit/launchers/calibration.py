"""How long a gradient takes on a quiet core here, which a slow node takes a multiple of."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from labkit import provenance
from labkit.launchers.protocol import OnEvent, TrialFailed, Waiting
from labkit.replicas.events import Computed, Event
from labkit.trials import Trial

TARGETS = 4000
"""That a calibration has judged, at least: some seconds with either model."""

FEWEST = 20
"""Gradients, however large the batch."""

TRIES = 3
"""How often a core is calibrated that other programs keep busy."""

DIRECTORY = "calibration"
"""Where what was printed is left, below the run's own."""


@dataclass(frozen=True)
class Calibration:
    """How long gradients took in one process on a core of its own.

    Attributes
    ----------
    gradients : int
        How many were computed.
    low, median, high : float
        Seconds: 10th, 50th and 90th percentile.
    overloaded : bool
        Whether other programs kept the machine busy meanwhile, at every try.
    """

    gradients: int
    low: float
    median: float
    high: float
    overloaded: bool


class Calibrations:
    """Those of a machine: one serves all trials whose gradients are alike, also of later sweeps.

    Otherwise the nodes of two sweeps would differ as much as their calibrations do, and a speedup
    between them would be of different nodes.

    Parameters
    ----------
    home : Path
        Where they are kept, a file each.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._known: dict[Trial, Calibration] = {}

    def of(
        self,
        trial: Trial,
        run: Callable[[Trial, Path, OnEvent], dict[str, Any]],
        directory: Path,
        on_event: OnEvent,
    ) -> Calibration:
        """Return the calibration for a trial, measured now if it is the first of its kind.

        Parameters
        ----------
        trial : Trial
            With a slowdown.
        run : callable
            Runs a trial in a directory and returns its circumstances.
        directory : Path
            Of the trial's run; what the calibration prints is left in a folder there.
        on_event : callable
            Is told that the trial waits for it.

        Raises
        ------
        TrialFailed
            If the calibration fails.
        """
        alone = alone_of(trial)
        machine = provenance.machine()
        kept = self._home / f"{alone.name}-{machine['host']}-{machine['cores']}.json"
        if kept.exists():
            return Calibration(**json.loads(kept.read_text()))
        for again in range(TRIES if alone not in self._known else 0):
            on_event(Waiting("the calibration of a core: other programs are busy" if again else
                             "the calibration of a core"))  # fmt: skip
            self._known[alone] = _measure(alone, run, directory / DIRECTORY)
            if not self._known[alone].overloaded:
                self._home.mkdir(parents=True, exist_ok=True)
                kept.write_text(json.dumps(asdict(self._known[alone])))
                break
        return self._known[alone]


def alone_of(trial: Trial) -> Trial:
    """Return a trial of one process whose gradients take as long as those of another.

    How long depends on the network and the batch, not on where training has got to.
    """
    steps = max(FEWEST, TARGETS // (trial.batch_size * trial.network.time_steps))
    return trial.replace(
        strategy="single", workers=1, servers=0, slowdown=1.0, epochs=None, eval_samples=0,
        steps=max(2, min(steps, trial.steps_per_epoch)), seed=1, learning_rate=1e-3,
    )  # fmt: skip


def _measure(
    alone: Trial, run: Callable[[Trial, Path, OnEvent], dict[str, Any]], directory: Path
) -> Calibration:
    found: list[Computed] = []

    def note(event: Event | Any) -> None:
        if isinstance(event, Computed):
            found.append(event)

    shutil.rmtree(directory, ignore_errors=True)  # an earlier try's events are none of this one's
    directory.mkdir()
    try:
        record = run(alone, directory, note)
    except TrialFailed as error:
        raise TrialFailed(f"the calibration of a core failed: {error}") from error
    (event,) = found
    return Calibration(
        event.gradients, event.low, event.median, event.high, bool(record["overloaded"])
    )
