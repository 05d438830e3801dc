"""The store: all runs under one directory.

A finished run is a directory under ``outputs/runs``, named after its trial:

    trial.json              the trial's values and identity
    run.json                how it went: status, circumstances, machine, revision
    <role>-<index>.log      what each replica printed, events and all else
    <role>-<index>.err      its standard error
    <model>.py              the model's file, if it is not one of labkit's
    pods/<pod>.log          in a cluster: all that each pod printed, with the time

It appears there in one step, when it is complete and checked. Until then it lies in ``.scratch``;
what failed goes to ``.failed`` with all that was printed, and never becomes a number.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from labkit import settings
from labkit.errors import LabkitError
from labkit.runs.check import check
from labkit.runs.results import Results
from labkit.runs.run import Run
from labkit.settings import OUTPUTS
from labkit.trials import Trial, TrialError
from labkit.trials.models import MODELS

LEAST_ROOM = 32 << 20
"""Bytes that must be free on disk before a trial starts; a run takes some hundred kilobytes."""


class Store:
    """All runs under one directory; safe for several processes at once.

    Parameters
    ----------
    root : Path, optional
        By default ``outputs/runs``.
    launcher : str
        Where the trials were run that are looked for; the same trial run elsewhere is another run.
    """

    def __init__(self, root: Path | None = None, launcher: str = "local") -> None:
        self.root = Path(root) if root else settings.outputs() / "runs"
        self.launcher = launcher

    def name(self, trial: Trial) -> str:
        """Return the name of a trial's run."""
        return trial.name if self.launcher == "local" else f"{trial.name}-{self.launcher}"

    def find(self, trial: Trial) -> Run | None:
        """Return the trial's run if it has finished or diverged, otherwise None."""
        return self._read(self.root / self.name(trial))

    def look_up(self, trials: Iterable[Trial]) -> dict[Trial, Run]:
        """Return the runs of those trials that have finished or diverged."""
        return {trial: run for trial in trials if (run := self.find(trial))}

    def failure(self, trial: Trial) -> Run | None:
        """Return the trial's last failed run, if there is one."""
        return self._read(self.root / ".failed" / self.name(trial))

    def results(self, trials: Iterable[Trial] | None = None) -> Results:
        """Return all runs that can be read, or the last run of each of some trials."""
        if trials is None:
            return Results(self.runs())
        found = (self.find(trial) or self.failure(trial) for trial in trials)
        return Results(run for run in found if run)

    def runs(self) -> Iterator[Run]:
        """Yield all runs that have finished or diverged, in the order of their names.

        Those that `unreadable` names are left out.
        """
        for directory in self._directories():
            with contextlib.suppress(TrialError):
                run = self._read(directory)
                if run and run.launcher == self.launcher:
                    yield run

    def unreadable(self) -> dict[Path, str]:
        """Return runs of a labkit that knew other fields, models or frameworks, each with why."""
        found = {}
        for directory in self._directories():
            try:
                self._read(directory)
            except TrialError as error:
                found[directory] = str(error)
        return found

    def _directories(self) -> list[Path]:
        return [path.parent for path in sorted(self.root.glob("*/run.json"))]

    @staticmethod
    def _read(directory: Path) -> Run | None:
        # Not asked first whether it is there: another sweep may take it away at any moment.
        try:
            return Run.read(directory)
        except FileNotFoundError:
            return None

    @contextlib.contextmanager
    def claim(self, trial: Trial, on_wait: Callable[[], object] = lambda: None) -> Iterator[Path]:
        """Hold the sole right to run a trial; gives an empty directory to run it in.

        If somebody else holds it, this waits, after a call of `on_wait`.

        Raises
        ------
        LabkitError
            If the directory cannot be written or has too little room, now or later on.
        """
        with _lock(self.root, self.name(trial)) as lock:
            _hold(lock, on_wait)
            self._clean_up()
            scratch = self.root / ".scratch" / self.name(trial)
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
            try:
                yield scratch
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                raise LabkitError(
                    f"{self.root} is full, so {trial.name} came to nothing; what was finished "
                    f"before it is kept. Make room, or set {OUTPUTS} to another directory."
                ) from error
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def _clean_up(self) -> None:
        """Remove what a labkit that was killed had begun: scratch that nobody holds a lock on."""
        for orphan in (self.root / ".scratch").glob("*"):
            lock = (self.root / ".locks" / orphan.name).open("w")
            with lock, contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(orphan, ignore_errors=True)

    def keep(self, trial: Trial, scratch: Path, record: dict[str, Any]) -> Run:
        """Check a run and move it to where it stays: one step, after all of it is on disk.

        A run that was there is moved out of the way first, also in one step, so that whoever is
        killed here leaves a whole run or none. A model's file from elsewhere is kept with the run.

        Parameters
        ----------
        trial : Trial
        scratch : Path
            The directory in which it was run, from `claim`.
        record : dict
            How it went: ``status`` is finished, diverged or failed.

        Raises
        ------
        RunError
            If it has not finished as it should, although `record` says so; nothing is kept then.
        """
        if record["status"] == "finished":
            check(Run(trial, scratch, record))
        failed = record["status"] == "failed"
        values = trial.model_dump() | trial.values
        if trial.model not in MODELS:
            (scratch / trial.values["model"]).write_bytes(trial.network.source)
        _write(scratch / "trial.json", {"identity": trial.identity, "values": values})
        _write(scratch / "run.json", record)
        home = (self.root / ".failed" if failed else self.root) / self.name(trial)
        home.parent.mkdir(parents=True, exist_ok=True)
        replaced = scratch.with_name(f"{scratch.name}.replaced")
        with contextlib.suppress(FileNotFoundError):
            home.rename(replaced)
        scratch.rename(home)
        shutil.rmtree(replaced, ignore_errors=True)
        if not failed:
            shutil.rmtree(self.root / ".failed" / self.name(trial), ignore_errors=True)
        return Run.read(home)

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r}, {self.launcher!r})"


def _lock(root: Path, name: str) -> IO[str]:
    """Open the lock of a run, where there is room for one."""
    try:
        (root / ".locks").mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(root).free
        if free < LEAST_ROOM:
            raise LabkitError(
                f"{root} has {free / 2**20:.1f} MiB free; a trial needs "
                f"{LEAST_ROOM >> 20} MiB. Make room, or set {OUTPUTS} to another directory."
            )
        return (root / ".locks" / name).open("w")
    except OSError as error:
        raise LabkitError(
            f"{root} cannot be written: {error.strerror}. Set {OUTPUTS} to a directory that can."
        ) from None


def _hold(lock: IO[str], on_wait: Callable[[], object]) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        on_wait()
        fcntl.flock(lock, fcntl.LOCK_EX)


def _write(path: Path, content: dict[str, Any]) -> None:
    """Write JSON, and return when it is on disk."""
    with path.open("w") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
