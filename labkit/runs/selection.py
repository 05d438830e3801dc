"""Some rows of a table of runs: those that have certain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from labkit.errors import LabkitError

if TYPE_CHECKING:
    import pandas as pd

UNSET = "unset"
"""What a field is called that a trial was not given."""


class SelectionError(LabkitError):
    """Values that no run has."""


def matching(table: pd.DataFrame, values: Mapping[str, Iterable[Any]]) -> pd.DataFrame:
    """Return the rows of a table that have certain values.

    Parameters
    ----------
    table : DataFrame
        With at least one row, and the columns that are asked for.
    values : mapping of str to iterable
        For each column the values to keep; None is for what was not set.

    Raises
    ------
    SelectionError
        If no row is left; it names the values that there are.
    """
    import pandas as pd

    kept, before = table, []
    for column, wanted in values.items():
        wanted = list(wanted)
        given = [value for value in wanted if not pd.isna(value)]
        rows = kept[column].isin(given)
        if len(given) < len(wanted):
            rows |= kept[column].isna()
        if not rows.any():
            among = f" with {', '.join(before)}" if before else ""
            raise SelectionError(
                f"{column}: {in_words(wanted)} is in none of the trials{among}, "
                f"only {in_words(there(kept[column]))}"
            )
        kept = kept[rows]
        before.append(f"{column} {in_words(wanted)}")
    return kept


def there(column: pd.Series) -> list[Any]:
    """Return the values of a column in order, None last if it is not set everywhere."""
    found = sorted(column.dropna().unique())
    return [*found, None] if column.isna().any() else found


def in_words(values: Iterable[Any]) -> str:
    """Return some values of a column, as they can be given on the command line."""
    return ", ".join(map(in_word, values))


def in_word(value: Any) -> str:
    """Return a value of a column, as it can be given on the command line."""
    import pandas as pd

    if pd.isna(value):
        return UNSET
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))  # whole numbers, of which a table with gaps makes fractions
    return str(value)
