"""The systems of chapter 3, then and now: facts with their sources, from ``data/systems.toml``."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from labkit.course.diagrams import BLUE
from labkit.errors import LabkitError, nearest
from labkit.figures.page import Figure, canvas
from labkit.settings import REPOSITORY

TABLE = REPOSITORY / "data" / "systems.toml"

DATES = ("began", "latest")

WORDS = {
    "licence": None,
    "languages": None,
    "parallelism": ("data", "model"),
    "machines": ("one", "several"),
    "updates": ("synchronous", "asynchronous"),
    "exchange": ("all-reduce", "parameter server", "averaging of weights"),
    "became": None,
    "runs": ("yes", "own environment", "not found", "not tried"),
}
"""The columns that are no dates, and the words that each may have; None for any."""

LISTS = ("languages", "parallelism", "updates", "exchange")
"""Columns with any number of words."""

COLUMNS = (*DATES, *WORDS)

PARTS = ("as_of", "sources", "criteria", "systems")
"""Of the file."""

UNKNOWN = "not known"
"""What is shown where no source is at hand."""

ALIVE, ENDED = BLUE, "#949494"


class SystemsError(LabkitError):
    """A table of systems that says something without a source, or not in its words."""


def read(path: str | Path = TABLE) -> dict[str, Any]:
    """Return what a table of systems says, checked.

    Raises
    ------
    SystemsError
        With all that is wrong in it: no TOML, a part that is missing, an unknown column, a fact
        without a source, a word or a date that is none.
    """
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise SystemsError(f"{path}: {error}") from None
    if missing := [name for name in PARTS if name not in table]:
        raise SystemsError(f"{path}: has no {', '.join(missing)}")
    if wrong := list(_wrong(table)):
        raise SystemsError("\n".join([f"{path}: {len(wrong)} wrong:", *wrong]))
    return table


def criteria(table: Mapping[str, Any]) -> pd.DataFrame:
    """Return what the thesis asked of a system (table 3.1): one row per criterion."""
    return pd.DataFrame.from_dict(table["criteria"], orient="index").rename_axis("criterion")


def ratings(table: Mapping[str, Any]) -> pd.DataFrame:
    """Return how the thesis rated five systems (table 3.2): a row per criterion."""
    rated = {row["title"]: row["rated"] for row in table["systems"].values() if "rated" in row}
    return pd.DataFrame(rated, index=list(table["criteria"])).rename_axis("criterion")


def market(table: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row per system and one column per fact.

    Dates are text, lists are tuples; what is not known is empty: None, or ``()``.
    """
    rows = {}
    for row in table["systems"].values():
        facts = {name: row[name]["value"] for name in COLUMNS if name in row}
        facts |= {name: tuple(facts.get(name, ())) for name in LISTS}
        rows[row["title"]] = {name: facts.get(name) for name in COLUMNS}
    return pd.DataFrame.from_dict(rows, orient="index", dtype=object).rename_axis("system")


