"""The events of a run in TensorBoard's format, the same for all frameworks."""

from __future__ import annotations

import math
import os
import re
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from labkit.replicas.events import Evaluation, Step
from labkit.runs.run import Run, RunError

OURS = re.compile(r"-\d{14,}$")
"""What the names of what is exported end with: a time. The rest there is somebody else's."""


def export(runs: Iterable[Run], directory: Path) -> list[Run]:
    """Bring a directory up to date with some runs: one below it for each that has finished.

    Parameters
    ----------
    runs : iterable of Run
    directory : Path
        What was written before and is of the same run is left, that of other runs removed. What
        others have put there stays.

    Returns
    -------
    list of Run
        Those whose events cannot be read, and had not been written before.
    """
    directory.mkdir(parents=True, exist_ok=True)
    due = {f"{run.directory.name}-{_started(run)}": run for run in runs if run.finished}
    for there in set(os.listdir(directory)) - set(due):
        if OURS.search(there):
            shutil.rmtree(directory / there)
    damaged = []
    for name, run in due.items():
        if (directory / name).exists():
            continue
        scratch = directory / f".{name}"
        shutil.rmtree(scratch, ignore_errors=True)
        try:
            write(run, scratch)
        except RunError:
            damaged.append(run)
            shutil.rmtree(scratch, ignore_errors=True)
        else:
            scratch.rename(directory / name)
    return damaged


def _started(run: Run) -> str:
    """Return when a run was begun, fit for a name: a trial that is run again is another run."""
    return "".join(filter(str.isdigit, run.record.get("started") or ""))


def write(run: Run, directory: Path) -> None:
    """Write a run's curves: a directory per worker, steps on the horizontal axis.

    Parameters
    ----------
    run : Run
        A finished run.
    directory : Path
        Where to; TensorBoard finds all that lie below the directory it is given.
    """
    # The protocol buffers alone: the summary writer would import TensorFlow.
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.record_writer import RecordWriter

    # Events carry a machine's monotonic time; TensorBoard wants the wall's.
    offset = time.time() - time.monotonic()
    for index, events in enumerate(run.workers):
        home = directory / f"worker-{index}"
        home.mkdir(parents=True)
        first = events[0].t + offset
        with (home / f"events.out.tfevents.{first:.0f}.labkit").open("wb") as file:
            writer = RecordWriter(file)
            writer.write(Event(wall_time=first, file_version="brain.Event:2").SerializeToString())
            steps = 0
            for event in events:
                if isinstance(event, Step):
                    steps = event.steps
                    values = {"train/loss": event.loss, "train/accuracy": event.accuracy}
                    values |= {f"train/{k}": v for k, v in (event.metrics or {}).items()}
                elif isinstance(event, Evaluation):
                    values = {f"test/{event.metric}": event.value}
                else:
                    continue
                summary = Summary(
                    value=[
                        Summary.Value(tag=tag, simple_value=value)
                        for tag, value in values.items()
                        if value is not None and math.isfinite(value)
                    ]
                )
                writer.write(
                    Event(
                        wall_time=event.t + offset, step=steps, summary=summary
                    ).SerializeToString()
                )
