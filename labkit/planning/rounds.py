"""Which trials are measured, in which order, and how often each setting is repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from labkit import analysis
from labkit.runs import Run
from labkit.trials import Trial

FEWEST_REPEATS = 3
"""From which on an interval is trusted: of two, Student's t is 12.7."""

MAX_REPEATS = 10
"""Of a setting, if the caller does not say: even of repeats that differ by 21 % (coefficient of
variation) ten give an interval of 15 % to either side; what differs more needs another machine."""


def setting(trial: Trial) -> Trial:
    """Return what repeats have in common: all but the seed."""
    return trial.replace(seed=1)


def settings(trials: Iterable[Trial]) -> dict[Trial, list[Trial]]:
    """Return the repeats of each setting, both in the order in which they come."""
    found: dict[Trial, list[Trial]] = {}
    for trial in trials:
        found.setdefault(setting(trial), []).append(trial)
    return found


def in_rounds(sweep: Sequence[Trial], trials: Iterable[Trial]) -> list[Trial]:
    """Return trials of a sweep in rounds: the first repeat of each setting, then the second, ...

    Within a round those of a framework follow each other.
    """
    repeats: Counter[Trial] = Counter()
    place = {}
    frameworks = list(dict.fromkeys(trial.framework for trial in sweep))
    for trial in sweep:
        place[trial] = repeats[setting(trial)], frameworks.index(trial.framework)
        repeats[setting(trial)] += 1
    return sorted(trials, key=place.__getitem__)


def next_seed(repeats: Sequence[Trial]) -> Trial:
    """Return a further repeat of a setting."""
    return repeats[-1].replace(seed=1 + max(trial.seed for trial in repeats))


def more_repeats(
    trials: Sequence[Trial], runs: Mapping[Trial, Run], precision: float | None, most: int
) -> list[Trial]:
    """Return the next repeat of each setting whose throughput is not known precisely enough.

    Not of those with a trial that failed or diverged. And where the last run found the machine
    busy, even twice, another would not fare better: the next call measures that one anew.
    """
    if precision is None:
        return []
    more = []
    for repeats in settings(trials).values():
        found = [runs.get(trial) for trial in repeats]
        if len(found) >= most or not all(run and run.finished for run in found):
            continue
        if not found[-1].overloaded and not _is_precise(found, precision):
            more.append(next_seed(repeats))
    return more


def _is_precise(runs: Sequence[Run], precision: float) -> bool:
    where = runs[-1].record["machine"]["host"]  # a cluster's may be of several
    alike = [run for run in runs if run.record["machine"]["host"] == where]
    rates = [run.window.samples_per_second for run in alike if not run.overloaded]
    if len(rates) < FEWEST_REPEATS:
        return False
    return analysis.geometric_interval(rates).half_width <= precision