def shown(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a market as text for people; what is not known says so."""
    return rows.map(lambda value: _text(value) or UNKNOWN)


def facts(table: Mapping[str, Any]) -> pd.DataFrame:
    """Return all that is known: a row per system and fact, with its note and its source."""
    rows = [
        {
            "system": row["title"],
            "fact": name,
            "value": _text(row[name]["value"]),
            "note": row[name].get("note", ""),
            "source": table["sources"][row[name]["source"]],
        }
        for row in table["systems"].values()
        for name in COLUMNS
        if name in row
    ]
    return pd.DataFrame(rows).set_index(["system", "fact"])


def date(text: str) -> datetime.date:
    """Return the day of a date of the table; the first one of a month.

    Raises
    ------
    ValueError
        If it is neither YYYY-MM-DD nor YYYY-MM.
    """
    return datetime.date.fromisoformat(f"{text}-01" if len(text) == len("YYYY-MM") else text)


def quiet_for(table: Mapping[str, Any]) -> pd.Series:
    """Return for how many years there has been no release of each system, at the table's date."""
    now = date(table["as_of"])
    latest = market(table)["latest"].map(date)
    return latest.map(lambda day: (now - day).days / 365.25).rename("quiet_years")


def timeline(table: Mapping[str, Any], quiet_years: float = 2) -> Figure:
    """Draw each system from its first release to its newest.

    Parameters
    ----------
    table : mapping
        As `read` returns it.
    quiet_years : float
        Without a release, after which a system is drawn as ended.
    """
    rows = market(table).assign(quiet=quiet_for(table))
    rows = rows.sort_values(["latest", "began"], na_position="first", kind="stable")
    with canvas("3 First and newest releases", "", "") as page:
        (axes,) = page.panels
        for height, (_, row) in enumerate(rows.iterrows()):
            colour = ENDED if row.quiet > quiet_years else ALIVE
            last = date(row.latest)
            if row.began:
                axes.plot([date(row.began), last], [height, height], color=colour, linewidth=4,
                          solid_capstyle="butt")  # fmt: skip
            axes.plot([last], [height], marker="o", color=colour)
        axes.set_yticks(range(len(rows)), rows.index)
        axes.set_ylim(-0.8, len(rows) + 0.6)
        axes.grid(False, axis="y")
        thesis = datetime.date(2018, 1, 31)
        axes.axvline(thesis, color="0.3", linewidth=1, linestyle="--")
        axes.text(thesis, len(rows) - 0.1, " the thesis", size=8.5, va="center")
        page.notes += [
            f"Blue: a release in the {quiet_years:g} years before {table['as_of']}. Grey: none. "
            "A dot without a line: its first release is not known. Without releases: commits."
        ]
    return page.figure


def _text(value: Any) -> str:
    return ", ".join(value) if isinstance(value, (list, tuple)) else value or ""


def _wrong(table: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a table, in a line each."""
    sources, criteria = table["sources"], table["criteria"]
    try:
        date(table["as_of"])
    except (TypeError, ValueError):
        yield f"as_of: {table['as_of']!r} is no date"
    used = set()
    for system, row in table["systems"].items():
        if "title" not in row:
            yield f"{system}: has no title"
        if "latest" not in row:
            yield f"{system}: has no latest release"
        if "rated" in row and set(row["rated"]) != set(criteria):
            yield f"{system}, rated: needs one of each: {', '.join(criteria)}"
        for name, fact in row.items():
            if name in ("title", "rated"):
                continue
            where = f"{system}, {name}"
            if name not in COLUMNS:
                yield f"{where}: no such column{nearest(name, COLUMNS)}"
                continue
            if not isinstance(fact, dict):
                yield f"{where}: {fact!r}; a fact has value, note, source"
                continue
            if unknown := set(fact) - {"value", "note", "source"}:
                yield f"{where}: {', '.join(sorted(unknown))}; a fact has value, note, source"
            if (source := fact.get("source")) not in sources:
                yield f"{where}: {source!r} is no source{nearest(str(source), sources)}"
            used.add(source)
            yield from (f"{where}: {what}" for what in _no_value(name, fact.get("value")))
    for name in sources:
        if name not in used | {"thesis"}:  # table 3.1 and 3.2 are the thesis's, too
            yield f"sources: nothing is from {name!r}"


def _no_value(name: str, value: Any) -> Iterator[str]:
    """Yield why something is no value of a column."""
    if name in DATES:
        try:
            date(value)
        except (TypeError, ValueError):
            yield f"{value!r} is no date; YYYY-MM-DD or YYYY-MM"
        return
    words, allowed = (value if name in LISTS else [value]), WORDS[name]
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
        yield f"{value!r} is no {'list of words' if name in LISTS else 'text'}"
        return
    for word in words:
        if allowed and word not in allowed:
            yield f"{word!r}{nearest(word, allowed)}; allowed: {', '.join(allowed)}"
        elif not word:
            yield "an empty text"
