"""Measured points as people have them: a csv file, a table, a dictionary."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from labkit.errors import LabkitError, nearest
from labkit.prediction.families import Array

COLUMNS = ("workers", "throughput")


@dataclass(frozen=True)
class Points:
    """Numbers of workers, and the throughput measured with each.

    Attributes
    ----------
    workers, throughput : ndarray, shape (n,)
        By rising number of workers, each once.
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
        If the file cannot be read, or for all that is wrong with the points, at once.
    """
    if isinstance(source, (str, Path)):
        return _from_csv(Path(source))
    if isinstance(source, Mapping):
        return _checked("points", [(f"workers {n}", n, x) for n, x in source.items()])
    missing = _missing(list(map(str, source.columns)))
    if missing:
        raise LabkitError(f"points: {missing}")
    rows = zip(source.index, source["workers"], source["throughput"], strict=True)
    return _checked("points", [(f"row {label}", n, x) for label, n, x in rows])


def _from_csv(path: Path) -> Points:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file, skipinitialspace=True))
            file.seek(0)
            header = next(csv.reader(file, skipinitialspace=True), [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LabkitError(f"{path}: cannot be read as a csv file: {error}") from error
    header = [name.strip() for name in header]
    if missing := _missing(header):
        raise LabkitError(f"{path}: {missing}")
    rows = [{(k or "").strip(): v for k, v in row.items()} for row in rows]
    return _checked(
        str(path), [(f"line {i}", r["workers"], r["throughput"]) for i, r in enumerate(rows, 2)]
    )


def _missing(header: list[str]) -> str:
    """Say which columns are missing, and what may have been meant; nothing if all are there."""
    missing = [name for name in COLUMNS if name not in header]
    if not missing:
        return ""
    said = " and ".join(f"no column {name!r}{nearest(name, header)}" for name in missing)
    return f"{said}; there: {', '.join(header) or 'nothing'}. Needed: workers,throughput"


def _checked(where: str, rows: Iterable[tuple[str, Any, Any]]) -> Points:
    """Return points if all of them can be; name all that cannot."""
    problems: list[str] = []
    points: dict[int, float] = {}
    for label, *values in rows:
        n, x = (_number(value) for value in values)
        if not (n >= 1 and n == int(n)):
            problems.append(f"{label}: workers {values[0]!r}; allowed: whole numbers from 1 on")
        elif n in points:
            problems.append(f"{label}: workers {int(n)} again; give the mean of its repeats")
        if not x > 0:
            problems.append(f"{label}: throughput {values[1]!r}; allowed: numbers above 0")
        if math.isfinite(n) and n >= 1:
            points.setdefault(int(n), x)
    if not problems and len(points) < 2:
        problems.append(f"{len(points)} point{'s' * (len(points) != 1)}; at least 2 are needed")
    if problems:
        raise LabkitError(f"{where}: " + "; ".join(problems))
    ordered = sorted(points.items())
    return Points(*(np.array(column, float) for column in zip(*ordered, strict=True)))


def _number(value: Any) -> float:
    """Return a finite number, NaN for whatever else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return math.nan
    return number if math.isfinite(number) else math.nan
