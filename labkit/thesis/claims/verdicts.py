"""From checks to verdicts: each check against the whole 95 % interval of its quantity."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from labkit.figures.words import name_of
from labkit.thesis.claims.checks import Check, Point
from labkit.thesis.claims.findings import FAILS, HOLDS, MISSING, UNCLEAR, Finding
from labkit.thesis.claims.nodes import Nodes
from labkit.thesis.claims.simulated import Simulated, ThesisNodes
from labkit.thesis.thresholds import Word

REPRODUCED, REFUTED = "reproduced", "refuted"
INCONCLUSIVE, NOT_MEASURED = "inconclusive", "not measured"
VERDICTS = (REPRODUCED, REFUTED, INCONCLUSIVE, NOT_MEASURED)

PLURAL = {HOLDS: "hold", FAILS: "fail", UNCLEAR: "unclear", MISSING: "missing"}

SHOWN = 2
"""Findings that a line of evidence has room for."""


@dataclass(frozen=True)
class Claim:
    """A statement of the thesis, with what decides it.

    Attributes
    ----------
    number : str
        As in the list of claims: the section and a letter.
    statement : str
    checks : tuple of Check
        All have to hold.
    figures : tuple of str
        The thesis's figures that show it, by number.
    elsewhere : callable, optional
        Makes the checks from what ran, of a claim that names no setting; none if nothing fits.
    """

    number: str
    statement: str
    checks: tuple[Check, ...]
    figures: tuple[str, ...]
    elsewhere: Callable[[Nodes], tuple[Check, ...]] | None = None

    @property
    def needs(self) -> list[Point]:
        """The trials that decide it, each in several repeats."""
        return list(dict.fromkeys(point for check in self.checks for point in check.needs))

    @property
    def words(self) -> list[Word]:
        """The words that it is made of."""
        return list(dict.fromkeys(check.word for check in self.checks))


@dataclass(frozen=True)
class Verdict:
    """What the runs on nodes of one kind say about a claim.

    Attributes
    ----------
    claim : Claim
    findings : tuple of Finding
    nodes : str
        Where it holds; empty if nothing of it was measured.
    others : tuple of Verdict
        What runs on other nodes say, as far as anything was measured there.
    beside : ThesisNodes or None
        The simulated nodes to ask, too, if that is wanted; no verdict rests on them.
    """

    claim: Claim
    findings: tuple[Finding, ...] = ()
    nodes: str = ""
    others: tuple[Verdict, ...] = ()
    beside: ThesisNodes | None = None

    @cached_property
    def verdict(self) -> str:
        """One of `VERDICTS`."""
        return INCONCLUSIVE if self.contradicted else self.here

    @cached_property
    def here(self) -> str:
        """What these nodes alone say."""
        outcomes = {finding.outcome for finding in self.findings}
        if FAILS in outcomes:
            return REFUTED
        if MISSING in outcomes or not outcomes:
            return NOT_MEASURED
        return INCONCLUSIVE if UNCLEAR in outcomes else REPRODUCED

    @cached_property
    def simulated(self) -> Simulated | None:
        """What nodes like the thesis's would say; simulated when it is first asked for."""
        return Simulated.of(self.claim.checks, self.beside) if self.beside else None

    @property
    def contradicted(self) -> str:
        """The nodes that say the opposite, with as much measured there; usually none."""
        opposite = {REPRODUCED: REFUTED, REFUTED: REPRODUCED}.get(self.here)
        nodes = (v.nodes for v in self.others
                 if v.here == opposite and len(v.measured) == len(self.measured))  # fmt: skip
        return next(nodes, "")

    @property
    def runs(self) -> list[str]:
        """The names of the runs that it rests on."""
        samples = (s for finding in self.measured for s in finding.samples.values())
        return sorted({run for sample in samples for run in sample.runs})

    @property
    def measured(self) -> list[Finding]:
        """The findings that have a number, the most telling first."""
        first = {REFUTED: FAILS, INCONCLUSIVE: UNCLEAR}.get(self.here, HOLDS)
        found = [finding for finding in self.findings if finding.found]
        against = self.here == REFUTED
        return sorted(
            found, key=lambda f: (f.outcome != first, -f.margin if against else f.margin)
        )

    @property
    def evidence(self) -> str:
        """The most telling numbers in a line, and how many checks hold."""
        shown = [str(finding) for finding in self.measured[:SHOWN]]
        counts = Counter(finding.outcome for finding in self.findings)
        if shown and len(self.findings) > 1:
            tally = [f"{counts[each]} {word}" for each, word in PLURAL.items() if counts[each]]
            shown.append(f"Of {len(self.findings)} checks {', '.join(tally)}")
        return ". ".join(shown)

    @property
    def reason(self) -> str:
        """Why there is no verdict; empty if there is one."""
        if self.contradicted:
            return f"as much was measured on {self.contradicted}, and it says the opposite"
        if self.verdict == INCONCLUSIVE:
            alone = all(f.found.n == 1 for f in self.findings if f.outcome == UNCLEAR)
            return "one run each has no interval" if alone else "an interval straddles a bound"
        if self.verdict == NOT_MEASURED:
            return "; ".join(_missing(self.findings)) or "nothing that it needs was run"
        return ""

    @property
    def record(self) -> dict[str, Any]:
        """What it is and rests on, for a row of a table or a file."""
        return {
            "claim": self.claim.number,
            "statement": self.claim.statement,
            "verdict": self.verdict,
            "evidence": self.evidence,
            "reason": self.reason,
            "nodes": self.where,
            "figures": list(self.claim.figures),
            "runs": self.runs,
            **(self.simulated.record if self.simulated else {}),
        }

    @property
    def where(self) -> str:
        """The nodes on which it holds, and how many of its runs shared cores there."""
        samples = (s for finding in self.measured for s in finding.samples.values())
        shared = {run for sample in samples for run in sample.oversubscribed}
        some = f"; {len(shared) or 'none'} of {len(self.runs)} runs oversubscribed"
        return self.nodes + some * bool(self.runs)


