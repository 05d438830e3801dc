"""Reproduce a book: every notebook whose inputs have changed is run and rendered."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from labkit import datasets
from labkit.book.notebook import KERNEL, NotebookRunner
from labkit.book.pages import Page, changed
from labkit.book.plan import BookError, home, parameters, plan, select
from labkit.book.render import index, write
from labkit.book.status import StatusLine
from labkit.campaign import LAUNCHERS
from labkit.launchers.local.warm import Program, WarmProcesses, scratch_directory
from labkit.runs import Store
from labkit.settings import NOTEBOOKS, WARM
from labkit.trials.frameworks import FRAMEWORKS


def reproduce(
    profile: str = "laptop",
    only: Iterable[str] = (),
    launcher: str | None = None,
    force: bool = False,
    quiet: bool = False,
    echo: Callable[[str], object] = print,
    notebooks: Path = NOTEBOOKS,
) -> Path:
    """Run and render the notebooks whose inputs have changed, or that lack the rate of a trial.

    Parameters
    ----------
    profile : str
        ``smoke``, ``laptop`` or ``thesis``.
    only : iterable of str
        Numbers of notebooks, such as ``6-1-3``, or beginnings, such as ``6-1``.
    launcher : str, optional
        Where trials run, ``local`` or ``kubernetes``, if not where the profile says.
    force : bool
        Run notebooks even if nothing has changed. Trials that have finished are not run again.
    quiet : bool
        Say only what came of it in the end, and what has failed.
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
    say: Callable[[str], object] = (lambda line: None) if quiet else echo
    pages = plan(profile, launcher, notebooks)
    chosen = select(pages, only)
    if names := changed(chosen):
        say(f"differs from what is committed, and is used as it is now: {', '.join(names)}")
    due = [page for page in chosen if force or not page.is_up_to_date()]
    front_page = home(profile, launcher, notebooks) / "index.html"
    if len(due) < len(chosen):
        say(f"{len(chosen) - len(due)} of {len(chosen)} notebooks are up to date")
    if not due and front_page.exists():
        echo(f"see {front_page}")
        return front_page

    _check_launchers(due)
    failures: list[Page] = []
    # Now, or there is no room for any of it.
    write(front_page, index(front_page.parent.name, pages, failures))
    with _alone(front_page.parent), prepare(due, say, StatusLine(echo, quiet)) as runner:
        for number, page in enumerate(due, start=1):
            label = f"[{number} of {len(due)}] {page.name}"
            begun = time.monotonic()
            try:
                runner.run(page, label)
                say(f"{label}: {time.monotonic() - begun:.0f} s")
            except BookError as error:
                failures.append(page)
                echo(f"{label}: {error}\n")
            write(front_page, index(front_page.parent.name, pages, failures))
        echo(str(runner.tally))
    if failures:
        names = ", ".join(page.name for page in failures)
        raise BookError(
            f"{len(failures)} of {len(due)} notebooks failed: {names}. What they printed is "
            f"above, and in {front_page.parent / '.unfinished'}; trials that finished are kept."
        )
    echo(f"see {front_page}")
    return front_page


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Refuse to work in a directory where another labkit does."""
    lock = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BookError(
                f"another labkit reproduce is at work in {directory}; wait until it has ended"
            ) from None
        yield
    finally:
        os.close(lock)


@contextmanager
def prepare(
    due: list[Page], echo: Callable[[str], object], status: StatusLine
) -> Iterator[NotebookRunner]:
    """Fetch the data and import the frameworks that these pages name, once for all of them.

    Gives what runs their notebooks.
    """
    local = [page for page in due if page.launcher == "local"]
    for dataset in _values(local, "dataset"):
        echo(f"data: {dataset}")
        datasets.fetch(dataset)
    scratch = scratch_directory()
    shared = os.environ.get(WARM)
    try:
        with ThreadPoolExecutor() as pool, WarmProcesses(Path(shared or scratch)) as warm:
            # All at once, and before the first trial: an import would disturb its measurement.
            names = _values(local, "framework")
            echo(f"importing {', '.join([*names, 'Jupyter'])}, once for all notebooks")
            programs = [*(Program.trainer(FRAMEWORKS[name]) for name in names), KERNEL]
            for connection in pool.map(warm.connect, programs, [1] * len(programs)):
                connection.close()
            yield NotebookRunner(scratch, warm.directory, status)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _check_launchers(pages: Iterable[Page]) -> None:
    """Refuse a launcher that cannot be used once, and not in each of these notebooks.

    Where runs are kept, some of them may do without.
    """
    for name in {page.launcher for page in pages}:
        if not any(Store(launcher=name).runs()):
            with LAUNCHERS[name]():
                pass


def _values(pages: list[Page], field: str) -> list[str]:
    """Return a trial field's values in the pages' parameters, which are named after it."""
    values: dict[str, None] = {}
    for page in pages:
        for name, value in (parameters(page.source) | page.parameters).items():
            if name.split("_")[-1] == field:
                values |= dict.fromkeys(value if isinstance(value, list) else [value])
    return list(values)
