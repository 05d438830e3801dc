"""What claims would become on nodes like the thesis's: simulated, beside the verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from labkit.runs.basis import of_one_machine
from labkit.runs.demands import Measured, NoDemands, measured
from labkit.runs.whatif import simulated_trial
from labkit.thesis.claims.checks import RATE, TIME, Check, Point
from labkit.thesis.claims.findings import FAILS, HOLDS, MISSING, Finding
from labkit.thesis.claims.nodes import Sample
from labkit.trials.nodes import PRESETS

SLOWDOWNS = (6.0, 18.0)
"""How many times slower the thesis's processors computed: an estimate, the least and the most.

A step of LeNet-5 with a batch of 128 is 1.8 GFLOP, which a core of its n1-standard-1 nodes may
have done at 5 to 10 GFLOP/s, in 180 to 360 ms. On a core of an earlier published run it took 20 ms
with TensorFlow and 28 ms with MXNet, six to eighteen times less; on the slowest one that was tried
it took some 100 ms.
"""

BANDWIDTH = PRESETS["thesis"]["bandwidth"]
"""Bits per second of its nodes."""

YES, NO, DEPENDS, NOT_SIMULATED = "yes", "no", "depends on how slow", "not simulated"
ANSWERS = (YES, NO, DEPENDS, NOT_SIMULATED)
"""Whether a claim follows from slow nodes alone."""


class ThesisNodes:
    """Trials on nodes that are as slow as the thesis's may have been, simulated.

    From the runs with one worker and whole cores, `of_one_machine`.

    Parameters
    ----------
    table : DataFrame
        One row per trial.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self._table = of_one_machine(table)
        self._measured: dict[tuple[Any, ...], Measured | None] = {}
        self._rates: dict[tuple[Any, ...], float] = {}

    def sample(self, point: Point, column: str, slowdown: float) -> Sample:
        """Return what is simulated of a point, as one value.

        Parameters
        ----------
        point : Point
        column : str
            A column of the table of trials; rates and times alone are simulated.
        slowdown : float
            One of `SLOWDOWNS`.
        """
        if column not in (RATE, TIME):
            return Sample(missing="no rate, which is all that is simulated")
        setting = (point.framework, point.model, point.batch_size, slowdown)
        if setting not in self._measured:
            self._measured[setting] = self._alone(*setting)
        one = self._measured[setting]
        if one is None:
            return Sample(missing="not run with one worker")
        if (*setting, point.workers) not in self._rates:
            answer = simulated_trial(one, point.workers, slowdown=slowdown, bandwidth=BANDWIDTH)
            self._rates[*setting, point.workers] = answer.throughput
        rate = self._rates[*setting, point.workers]
        if column == TIME:
            steps = one.samples_per_epoch // one.batch_size
            return Sample(np.array([steps * point.workers / rate]))
        return Sample(np.array([rate]))

    def _alone(
        self, framework: str, model: str, batch_size: int, slowdown: float
    ) -> Measured | None:
        """Return what one worker demands, None if it was not run."""
        try:
            return measured(self._table, framework, model, batch_size, slowdown=slowdown)
        except NoDemands:
            return None


@dataclass(frozen=True)
class Simulated:
    """What simulated nodes like the thesis's say about a claim.

    The simulated value alone decides each check: it has no interval.

    Attributes
    ----------
    findings : dict of float to tuple of Finding
        By slowdown: one per check.
    """

    findings: dict[float, tuple[Finding, ...]]

    @classmethod
    def of(cls, checks: Sequence[Check], nodes: ThesisNodes) -> Simulated:
        """Return what some nodes say about the checks of a claim."""
        return cls(
            {
                slowdown: tuple(_finding(check, nodes, slowdown) for check in checks)
                for slowdown in SLOWDOWNS
            }
        )

    @property
    def follows(self) -> str:
        """Whether the claim follows from slow nodes alone: one of `ANSWERS`."""
        answers = {_answer(findings) for findings in self.findings.values()}
        if NOT_SIMULATED in answers:
            return NOT_SIMULATED
        return answers.pop() if len(answers) == 1 else DEPENDS

    @property
    def evidence(self) -> str:
        """The most telling check with its values, in a line; empty if nothing was simulated."""
        checks = [same for same in zip(*self.findings.values(), strict=True)
                  if all(finding.found for finding in same)]  # fmt: skip
        if self.follows == NOT_SIMULATED or not checks:
            return ""
        if self.follows == NO:
            always = [same for same in checks if all(f.outcome == FAILS for f in same)]
            if not always:  # each slowdown has a reason of its own
                return "; ".join(map(_reason, self.findings.items()))
            checks = always
        same = min(checks, key=lambda same: min(map(_inside, same)))
        values = ", ".join(
            f"{finding.found.mean:.3g} with slowdown {slowdown:g}"
            for slowdown, finding in zip(self.findings, same, strict=True)
        )
        check = same[0].check
        return f"{check.of}: {values}; {check.word.name}: {check.word.range}"

    @property
    def record(self) -> dict[str, str]:
        """What it is, for a row of a table or a file."""
        return {"from_slow_nodes": self.follows, "simulated": self.evidence}


def _finding(check: Check, nodes: ThesisNodes, slowdown: float) -> Finding:
    finding = Finding.of(check, lambda point, column: nodes.sample(point, column, slowdown))
    if not finding.found:
        return finding
    value = finding.found.mean
    return replace(finding, outcome=HOLDS if check.word.holds(value, value) else FAILS)


def _reason(case: tuple[float, Sequence[Finding]]) -> str:
    """Return the check that fails most clearly with a slowdown."""
    slowdown, findings = case
    worst = min((f for f in findings if f.found), key=_inside)
    word = worst.check.word
    return (
        f"{worst.check.of}: {worst.found.mean:.3g} with slowdown {slowdown:g}; "
        f"{word.name}: {word.range}"
    )


def _answer(findings: Sequence[Finding]) -> str:
    outcomes = {finding.outcome for finding in findings}
    if FAILS in outcomes:
        return NO
    return NOT_SIMULATED if MISSING in outcomes or not outcomes else YES


def _inside(finding: Finding) -> float:
    """Return how far inside its word's range a ratio is, as a logarithm; negative outside."""
    value, word = finding.found.mean, finding.check.word
    ends = [value / word.low] * (word.low > 0) + [word.high / value] * math.isfinite(word.high)
    return min(map(math.log, ends))
