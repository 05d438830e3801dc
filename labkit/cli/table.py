"""A table of trials in a terminal: what differs in columns, what does not in a line above."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from labkit.cli.terminal import fitted
from labkit.trials import FIELDS, Trial

if TYPE_CHECKING:
    import pandas as pd

FOUND = {
    "trials": ("batches_per_second", "accuracy", "perplexity"),
    "steps": ("worker", "t", "steps", "updates", "loss", "accuracy"),
    "evals": ("t", "steps", "metric", "value", "samples", "seconds"),
}
"""What a table says of each trial, beside the fields in which trials differ."""

ALWAYS = ("framework", "model", "workers", "batch_size", "learning_rate", "epochs", "steps")
"""Fields that are said even if they are the same everywhere, or at their defaults."""

MARKS = {
    "*": "oversubscribed (more that needs a core than there are cores): no scaling",
    "?": "too short to tell whether other programs held it up",
    "'": "as the script itself reports it",
}
"""Behind rates, and what they mean."""

ORIGIN = ("host", "versions", "code", "revision", "launcher", "started")
"""What may tell two runs of the same values apart."""

GAP = "  "


def short(table: pd.DataFrame, name: str = "trials", width: int | None = None) -> str:
    """Return a table to look at.

    Parameters
    ----------
    table : DataFrame
        With at least one row.
    name : str
        Which it is: ``trials``, ``steps`` or ``evals``.
    width : int, optional
        Columns that its lines may have. What finds no room is named below the table.
    """
    from labkit.runs.selection import in_word

    if name == "trials":
        table = table.assign(batches_per_second=[_rate(row) for row in table.to_dict("records")])
    found = [column for column in FOUND[name] if column in table and _tells(table[column])]
    fields = [field for field in FIELDS if field in table and field not in found]
    varying = [field for field in fields if table[field].nunique(dropna=False) > 1]
    varying = [field for field in varying if not _follows(table, field, varying)]
    same = [field for field in fields if table[field].nunique(dropna=False) == 1]
    key = [*varying, *(column for column in found if column in ("worker", "t"))]
    for column in (*ORIGIN, "trial"):
        if len(table) == 1 or (key and not table.duplicated(key).any()):
            break
        if column in table and table[column].nunique(dropna=False) > 1:
            varying.append(column)
            key.append(column)
    table = table.sort_values(varying, kind="stable") if name == "trials" and varying else table
    values = {field: in_word(table[field].iloc[0]) for field in same}
    said = [f"{field} {value}" for field, value in values.items() if is_said(field, value)]
    lines = [f"In all trials: {', '.join(said)}"] if said else []
    shown = [_Column.of(table[name]) for name in (*varying, *found)]
    left_out = []
    if width and _wide(shown) > width:
        shown = [column.broken() for column in shown]
    while width and len(shown) > 1 and _wide(shown) > width:
        least = max(shown, key=lambda column: _rank(column.name, found))
        shown.remove(least)
        left_out.insert(0, least.name)
    lines += [""] * bool(lines and shown) + _rows(shown)
    rates = next((column.cells for column in shown if column.name == FOUND["trials"][0]), ())
    lines += [
        f"{mark} {meaning}"
        for mark, meaning in MARKS.items()
        if any(mark in cell for cell in rates)
    ]
    if left_out:
        lines.append(_no_room(left_out))
    return "\n".join(fitted(line, width) for line in lines)


def rows_of(table: pd.DataFrame, width: int | None = None) -> list[str]:
    """Return the lines of any table: a heading, then a line per row.

    Parameters
    ----------
    table : DataFrame
    width : int, optional
        Columns that its lines may have. What finds no room, from the right on, is named below.
    """
    columns, left_out = [_Column.of(table[name]) for name in table], []
    if width and _wide(columns) > width:
        columns = [column.broken() for column in columns]
    while width and len(columns) > 1 and _wide(columns) > width:
        left_out.insert(0, columns.pop().name)
    lines = _rows(columns)
    return [*lines, fitted(_no_room(left_out), width)] if left_out else lines


def wrapped(table: pd.DataFrame, width: int | None = None) -> list[str]:
    """Return the lines of a table, whose texts are broken within their columns to fit a width."""
    lines = rows_of(table)
    if not width or max(map(len, lines)) <= width:
        return lines
    from rich.console import Console
    from rich.table import Table

    grid = Table(*table, box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="")
    for row in table.itertuples(index=False):
        grid.add_row(*map(_cell, row))
    console = Console(width=width, color_system=None)
    with console.capture() as shown:
        console.print(grid, markup=False, highlight=False)
    return [line.rstrip() for line in shown.get().splitlines()]


def _tells(values: pd.Series) -> bool:
    """Return whether a column says more than that there is nothing to say."""
    return values.any() if values.dtype == bool else values.notna().any()


def _rate(row: dict[str, Any]) -> str:
    """Return a trial's rate with its mark, or why it has none."""
    if row["status"] != "finished":
        return row["status"]
    if row["overloaded"]:
        return "overloaded"
    mark = "*" if row["oversubscribed"] else "?" if row["overloaded"] is None else ""
    rate = _cell(row["batches_per_second"])
    if row.get("reported"):
        unknown = rate == "-"  # without a batch size
        rate = (_cell(row["samples_per_second"]) + " samples" if unknown else rate) + "'"
    return rate + mark


