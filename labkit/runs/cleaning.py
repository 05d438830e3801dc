"""Kept runs that may go: what failed, was overloaded, is of another version, or is old."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from labkit.errors import LabkitError
from labkit.runs.check import check_events
from labkit.runs.circumstances import version_difference
from labkit.runs.run import Run
from labkit.trials import TrialError

DAY = 24 * 3600


@dataclass(frozen=True)
class Removable:
    """A run that may go.

    Attributes
    ----------
    directory : Path
    reasons : tuple of str
        Why it may.
    days : float
        Since it was run.
    size : int
        Bytes on disk.
    """

    directory: Path
    reasons: tuple[str, ...]
    days: float
    size: int

    def remove(self) -> None:
        """Take the run away, in one step: nobody finds half a run."""
        scratch = self.directory.parent / ".scratch"
        if self.directory.parent.name == ".failed":
            scratch = self.directory.parents[1] / ".scratch"
        scratch.mkdir(exist_ok=True)
        aside = scratch / f"{self.directory.name}.removed"
        with contextlib.suppress(FileNotFoundError):  # somebody else was faster
            self.directory.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)


def removable(
    root: Path,
    failed: bool = False,
    overloaded: bool = False,
    other_version: bool = False,
    older_than: float | None = None,
) -> list[Removable]:
    """Return the runs that may go.

    Parameters
    ----------
    root : Path
        Of the store.
    failed, overloaded, other_version : bool
        Which may: those of any of these kinds. If none is given, runs of every kind. Damaged
        ones count as failed.
    older_than : float, optional
        Only those that were run more than so many days ago.
    """
    kinds = {
        "failed": failed, "damaged": failed, "overloaded": overloaded,
        "of another version": other_version,
    }  # fmt: skip
    wanted = {name for name, asked in kinds.items() if asked}
    found = []
    for path in sorted([*root.glob("*/run.json"), *root.glob(".failed/*/run.json")]):
        directory = path.parent
        reasons = tuple(reason for reason in _reasons(directory) if reason in wanted)
        days = (time.time() - _time(path)) / DAY
        if (wanted and not reasons) or (older_than is not None and days <= older_than):
            continue
        size = sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
        found.append(Removable(directory, reasons, days, size))
    return found


def _reasons(directory: Path) -> Iterator[str]:
    if directory.parent.name == ".failed":
        yield "failed"
    try:
        run = Run.read(directory)
        # In a cluster versions are those of an image, whatever is installed here.
        changed = run.launcher == "local" and version_difference(run)
        if changed or not run.current:
            yield "of another version"
        check_events(run)
        if run.overloaded:
            yield "overloaded"
    except TrialError:
        yield "of another version"
    except LabkitError:
        yield "damaged"


def _time(path: Path) -> float:
    """Return when a run was started, in seconds since 1970."""
    try:
        return datetime.fromisoformat(json.loads(path.read_text())["started"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return path.stat().st_mtime
