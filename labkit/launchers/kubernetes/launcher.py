"""The Kubernetes launcher: a trial's replicas run in the pods of a cluster."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Self

from labkit.launchers.kubernetes.api import (
    Cluster,
    ClusterError,
    NoRoom,
)
from labkit.launchers.kubernetes.attempt import Attempt
from labkit.launchers.kubernetes.settings import Settings
from labkit.launchers.limits import DEADLINE
from labkit.launchers.protocol import NoRoomForTrial, OnEvent, TrialFailed
from labkit.trials import Trial


class KubernetesLauncher:
    """Runs trials in a cluster.

    Parameters
    ----------
    deadline : float
        Seconds a trial may take.
    settings : Settings, optional
        By default those of ``cluster.toml``.

    Raises
    ------
    ClusterError
        If there is no usable kubeconfig, or ``cluster.toml`` has mistakes.
    """

    def __init__(self, deadline: float = DEADLINE, settings: Settings | None = None) -> None:
        self.deadline = deadline
        self.cluster = Cluster(settings)
        self._stopped = threading.Event()

    @property
    def parallel(self) -> int:
        """How many trials may run at once."""
        return self.cluster.settings.parallel

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Make all trials end that run in other threads."""
        self._stopped.set()

    def run(self, trial: Trial, directory: Path, on_event: OnEvent) -> dict[str, Any]:
        """Run a trial to its end; see `labkit.launchers.Launcher`."""
        attempt = Attempt(self.cluster, trial, directory, on_event, self.deadline, self._stopped)
        try:
            attempt.submit()
            record = attempt.watch_over()
        except NoRoom as error:
            attempt.end(error)
            raise NoRoomForTrial(f"{trial.name}: {error}") from None
        except ClusterError as error:
            attempt.end(error)
            raise TrialFailed(f"{trial.name}: {error}") from None
        except BaseException as error:
            attempt.end(error)
            raise
        attempt.end()
        return record
