"""Publish a book: its pages and figures, and the tables of its trials."""

from __future__ import annotations

import shutil
from pathlib import Path

from labkit.book.plan import BookError, plan
from labkit.runs import Results, Run, Store
from labkit.settings import NOTEBOOKS, REFERENCE, outputs


def publish(profile: str, destination: Path = REFERENCE, notebooks: Path = NOTEBOOKS) -> Path:
    """Copy a finished book, with the tables of its trials, to where it is published.

    Parameters
    ----------
    profile : str
        Whose book.
    destination : Path
        A directory; what was in it is replaced.
    notebooks : Path
        The directory that holds the notebooks and ``profiles.toml``.

    Returns
    -------
    Path
        The destination.

    Raises
    ------
    BookError
        If a page is missing or older than what it is made from.
    """
    pages = plan(profile, notebooks=notebooks)
    stale = [page.name for page in pages if not page.is_up_to_date()]
    if stale:
        raise BookError(
            f"not up to date: {', '.join(stale)}; first: labkit reproduce --profile {profile}"
        )
    store = Store()
    names = sorted({row["trial"] for page in pages for row in page.trials()})
    results = Results(Run.read(store.root / name) for name in names)
    shutil.rmtree(destination, ignore_errors=True)
    shutil.copytree(outputs() / profile, destination, ignore=shutil.ignore_patterns(".*"))
    for name, table in (
        ("trials", results.table),
        ("steps", results.steps),
        ("evals", results.evals),
    ):
        table.to_parquet(destination / f"{name}.parquet", index=False)
    return destination
