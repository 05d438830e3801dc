"""What a command prints: a table to look at, or all of it as csv or JSON for another program."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import pandas as pd

format_option = click.option(
    "--format", "file_format", type=click.Choice(["table", "csv", "json"]), default="table",
    show_default=True, help="A table to look at, or all for another program.",
)  # fmt: skip


def of_rows(rows: Iterable[Mapping[str, Any]], file_format: str) -> str:
    """Return rows with the same columns as csv or JSON."""
    return as_csv(rows) if file_format == "csv" else as_json(list(rows))


def as_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows with the same columns as csv, empty where there is no number."""
    rows = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0] if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: "" if _lacks(v) else v for name, v in row.items()} for row in rows)
    return text.getvalue()


def of_frame(table: pd.DataFrame, file_format: str) -> str:
    """Return a table as csv or JSON, with all its columns."""
    if file_format == "csv":
        return table.to_csv(index=False)
    return table.to_json(orient="records", indent=1) + "\n"


def as_json(content: Any) -> str:
    """Return JSON, with null where there is no number: NaN is none in JSON."""
    return json.dumps(_plain(content), indent=1) + "\n"


def _plain(content: Any) -> Any:
    if isinstance(content, Mapping):
        return {str(name): _plain(value) for name, value in content.items()}
    if isinstance(content, (list, tuple)):
        return [_plain(value) for value in content]
    if hasattr(content, "item"):  # numpy's own numbers
        content = content.item()
    return None if _lacks(content) else content


def _lacks(value: Any) -> bool:
    return value is None or isinstance(value, float) and not math.isfinite(value)
