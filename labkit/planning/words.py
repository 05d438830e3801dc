"""A plan in words: a line, a table to look at, and what may be lacking."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.launchers.local import memory
from labkit.progress import duration
from labkit.runs.store import LEAST_ROOM

if TYPE_CHECKING:
    import pandas as pd

Plan = Any
"""A `labkit.planning.plan.Plan`, which imports this file."""


def note(plan: Plan) -> str:
    """Return a plan in a line."""
    trials, due = len(plan.trials) + len(plan.later), plan.due
    said = [f"{trials} trial{'s' * (trials != 1)}: {len(plan.kept)} kept"]
    said.append(f"{len(due)} to measure")
    if plan.at_most:
        said.append(f"{plan.at_most} more at most for precision")
    if due:
        said += [_time(plan), *_room(plan)]
    return ", ".join(said)


def _time(plan: Plan) -> str:
    """Say how long it would take, of what is known."""
    known = plan.seconds(plan.due)
    if not known:
        return "how long they take is unknown"
    at_once = min(plan.parallel, len(known))
    least = any(plan.cost(trial).at_least for trial in known)
    text = f"{'at least' if least else 'about'} {duration(sum(known.values()) / at_once)}"
    if at_once > 1:
        text += f" ({at_once} at once)"
    if unknown := len(plan.due) - len(known):
        text = f"{text} for {len(known)} of these ({unknown} unknown)"
    return text


def _room(plan: Plan) -> Iterator[str]:
    """Say how much memory and disk it would take, where that is known of all trials."""
    costs = [plan.cost(trial) for trial in plan.due]
    if all(cost.memory is not None for cost in costs):
        yield f"up to {size(max(cost.memory for cost in costs))} of memory"
    if all(cost.disk is not None for cost in costs):
        yield f"{size(sum(cost.disk for cost in costs))} on disk"


def lacks(plan: Plan) -> Iterator[str]:
    """Say of what there may be too little: memory for a trial, or room for all runs."""
    costs = [plan.cost(trial) for trial in plan.due]
    if plan.store.launcher == "local":  # in a cluster its nodes have it
        free, _ = memory.free()
        if max((cost.memory or 0 for cost in costs), default=0) > free:
            yield f"there may be too little memory: {size(free)} are free"
    free = _free(plan.store.root)
    if sum(cost.disk or 0 for cost in costs) + LEAST_ROOM > free:
        yield f"there may be too little room in {plan.store.root}: {size(free)} are free"


def _free(place: Path) -> int:
    """Return the bytes that are free on the disk of a place, whether that exists yet or not."""
    there = next(path for path in (place, *place.absolute().parents) if path.exists())
    return shutil.disk_usage(there).free


def short(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table of a plan to look at: times and sizes as one says them."""

    def mebibytes(value: float) -> str:
        return size(value * 2**20)

    said = {"seconds": duration, "memory_mb": mebibytes, "disk_mb": mebibytes}
    for name, word in said.items():
        cells = [
            "" if not count else "unknown" if math.isnan(value) else word(value)
            for value, count in zip(table[name], table["to_measure"], strict=True)
        ]
        table = table.assign(**{name: cells})
    return table.rename(columns={"seconds": "time", "memory_mb": "memory", "disk_mb": "disk"})


def size(count: float) -> str:
    """Return a number of bytes, as one would say it."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"
