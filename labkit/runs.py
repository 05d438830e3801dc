"""Runs: from the lines that replicas print to checked events, kept raw, and tidy tables.

A finished run is a directory under ``outputs/runs``, named after its trial:

    trial.json              the trial's values and identity
    run.json                how it went: status, circumstances, machine, revision
    <role>-<index>.log      what each replica printed, events and all else
    <role>-<index>.err      its standard error
    pods/<pod>.log          in a cluster: all that each pod printed, with the time
    tensorboard/            the same events for TensorBoard

It appears there in one step, when it is complete and checked. Until then it lies in ``.scratch``;
what failed goes to ``.failed`` with all that was printed, and never becomes a number.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import itertools
import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit import datasets, metrics, settings
from labkit.errors import LabkitError
from labkit.settings import OUTPUTS
from labkit.trainers.common import PREFIX
from labkit.trials import Trial, TrialError

if TYPE_CHECKING:
    import pandas as pd

LEAST_ROOM = 32 << 20
"""Bytes that must be free on disk before a trial starts; a run takes some hundred kilobytes."""



class RunError(LabkitError):
    """Events that do not add up to a run."""




# --- events ---------------------------------------------------------------------------------


def parse(text: str, role: str, index: int) -> list[dict[str, Any]]:
    """Return a replica's events, checked.

    Parameters
    ----------
    text : str
        All that the replica printed; lines of others are passed over.
    role, index
        Whose events these must be.

    Raises
    ------
    RunError
        If a line is cut off or garbled, the numbering has a gap or a repetition, time runs
        backwards, events are another replica's, or ``end`` is missing or not the last.
    """
    who = f"{role} {index}"
    events: list[dict[str, Any]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        _, found, rest = line.partition(PREFIX)
        if not found:
            continue
        event = _event(rest)
        if event is None:
            raise RunError(f"{who}: line {number} is cut off or garbled: {line[:120]!r}")
        if (event["role"], event["index"]) != (role, index):
            raise RunError(f"{who}: line {number} is an event of {event['role']} {event['index']}")
        seq, last = event["seq"], events[-1] if events else None
        if seq != len(events):
            what = "twice" if seq < len(events) else "after a gap"
            raise RunError(f"{who}: line {number} has event {seq} {what}; due was {len(events)}")
        if last and event["t"] < last["t"]:
            raise RunError(f"{who}: line {number}: time runs backwards")
        if last and last["kind"] in ("end", "error"):
            raise RunError(f"{who}: line {number}: {event['kind']} after {last['kind']}")
        events.append(event)
    if not events:
        raise RunError(f"{who}: no events")
    if events[-1]["kind"] != "end":
        raise RunError(f"{who}: the events stop at {events[-1]['kind']}, without end")
    return events


def _event(text: str | bytes) -> dict[str, Any] | None:
    """Return the event that follows the prefix of a line, None if it is not whole."""
    try:
        event = json.loads(text)
        shape = [type(event[name]) for name in ("seq", "role", "index", "kind")]
        whole = shape == [int, str, int, str] and isinstance(event["t"], int | float)
    except (ValueError, TypeError, KeyError):
        return None
    return event if whole else None


def event_in(line: bytes) -> dict[str, Any] | None:
    """Return the event in a line, None if there is no whole one."""
    _, found, rest = line.partition(PREFIX.encode())
    return _event(rest) if found else None


class LogReader:
    """Follows a replica's log while it is written, for showing what goes on.

    Parameters
    ----------
    path : Path
        Of the log; need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def new(self) -> list[dict[str, Any]]:
        """Return the events that have come since the last call; broken lines are left out."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                fresh = file.read()
        except FileNotFoundError:
            return []
        self._offset += len(fresh)
        *lines, self._rest = (self._rest + fresh).split(b"\n")
        return [event for line in lines if (event := event_in(line))]


# --- one run --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A run on disk.

    Attributes
    ----------
    trial : Trial
        What was run.
    directory : Path
        Where it is kept.
    record : dict
        The content of ``run.json``; its ``status`` is finished, diverged or failed.
    """

    trial: Trial
    directory: Path
    record: dict[str, Any]

    @classmethod
    def read(cls, directory: Path) -> Run:
        """Read a run's description; its events are read when they are asked for."""
        values = json.loads((directory / "trial.json").read_text())["values"]
        return cls(Trial(**values), directory, json.loads((directory / "run.json").read_text()))

    @functools.cached_property
    def identity(self) -> str:
        """The trial's identity when it was run: the trainer may have changed since."""
        return json.loads((self.directory / "trial.json").read_text())["identity"]

    @property
    def launcher(self) -> str:
        """Where it was run."""
        return self.record.get("launcher", "local")

    @property
    def finished(self) -> bool:
        """Whether the run may yield numbers."""
        return self.record["status"] == "finished"

    @functools.cached_property
    def workers(self) -> list[list[dict[str, Any]]]:
        """The checked events of each worker, in the order of their index."""
        return [self.events("worker", index) for index in range(self.trial.workers)]

    def events(self, role: str, index: int) -> list[dict[str, Any]]:
        """Return one replica's checked events."""
        path = self.directory / f"{role}-{index}.log"
        try:
            text = path.read_text(errors="replace")
        except FileNotFoundError:
            raise RunError(f"{role} {index}: {path} is missing") from None
        return parse(text, role, index)

    def check(self, roles: dict[str, int]) -> None:
        """Make sure that every replica finished, with the work and the data of the trial.

        Parameters
        ----------
        roles : dict of str to int
            How many replicas each role must have.

        Raises
        ------
        RunError
            Naming the first thing that is not as it should be.
        """
        for role, count in roles.items():
            for index in range(count):
                self.events(role, index)
        for index, events in enumerate(self.workers):
            start, end = events[0], events[-1]
            steps = [event["steps"] for event in events if event["kind"] == "step"]
            for what, found, due in (
                ("event", start["kind"], "start"),
                ("trial", start.get("trial"), self.trial.identity),
                ("data", start.get("data"), datasets.checksum(self.trial.dataset)),
                ("steps", end.get("steps"), self.trial.total_steps),
                ("last step", steps[-1] if steps else 0, self.trial.total_steps),
            ):
                if found != due:
                    raise RunError(f"worker {index}: {what} is {found!r}, should be {due!r}")
            if [e["kind"] for e in events[1:3]] != ["ready", "barrier"]:
                raise RunError(f"worker {index} did not pass the barrier before training")

    def progress(self) -> list[metrics.Progress]:
        """Return each worker's progress since its barrier: times, samples, pauses."""
        return [
            metrics.Progress(
                t=np.array([0.0, *(s["t"] for s in steps)]),
                samples=np.array([0, *(s["samples"] for s in steps)]),
                pauses=[(e["t"] - e["pause"], e["t"]) for e in _since_barrier(events, "eval")],
            )
            for events in self.workers
            for steps in [_since_barrier(events, "step")]
        ]

    def evaluations(self) -> list[dict[str, Any]]:
        """Return the evaluations, times in seconds since the barrier."""
        return [e for events in self.workers for e in _since_barrier(events, "eval")]