def _no_room(columns: list[str]) -> str:
    return f"No room for {', '.join(columns)}; --format csv has every column."


def _rank(column: str, found: list[str]) -> int:
    """Return how soon a column is left out where there is too little room."""
    first = [*ALWAYS, "seed", *found, *ORIGIN, "trial", "initializer"]
    return first.index(column) if column in first else len(first)


def is_said(field: str, value: str) -> bool:
    """Return whether a value that all trials have in common is worth saying."""
    from labkit.runs.selection import UNSET

    if field in ALWAYS:
        return value != UNSET
    known = Trial.model_fields.get(field)
    if known is None:  # of a script alone
        return value not in (UNSET, "")
    return not known.is_required() and value not in (UNSET, str(known.default))


def _follows(table: pd.DataFrame, field: str, varying: list[str]) -> bool:
    """Return whether a field says nothing that others do not say: servers of workers, say."""
    others = [other for other in varying if other not in ("dataset", "servers", "seed")]
    if field not in ("dataset", "servers") or not others:
        return False
    return bool((table.groupby(others, dropna=False)[field].nunique(dropna=False) == 1).all())


@dataclass(frozen=True)
class _Column:
    """A column as text: its heading in pieces, one below the other, and its cells."""

    name: str
    heading: tuple[str, ...]
    cells: tuple[str, ...]
    numbers: bool

    @classmethod
    def of(cls, values: pd.Series) -> _Column:
        cells = tuple(map(_cell, values.tolist()))
        numbers = values.dtype.kind in "if" or values.name == FOUND["trials"][0]
        return cls(values.name, (values.name,), cells, numbers)

    def broken(self) -> _Column:
        *pieces, last = self.name.split("_")
        return replace(self, heading=(*(f"{piece}_" for piece in pieces), last))

    @property
    def width(self) -> int:
        return max(map(len, (*self.heading, *self.cells)))

    def lines(self, deep: int) -> list[str]:
        words = [*[""] * (deep - len(self.heading)), *self.heading, *self.cells]
        return [w.rjust(self.width) if self.numbers else w.ljust(self.width) for w in words]


def _cell(value: Any) -> str:
    import pandas as pd

    if isinstance(value, bool):
        return "yes" if value else "-"
    if pd.isna(value):
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _wide(columns: list[_Column]) -> int:
    return sum(column.width + len(GAP) for column in columns) - len(GAP)


def _rows(columns: list[_Column]) -> list[str]:
    deep = max((len(column.heading) for column in columns), default=0)
    blocks = (column.lines(deep) for column in columns)
    return [GAP.join(words).rstrip() for words in zip(*blocks, strict=True)]
