"""`claims`: the verdicts on what was measured, as a table."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import Any

import pandas as pd

from labkit.errors import LabkitError, nearest
from labkit.thesis.claims.nodes import kinds
from labkit.thesis.claims.rows import CLAIMS
from labkit.thesis.claims.simulated import ANSWERS, ThesisNodes
from labkit.thesis.claims.verdicts import VERDICTS, Claim, Verdict, judge

COLUMNS = ("claim", "statement", "verdict", "evidence", "reason", "nodes", "figures", "runs")


class Verdicts(tuple[Verdict, ...]):
    """The verdicts on all claims, in their order."""

    @property
    def table(self) -> pd.DataFrame:
        """A row for each, with figures and runs as their names with spaces between."""
        more = next((list(each.simulated.record) for each in self if each.simulated), [])
        records = [verdict.record for verdict in self]
        table = pd.DataFrame(records, columns=[*COLUMNS, *more])
        lists = ["figures", "runs"]
        return table.assign(**{name: table[name].str.join(" ") for name in lists})

    def about(self, *numbers: str) -> Verdicts:
        """Return the verdicts on some claims, or on those of some sections, by their numbers."""
        return Verdicts(each for each in self if each.claim.number.startswith(numbers))

    @property
    def summary(self) -> str:
        """How many there are of each."""
        counts = Counter(verdict.verdict for verdict in self)
        return ", ".join(f"{counts[name]} {name}" for name in VERDICTS)

    @property
    def follow(self) -> str:
        """How many follow from slow nodes alone; empty if nothing was simulated."""
        counts = Counter(verdict.simulated.follows for verdict in self if verdict.simulated)
        return ", ".join(f"{counts[name]} {name}" for name in ANSWERS if counts)

    def __repr__(self) -> str:
        lines = [
            f"{each.claim.number} {each.verdict}: {_why(each)}"
            for each in self
        ]
        return "\n".join([*lines, self.summary])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("claim", "verdict", "evidence"))
        rows = "".join(
            f"<tr><td>{escape(each.claim.number)}</td><td><b>{each.verdict}</b></td>"
            f'<td style="text-align: left">{escape(each.claim.statement)}<br>'
            f"<small>{escape(_why(each))}</small></td></tr>"
            for each in self
        )
        return f"<table><tr>{head}</tr>{rows}</table><p>{self.summary}</p>"


def _why(verdict: Verdict) -> str:
    return ". ".join(filter(None, (verdict.evidence, verdict.reason)))


def claims(results: Any, *, simulated: bool = False) -> Verdicts:
    """Return the verdict on every claim of the thesis's chapter 6 and of the later paper.

    A verdict needs the whole 95 % interval over repeats on one side of a threshold that was set
    before; a run that shared cores, was held up by other programs or diverged says nothing about
    scaling.

    Parameters
    ----------
    results : object or DataFrame
        What `measure` returned, or a table of trials; without ``steps`` nothing is said of
        plateaus.
    simulated : bool
        Whether to say, too, which claims would hold on nodes like the thesis's, simulated from
        the runs with one worker; that takes most of a minute.

    Returns
    -------
    Verdicts
        A sequence; ``.table`` is a DataFrame.

    Examples
    --------
    >>> claims(results).table.query("verdict == 'refuted'")
    """
    table, steps = (
        (results, None) if isinstance(results, pd.DataFrame) else (results.table, results.steps)
    )
    there = list(kinds(table, steps))
    beside = ThesisNodes(table) if simulated else None
    return Verdicts(judge(claim, there, beside) for claim in CLAIMS)


def find(number: str) -> Claim:
    """Return the claim with this number.

    Raises
    ------
    LabkitError
        If there is none; it names the nearest one.
    """
    known = {claim.number: claim for claim in CLAIMS}
    if number not in known:
        raise LabkitError(
            f"claim {number!r}: no such claim{nearest(number, known, 0.5)} "
            f"(known: {', '.join(known)})"
        )
    return known[number]
