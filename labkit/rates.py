"""Throughputs that somebody measured, as people have them: a csv file or a table, in any unit."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.errors import LabkitError, nearest
from labkit.trials import Trial

if TYPE_CHECKING:
    import pandas as pd

SEPARATORS = (",", ";", "\t")

REPEATS = ("repeat", "seed")
"""Columns that number repeats."""

SETTINGS = ("series", *(name for name in Trial.model_fields if name not in ("workers", "seed")))
"""Columns that tell apart what was measured; like `host`, never averaged over."""

KNOWN = ("workers", "throughput", "host", *REPEATS, *SETTINGS)

MOST_PROBLEMS = 10
"""That one error names; the others are counted."""

MISSPELT = 0.85
"""How much alike a column's name and ``throughput`` are if it is that with a slip."""


@dataclass(frozen=True)
class Rates:
    """Measured throughputs, a row per repeat.

    Attributes
    ----------
    name : str
        What they are called.
    table : DataFrame
        Columns as of a table of trials, as far as they are known, with ``throughput``.
    unit : str
        Of the throughput; empty if nobody says.
    notes : tuple of str
        How the source was understood, where there is a choice.
    """

    name: str
    table: pd.DataFrame
    unit: str = ""
    notes: tuple[str, ...] = ()


def read(source: str | Path | pd.DataFrame, name: str = "") -> Rates:
    """Return the throughputs in a csv file or a DataFrame.

    Parameters
    ----------
    source : path or DataFrame
        Columns ``workers`` and ``throughput``, or ``throughput [UNIT]``, in any order; of a file
        separated by comma, semicolon (then with decimal commas, if need be) or tab. ``series``,
        ``host`` and the fields of a trial tell rows apart; rows that agree in all of them are
        repeats, which ``repeat`` or ``seed`` may number. Or a column of throughputs per series:
        two or more columns of numbers beside ``workers``, and no ``throughput``.
    name : str, optional
        What errors call the source; by default the path.

    Raises
    ------
    LabkitError
        If the file cannot be read, or for all that is wrong in it, at once.
    """
    if isinstance(source, (str, Path)):
        path = Path(source)
        name, stem = name or str(path), path.stem
        frame, comma = _from_csv(path)
    else:
        name = name or "table"
        stem, frame, comma = name, source.copy(), False
        frame.index = [f"row {label}" for label in frame.index]
    return _Reading(name, stem, comma).of(frame)


def _from_csv(path: Path) -> tuple[pd.DataFrame, bool]:
    """Return the cells of a file as text, by their lines, and whether decimals may have commas."""
    import pandas as pd

    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = list(file)
        first = next((line for line in lines if line.strip()), "")
        separator = max(
            SEPARATORS, key=lambda each: len(next(csv.reader([first], delimiter=each), []))
        )
        reader = csv.reader(lines, delimiter=separator, skipinitialspace=separator != "\t")
        rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LabkitError(f"{path}: cannot be read as a csv file: {error}") from error
    header = rows[0][1] if rows else []
    too_long = [f"line {n}: {len(row)} cells" for n, row in rows if len(row) > len(header)]
    if too_long:
        _refuse(str(path), [f"{each}, but {len(header)} columns" for each in too_long])
    cells = [[*(c.strip() for c in row), *[None] * (len(header) - len(row))] for _, row in rows]
    index = [f"line {n}" for n, _ in rows[1:]]
    return pd.DataFrame(cells[1:], columns=header, index=index, dtype=object), separator == ";"


