"""What reproducing a book would do: which notebooks would be run, and how long that took last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from labkit.book.pages import Page
from labkit.book.plan import plan, select
from labkit.progress import duration

UP_TO_DATE = "up to date"


@dataclass(frozen=True)
class Row:
    """A notebook.

    Attributes
    ----------
    notebook : str
    state : str
        Why it would be run, or that it is up to date.
    seconds_last_time : float or None
        That it took when its page was made; None if there is none.
    """

    notebook: str
    state: str
    seconds_last_time: float | None


def outlook(
    profile: str, only: Iterable[str] = (), launcher: str | None = None, force: bool = False
) -> tuple[list[Row], str]:
    """Return a row for each notebook, and all of it in a line; as of `reproduce`.

    Which trials a notebook measures is decided by its cells when they run, so nothing is said of
    them.
    """
    pages = select(plan(profile, launcher), only)
    rows = [Row(page.name, _state(page, force), page.record().get("seconds")) for page in pages]
    return rows, _note(rows, pages)


def _state(page: Page, force: bool) -> str:
    if not page.record():
        return "never made"
    if page.is_stale():
        return "its inputs have changed"
    if page.record().get("without_rate"):
        return "lacks the rate of a trial"
    return "forced" if force else UP_TO_DATE


def _note(rows: Sequence[Row], pages: Sequence[Page]) -> str:
    due = [row for row in rows if row.state != UP_TO_DATE]
    said = [f"{len(rows)} notebook{'s' * (len(rows) != 1)}: {len(rows) - len(due)} up to date"]
    said.append(f"{len(due)} to run")
    known = [row.seconds_last_time for row in due if row.seconds_last_time is not None]
    if known:
        of = f"{len(known)} of them took" if len(known) < len(due) else "which took"
        said.append(f"{of} {duration(sum(known))} when they were made last")
    elif due:
        said.append("how long they take is unknown")
    line = ", ".join(said)
    if due:
        line += "; trials that are kept are not measured again"
    return line
