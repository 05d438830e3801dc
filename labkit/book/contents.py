"""The notebooks of the book in the order of reading, for somebody who begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from labkit.book.pages import Page
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
        made = page if page.record() else Page(page.source, {}, REFERENCE)
        number, _, title = page.title.partition(" ")
        minutes = f"{_seconds(made) / 60:.1f}" if made.record() else ""
        lines.append(f"| [{number}]({page.name}.ipynb) | {title} | {minutes} |")
    return Markdown("\n".join(lines))


def _seconds(page: Page) -> float:
    """Return how long a page takes if none of its trials has been run before."""
    trials = [(row.get("startup_s"), row.get("duration_s")) for row in page.trials()]
    measuring = sum(float(s) for each in trials for s in each if s)
    return max(page.record()["seconds"], measuring)
