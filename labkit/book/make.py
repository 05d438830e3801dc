"""The book made: every notebook whose inputs have changed is run and rendered."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from labkit import datasets
from labkit.book.notebook import KERNEL, Runner
from labkit.book.pages import Page, index, write
from labkit.book.plan import BookError, home, parameters, plan, select
from labkit.launchers.local.warm import Program, WarmProcesses
from labkit.settings import NOTEBOOKS, WARM
from labkit.trials.frameworks import FRAMEWORKS

if TYPE_CHECKING:
    pass

LONGEST_SOCKET = 80
"""Bytes that a private directory's path may have: a Unix socket's, in all, is limited to 107."""


def reproduce(
    profile: str = "laptop",
    only: Iterable[str] = (),
    launcher: str = "local",
    force: bool = False,
    echo: Callable[[str], object] = print,
    notebooks: Path = NOTEBOOKS,
) -> Path:
    """Run and render the notebooks whose inputs have changed.

    Parameters
    ----------
    profile : str
        ``smoke``, ``laptop`` or ``thesis``.
    only : iterable of str
        Numbers of notebooks, such as ``6-1-3``, or beginnings, such as ``6-1``.
    launcher : str
        Where trials run: ``local`` or ``kubernetes``.
    force : bool
        Run notebooks even if nothing has changed. Trials that have finished are not run again.
    echo : callable
        Prints one line.
    notebooks : Path
        The directory that holds the notebooks and ``profiles.toml``.

    Returns
    -------
    Path
        The index page.

    Raises
    ------
    BookError
        Before anything starts, if the profile does not fit the notebooks; at the end, if some
        have failed. Those that have not are kept.
    """
    pages = plan(profile, launcher, notebooks)
    chosen = select(pages, only)
    due = [page for page in chosen if force or not page.is_up_to_date()]
    front = home(profile, launcher) / "index.html"
    if len(due) < len(chosen):
        echo(f"{len(chosen) - len(due)} of {len(chosen)} notebooks are up to date")
    if not due and front.exists():
        echo(f"see {front}")
        return front

    failures: list[Page] = []
    with _workshop(due, echo) as workshop:
        for number, page in enumerate(due, start=1):
            label = f"[{number} of {len(due)}] {page.name}"
            begun = time.monotonic()
            try:
                workshop.make(page, label)
                echo(f"{label}: {time.monotonic() - begun:.0f} s")
            except BookError as error:
                failures.append(page)
                echo(f"{label}: {error}\n")
            write(front, index(pages, failures))
    if failures:
        names = ", ".join(page.name for page in failures)
        raise BookError(
            f"{len(failures)} of {len(due)} notebooks failed: {names}. What they printed is "
            f"above, and in {front.parent / '.unfinished'}; trials that finished are kept."
        )
    echo(f"see {front}")
    return front


@contextmanager
def _workshop(due: list[Page], echo: Callable[[str], object]) -> Iterator[Runner]:
    """Fetch the data and import the frameworks that these pages name, once for all of them."""
    local = [page for page in due if page.launcher == "local"]
    for dataset in _named(local, "dataset"):
        echo(f"data: {dataset}")
        datasets.fetch(dataset)
    place = Path(tempfile.mkdtemp(prefix="labkit-"))
    if len(str(place)) > LONGEST_SOCKET:
        place.rmdir()
        place = Path(tempfile.mkdtemp(prefix="labkit-", dir="/tmp"))
    shared = os.environ.get(WARM)
    try:
        with ThreadPoolExecutor() as pool, WarmProcesses(Path(shared or place)) as warm:
            # All at once, and before the first trial: an import would disturb its measurement.
            names = _named(local, "framework")
            echo(f"importing {', '.join([*names, 'Jupyter'])}, once for all notebooks")
            programs = [*(Program.trainer(FRAMEWORKS[name]) for name in names), KERNEL]
            for connection in pool.map(warm.connect, programs, [1] * len(programs)):
                connection.close()
            yield Runner(place, warm.directory, echo)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _named(pages: list[Page], field: str) -> list[str]:
    """Return the values of a trial's field that these pages name, in parameters called so."""
    values: dict[str, None] = {}
    for page in pages:
        for name, value in (parameters(page.source) | page.parameters).items():
            if name.split("_")[-1] == field:
                values |= dict.fromkeys(value if isinstance(value, list) else [value])
    return list(values)
