"""What ``labkit clean`` does to the runs that are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import click

from labkit.errors import LabkitError


def kept_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say which kept runs are to go."""
    for option in (
        click.option("--failed", is_flag=True, help="Runs that failed or are damaged."),
        click.option("--overloaded", is_flag=True,
                     help="Runs without a rate: something disturbed them."),
        click.option("--other-version", is_flag=True,
                     help="Runs of other code, data or framework versions."),
        click.option("--older-than", type=float, metavar="DAYS",
                     help="Only runs older than that; alone: all of these."),
    ):  # fmt: skip
        command = option(command)
    return command


def clean_kept(
    yes: bool, failed: bool, overloaded: bool, other_version: bool, older_than: float | None
) -> None:
    """Show the kept runs that are to go, ask, and remove them."""
    from labkit.runs import Store
    from labkit.runs.cleaning import removable

    if older_than is not None and not older_than >= 0:
        raise LabkitError(f"--older-than: {older_than}; allowed: days, 0 or more")
    root = Store().root
    found = removable(root, failed, overloaded, other_version, older_than)
    if not found:
        click.echo(f"no such runs in {root}")
        return
    for run in found:
        why = ", ".join(run.reasons) or "old"
        click.echo(f"{run.directory.relative_to(root)}\n    {why}, {run.days:.0f} days old")
    kinds = Counter(reason for run in found for reason in run.reasons)
    said = "; ".join(f"{count} {reason}" for reason, count in kinds.items())
    size = sum(run.size for run in found) / 2**20
    runs = "1 run" if len(found) == 1 else f"{len(found)} runs"
    click.echo(f"{runs}, {size:.1f} MiB{': ' + said if said else ''}")
    if not yes:
        click.confirm(f"Remove from {root}?", abort=True)
    for run in found:
        run.remove()
    click.echo(f"{runs} removed")
