"""The table of strategies: how the work of training is shared out among replicas."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Strategy:
    """A way to train with several replicas, or with one.

    Attributes
    ----------
    name : str
        The value of a trial's ``strategy``.
    title : str
        What it is, in one line.
    roles : tuple of str
        Which replicas it has, in the order in which they start. A scheduler is left out where the
        framework needs none.
    most_workers : int or None
        How many workers it can have; None for any number.
    lock_step : bool
        Whether the workers take each step together: one update of the weights, from the mean of
        all their gradients.
    """

    name: str
    title: str
    roles: tuple[str, ...]
    most_workers: int | None = None
    lock_step: bool = False

    @property
    def has_servers(self) -> bool:
        """Whether the weights live on parameter servers."""
        return "server" in self.roles


STRATEGIES = {
    row.name: row
    for row in (
        Strategy(
            "async-ps",
            "asynchronous data parallelism over parameter servers",
            roles=("scheduler", "server", "worker"),
        ),
        Strategy(
            "sync-ps",
            "synchronous data parallelism over parameter servers",
            roles=("scheduler", "server", "worker"),
            lock_step=True,
        ),
        Strategy(
            "single",
            "one process without distribution",
            roles=("worker",),
            most_workers=1,
        ),
    )
}
