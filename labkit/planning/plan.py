"""What measuring a sweep would do: nothing is started for it, and nothing written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from labkit.planning import words
from labkit.planning.estimate import Cost, Experience
from labkit.planning.rounds import (
    FEWEST_REPEATS,
    MAX_REPEATS,
    in_rounds,
    more_repeats,
    next_seed,
    setting,
    settings,
)
from labkit.runs import Run, Store
from labkit.trials import FIELDS, Trial

if TYPE_CHECKING:
    import pandas as pd


def kept(store: Store, trials: Iterable[Trial]) -> dict[Trial, Run]:
    """Return the runs that are used again: those with a rate, and those that have diverged."""
    return {trial: run for trial, run in store.look_up(trials).items() if not run.overloaded}


class Plan:
    """What measuring a sweep would do.

    Parameters
    ----------
    store : Store
        Where it looks which trials have been run.
    sweep : sequence of Trial
    precision, max_repeats, force
        As of `labkit.measure`.
    parallel : int
        How many trials run at once.
    cluster : callable
        Returns the name of the cluster in which they run, if they run in one; called only if
        something is to be measured.

    Attributes
    ----------
    trials : list of Trial
        Those of the sweep, and the repeats that `precision` asks for as far as is known.
    missing : list of Trial
        Those of them that would be measured first, in their order.
    later : list of Trial
        Repeats that follow then, whatever the rates; unless a trial fails or diverges.
    kept : dict of Trial to Run
        Those of all these that have been run.
    """

    def __init__(
        self,
        store: Store,
        sweep: Sequence[Trial],
        *,
        precision: float | None = None,
        max_repeats: int = MAX_REPEATS,
        force: bool = False,
        parallel: int = 1,
        cluster: Callable[[], str] = str,
    ) -> None:
        self.store, self.parallel, self._cluster = store, parallel, cluster
        self._force, self._precise = force, precision is not None
        self.trials, self.kept = list(sweep), {}
        due = self.trials
        while due:
            if not force:
                self.kept |= kept(store, due)
            due = more_repeats(self.trials, self.kept, precision, max_repeats)
            self.trials = self.trials + due
        self.missing = in_rounds(self.trials, (t for t in self.trials if t not in self.kept))
        self.later: list[Trial] = []
        self._at_most: dict[Trial, int] = {}
        if self._precise:
            self._add_repeats(max_repeats)
        if not force:
            self.kept |= kept(store, self.later)

    def _add_repeats(self, most: int) -> None:
        """Add the repeats that settings will have of which not all has been measured."""
        for one, repeats in settings(self.trials).items():
            found = [self.kept.get(trial) for trial in repeats]
            if all(found) or not all(run is None or run.finished for run in found):
                continue
            while len(repeats) < min(FEWEST_REPEATS, most):
                repeats.append(next_seed(repeats))
                self.later.append(repeats[-1])
            self._at_most[one] = max(0, most - len(repeats))

    @property
    def at_most(self) -> int:
        """How many more repeats there may be."""
        return sum(self._at_most.values())

    @property
    def due(self) -> list[Trial]:
        """All trials that would be measured, as far as is known."""
        return [*self.missing, *(trial for trial in self.later if trial not in self.kept)]

    @cached_property
    def _costs(self) -> dict[Trial, Cost]:
        """What a trial of each setting would take of which there are some to be measured."""
        if not self.due:
            return {}
        experience = Experience.of(self.store, self._cluster())
        return {one: experience.cost(one) for one in settings(self.due)}

    def cost(self, trial: Trial) -> Cost:
        """Return what one of the trials to be measured would take."""
        return self._costs[setting(trial)]

    def seconds(self, trials: Iterable[Trial]) -> dict[Trial, float]:
        """Return how long each of some trials is expected to take, where that is known."""
        costs = {trial: self._costs.get(setting(trial)) for trial in trials}
        return {t: c.seconds for t, c in costs.items() if c and c.seconds is not None}

    @property
    def table(self) -> pd.DataFrame:
        """One row per setting: what tells it apart, its trials, and what measuring them takes."""
        import pandas as pd

        rows = settings([*self.trials, *self.later])
        columns = pd.DataFrame([repeats[0].columns for repeats in rows.values()])
        differ = [n for n in FIELDS if n in columns and columns[n].nunique(dropna=False) > 1]
        shown = [n for n in differ if n != "seed"] or ["framework", "model", "workers"]
        for name in ("dataset", "servers"):  # which mostly follow from the others
            rest = [other for other in shown if other != name]
            if rest and columns.groupby(rest, dropna=False)[name].nunique().max() == 1:
                shown = rest
        table = columns[shown].astype(object).where(columns[shown].notna(), None)
        numbers = [self._row(one, repeats) for one, repeats in rows.items()]
        return pd.concat([table, pd.DataFrame(numbers)], axis="columns")

    def _row(self, one: Trial, repeats: Sequence[Trial]) -> dict[str, Any]:
        count = sum(trial not in self.kept for trial in repeats)
        row: dict[str, Any] = {"kept": len(repeats) - count, "to_measure": count}
        if self._precise:
            row["at_most_more"] = self._at_most.get(one, 0)
        if not count:
            return row | {"seconds": 0.0, "memory_mb": 0.0, "disk_mb": 0.0, "estimated_from": ""}
        cost = self.cost(one)
        return row | {
            "seconds": math.nan if cost.seconds is None else count * cost.seconds,
            "memory_mb": math.nan if cost.memory is None else cost.memory / 2**20,
            "disk_mb": math.nan if cost.disk is None else count * cost.disk / 2**20,
            "estimated_from": cost.source,
        }

    @property
    def note(self) -> str:
        """All of it in a line."""
        return words.note(self)

    @property
    def remarks(self) -> list[str]:
        """What else is to be known before it starts: runs that are not used, room that lacks."""
        aside = "" if self._force else self.store.set_aside(self.missing)
        return [*filter(None, [aside]), *words.lacks(self)]

    @property
    def short(self) -> pd.DataFrame:
        """The table to look at: times and sizes as one says them, nothing where none is due."""
        return words.short(self.table)

    def __repr__(self) -> str:
        text = self.short.to_string(index=False, na_rep="-", float_format="{:.4g}".format)
        return "\n".join([text, self.note, *self.remarks])

    def _repr_html_(self) -> str:
        html = self.short.to_html(index=False, na_rep="-", float_format="{:.4g}".format, border=0)
        return html + "".join(f"<p>{escape(line)}</p>" for line in [self.note, *self.remarks])
