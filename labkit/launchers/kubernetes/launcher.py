"""The Kubernetes launcher: a trial's replicas run in the pods of a cluster."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any, Self

from labkit.launchers.kubernetes.api import Cluster
from labkit.launchers.kubernetes.attempt import Attempt
from labkit.launchers.kubernetes.errors import ClusterError, NoRoom
from labkit.launchers.kubernetes.manifests import name_of, selector_of
from labkit.launchers.kubernetes.settings import Settings
from labkit.launchers.kubernetes.submission import submit
from labkit.launchers.limits import DEADLINE
from labkit.launchers.protocol import NoRoomForTrial, OnEvent, Submitted, TrialFailed
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
        """Run a trial to its end; see `labkit.launchers.protocol.Launcher`.

        A clean-up that fails changes nothing about how the trial went.
        """
        try:
            record = self._run(trial, directory, on_event)
        except TrialFailed as error:
            if left := self._clean_up(trial):
                raise type(error)(f"{error}\n{left}") from error
            raise
        except BaseException:
            self._warn(self._clean_up(trial))
            raise
        self._warn(self._clean_up(trial))
        return record

    def _run(self, trial: Trial, directory: Path, on_event: OnEvent) -> dict[str, Any]:
        try:
            submission = submit(self.cluster, trial, self.deadline)
            on_event(Submitted(submission.name, submission.objects))
            return Attempt(self.cluster, submission, directory, on_event, self._stopped).wait()
        except NoRoom as error:
            raise NoRoomForTrial(f"{trial.name}: {error}") from None
        except ClusterError as error:
            raise TrialFailed(f"{trial.name}: {error}") from None

    def _clean_up(self, trial: Trial) -> str:
        """Delete everything of a trial, and see that it is gone; say what could not be deleted."""
        try:
            self.cluster.remove_and_check(selector_of(name_of(trial)))
        except ClusterError as error:
            return f"What {name_of(trial)} started could not be deleted: {error}"
        return ""

    def _warn(self, left: str) -> None:
        if left:
            print(f"labkit: {left} `labkit clean` deletes it.", file=sys.stderr)