def _since_barrier(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    barrier = next(e["t"] for e in events if e["kind"] == "barrier")
    return [e | {"t": e["t"] - barrier} for e in events if e["kind"] == kind]


# --- the store ------------------------------------------------------------------------------


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

    def failure(self, trial: Trial) -> Run | None:
        """Return the trial's last failed run, if there is one."""
        return self._read(self.root / ".failed" / self.name(trial))

    @staticmethod
    def _read(directory: Path) -> Run | None:
        # Not asked first whether it is there: another sweep may take it away at any moment.
        try:
            return Run.read(directory)
        except FileNotFoundError:
            return None

    def runs(self) -> Iterator[Run]:
        """Yield all runs that have finished or diverged, in the order of their names."""
        for path in sorted(self.root.glob("*/run.json")):
            with contextlib.suppress(TrialError):  # written by a labkit that knew other fields
                run = self._read(path.parent)
                if run and run.launcher == self.launcher:
                    yield run

    @contextlib.contextmanager
    def claim(self, trial: Trial) -> Iterator[Path]:
        """Hold the sole right to run a trial; gives an empty directory to run it in.

        Raises
        ------
        LabkitError
            If the directory cannot be written or has too little room, now or later on.
        """
        try:
            locks = self.root / ".locks"
            locks.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.root).free
            if free < LEAST_ROOM:
                raise LabkitError(
                    f"{self.root} has {free / 2**20:.1f} MiB free; a trial needs "
                    f"{LEAST_ROOM >> 20} MiB. Make room, or set {OUTPUTS} to another directory."
                )
            lock = (locks / self.name(trial)).open("w")
        except OSError as error:
            raise LabkitError(
                f"{self.root} cannot be written: {error.strerror}. Set {OUTPUTS} to a directory "
                "that can."
            ) from None
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
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
        """Move a run to where it stays: one step, after all of it is on disk.

        A run that was there is moved out of the way first, also in one step, so that whoever is
        killed here leaves a whole run or none.
        """
        failed = record["status"] == "failed"
        values = {"identity": trial.identity, "values": trial.model_dump()}
        for name, content in (("trial.json", values), ("run.json", record)):
            with (scratch / name).open("w") as file:
                json.dump(content, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
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

    def _select(self, trials: Iterable[Trial] | None) -> Iterator[Run]:
        if trials is None:
            yield from self.runs()
            return
        for trial in trials:
            run = self.find(trial) or self.failure(trial)
            if run:
                yield run

    def table(self, trials: Iterable[Trial] | None = None) -> pd.DataFrame:
        """Return one row a trial: its values, its rates, how it went and where."""
        import pandas as pd

        return pd.DataFrame([_row(run) for run in self._select(trials)])

    def steps(self, trials: Iterable[Trial] | None = None) -> pd.DataFrame:
        """Return one row a step window of a worker, t in seconds since the barrier."""
        import pandas as pd

        rows = []
        for run in self._select(trials):
            if run.finished:
                rows += _step_rows(run)
        return pd.DataFrame(rows)

    def evals(self, trials: Iterable[Trial] | None = None) -> pd.DataFrame:
        """Return one row an evaluation on the test set."""
        import pandas as pd

        names = ("t", "steps", "metric", "value", "samples", "seconds")
        rows = []
        for run in self._select(trials):
            for event in run.evaluations() if run.finished else ():
                rows.append(_key(run) | {name: event.get(name) for name in names})
        return pd.DataFrame(rows)


def _key(run: Run) -> dict[str, Any]:
    return {"trial": run.directory.name} | run.trial.model_dump()


def _row(run: Run) -> dict[str, Any]:
    trial, record = run.trial, run.record
    here = record["machine"]
    row = _key(run) | {
        "identity": run.identity,
        "launcher": run.launcher,
        "status": record["status"],
        "error": record.get("error"),
        "samples_per_epoch": trial.steps_per_epoch * trial.batch_size,
        "cores": here["cores"],
        "time_shared": record.get(
            "time_shared", trial.workers * trial.threads > here["cores"]
        ),
        "overloaded": bool(record.get("overloaded")),
    }
    row |= dict.fromkeys(
        ("duration_s", "window_s", "batches_per_second", "samples_per_second", "imbalance",
         "steadiness", "epoch_s", "startup_s", "cpu_ms_per_step", "peak_memory_mb", "accuracy",
         "perplexity", "inference_per_second"),
        math.nan,
    )  # fmt: skip
    if run.finished:
        row |= _numbers(run)
    versions = run.workers[0][0]["versions"] if run.finished else {}
    return row | {
        "started": record.get("started"),
        "host": here["host"],
        "cpu_model": here["cpu_model"],
        "revision": record["revision"],
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "load_before": record.get("load_before", math.nan),
        "load_after": record.get("load_after", math.nan),
        "other_cpu": record.get("other_cpu", math.nan),
    }


def _numbers(run: Run) -> dict[str, Any]:
    trial, progress = run.trial, run.progress()
    ends = [events[-1] for events in run.workers]
    numbers: dict[str, Any] = {
        "duration_s": max(p.t[-1] for p in progress),
        "startup_s": run.record["startup_s"],
        "cpu_ms_per_step": 1000 * sum(map(_training_cpu, run.workers))
        / sum(e["steps"] for e in ends),
        "peak_memory_mb": max(e["peak_bytes"] for e in ends) / 2**20,
    }  # fmt: skip
    evaluations = run.evaluations()
    if evaluations:
        last = evaluations[-1]
        numbers[last["metric"]] = last["value"]
        numbers["inference_per_second"] = last["samples"] / last["seconds"]
    if not run.record["overloaded"]:
        window = metrics.window(progress)
        rate = window.samples_per_second
        numbers |= {
            "window_s": window.end - window.begin,
            "samples_per_second": rate,
            "batches_per_second": rate / trial.batch_size,
            "epoch_s": trial.steps_per_epoch * trial.batch_size * trial.workers / rate,
            "imbalance": window.imbalance,
            "steadiness": window.steadiness,
        }
    return numbers


def _training_cpu(events: list[dict[str, Any]]) -> float:
    """Return the CPU seconds a worker spent between its barrier and its steps' ends."""
    pairs = itertools.pairwise(e for e in events if e["kind"] in ("barrier", "step", "eval"))
    return sum(after["cpu"] - before["cpu"] for before, after in pairs if after["kind"] == "step")


def _step_rows(run: Run) -> Iterator[dict[str, Any]]:
    progress = run.progress()
    size = run.trial.batch_size
    for index, events in enumerate(run.workers):
        for event in _since_barrier(events, "step"):
            updates = sum(np.interp(event["t"], p.t, p.samples) for p in progress) / size
            yield _key(run) | {
                "worker": index,
                "t": event["t"],
                "steps": event["steps"],
                "samples": event["samples"],
                "updates": updates,
                "loss": event["loss"],
                "accuracy": event.get("accuracy", math.nan),
            }