def _missing(findings: Sequence[Finding]) -> Iterator[str]:
    """Say what is missing, and why: numbers of workers and frameworks in one list."""
    whys: dict[str, dict[tuple[str, int], set[int]]] = defaultdict(lambda: defaultdict(set))
    for finding in findings:
        for point, sample in finding.samples.items():
            if sample.missing:
                whys[sample.missing][point.framework, point.batch_size].add(point.workers)
    for why, points in whys.items():
        same: dict[tuple[int, ...], list[tuple[str, int]]] = defaultdict(list)
        for which, workers in points.items():
            same[tuple(sorted(workers))].append(which)
        for workers, which in same.items():
            frameworks = ", ".join(dict.fromkeys(name_of(framework) for framework, _ in which))
            sizes = ", ".join(map(str, dict.fromkeys(size for _, size in which)))
            counts = ", ".join(map(str, workers))
            s = "s" * (workers != (1,))
            yield f"{frameworks}, batch {sizes} with {counts} worker{s}: {why}"


def judge(claim: Claim, kinds: Sequence[Nodes], beside: ThesisNodes | None = None) -> Verdict:
    """Return the verdict on a claim, with simulated nodes beside it if there are any.

    It is that of the nodes on which most of what it needs was measured. Where several kinds of
    nodes have as much, one that decides goes before one that does not; if two decide differently,
    it is inconclusive.
    """
    each = []
    for nodes in kinds:
        checks = claim.elsewhere(nodes) if claim.elsewhere else ()
        findings = tuple(Finding.of(check, nodes.sample) for check in checks or claim.checks)
        each.append(Verdict(claim, findings, nodes.description))
    if not each:
        return Verdict(claim, beside=beside)
    each.sort(key=lambda v: (len(v.measured), v.here in (REPRODUCED, REFUTED)), reverse=True)
    chosen, *others = each
    others = [other for other in others if other.measured]
    return replace(chosen, others=tuple(others), beside=beside)
