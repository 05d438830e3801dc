"""Throughputs that somebody measured, as people have them: a csv file or a table, in any unit."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.errors import LabkitError, nearest

if TYPE_CHECKING:
    import pandas as pd

    from labkit.trials.columns import Column

SEPARATORS = (",", ";", "\t")

REPEATS = ("repeat", "seed")
"""Columns that number repeats."""

NEEDED = ("workers", "throughput")

MOST_PROBLEMS = 10
"""That one error names; the others are counted."""

THOUSANDS = re.compile(r"[1-9]\d{0,2}([.,])\d{3}(\1\d{3})*")
"""A number whose mark may be one of thousands as well as a decimal one."""

NO_RATES = re.compile(
    r"throughput_.*|batch|epochs?|loss|time|low|high|min|max"
    r"|(.*[ _-])?(std|stddev|sd|err|error|ci)",
    re.IGNORECASE,
)
"""Names of columns of numbers that are no series' throughputs."""

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


Source = "str | Path | pd.DataFrame | Mapping[int, float]"

Cells = dict[str, Any]
"""A row of a table by the names of its columns; beside them ``trial``, where it stands."""


def read(source: Source, name: str = "") -> Rates:
    """Return the throughputs in a csv file, a DataFrame or a mapping.

    Parameters
    ----------
    source : path, DataFrame, or mapping of workers to throughput
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
    import pandas as pd

    found, unit, notes = rows(source, name)
    table = pd.DataFrame(found).assign(
        status="finished", overloaded=False, oversubscribed=False
    )
    name = name or (str(source) if isinstance(source, (str, Path)) else "table")
    return Rates(name, table, unit, notes)


def rows(source: Source, name: str = "") -> tuple[list[Cells], str, tuple[str, ...]]:
    """Return the rows that `read` makes a table of, the unit, and notes.

    A file needs no more than the standard library: to predict from one is to start quickly.
    """
    if isinstance(source, (str, Path)):
        path = Path(source)
        name, stem = name or str(path), path.stem
        header, cells, comma = _from_csv(path)
    elif isinstance(source, Mapping):
        name = stem = name or "table"
        header, comma = list(NEEDED), False
        cells = [(f"row {i}", list(row)) for i, row in enumerate(source.items())]
    else:
        name = stem = name or "table"
        header, comma = list(map(str, source.columns)), False
        cells = [
            (f"row {label}", list(row))
            for label, row in zip(
                source.index, source.itertuples(index=False, name=None), strict=True
            )
        ]
    return _Reading(name, stem, comma).of(header, cells)


def settings(header: Iterable[str]) -> list[str]:
    """Return the columns that tell apart what was measured, beside the host."""
    if not set(header) - {"trial", "series", "host", *NEEDED, *REPEATS}:
        return [name for name in header if name == "series"]
    from labkit.trials import Trial

    fields = [name for name in Trial.model_fields if name not in ("workers", "seed")]
    return [name for name in ("series", *fields) if name in header]


def _from_csv(path: Path) -> tuple[list[str], list[tuple[str, list[Any]]], bool]:
    """Return heading and rows of a file, and whether decimals may have commas."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = list(file)
        first = next((line for line in lines if line.strip()), "")
        separator = max(
            SEPARATORS, key=lambda each: len(next(csv.reader([first], delimiter=each), []))
        )
        reader = csv.reader(lines, delimiter=separator, skipinitialspace=separator != "\t")
        found = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LabkitError(f"{path}: cannot be read as a csv file: {error}") from error
    header = found[0][1] if found else []
    _refuse(
        str(path),
        [f"line {n}: {len(row)} cells, but {len(header)} column{'s' * (len(header) != 1)} in the "
         f"heading, line {found[0][0]}: {separator.join(header)}"
         for n, row in found if len(row) > len(header)],
    )  # fmt: skip
    cells = [
        (f"line {n}", [*(cell.strip() for cell in row), *[None] * (len(header) - len(row))])
        for n, row in found[1:]
    ]
    return header, cells, separator == ";"


