"""The local launcher."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from labkit import datasets, provenance, settings
from labkit.launchers.calibration import Calibrations
from labkit.launchers.limits import DEADLINE
from labkit.launchers.local.attempt import Attempt
from labkit.launchers.local.ports import reserved_hosts
from labkit.launchers.local.processes import Processes
from labkit.launchers.local.turn import turn
from labkit.launchers.local.warm import Program, WarmProcesses
from labkit.launchers.placement import arguments
from labkit.launchers.protocol import OnEvent
from labkit.runs import circumstances
from labkit.settings import WARM
from labkit.trials import Trial, TrialError


class LocalLauncher:
    """Runs trials in processes of this machine, one trial at a time.

    Parameters
    ----------
    deadline : float
        Seconds a trial may take.
    data_directory : Path, optional
        Where the data sets are.
    """

    parallel = 1

    def __init__(self, deadline: float = DEADLINE, data_directory: Path | None = None) -> None:
        self.deadline = deadline
        self.data_directory = data_directory or settings.data_directory()
        shared = os.environ.get(WARM)
        self._calibrations = Calibrations(circumstances.here)
        self._warm = WarmProcesses(Path(shared) if shared else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._warm.close()

    def check(self, trials: Sequence[Trial]) -> None:
        """Make sure that data sets and frameworks are there."""
        if named := sorted({trial.image for trial in trials if trial.image}):
            raise TrialError(f"image: {', '.join(named)}: only of pods: --launcher kubernetes")
        if shares := sorted({trial.cpu for trial in trials if trial.cpu}):
            raise TrialError(
                f"cpu: {', '.join(map(str, shares))}: only of pods: --launcher kubernetes. A "
                "slowdown alone makes computing slow here, too"
            )
        if limits := sorted({trial.bandwidth for trial in trials if trial.bandwidth}):
            raise TrialError(
                f"bandwidth: {', '.join(f'{bits / 1e6:g}Mbit' for bits in limits)}: only of pods: "
                "--launcher kubernetes. A slowdown alone works here, too, and labkit predict "
                "simulates the rest"
            )
        for dataset in sorted({name for trial in trials for name in trial.datasets}):
            datasets.verify(dataset)
        for runtime in {trial.runtime: None for trial in trials}:
            provenance.check(runtime)

    def stop(self) -> None:
        """Nothing runs beside the caller's own thread, which an exception ends."""

    def run(self, trial: Trial, directory: Path, on_event: OnEvent) -> dict[str, Any]:
        """Run a trial to its end; see `labkit.launchers.protocol.Launcher`."""
        return self._calibrations.run(self._run, trial, directory, on_event)

    def _run(
        self, trial: Trial, directory: Path, on_event: OnEvent, compute: float | None = None
    ) -> dict[str, Any]:
        # A user's own code may have things to fetch.
        trainer = Program.trainer(trial.runtime, own_network=not trial.files)
        with turn(trial, on_event), contextlib.ExitStack() as stack:
            connection = stack.enter_context(self._warm.connect(trainer, trial.threads))
            # From here on the first trial, for which the framework was imported, is as any other.
            launched = time.monotonic()
            hosts = stack.enter_context(reserved_hosts(trial.replicas | trial.meeting))
            attempt = Attempt(trial, directory, on_event, Processes(connection), launched)
            shared = arguments(
                trial, trial.file, Path.cwd(), self.data_directory, self.deadline, compute
            )
            try:
                return attempt.run(hosts, shared, self.deadline)
            finally:
                attempt.end()
