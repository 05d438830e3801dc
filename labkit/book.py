"""The book: every notebook run with a profile's parameters, each in a kernel of its own.

`plan` checks a profile against the notebooks, `reproduce` runs those whose inputs have changed,
`publish` copies what came of it. What is kept, and when it is made again, is in `labkit.pages`.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import textwrap
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from labkit import datasets, settings
from labkit.errors import LabkitError, nearest
from labkit.launchers.local import WarmProcesses
from labkit.pages import Page, cells, index, keep, write
from labkit.progress import duration
from labkit.runs import Run, Store
from labkit.settings import NOTEBOOKS, PROGRESS, REFERENCE, WARM, outputs
from labkit.trainers import FRAMEWORKS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from nbformat import NotebookNode



COMMON = "common"
"""The table of a profile whose values are for all notebooks that know them."""

GRACE = 90.0
"""Seconds for which a kernel may clear up in a cluster."""

QUIET = 10.0
"""Seconds between two lines of progress where these cannot be rewritten."""

KERNEL = SimpleNamespace(name="kernel", script=Path(__file__).with_name("kernel.py"))
"""What a fork server has to know of kernels, as it does of frameworks."""

LONGEST_SOCKET = 80
"""Bytes that a private directory's path may have: a Unix socket's, in all, is limited to 107."""


class BookError(LabkitError):
    """A profile that does not fit the notebooks, or notebooks that failed."""


# --- in a notebook --------------------------------------------------------------------------


def show(figure: Figure, number: str, trials: pd.DataFrame) -> None:
    """Show a figure in a notebook; in a book also keep it, and the trials behind it.

    Parameters
    ----------
    figure : Figure
    number : str
        Of the figure, such as ``6.3``: the name of its files.
    trials : DataFrame
        The table of the trials that it shows.
    """
    from IPython.display import Image, display

    from labkit import figures

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(os.environ.get(settings.FIGURES) or scratch)
        _, png = figures.save(figure, folder / number)
        trials.drop(columns="host", errors="ignore").to_csv(folder / f"{number}.csv", index=False)
        _, _, title = figure.axes[0].get_title("left").partition(" ")
        alt = f"{number} {title}"
        display(Image(png.read_bytes(), width=640, alt=alt, metadata={"figure": number}))


# --- what is to be done ---------------------------------------------------------------------


def home(profile: str, launcher: str = "local") -> Path:
    """Return where the pages of a profile are that were made with a launcher."""
    return outputs() / (profile if launcher == "local" else f"{profile}-{launcher}")


def plan(profile: str, launcher: str = "local", notebooks: Path = NOTEBOOKS) -> list[Page]:
    """Return the pages of a profile, in their order, after every name has been checked.

    Parameters
    ----------
    profile : str
        A table of ``profiles.toml``.
    launcher : str
        The notebooks' parameter of this name.
    notebooks : Path
        The directory that holds the notebooks and ``profiles.toml``.

    Raises
    ------
    BookError
        If the profile, or a notebook or parameter that it names, does not exist, or
        ``profiles.toml`` is not TOML.
    """
    sources = {path.stem: path for path in sorted(notebooks.glob("*.ipynb"))}
    try:
        profiles = tomllib.loads((notebooks / "profiles.toml").read_text())
    except tomllib.TOMLDecodeError as error:
        raise BookError(f"{notebooks / 'profiles.toml'}: {error}") from None
    if profile not in profiles:
        raise BookError(_unknown("profile", profile, profiles))
    known = {name: parameters(path) for name, path in sources.items()}
    tables = dict(profiles[profile])
    common = tables.pop(COMMON, {}) | {"launcher": launcher}
    where = f"profiles.toml, profile {profile!r}: "
    for name, values in tables.items():
        if name not in sources:
            raise BookError(where + _unknown("notebook", name, sources))
        for parameter in values:
            if parameter not in known[name]:
                raise BookError(where + _unknown(f"{name}: parameter", parameter, known[name]))
    everywhere = {parameter for values in known.values() for parameter in values}
    for parameter in common:
        if parameter not in everywhere:
            raise BookError(where + _unknown(f"{COMMON}: parameter", parameter, everywhere))
    pages = []
    for name, path in sources.items():
        values = {k: v for k, v in common.items() if k in known[name]} | tables.get(name, {})
        changed = {k: v for k, v in values.items() if v != known[name][k]}
        pages.append(Page(path, changed, home(profile, launcher)))
    return pages


def parameters(notebook: Path) -> dict[str, Any]:
    """Return the parameters of a notebook with their default values.

    Raises
    ------
    BookError
        If it has no cell with the tag ``parameters``, or one that holds anything but names and
        literals.
    """
    found = next(cells(notebook, tag="parameters"), None)
    if found is None:
        raise BookError(f"{notebook}: no cell has the tag 'parameters'")
    values = {}
    for statement in ast.parse(found).body:
        try:
            ((target,), value) = statement.targets, statement.value
            values[target.id] = ast.literal_eval(value)
        except (AttributeError, ValueError):
            raise BookError(
                f"{notebook}: the parameters cell may only give literals to names, not: "
                f"{ast.unparse(statement)}"
            ) from None
    return values


def select(pages: list[Page], only: Iterable[str]) -> list[Page]:
    """Return the pages whose names begin with one of these numbers; all if there are none.

    Raises
    ------
    BookError
        If no page is called so.
    """
    chosen = []
    for number in only:
        found = [page for page in pages if f"{page.name}-".startswith(f"{number}-")]
        if not found:
            raise BookError(_unknown("notebook", number, [page.name for page in pages]))
        chosen += found
    return [page for page in pages if page in chosen or not chosen]


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    known = sorted(known)
    return f"{what} {name!r} is unknown{nearest(name, known)}; known: {', '.join(known)}"


# --- the run --------------------------------------------------------------------------------


def reproduce(
    profile: str = "laptop",
    only: Iterable[str] = (),
    launcher: str = "local",
    again: bool = False,
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
    again : bool
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
    due = [page for page in chosen if again or not page.is_up_to_date()]
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
def _workshop(due: list[Page], echo: Callable[[str], object]) -> Iterator[_Workshop]:
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
            programs = [*map(FRAMEWORKS.get, names), KERNEL]
            for connection in pool.map(warm.connect, programs, [1] * len(programs)):
                connection.close()
            yield _Workshop(place, warm.directory, echo)
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


class _Workshop:
    """Makes pages: a kernel a notebook, in a private directory, one after the other."""

    def __init__(self, place: Path, warm: Path, echo: Callable[[str], object]) -> None:
        self.place, self.warm = place, warm
        self.live = _Live(echo)

    def make(self, page: Page, label: str) -> None:
        """Run a notebook, render it, put all of it in place.

        Raises
        ------
        BookError
            If a cell failed, with its source and traceback.
        """
        inputs = page.inputs()
        shutil.rmtree(page.unfinished, ignore_errors=True)
        (page.unfinished / "figures").mkdir(parents=True)
        progress = self.place / "progress"
        progress.write_text("")
        kernels: list[Any] = []
        begun = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            # Beside this thread, so that a Ctrl-C is ours to act on.
            run = pool.submit(self._execute, page, kernels)
            try:
                while not run.done():
                    self.live.show(label, progress)
                    time.sleep(0.2)
            except BaseException:
                _kill(kernels, run, GRACE if page.launcher != "local" else 0.0)
                raise
            finally:
                self.live.clear()
        try:
            notebook = run.result()
        except Exception as error:
            raise BookError(_explain(page, error)) from error
        keep(page, notebook, inputs, time.monotonic() - begun)

    def _execute(self, page: Page, kernels: list[Any]) -> NotebookNode:
        import papermill
        from jupyter_client.kernelspec import KernelSpec
        from jupyter_client.manager import AsyncKernelManager
        from traitlets.config import Config

        here = Path(tempfile.mkdtemp(dir=self.place))
        address, connection = self.warm / f"{KERNEL.name}-1", here / "c.json"
        environment = {
            WARM: str(self.warm),
            PROGRESS: str(self.place / "progress"),
            settings.FIGURES: str(page.unfinished / "figures"),
            "IPYTHONDIR": str(self.place / "ipython"),  # no start-up files of the user's
        }

        class Kernel(AsyncKernelManager):
            """A kernel of this very Python, whatever the user's own is called."""

            def __init__(self, **traits: Any) -> None:
                super().__init__(**traits)
                kernels.append(self)

            @property
            def kernel_spec(self) -> KernelSpec:
                command = [sys.executable, "-S", KERNEL.script, address, here, "-f", connection]
                return KernelSpec(argv=list(map(str, command)), language="python", env=environment)

        return papermill.execute_notebook(
            page.source,
            page.unfinished / page.executed.name,
            page.parameters,
            progress_bar=False,
            kernel_manager_class=Kernel,
            config=Config(KernelManager={"transport": "ipc", "connection_file": str(connection)}),
            resources={"metadata": {"path": str(page.source.parent)}},
            shutdown_kernel="immediate",
        )