@dataclass(frozen=True)
class _Reading:
    """How a table is read: what it is called, and how its numbers are written."""

    name: str
    stem: str
    comma: bool

    def of(
        self, header: list[str], cells: list[tuple[str, list[Any]]]
    ) -> tuple[list[Cells], str, tuple[str, ...]]:
        """Return what a table of cells says; refuse it for all that is wrong at once."""
        unit, header = _named(header)
        _refuse(self.name, [f"column {c!r} twice" for c in header if header.count(c) > 1][:1])
        table = [dict(zip(header, row, strict=True)) | {"trial": i} for i, row in cells]
        if "workers" in header and not table:
            raise LabkitError(f"{self.name}: no rows below the heading")
        known = {*settings(header), "host", *REPEATS}
        empty = {name for name in known & set(header) if all(_is_empty(r[name]) for r in table)}
        header = [name for name in header if name not in empty]
        table = [{n: cell for n, cell in row.items() if n not in empty} for row in table]
        fixed = settings(header)
        wide = self._wide(header, fixed, table)
        if "workers" not in header or not (wide or "throughput" in header):
            raise LabkitError(f"{self.name}: {_missing(header)}")
        notes: tuple[str, ...] = ()
        if not wide:
            # None is of a line that is too short: a mistake.
            lost = [r for r in table if r["throughput"] is not None and _is_empty(r["throughput"])]
            table = [row for row in table if not any(row is each for each in lost)]
            if lost:
                where = ", ".join(row["trial"] for row in lost[:MOST_PROBLEMS])
                notes = (f"{self.name}: no throughput, so not measured: {where}.",)
        else:
            table = _long(table, wide)
            fixed = ["series", *fixed]
            series = f"{', '.join(wide[:-1])} and {wide[-1]}"
            where = f"{Path(self.name).name} has no column throughput"
            notes = (f"{where}: {series} are taken for series.",)
            header = [name for name in header if name not in wide]
        if not table:
            raise LabkitError(f"{self.name}: no row has a throughput")
        notes += self._marks([row["throughput"] for row in table])
        columns = _columns(header)
        self._check(table, fixed, header, columns)
        texts = {"host", *(name for name, column in columns.items() if not column.number)}
        kept = [name for name in (*fixed, "host", *REPEATS) if name in header and name != "series"]
        return [self._tidy(row, kept, texts) for row in table], unit, notes

    def _wide(self, header: list[str], fixed: list[str], table: list[Cells]) -> list[str]:
        """Return the columns that each are the throughput of a series; none of a long table."""
        known = {*NEEDED, *fixed, "host", *REPEATS}
        others = [name for name in header if name not in known]
        if {"throughput", "series"} & set(header) or nearest("throughput", others, MISSPELT):
            return []
        numbers = all(
            self._number(row[name]) > 0 or _is_empty(row[name])
            for row in table for name in others
        )  # fmt: skip
        if not (numbers and len(others) > 1 and table):
            return []
        if none := [name for name in others if NO_RATES.fullmatch(name)]:
            raise LabkitError(
                f"{self.name}: no column 'throughput', and {', '.join(none)} cannot be the "
                "throughput of a series; call the column that is throughput so, and leave the "
                f"others out (there: {', '.join(header)})"
            )
        return others

    def _marks(self, cells: list[Any]) -> tuple[str, ...]:
        """Say which mark is taken for the decimal one; refuse numbers that it makes ambiguous.

        In a file with semicolons either mark may be that of thousands: 1.234 beside 999. It is not
        if another number of the file has it elsewhere, as 45.05 does.
        """
        marked = [cell for cell in cells if re.search("[.,]", str(cell))] if self.comma else []
        either = {cell: THOUSANDS.fullmatch(cell) for cell in marked}
        decimal = {mark for cell in marked if not either[cell] for mark in ".," if mark in cell}
        doubtful = [c for c, found in either.items() if found and found[1] not in decimal]
        marks = {either[cell][1] for cell in doubtful}
        if not doubtful:
            return ()
        if len(doubtful) < len(set(cells)) or len(marks) > 1 or not self._number(doubtful[0]) > 0:
            raise LabkitError(
                f"{self.name}: throughput {', '.join(doubtful[:MOST_PROBLEMS])}: nobody can tell "
                "whether a mark is the decimal one or one of thousands; leave out marks of "
                "thousands, and write decimals with a number of digits other than three"
            )
        mark = marks.pop()
        return (f"{Path(self.name).name}: {mark!r} is taken for the decimal mark.",)

    def _check(
        self, table: list[Cells], fixed: list[str], header: list[str], columns: dict[str, Column]
    ) -> None:
        needed = ["series", "host", *(name for name in columns if not columns[name].optional)]
        problems = []
        for row in table:
            workers = self._number(row["workers"])
            if not (workers >= 1 and workers == int(workers)):
                problems.append(
                    f"{row['trial']}: workers {row['workers']!r}; allowed: whole numbers from 1 on"
                )
            if not self._number(row["throughput"]) > 0:
                problems.append(
                    f"{row['trial']}: throughput {row['throughput']!r}; allowed: numbers above 0"
                )
            problems += [f"{row['trial']}: no {n}" for n in needed if _is_empty(row.get(n, 1))]
            problems += [
                f"{row['trial']}: {name} {row[name]!r}; allowed: {column.allowed}"
                for name, column in columns.items()
                if column.number and not _is_empty(row[name])
                and not column.has(self._number(row[name]))
            ]  # fmt: skip
        _refuse(self.name, problems or _mixed(table, fixed, header))

    def _tidy(self, row: Cells, kept: list[str], texts: set[str]) -> Cells:
        """Return a row with numbers for texts, as a table of trials has it."""
        tidy = {"trial": row["trial"]}
        if "series" in row:
            tidy["series"] = str(row["series"])  # also of what is called 1 and 2
        elif "framework" not in kept:
            tidy["series"] = self.stem
        tidy |= {n: str(row[n]) if n in texts else self._plain(row[n]) for n in kept}
        return tidy | {
            "workers": int(self._number(row["workers"])),
            "throughput": self._number(row["throughput"]),
        }

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


