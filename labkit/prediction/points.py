"""Measured points as people have them: a csv file, a table, a dictionary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labkit import rates
from labkit.errors import LabkitError
from labkit.prediction.families import Array


@dataclass(frozen=True)
class Points:
    """Numbers of workers, and the throughput measured with each.

    Attributes
    ----------
    workers, throughput : ndarray, shape (n,)
        By rising number of workers, each once; of repeats the geometric mean.
    variance : ndarray, shape (n,)
        Of the logarithm of each such mean, from how repeats scatter, which is taken to be alike
        for all numbers of workers; 0 where nothing was repeated.
    notes : tuple of str
        How their source was understood, where there is a choice.
    """

    workers: Array
    throughput: Array
    variance: Array
    notes: tuple[str, ...] = ()


def is_of_trials(path: Path) -> bool:
    """Return whether a file is a table of trials that labkit saved, by its name or its heading."""
    if path.suffix in (".parquet", ".json"):
        return True
    try:
        with path.open(errors="replace") as file:
            return file.readline().startswith("trial,framework,")
    except OSError:
        return False


def read(source: Any) -> Points:
    """Return points from the path of a csv file, a mapping or a DataFrame.

    Parameters
    ----------
    source : path, mapping of workers to throughput, or DataFrame

    Raises
    ------
    LabkitError
        If the file cannot be read, for all that is wrong with the points, at once, or if they
        are of several series or hosts.
    """
    named = str(source) if isinstance(source, (str, Path)) else "points"
    found, _, notes = rates.rows(source, named)
    repeats: dict[int, list[float]] = {}
    for row in found:
        repeats.setdefault(row["workers"], []).append(row["throughput"])
    header = list(found[0]) if found else []
    problems = []
    for name in (*rates.settings(header), *(["host"] if "host" in header else [])):
        values = list(dict.fromkeys(row[name] for row in found))
        # So many servers may come with the workers.
        comes = name == "servers" and len({(r["workers"], r[name]) for r in found}) == len(repeats)
        if len(values) > 1 and not comes:
            said = ", ".join(map(str, values))
            problems.append(f"{name}: {said}; points are of one, so keep that one alone")
    if not problems and len(repeats) < 2:
        problems = [f"{len(repeats)} point{'s' * (len(repeats) != 1)}; at least 2 are needed"]
    if problems:
        raise LabkitError(f"{named}: {'; '.join(problems)}")
    workers = sorted(repeats)
    logs = [np.log(repeats[n]) for n in workers]
    counts = np.array([len(values) for values in logs])
    squares = sum(((values - values.mean()) ** 2).sum() for values in logs)
    scatter = squares / max(1, (counts - 1).sum())
    means = np.exp([values.mean() for values in logs])
    return Points(np.array(workers, float), means, scatter / counts, notes)
