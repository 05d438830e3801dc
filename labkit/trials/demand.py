"""What a trial needs of the machines it runs on."""

from __future__ import annotations

from labkit.trials.trial import Trial


def beside_workers(trial: Trial) -> bool:
    """Whether each worker shares its machine and cores with a server, as MXNet's do."""
    return trial.runtime.servers_per_worker and trial.servers == trial.workers


def is_slow(trial: Trial) -> bool:
    """Whether its workers wait most of the time, so that many share a core."""
    return trial.slowdown is not None and trial.slowdown > 1


def cores_needed(trial: Trial) -> int:
    """Return how many cores a trial keeps busy.

    Each worker has as many as it has threads, and each dedicated server one. A server beside a
    worker has none of its own: it stands for a process on the worker's machine, and what it takes
    is taken from that worker in the thesis's cluster too. A scheduler sleeps while workers train.
    """
    dedicated = 0 if beside_workers(trial) else trial.servers
    return trial.workers * trial.threads + dedicated