def _columns(header: list[str]) -> dict[str, Column]:
    """Return what may stand in each column that is a field of a trial."""
    fields = [name for name in settings(header) if name != "series"]
    if not fields:
        return {}
    from labkit.trials.columns import columns

    return columns(fields)


def _named(header: list[str]) -> tuple[str, list[str]]:
    """Return the unit that the column of throughput names, and the columns by plain names."""
    names, unit = [], ""
    for name in map(str.strip, header):
        with_unit = re.fullmatch(r"throughput\s*[\[(](.+)[\])]", name, re.IGNORECASE)
        if with_unit:
            name, unit = "throughput", with_unit[1].strip()
        plain = {*NEEDED, "series", "host", *REPEATS}
        names.append(name.lower() if name.lower() in plain else name)
    return unit, names


def _missing(header: list[str]) -> str:
    """Say which columns are missing, and what may have been meant."""
    missing = [name for name in NEEDED if name not in header]
    said = " and ".join(f"no column {name!r}{nearest(name, header)}" for name in missing)
    return (
        f"{said}; there: {', '.join(header) or 'nothing'}. Needed: workers,throughput, or workers "
        "and a column of numbers for each of several series"
    )


def _long(table: list[Cells], wide: list[str]) -> list[Cells]:
    """Return rows with one throughput each; empty cells were not measured."""
    return [
        {name: cell for name, cell in row.items() if name not in wide}
        | {"trial": f"{row['trial']}, {series}", "series": series, "throughput": row[series]}
        for series in wide for row in table if not _is_empty(row[series])
    ]  # fmt: skip


def _mixed(table: list[Cells], fixed: list[str], header: list[str]) -> list[str]:
    """Say in what rows differ that would be taken for repeats and may be none."""
    by = [*fixed, *(["host"] if "host" in header else []), "workers"]
    numbered = [name for name in REPEATS if name in header]
    if numbered:
        seen: set[tuple[Any, ...]] = set()
        problems = []
        for row in table:
            key = tuple(str(row[name]) for name in (*by, *numbered))
            if key in seen:
                problems.append(
                    f"{row['trial']}: repeat {row[numbered[0]]} of {row['workers']} workers "
                    "again; if another column tells them apart, call that series"
                )
            seen.add(key)
        return problems
    return [
        f"column {name!r} differs between rows of the same workers; call it series if it tells "
        "what was measured apart, repeat if it numbers repeats, or leave it out"
        for name in header
        # Such as another batch size; what has a value of its own in each row tells nothing apart.
        if name not in (*by, "throughput")
        and _several(table, by, name) and _several(table, [name], "workers")
    ]  # fmt: skip


def _several(table: list[Cells], by: list[str], name: str) -> bool:
    """Return whether rows that agree in some columns differ in another."""
    found: dict[tuple[str, ...], set[str]] = {}
    for row in table:
        if not _is_empty(row[name]):
            found.setdefault(tuple(str(row[each]) for each in by), set()).add(str(row[name]))
    return any(len(values) > 1 for values in found.values())


def _is_empty(cell: Any) -> bool:
    if isinstance(cell, str):
        return not cell
    return cell is None or str(cell) in ("nan", "<NA>", "NaT")  # what pandas has for it


def _refuse(name: str, problems: Sequence[str]) -> None:
    """Raise one error for all problems, if there are any."""
    if not problems:
        return
    more = len(problems) - MOST_PROBLEMS
    some = [*problems[:MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
    raise LabkitError(f"{name}: {'; '.join(some)}")