@dataclass(frozen=True)
class _Reading:
    """How a table is read: what it is called, and how its numbers are written."""

    name: str
    stem: str
    comma: bool

    def of(self, frame: pd.DataFrame) -> Rates:
        """Return what a table of cells says; refuse it for all that is wrong at once."""
        unit, frame = _named(frame)
        twice = frame.columns[frame.columns.duplicated()]
        if len(twice):
            _refuse(self.name, [f"column {column!r} twice" for column in dict.fromkeys(twice)])
        wide = self._wide(frame)
        if "workers" not in frame or not (wide or "throughput" in frame):
            raise LabkitError(f"{self.name}: {_missing(frame)}")
        notes = ()
        if wide:
            frame = self._long(frame, wide)
            series = f"{', '.join(wide[:-1])} and {wide[-1]}"
            where = f"{Path(self.name).name} has no column throughput"
            notes = (f"{where}: {series} are taken for series.",)
        self._check(frame)
        return Rates(self.name, self._tidy(frame), unit, notes)

    def _wide(self, frame: pd.DataFrame) -> list[str]:
        """Return the columns that each are the throughput of a series; none of a long table."""
        others = [column for column in frame if column not in KNOWN]
        if {"throughput", "series"} & set(frame) or nearest("throughput", others, MISSPELT):
            return []
        numbers = all(
            self._number(cell) > 0 or _is_empty(cell)
            for column in others for cell in frame[column]
        )  # fmt: skip
        return others if numbers and len(others) > 1 and len(frame) else []

    def _long(self, frame: pd.DataFrame, wide: list[str]) -> pd.DataFrame:
        """Return a table with one column of throughput; empty cells were not measured."""
        same = [column for column in frame if column not in wide]
        frame = frame.melt(same, wide, "series", "throughput", ignore_index=False)
        frame = frame[[not _is_empty(cell) for cell in frame["throughput"]]]
        frame.index = [f"{i}, {s}" for i, s in zip(frame.index, frame["series"], strict=True)]
        return frame

    def _check(self, frame: pd.DataFrame) -> None:
        problems = []
        for row in frame[["workers", "throughput"]].itertuples():
            workers = self._number(row.workers)
            if not (workers >= 1 and workers == int(workers)):
                problems.append(
                    f"{row.Index}: workers {row.workers!r}; allowed: whole numbers from 1 on"
                )
            if not self._number(row.throughput) > 0:
                problems.append(
                    f"{row.Index}: throughput {row.throughput!r}; allowed: numbers above 0"
                )
        if "series" in frame:
            problems += [f"{i}: no series" for i, s in frame["series"].items() if _is_empty(s)]
        _refuse(self.name, problems or _mixed(frame))

    def _tidy(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the table with numbers for texts, as a table of trials has it."""
        names = [name for name in (*SETTINGS, "host", *REPEATS) if name in frame]
        tidy = frame[names].apply(lambda column: column.map(self._plain))
        if "series" in frame:
            tidy["series"] = frame["series"].map(str)  # also of what is called 1 and 2
        elif "framework" not in frame:
            tidy.insert(0, "series", self.stem)
        tidy["workers"] = [int(self._number(cell)) for cell in frame["workers"]]
        tidy["throughput"] = [self._number(cell) for cell in frame["throughput"]]
        tidy.insert(0, "trial", frame.index)
        tidy = tidy.assign(status="finished", overloaded=False, oversubscribed=False)
        return tidy.infer_objects().reset_index(drop=True)

    def _number(self, cell: Any) -> float:
        """Return a finite number, NaN for whatever else."""
        if self.comma and isinstance(cell, str):
            cell = cell.replace(",", ".")
        try:
            number = float(cell)
        except (TypeError, ValueError):
            return math.nan
        return number if math.isfinite(number) else math.nan

    def _plain(self, cell: Any) -> Any:
        """Return a cell as a number if it is one, None if it is empty."""
        number = self._number(cell)
        if math.isnan(number):
            return None if _is_empty(cell) else cell
        return int(number) if number == int(number) else number


def _named(frame: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Return the unit that the column of throughput names, and known columns by their names."""
    names, unit = [], ""
    for name in (str(column).strip() for column in frame.columns):
        with_unit = re.fullmatch(r"throughput\s*[\[(](.+)[\])]", name, re.IGNORECASE)
        if with_unit:
            name, unit = "throughput", with_unit[1].strip()
        names.append(name.lower() if name.lower() in KNOWN else name)
    return unit, frame.set_axis(names, axis="columns")


def _missing(frame: pd.DataFrame) -> str:
    """Say which columns are missing, and what may have been meant."""
    header = list(frame)
    missing = [name for name in ("workers", "throughput") if name not in header]
    said = " and ".join(f"no column {name!r}{nearest(name, header)}" for name in missing)
    return (
        f"{said}; there: {', '.join(header) or 'nothing'}. Needed: workers,throughput, or workers "
        "and a column of numbers for each of several series"
    )


def _mixed(frame: pd.DataFrame) -> list[str]:
    """Say in what rows differ that would be taken for repeats and may be none."""
    by = [name for name in (*SETTINGS, "host", "workers") if name in frame]
    numbered = [name for name in REPEATS if name in frame]
    if numbered:
        again = frame[frame.duplicated([*by, *numbered])]
        return [
            f"{row.name}: repeat {row[numbered[0]]} of {row['workers']} workers again; if another "
            "column tells them apart, call that series"
            for _, row in again.iterrows()
        ]
    problems = []
    for column in (name for name in frame if name not in KNOWN):
        # Such as another batch size; what has a value of its own in each row tells nothing apart.
        differs = (frame.groupby(by, dropna=False)[column].nunique() > 1).any()
        recurs = (frame.groupby(column)["workers"].nunique() > 1).any()
        if differs and recurs:
            problems.append(
                f"column {column!r} differs between rows of the same workers; call it series if "
                "it tells what was measured apart, repeat if it numbers repeats, or leave it out"
            )
    return problems


def _is_empty(cell: Any) -> bool:
    return cell is None or cell == "" or cell != cell


def _refuse(name: str, problems: Sequence[str]) -> None:
    """Raise one error for all problems, if there are any."""
    if not problems:
        return
    more = len(problems) - MOST_PROBLEMS
    some = [*problems[:MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
    raise LabkitError(f"{name}: {'; '.join(some)}")
