"""Measured points as people have them: a csv file, a table, a dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    """

    workers: Array
    throughput: Array


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
    if isinstance(source, Mapping):
        import pandas as pd

        source = pd.DataFrame({"workers": list(source), "throughput": list(source.values())})
    named = "points" if hasattr(source, "columns") else ""
    found = rates.read(source, named)
    by_workers = found.table.groupby("workers")
    fixed = [name for name in (*rates.SETTINGS, "host") if name in found.table]
    if "servers" in fixed and (by_workers["servers"].nunique() <= 1).all():
        fixed.remove("servers")  # so many come with the workers
    problems = [
        f"{name}: {', '.join(map(str, values))}; points are of one, so keep its rows alone"
        for name, values in ((name, found.table[name].unique()) for name in fixed)
        if len(values) > 1
    ]
    means = np.exp(by_workers["throughput"].apply(lambda each: np.log(each).mean()))
    if not problems and len(means) < 2:
        problems = [f"{len(means)} point{'s' * (len(means) != 1)}; at least 2 are needed"]
    if problems:
        raise LabkitError(f"{found.name}: {'; '.join(problems)}")
    return Points(means.index.to_numpy(float), means.to_numpy(float))