def _kill(kernels: list[Any], run: Future[Any], grace: float) -> None:
    """End the kernel of a run; its trials end with it, as nobody listens to them any more.

    Where trials run elsewhere, the kernel gets some seconds of `grace` to end them itself.
    """

    def signal_all(number: int) -> None:
        for kernel in kernels:
            with suppress(AttributeError, ProcessLookupError):  # not started yet, or ended
                os.killpg(kernel.provisioner.process.pid, number)

    if grace:
        signal_all(signal.SIGINT)
        wait([run], timeout=grace)
    while not run.done():
        signal_all(signal.SIGKILL)
        time.sleep(0.1)


def _explain(page: Page, error: Exception) -> str:
    """Say where a notebook failed: the cell's source, and its traceback without colours."""
    if hasattr(error, "traceback"):
        text = "\n".join([error.source, "", *error.traceback])
        text = re.sub(r"\x1b\[[0-9;]*m", "", text)
        where = f"in cell [{error.exec_count}]"
    else:
        where, text = "outside its cells", str(error)
    return (
        f"failed {where}:\n\n{textwrap.indent(text, '    ')}\n\n"
        f"As far as it came: {page.unfinished / page.executed.name}"
    )


class _Live:
    """One line that says how far a notebook is: rewritten in a terminal, else now and then."""

    def __init__(self, echo: Callable[[str], object]) -> None:
        self.echo = echo
        self.rewrites = sys.stderr.isatty()
        self.said = ""
        self.at = time.monotonic()

    def show(self, label: str, progress: Path) -> None:
        """Say what stands at the end of a notebook's report."""
        *_, last, _ = ["", *progress.read_text().split("\n")]
        text = f"{label}: starts"
        if last:
            report = json.loads(last)
            which, _, trial = report["text"].partition(": ")
            if report["left"] is not None:
                which += f", about {duration(report['left'])} left"
            text = f"{label}: {which}: {trial}, {report['state']}"
        if self.rewrites:
            width = shutil.get_terminal_size().columns - 1
            text = textwrap.shorten(text, width, placeholder="…")
            print(f"\r{text:{width}}", end="", file=sys.stderr, flush=True)
        elif text != self.said and time.monotonic() - self.at >= QUIET:
            self.echo(text)
            self.said, self.at = text, time.monotonic()

    def clear(self) -> None:
        """Make the line free."""
        if self.rewrites:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


# --- what is published ----------------------------------------------------------------------


def publish(
    profile: str, destination: Path = REFERENCE, notebooks: Path = NOTEBOOKS
) -> Path:
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
    trials = [Run.read(store.root / name).trial for name in names]
    shutil.rmtree(destination, ignore_errors=True)
    shutil.copytree(outputs() / profile, destination, ignore=shutil.ignore_patterns(".*"))
    for name, table in (
        ("trials", store.table(trials)),
        ("steps", store.steps(trials)),
        ("evals", store.evals(trials)),
    ):
        # the machine is described by its processor, not by its name
        table = table.drop(columns="host", errors="ignore")
        table.to_parquet(destination / f"{name}.parquet", index=False)
    return destination
