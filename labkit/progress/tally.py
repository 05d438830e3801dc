"""What came of the trials of a sweep, or of several, in one line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

from labkit.runs import Run
from labkit.runs.run import SHORTEST_JUDGED

SETS = ("run", "reused", "diverged", "overloaded", "unjudged")
"""The names of the sets of a tally."""


@dataclass
class Tally:
    """What came of trials, by the names of their runs.

    Attributes
    ----------
    run, reused : set of str
        Those that have been run, and those that had been before.
    diverged, overloaded, unjudged : set of str
        Those of both without a result; without a rate; and with one of which nobody can tell
        whether other programs disturbed it.
    aside : str
        Which kept runs have not been re-used, and why.
    """

    run: set[str] = field(default_factory=set)
    reused: set[str] = field(default_factory=set)
    diverged: set[str] = field(default_factory=set)
    overloaded: set[str] = field(default_factory=set)
    unjudged: set[str] = field(default_factory=set)
    aside: str = ""

    @classmethod
    def of(cls, new: Iterable[Run], known: Iterable[Run]) -> Self:
        """Return the tally of runs that are new, and of runs that were known before."""
        new, known = list(new), list(known)

        def names(runs: Iterable[Run]) -> set[str]:
            return {run.directory.name for run in runs}

        runs = [*new, *known]
        return cls(
            names(new),
            names(known),
            names(run for run in runs if not run.finished),
            names(run for run in runs if run.overloaded),
            names(run for run in runs if run.overloaded is None),
        )

    def add(self, later: Tally) -> None:
        """Take in what came of trials later on; some of them may be the same."""
        again = later.run | later.reused
        for name in ("diverged", "overloaded", "unjudged"):
            setattr(self, name, (getattr(self, name) - again) | getattr(later, name))
        self.aside = later.aside or self.aside
        self.run |= later.run
        self.reused = (self.reused | later.reused) - self.run

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, from which ``Tally.read`` makes it again."""
        return {name: sorted(getattr(self, name)) for name in SETS} | {"aside": self.aside}

    @classmethod
    def read(cls, values: dict[str, Any]) -> Self:
        """Return the tally that `as_dict` has given."""
        return cls(**{name: set(values[name]) for name in SETS}, aside=values["aside"])

    def __str__(self) -> str:
        trials = len(self.run) + len(self.reused)
        said = [f"{len(self.run)} run", f"{len(self.reused)} re-used"]
        if self.diverged:
            said.append(f"{len(self.diverged)} without a result (diverged)")
        if self.overloaded:
            said.append(
                f"{len(self.overloaded)} without a rate (the machine was too busy)"
            )
        if self.unjudged:
            said.append(
                f"{len(self.unjudged)} not judged (trained together for less than "
                f"{SHORTEST_JUDGED:g} s: too short to tell whether other programs held it up)"
            )
        line = f"{trials} trial{'s' * (trials != 1)}: {', '.join(said)}"
        return "; ".join(filter(None, [line, self.aside]))
