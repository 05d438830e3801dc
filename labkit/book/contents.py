"""The notebooks of the book in the order of reading, for somebody who begins."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from labkit.book.plan import plan
from labkit.settings import REFERENCE

if TYPE_CHECKING:
    from IPython.display import Markdown


def contents() -> Markdown:
    """Return a table of the book's notebooks: what each asks, and how long it runs.

    How long is what the profile laptop took here, or else in the published run. It is empty where
    the notebook has been run in neither.
    """
    from IPython.display import Markdown

    lines = ["| notebook | | minutes to run |", "|---|---|---|"]
    for page in plan("laptop"):
        record = page.record() or _published(page.name)
        number, _, title = page.title.partition(" ")
        minutes = f"{record['seconds'] / 60:.1f}" if record else ""
        lines.append(f"| [{number}]({page.name}.ipynb) | {title} | {minutes} |")
    return Markdown("\n".join(lines))


def _published(name: str) -> dict[str, float]:
    """Return what the published notebook says of itself; nothing if there is none."""
    path = REFERENCE / f"{name}.ipynb"
    return json.loads(path.read_text())["metadata"].get("labkit", {}) if path.exists() else {}
