"""How long a gradient takes on a quiet core here, which a slow node takes a multiple of."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from labkit import provenance, settings
from labkit.launchers.protocol import OnEvent, TrialFailed, Waiting
from labkit.replicas.events import Computed
from labkit.runs.circumstances import digest
from labkit.runs.run import Run, RunError
from labkit.trials import Trial
from labkit.trials.frameworks import Framework

TARGETS = 4000
"""That a calibration has judged, at least: some seconds with either model."""

FEWEST = 20
"""Gradients, however large the batch."""

UNEVEN = 1.5
"""Times the 10th percentile above which the median shows that other programs took the core: on a
quiet one it is 1.1 to 1.2 times that."""

TRIES = 3
"""How often a core is calibrated that other programs keep busy."""

DIRECTORY = "calibration"
"""Where what was printed is left, below the run's own."""


class RunTrial(Protocol):
    """How a launcher runs a trial."""

    def __call__(
        self, trial: Trial, directory: Path, on_event: OnEvent, compute: float | None = None
    ) -> dict[str, Any]:
        """Run a trial in a directory and return its circumstances.

        `compute` are the seconds that a gradient takes on a quiet core, for a trial with a
        slowdown; without it nothing is stretched.
        """
        ...


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
        Whether other programs kept the machine or the core busy meanwhile, at every try.
    cpu_model : str
        Of the core.
    """

    gradients: int
    low: float
    median: float
    high: float
    overloaded: bool
    cpu_model: str


class Calibrations:
    """Those of a machine: one serves all trials whose gradients are alike, also of later sweeps.

    Otherwise the nodes of two sweeps would differ as much as their calibrations do, and a speedup
    between them would be of different nodes.

    Parameters
    ----------
    circumstances : callable
        Returns for a framework where and with what its trials run here: what a calibration does
        not hold beyond.
    """

    def __init__(self, circumstances: Callable[[Framework], dict[str, Any]]) -> None:
        self._circumstances = circumstances
        self._home = settings.outputs() / "calibrations"
        self._lock = threading.Lock()  # trials that run at once wait for the same calibration

    def run(
        self, run: RunTrial, trial: Trial, directory: Path, on_event: OnEvent
    ) -> dict[str, Any]:
        """Run a trial and return its circumstances; for one with a slowdown, calibrate first.

        Parameters
        ----------
        run : RunTrial
            How trials are run.
        trial : Trial
        directory : Path
            Of the trial's run; what a calibration prints is left in a folder there.
        on_event : callable
            Gets the events, and is told that the trial waits for a calibration.

        Raises
        ------
        TrialFailed
            If the trial fails, or its calibration, or if it ran on cores of another kind.
        """
        if trial.slowdown is None:
            return run(trial, directory, on_event)
        with self._lock:
            found = self._of(trial, run, directory, on_event)
        record = run(trial, directory, on_event, found.median)
        others = {node["cpu_model"] for node in record.get("nodes", {}).values()}
        if others - {found.cpu_model}:
            raise TrialFailed(
                f"{trial.name}: its core was calibrated on a node with {found.cpu_model}, but it "
                f"ran on nodes with {', '.join(sorted(others))}. Choose nodes that are alike by "
                "node_selector in cluster.toml"
            )
        return record | {"calibration": asdict(found)}

    def _of(self, trial: Trial, run: RunTrial, directory: Path, on_event: OnEvent) -> Calibration:
        """Return the calibration for a trial, measured now if it is the first of its kind."""
        alone = alone_of(trial)
        where = digest(self._circumstances(trial.runtime))
        kept = self._home / f"{alone.name}-{where}.json"
        if kept.exists():
            try:
                return _read(kept)
            except (ValueError, TypeError):  # damaged, or of another version
                kept.unlink(missing_ok=True)
        for again in range(TRIES):
            on_event(Waiting("the calibration of a core: other programs are busy" if again else
                             "the calibration of a core"))  # fmt: skip
            found = _measure(alone, run, directory / DIRECTORY)
            if not found.overloaded:
                return _keep(found, kept)
        return found


def _read(kept: Path) -> Calibration:
    return Calibration(**json.loads(kept.read_text()))


def _keep(found: Calibration, kept: Path) -> Calibration:
    """Keep a calibration; return the one of another sweep that was faster."""
    return Calibration(**json.loads(settings.keep_first(kept, json.dumps(asdict(found)))))


def alone_of(trial: Trial) -> Trial:
    """Return a trial of one process whose gradients take as long as those of another.

    How long depends on the network and the batch, not on where training has got to.
    """
    steps = max(FEWEST, TARGETS // (trial.batch_size * trial.network.time_steps))
    return trial.replace(
        strategy="single", workers=1, servers=0, slowdown=1.0, slowdown_spread=None,
        cpu=None, bandwidth=None, epochs=None, eval_samples=0,
        steps=max(2, min(steps, trial.steps_per_epoch)), seed=1,
        learning_rate=1e-3, optimizer="sgd", initializer="default", loss_over_time="default",
    )  # fmt: skip


def _measure(alone: Trial, run: RunTrial, directory: Path) -> Calibration:
    shutil.rmtree(directory, ignore_errors=True)  # an earlier try's events are none of this one's
    directory.mkdir()
    try:
        record = run(alone, directory, lambda event: None)
        # From what it left: what comes live is for showing, and may have gaps.
        (worker,) = Run(alone, directory, record).workers
        found = [event for event in worker if isinstance(event, Computed)]
        if len(found) != 1:
            raise RunError(f"worker 0 says {len(found)} times how long its gradients took")
    except (TrialFailed, RunError) as error:
        raise TrialFailed(f"the calibration of a core failed: {error}") from error
    (event,) = found
    machine = record.get("machine") or provenance.machine()
    disturbed = bool(record["overloaded"]) or event.median > UNEVEN * event.low
    return Calibration(
        event.gradients, event.low, event.median, event.high, disturbed, machine["cpu_model"]
    )
