"""Where a trial's replicas are, and what they find on their command lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from labkit.trials import Trial
from labkit.trials.nodes import slowdowns


def arguments(
    trial: Trial,
    file: Path | str,
    directory: Path | str,
    data_directory: Path | str,
    deadline: float,
    compute: float | None = None,
) -> list[str]:
    """Return what all replicas of a trial find on their command lines.

    Parameters
    ----------
    trial : Trial
    file : Path or str
        Where they find the model's file, or the script.
    directory : Path or str
        Where a script runs.
    data_directory : Path or str
        Where they find the data sets.
    deadline : float
        Seconds the trial may take.
    compute : float, optional
        Seconds that a gradient takes on a quiet core, for a trial with a slowdown.
    """
    line = [
        f"--{name.replace('_', '-')}={value}"
        for name, given in trial.options(file, directory).items()
        for value in (given if isinstance(given, list) else [given])
    ]
    line += [f"--compute={compute}"] if compute else []
    return [
        *line, f"--trial={trial.identity}", f"--data={data_directory}",
        f"--deadline={deadline + 30}",
    ]  # fmt: skip


def own_arguments(trial: Trial, role: str, index: int) -> list[str]:
    """Return what a replica alone finds on its command line: how slow a slow node is."""
    if role != "worker" or trial.slowdown is None:
        return []
    slow = slowdowns(trial.slowdown, trial.slowdown_spread or 1, trial.workers)
    return [f"--slowdown={slow[index]}"]


def place(role: str, index: int, hosts: Mapping[str, list[str]]) -> list[str]:
    """Return where a replica is, as it finds it on its command line."""
    return [f"--role={role}", f"--index={index}", f"--hosts={json.dumps(hosts)}"]
