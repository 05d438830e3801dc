"""Which replicas a trial has, where they are, and what they are told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from labkit.trials import Trial
from labkit.trials.frameworks import FRAMEWORKS


def replicas_of(trial: Trial) -> dict[str, int]:
    """Return how many replicas each role of a trial has, in the order in which they start."""
    roles = {"scheduler": 0, "server": trial.servers, "worker": trial.workers}
    if trial.strategy == "async-ps" and FRAMEWORKS[trial.framework].scheduler:
        roles["scheduler"] = 1
    return {role: count for role, count in roles.items() if count}


def beside_workers(trial: Trial) -> bool:
    """Whether each worker shares its machine and cores with a server, as MXNet's do."""
    return FRAMEWORKS[trial.framework].servers_per_worker and trial.servers == trial.workers


def arguments(trial: Trial, data_directory: Path | str, deadline: float) -> list[str]:
    """Return what all replicas of a trial find on their command line."""
    values = trial.model_dump(exclude_none=True, exclude={"framework", "workers", "servers"})
    line = [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]
    return [
        *line, f"--trial={trial.identity}", f"--data={data_directory}",
        f"--deadline={deadline + 30}",
    ]  # fmt: skip


def place(role: str, index: int, hosts: Mapping[str, list[str]]) -> list[str]:
    """Return what a replica finds on its command line beside `arguments`."""
    return [f"--role={role}", f"--index={index}", f"--hosts={json.dumps(hosts)}"]
