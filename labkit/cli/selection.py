"""Which of the trials that were measured a command is about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from labkit.analysis.scaling import CIRCUMSTANCES
from labkit.cli.completion import values_of_field
from labkit.cli.lists import expanded
from labkit.errors import LabkitError
from labkit.trials import FIELDS, Trial
from labkit.trials.columns import columns

if TYPE_CHECKING:
    import pandas as pd


def selection_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each column that tells trials apart: the values that are meant."""
    for name in reversed((*FIELDS, *CIRCUMSTANCES)):
        command = click.option(
            f"--{name.replace('_', '-')}", name, multiple=True, metavar="VALUE...",
            help="Only trials with one of these values.", shell_complete=values_of_field(name),
        )(command)  # fmt: skip
    return command


def selected(table: pd.DataFrame, options: dict[str, tuple[str, ...]]) -> pd.DataFrame:
    """Return the rows of a table that were asked for on the command line.

    Raises
    ------
    LabkitError
        If there are none, with what there is; or if a number is none.
    """
    from labkit.runs.selection import matching

    wanted = {name: texts for name, texts in options.items() if texts}
    for name in wanted:
        if name not in table:
            raise LabkitError(f"--{name.replace('_', '-')}: these runs do not say theirs")
    return matching(table, {name: values_of(table[name], texts) for name, texts in wanted.items()})


def values_of(column: pd.Series, texts: tuple[str, ...]) -> list[Any]:
    """Return what was asked for on the command line as values of a table's column."""
    from labkit.runs.selection import UNSET

    kind = {"i": int, "f": float}.get(column.dtype.kind, str)
    if kind is not str and column.name in Trial.model_fields:
        [field] = columns([column.name]).values()
        texts = tuple(expanded(texts)) if field.whole else texts
    if column.name == "model":  # a file is kept with its runs, wherever it lay
        texts = tuple(PurePath(text).name for text in texts)
    try:
        return [None if text == UNSET else kind(text) for text in texts]
    except ValueError:
        name = column.name.replace("_", "-")
        raise LabkitError(
            f"--{name}: {', '.join(texts)}; allowed: numbers, or {UNSET}"
        ) from None
