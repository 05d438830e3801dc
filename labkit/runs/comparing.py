"""Two sets of measurements, wherever they lie, compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit import rates
from labkit.analysis.compare import LEVEL, MOST_VALUES, compare_tables
from labkit.analysis.comparison import Comparison
from labkit.analysis.scaling import configuration
from labkit.errors import LabkitError, nearest
from labkit.prediction.points import is_of_trials
from labkit.rates import Rates
from labkit.runs.selection import in_word, in_words, matching, there
from labkit.settings import REFERENCE, outputs

if TYPE_CHECKING:
    import pandas as pd

DRIFT = 0.01
"""How far a machine is off for as long as a set is measured, relatively: a standard deviation.

Sets of one script, measured one after the other, were 1.6 % apart (32 pairs, two cores of a cloud
machine), of which the scatter of their repeats explains 1.1 %: the rest is 0.8 % for each set.
`benchmarks/comparing.py` judges what follows from it.
"""

BATCHES, SAMPLES = "batches_per_second", "samples_per_second"

UNITS = {BATCHES: "batches/s", SAMPLES: "samples/s"}


def compare(
    before: Any, after: Any = None, *, by: str | None = None, level: float = LEVEL
) -> Comparison:
    """Compare two sets of measurements: is the second faster, slower, or is nothing seen?

    Parameters
    ----------
    before, after : path, DataFrame, mapping of workers to throughput, or object
        The path of a csv file with the columns workers and throughput, of a folder of outputs or
        of a table of trials that was saved; ``"reference"`` for the published run; a DataFrame;
        or what `measure` or `select` returned.
    by : str, optional
        Instead of `after`: the column of the one set that has two values, which are compared.
    level : float
        Of confidence, that an interval holds the true ratio.

    Returns
    -------
    Comparison
        Of throughputs: ``.table``, ``.overall``, ``.settings``; shown as a table and a sentence.

    Raises
    ------
    LabkitError
        If a set cannot be read, or does not have two values to compare.

    Examples
    --------
    >>> compare("before.csv", "after.csv").overall.verdict  # doctest: +SKIP
    'no difference seen'
    """
    if (after is None) == (by is None):
        raise LabkitError("compare: give two sets, or one and `by`, a column with two values")
    if by is None:
        return compare_sets(read(before, name="before"), read(after, name="after"), level)
    return compare_values(read(before, by=by, name="the table"), by, level=level)


def compare_sets(before: Rates, after: Rates, level: float = LEVEL) -> Comparison:
    """Compare two sets that have been read."""
    names = (before.name, after.name)
    if names[0] == names[1]:
        names = (f"{names[0]} (before)", f"{names[1]} (after)")
    found = compare_tables(
        before.table, after.table, names, units=(_unit(before), _unit(after)), level=level,
        drift=DRIFT,
    )  # fmt: skip
    return replace(found, notes=tuple(dict.fromkeys((*before.notes, *after.notes))))


def compare_values(
    found: Rates, by: str, values: tuple[Any, ...] = (), level: float = LEVEL
) -> Comparison:
    """Compare the two values that a column of one set has; in the order given, if any is."""
    table = found.table
    if by == "workers":
        raise LabkitError("by: workers; what more of them bring is a speedup, with a figure")
    if by not in table:
        fields = [name for name in configuration(table) if name != "workers"]
        known = [name for name in fields if len(there(table[name])) == 2]
        raise LabkitError(
            f"by: {found.name} has no column {by!r}{nearest(by, fields)}; with two values: "
            f"{', '.join(known) or 'none'}"
        )
    values = values or tuple(there(table[by]))
    if len(values) != 2:
        said = in_words(values[:MOST_VALUES]) or "no value"
        more = len(values) - MOST_VALUES
        said += f" and {more} more values" if more > 0 else ""
        raise LabkitError(f"by: {by} has {said} in {found.name}; exactly two can be compared")
    before, after = (matching(table, {by: [value]}) for value in values)
    names = tuple(
        v if isinstance(v, str) and v else f"{by} {in_word(v) or 'unknown'}" for v in values
    )
    compared = compare_tables(
        before, after, names, units=(_unit(found), _unit(found)), by=by, level=level
    )
    return replace(compared, notes=found.notes)


def read(source: Any, launcher: str = "local", by: str | None = None, name: str = "") -> Rates:
    """Return a set of measurements, wherever it lies.

    Parameters
    ----------
    source : path, DataFrame or object
        As of `compare`; None for the runs that are kept here.
    launcher : str
        Where the trials were run, of a folder of outputs.
    by : str, optional
        The column by which is compared: batches of different sizes are compared by samples.
    name : str
        What a source is called that has no path.
    """
    if source is None:
        source, name = outputs(), "here"
        if not source.is_dir():
            raise LabkitError(f"nothing has been measured in {source} yet")
    elif isinstance(source, (str, Path)):
        name = str(source)
        source = REFERENCE if name == "reference" else Path(source)
    if isinstance(source, Path):
        table, notes = _read(source, launcher)
        if table is None:
            return rates.read(source)
    else:
        if isinstance(source, Mapping):
            return rates.read(source, name)
        table, notes = getattr(source, "table", source), ()
        if not hasattr(table, "columns"):
            raise LabkitError(
                f"{name}: {source!r} is no set of measurements; allowed: a path, a DataFrame, a "
                "mapping of workers to throughput, or what `measure` or `select` returned"
            )
        if BATCHES not in table and "throughput" in table:
            return replace(rates.read(table, name), unit=getattr(source, "unit", ""))
    if table.empty:
        raise LabkitError(
            f"{name}: nothing has been measured there ({launcher}); `labkit run` measures, and "
            "reference is the published run" + "".join(f". {note}" for note in notes)
        )
    needed = [BATCHES, "workers", "status", *[SAMPLES] * (by == "batch_size")]
    if missing := [column for column in needed if column not in table]:
        raise LabkitError(f"{name}: no column {', '.join(missing)}; is it another table?")
    return with_throughput(Rates(name, table, notes=notes), by)


def points_of(path: Path) -> pd.DataFrame:
    """Return the points in a table of trials that was saved: its columns workers and throughput.

    Raises
    ------
    LabkitError
        If it cannot be read, or is of more than one curve.
    """
    table = read(path).table
    table = table[table["throughput"].notna() & ~table["oversubscribed"].astype(bool)]
    told_apart = [c for c in configuration(table) if c not in ("workers", "servers")]
    several = {name: there(table[name]) for name in told_apart}
    if problems := [
        f"{name}: {in_words(values)}" for name, values in several.items() if len(values) > 1
    ]:
        raise LabkitError(
            f"{path}: {'; '.join(problems)}; points are of one, so save its trials alone"
        )
    return table[["workers", "throughput"]]


def with_throughput(found: Rates, by: str | None = None) -> Rates:
    """Return trials with their throughput: in samples if batches differ or nobody knows them."""
    table = found.table
    if BATCHES not in table:
        return found  # a table of one's own
    unknown = SAMPLES in table and table[BATCHES].isna().all() and table[SAMPLES].notna().any()
    metric = SAMPLES if by == "batch_size" or unknown else BATCHES
    return replace(found, table=table.assign(throughput=table[metric]), unit=UNITS[metric])


def _read(path: Path, launcher: str) -> tuple[pd.DataFrame | None, tuple[str, ...]]:
    """Return the table of the trials at a path, and what is left out of it.

    None for a csv file that is not a table of trials.
    """
    import pandas as pd

    from labkit.runs.store import Store

    if path.is_file():
        if path.suffix == ".parquet":
            return _table(pd.read_parquet, path), ()
        if path.suffix == ".json":
            return _table(_read_json, path), ()
        return (_table(pd.read_csv, path) if is_of_trials(path) else None), ()
    if (path / "trials.parquet").exists():
        return _table(pd.read_parquet, path / "trials.parquet"), ()
    if not path.is_dir():
        raise LabkitError(
            f"{path}: no such file or folder; allowed: a csv file with the columns workers and "
            "throughput, a folder of outputs, or reference"
        )
    store = Store(path / "runs" if (path / "runs").is_dir() else path, launcher)
    results = store.results()
    unread = len(results.left_out)
    runs = "kept run is" if unread == 1 else "kept runs are"
    note = f"{path}: {unread} {runs} of another version of labkit, or damaged, and cannot be read."
    return results.table, (note,) * bool(unread)


def _read_json(path: Path) -> pd.DataFrame:
    """Return the table that a file holds as a list of its rows."""
    import pandas as pd

    rows = json.loads(path.read_text())
    if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
        raise ValueError("not a list of rows, as `labkit results --format json` writes it")
    return pd.DataFrame(rows)


def _table(read_file: Callable[[Path], pd.DataFrame], path: Path) -> pd.DataFrame:
    """Return a table of trials that was saved."""
    from labkit.runs.tables import modernise

    try:
        table = read_file(path)
    except (OSError, ValueError) as error:  # pyarrow's and pandas' own are among them
        raise LabkitError(f"{path}: cannot be read as a table of trials: {error}") from error
    return modernise(table)


def _unit(found: Rates) -> str:
    return found.unit.lower().replace(" per second", "/s").replace("/sec", "/s").replace(" ", "")
