"""Where a trial's replicas are, and what they find on their command lines."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from labkit.trials import Trial


def arguments(
    trial: Trial,
    model: Path | str,
    data_directory: Path | str,
    deadline: float,
    compute: float | None = None,
) -> list[str]:
    """Return what all replicas of a trial find on their command line.

    Parameters
    ----------
    trial : Trial
    model : Path or str
        Where they find the model's file, or its name.
    data_directory : Path or str
        Where they find the data sets.
    deadline : float
        Seconds the trial may take.
    compute : float, optional
        Seconds that a gradient takes on a quiet core, for a trial with a slowdown.
    """
    values = trial.model_dump(exclude_none=True, exclude={"framework", "workers", "servers"})
    values["model"] = model
    line = [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]
    line += [f"--compute={compute}"] if compute else []
    return [
        *line, f"--trial={trial.identity}", f"--data={data_directory}",
        f"--deadline={deadline + 30}",
    ]  # fmt: skip


def place(role: str, index: int, hosts: Mapping[str, list[str]]) -> list[str]:
    """Return what a replica finds on its command line beside `arguments`."""
    return [f"--role={role}", f"--index={index}", f"--hosts={json.dumps(hosts)}"]
