"""The Kubernetes launcher: a trial's replicas run in the pods of a cluster."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from labkit.launchers.calibration import Calibrations
from labkit.launchers.kubernetes import circumstances, owners, shares
from labkit.launchers.kubernetes.api import Cluster
from labkit.launchers.kubernetes.attempt import Attempt
from labkit.launchers.kubernetes.connection import FIRST_PATIENCE
from labkit.launchers.kubernetes.errors import ClusterError, NoRoom
from labkit.launchers.kubernetes.manifests import (
    image_of,
    mistakes,
    name_of,
)
from labkit.launchers.kubernetes.owners import Owner
from labkit.launchers.kubernetes.room import Crowded
from labkit.launchers.kubernetes.settings import Settings
from labkit.launchers.kubernetes.submission import submit
from labkit.launchers.limits import DEADLINE
from labkit.launchers.protocol import NoRoomForTrial, OnEvent, Submitted, TrialFailed, Waiting
from labkit.trials import Trial, TrialError
from labkit.trials.frameworks import Framework

LOOK_AGAIN = 60.0
"""Seconds after which a trial that waits for others' room tries again, whatever they do."""


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
        self._calibrations = Calibrations(self._circumstances)
        self._stopped, self._lock = threading.Event(), threading.Lock()
        self._running: set[str] = set()  # the names of the trials that have been submitted
        self._found: list[str] | None = None  # what was in the cluster at the beginning
        self._left = False  # whether something could not be deleted

    @property
    def parallel(self) -> int:
        """How many trials may run at once."""
        return self.cluster.settings.parallel

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        if self._left and isinstance(error[1], KeyboardInterrupt):
            error[1].add_note("what is named above could not be")
        if error[0] is None and self._found:
            with contextlib.suppress(ClusterError):  # the next labkit finds it too
                owners.remove(self.cluster, owners.left_behind(self.cluster))

    def check(self, trials: Sequence[Trial]) -> None:
        """Make sure that their pods can be described, have an image, and may be made slow."""
        settings = self.cluster.settings
        if any(trial.cpu for trial in trials):
            shares.check_rights(self.cluster)
        found = (line for trial in trials for line in mistakes(trial, settings, self.deadline))
        if lines := list(dict.fromkeys(found)):
            raise TrialError("\n  ".join(["this cannot run in pods:", *lines]))

    def stop(self) -> None:
        """Make all trials end that run in other threads."""
        self.cluster.connection.patience = FIRST_PATIENCE
        self._stopped.set()

    def run(self, trial: Trial, directory: Path, on_event: OnEvent) -> dict[str, Any]:
        """Run a trial to its end; see `labkit.launchers.protocol.Launcher`.

        Where trials of other labkits have the room, it waits for them. A clean-up that fails
        changes nothing about how the trial went.
        """
        with circumstances.told(lambda: circumstances.somewhere(self.cluster.host)):
            return self._calibrations.run(self._run, trial, directory, on_event)

    def _run(
        self, trial: Trial, directory: Path, on_event: OnEvent, compute: float | None = None
    ) -> dict[str, Any]:
        """Run a trial to its end, once there is room, and leave nothing of it behind."""
        owner = Owner.here(directory)
        while True:
            try:
                record = self._try(trial, owner, directory, on_event, compute)
            except TrialFailed as error:
                left = self._clean_up(trial, owner)
                if self._stopped.is_set():  # nobody reads the errors of a sweep that ends
                    self._warn(left)
                crowded = isinstance(error, Crowded)
                if left:
                    kind = NoRoomForTrial if crowded else type(error)
                    raise kind(f"{error}\n{left}", error.record) from error
                if not crowded:
                    raise
                self._wait_for_others(trial, error, on_event)
            except BaseException:
                self.cluster.connection.patience = FIRST_PATIENCE  # nobody waits any more
                self._warn(self._clean_up(trial, owner))
                raise
            else:
                self._warn(self._clean_up(trial, owner))
                return record

    def _circumstances(self, framework: Framework) -> dict[str, Any]:
        image = image_of(framework.name, self.cluster.settings)
        return {"host": self.cluster.host, "image": image}

    def _try(
        self, trial: Trial, owner: Owner, directory: Path, on_event: OnEvent, compute: float | None
    ) -> dict[str, Any]:
        name = name_of(trial)
        try:
            self._look_around(name)
            submission = submit(
                self.cluster, trial, self.deadline, owner, on_event, self._stopped, compute
            )
            self._running.add(name)
            on_event(Submitted(name, submission.objects))
            attempt = Attempt(self.cluster, submission, directory, on_event, self._stopped)
            with circumstances.told(attempt.known):
                return attempt.wait()
        except NoRoom as error:
            raise NoRoomForTrial(f"{trial.name}: {error}") from None
        except ClusterError as error:
            raise TrialFailed(f"{trial.name}: {error}") from None
        finally:
            self._running.discard(name)

    def _look_around(self, name: str) -> None:
        """Say once what a labkit that is gone has left; see `__exit__` for what becomes of it."""
        with self._lock:
            if self._found is None:
                self._found = owners.left_behind(self.cluster)
                if others := set(self._found) - {name}:
                    owners.tell(
                        f"{', '.join(sorted(others))} in the cluster: left by a labkit that is "
                        "gone. What this sweep asks for is taken over, the rest is deleted"
                    )

    def _wait_for_others(self, trial: Trial, error: Crowded, on_event: OnEvent) -> None:
        """Wait until the trials that have the room change; give it back before."""
        if error.others & self._running:  # the sweep itself tries again when one of them ends
            raise NoRoomForTrial(str(error)) from error
        on_event(Waiting(f"the room of {', '.join(sorted(error.others))}"))
        until = time.monotonic() + LOOK_AGAIN
        while time.monotonic() < until:
            # Two that let go at the same time should not come back at the same time.
            if self._stopped.wait(random.uniform(1, 5)):
                raise TrialFailed(f"{trial.name} was stopped, as the sweep ends")
            if not error.others <= set(owners.owners(self.cluster)):
                return

    def _clean_up(self, trial: Trial, owner: Owner) -> str:
        return owners.clean_up(self.cluster, name_of(trial), owner)

    def _warn(self, left: str) -> None:
        if left:
            self._left = True
            owners.tell(f"{left} The next trial there, or `labkit clean`, deletes it.")
