"""The store: all runs under one directory.

A finished run is a directory under ``outputs/runs``, named after its trial and its circumstances
(machine and versions), so that the stores of several machines can be put together:

    trial.json              the trial's values and identity
    run.json                how it went: status, circumstances, machine, revision
    <role>-<index>.log      what each replica printed, events and all else
    <role>-<index>.err      its standard error
    <model>.py              the model's file, if it is not one of labkit's
    script/                 the script that was run, and the files beside it that it imports
    pods/<pod>.log          in a cluster: all that each pod printed, with the time

It appears there in one step, when it is complete and checked. Until then it lies in ``.scratch``;
what failed goes to ``.failed`` with all that was printed, and never becomes a number.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from labkit import settings
from labkit.errors import LabkitError
from labkit.runs.check import check, check_events
from labkit.runs.circumstances import circumstances, difference, digest
from labkit.runs.results import Results
from labkit.runs.run import Run, RunError
from labkit.settings import OUTPUTS
from labkit.trials import Trial, TrialError

DAMAGED = "that cannot be read (`labkit clean` says why)"
"""Why a kept run is not used of which nobody knows more."""

REPLACED = ".replaced"
"""At the end of the name of a run, while another takes its place."""

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
        """Return what the names of all runs of a trial begin with."""
        return trial.name if self.launcher == "local" else f"{trial.name}-{self.launcher}"

    def find(self, trial: Trial, damaged: dict[Path, str] | None = None) -> Run | None:
        """Return the trial's last run that has finished or diverged, otherwise None.

        Only runs of this machine and its versions of today count; in a cluster all do.
        `damaged` gets those that cannot be read, each with why.
        """
        runs = self._runs_of(trial, damaged)
        if self.launcher == "local":
            runs = (run for run in runs if not difference(run))
        return max(runs, key=lambda run: run.record.get("started") or "", default=None)

    def set_aside(self, trials: Iterable[Trial]) -> str:
        """Say in a line which kept runs of some trials `find` leaves out; nothing if none."""
        damaged: dict[Path, str] = {}
        runs = [run for trial in trials for run in self._runs_of(trial, damaged)]
        other = [difference(run) for run in runs if self.launcher == "local"]
        why = Counter(filter(None, [DAMAGED] * len(damaged) + other))
        kinds = ", ".join(f"{count} {reason}" for reason, count in sorted(why.items()))
        return f"kept runs not used: {kinds}" if kinds else ""

    def _runs_of(self, trial: Trial, damaged: dict[Path, str] | None = None) -> Iterator[Run]:
        """Yield the runs of a trial, whatever their circumstances; note those that are damaged."""
        name, damaged = self.name(trial), {} if damaged is None else damaged
        for path in sorted(self.root.glob(f"{glob.escape(name)}*")):
            ending = path.name[len(name) :]
            if re.fullmatch("(-[0-9a-f]{6})?", ending) and (run := _undamaged(path, damaged)):
                yield run

    def look_up(self, trials: Iterable[Trial]) -> dict[Trial, Run]:
        """Return the runs of those trials that have finished or diverged."""
        return {trial: run for trial in trials if (run := self.find(trial))}

    def failure(self, trial: Trial) -> Run | None:
        """Return the trial's last failed run, if there is one."""
        return _read(self.root / ".failed" / self.name(trial))

    def results(self, trials: Iterable[Trial] | None = None) -> Results:
        """Return all runs that are whole, or the last run of each of some trials.

        In both cases ``left_out`` says which are not whole, and why.
        """
        left_out: dict[Path, str] = {}
        if trials is None:
            whole = list(_whole(self._readable(left_out), left_out))
            return Results(whole, left_out=left_out)
        found = [self.find(trial, left_out) or self.failure(trial) for trial in trials]
        return Results((run for run in found if run), left_out=left_out)

    def runs(self) -> Iterator[Run]:
        """Yield all runs that have finished or diverged, in the order of their names.

        Those of which nobody can tell what was run are left out; events are not looked at.
        """
        return self._readable({})

    def _readable(self, left_out: dict[Path, str]) -> Iterator[Run]:
        """Yield all runs; note those that are of another version, or damaged, each with why."""
        for directory in _directories(self.root):
            try:
                run = _read(directory)
            except (TrialError, RunError) as error:
                left_out[directory] = str(error)
                continue
            if run and run.launcher == self.launcher:
                yield run

    @contextlib.contextmanager
    def claim(self, trial: Trial, on_wait: Callable[[], object] = lambda: None) -> Iterator[Path]:
        """Hold the right to run a trial, in an empty directory; call `on_wait` before waiting.

        Raises
        ------
        LabkitError
            If the directory cannot be written or has too little room, now or later on.
        """
        scratch = self.root / ".scratch" / self.name(trial)
        with _lock(self.root, self.name(trial)) as lock:
            _hold(lock, on_wait)
            _clean_up(self.root)
            _make_anew(scratch)
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

    def keep(self, trial: Trial, scratch: Path, record: dict[str, Any]) -> Run:
        """Check a run and move it to where it stays: one step, after all of it is on disk.

        What it replaces is moved away first, so that whoever is killed here leaves a whole run or
        none. A script, or a model's file from elsewhere, is kept with the run.

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
        for name, content in trial.files.items():
            (scratch / name).parent.mkdir(parents=True, exist_ok=True)
            (scratch / name).write_bytes(content)
        _write(scratch / "trial.json", _description(trial))
        _write(scratch / "run.json", record)
        failed_home = self.root / ".failed" / self.name(trial)
        if record["status"] == "failed":
            return Run.read(_move(scratch, failed_home, [failed_home]))
        run = Run(trial, scratch, record)
        home = self.root / f"{self.name(trial)}-{digest(circumstances(run))}"
        # Earlier versions named runs after their trials alone.
        same = (old for old in self._runs_of(trial) if circumstances(old) == circumstances(run))
        _move(scratch, home, {home, *(old.directory for old in same)})
        shutil.rmtree(failed_home, ignore_errors=True)
        return Run.read(home)

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r}, {self.launcher!r})"


def _whole(runs: Iterable[Run], left_out: dict[Path, str]) -> Iterator[Run]:
    """Yield the runs of which all events can be read, too."""
    for run in runs:
        try:
            check_events(run)
        except RunError as error:
            left_out[run.directory] = f"it is damaged: {error}"
        else:
            yield run


def _directories(root: Path) -> list[Path]:
    return [path.parent for path in sorted(root.glob("*/run.json"))]


def _description(trial: Trial) -> dict[str, Any]:
    return {"identity": trial.identity, "values": trial.model_dump() | trial.values}


def _undamaged(directory: Path, damaged: dict[Path, str]) -> Run | None:
    """Return a run of which all events can be read; note why, if there is one but it cannot."""
    try:
        run = _read(directory)
        if run is not None:
            check_events(run)
    except (RunError, TrialError) as error:
        damaged[directory] = str(error)
        return None
    return run


def _read(directory: Path) -> Run | None:
    # Not asked first whether it is there: another sweep may take it away at any moment.
    try:
        return Run.read(directory)
    except FileNotFoundError:
        return None


def _clean_up(root: Path) -> None:
    """Remove what a labkit that was killed had begun: scratch that nobody holds a lock on."""
    for orphan in (root / ".scratch").glob("*"):
        lock = (root / ".locks" / orphan.name.removesuffix(REPLACED)).open("w")
        with lock, contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(orphan, ignore_errors=True)


def _make_anew(scratch: Path) -> None:
    """Make an empty directory, whatever one that was killed has left there."""
    for left in (scratch, _replaced(scratch)):
        shutil.rmtree(left, ignore_errors=True)
    scratch.mkdir(parents=True)


def _replaced(scratch: Path) -> Path:
    """Return where a run is moved to that another replaces, under the same lock as this one."""
    return scratch.with_name(f"{scratch.name}{REPLACED}")


def _move(scratch: Path, home: Path, old: Iterable[Path]) -> Path:
    """Move a run to where it stays, and what it replaces out of the way; return the former."""
    home.parent.mkdir(parents=True, exist_ok=True)
    replaced = _replaced(scratch)
    replaced.mkdir(exist_ok=True)
    for directory in old:
        with contextlib.suppress(FileNotFoundError):
            directory.rename(replaced / directory.name)
    scratch.rename(home)
    shutil.rmtree(replaced, ignore_errors=True)
    return home


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
