"""Where the progress of a sweep is shown."""

from __future__ import annotations

import abc
import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from labkit.progress.course import Course, TrialCourse, duration
from labkit.progress.reloaded import Reloaded
from labkit.progress.tally import Tally

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

SELDOM = 60.0
"""Seconds between two lines where lines stay."""

PHASES = ("Pending", "Running", "Succeeded", "Failed")
"""Of pods, in the order of their columns."""

HEADS = ("role", *map(str.lower, PHASES), "samples/s")
"""Of the table of a trial's pods."""


def kind_of_output() -> str:
    """Return where output goes: to a ``notebook``, a ``terminal`` or anything ``other``."""
    ipython = sys.modules.get("IPython")
    if ipython and getattr(ipython.get_ipython(), "kernel", None) is not None:
        return "notebook"
    return "terminal" if sys.stderr.isatty() else "other"


class Screen:
    """Shows nothing; what shows something overrides it.

    Parameters
    ----------
    course : Course
        What is to be shown.
    lock : RLock
        Held by whoever changes or reads it.
    """

    def __init__(self, course: Course, lock: Any) -> None:
        self.course, self.lock = course, lock

    def planned(self, trials: int, said: str = "") -> None:
        """Show that more trials will be run; `said` is what is planned, in a line."""

    def changed(self, trial: TrialCourse) -> None:
        """Show what has changed of a trial."""

    def ended(self, trial: TrialCourse) -> None:
        """Show that a trial has ended."""

    def finish(self, tally: Tally) -> None:
        """Show what came of all trials, instead of how far they are."""

    def close(self) -> None:
        """Leave nothing behind that moves."""


class Report(Screen):
    """Appends JSON lines to a file, for a program that asks for them."""

    def __init__(self, course: Course, lock: Any, path: str) -> None:
        super().__init__(course, lock)
        self.path = path

    def changed(self, trial: TrialCourse) -> None:
        """Append what has changed of a trial."""
        text, state = self.course.title(trial), self.course.state(trial)
        self._append(text=text, state=state, left=self.course.left, ended=False)

    def ended(self, trial: TrialCourse) -> None:
        """Append that a trial has ended."""
        text, state = self.course.title(trial), self.course.state(trial)
        self._append(text=text, state=state, left=self.course.left, ended=True)

    def finish(self, tally: Tally) -> None:
        """Append what came of all trials."""
        self._append(tally=tally.as_dict())

    def _append(self, **values: Any) -> None:
        with open(self.path, "a") as file:
            file.write(json.dumps(values) + "\n")


class Ticking(Screen, abc.ABC):
    """Calls `tick` now and then, from the first trial to the end, whatever happens meanwhile."""

    interval: float

    def __init__(self, course: Course, lock: Any) -> None:
        super().__init__(course, lock)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def planned(self, trials: int, said: str = "") -> None:
        """Begin to tick."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()

    @abc.abstractmethod
    def tick(self) -> None:
        """Show how far all is."""

    def close(self) -> None:
        """End the ticking."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self.interval):
            with self.lock:
                self.tick()


class Lines(Ticking):
    """Prints lines that stay: how many trials, the end of each, and one now and then."""

    interval = SELDOM

    def __init__(
        self, course: Course, lock: Any, echo: Callable[[str], object] | None = None
    ) -> None:
        super().__init__(course, lock)
        self.echo = echo or _to_stderr

    def planned(self, trials: int, said: str = "") -> None:
        """Print which trials will be run."""
        more = " more, for precise intervals" if self.course.added else " to run"
        self.echo(said or f"{trials} trial{'s' * (trials != 1)}{more}")
        super().planned(trials, said)

    def ended(self, trial: TrialCourse) -> None:
        """Print how a trial has ended."""
        left = self.course.left
        rest = f", about {duration(left)} left" if left else ""
        self.echo(f"{self.course.title(trial)}: {self.course.state(trial)}{rest}")

    def tick(self) -> None:
        """Print what each trial does."""
        for trial in self.course.running.values():
            self.echo(f"{self.course.title(trial)}: {self.course.state(trial)}")
        self.echo(self.course.summary())

    def finish(self, tally: Tally) -> None:
        """Print what came of all trials."""
        self.echo(str(tally))


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Terminal(Screen):
    """Rewrites the last lines of a terminal."""

    def __init__(self, course: Course, lock: Any) -> None:
        super().__init__(course, lock)
        from rich.console import Console

        self._console = Console(stderr=True)
        self._live: Live | None = None

    def _stay(self, line: str) -> None:
        """Print a line that is not rewritten, broken where the terminal ends."""
        self._console.print(line, markup=False, highlight=False)

    def planned(self, trials: int, said: str = "") -> None:
        """Print what is planned, to stay, and begin to draw."""
        if self._live is None:
            from rich.live import Live

            if said:
                self._stay(said)
            self._live = Live(
                console=self._console, refresh_per_second=2, transient=True,
                get_renderable=self.table,
            )  # fmt: skip
            self._live.start()

    def finish(self, tally: Tally) -> None:
        """Print what came of all trials, where they were shown."""
        self.close()
        self._stay(str(tally))

    def close(self) -> None:
        """Erase what is drawn."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def table(self) -> Group:
        """Return what is drawn: the sweep in a line, and each of its trials that runs."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        with self.lock:
            course, now = self.course, self.course.clock()
            parts: list[Any] = [Text(course.summary())] if course.trials > 1 else []
            for trial in course.running.values():
                bar = Table.grid(padding=(0, 2))
                left = trial.left(now)
                said = "" if left is None else f"about {duration(left)} left"
                bar.add_row(
                    ProgressBar(1.0, trial.fraction, width=30), f"{trial.fraction:.0%}", said
                )
                parts += [Text(course.title(trial)), bar, Text(course.state(trial))]
                if trial.roles:
                    roles = Table(*HEADS, box=None)
                    for row in _roles(trial):
                        roles.add_row(*row)
                    parts.append(roles)
        return Group(*parts)


class Notebook(Ticking):
    """Rewrites one output of a notebook's cell: plain HTML, with the time of its writing.

    After a reload of the page JupyterLab shows it as it was saved last, and `Reloaded` goes on
    from there; of a widget it would show nothing until the cell has ended.
    """

    interval = 1.0

    def __init__(self, course: Course, lock: Any) -> None:
        super().__init__(course, lock)
        self._handle: Any = None
        self._html = self._said = ""
        self._reloaded = Reloaded()

    def planned(self, trials: int, said: str = "") -> None:
        """Make the output, with what is planned above all that will move."""
        self._said = said or self._said
        self.tick()
        super().planned(trials, said)

    def tick(self) -> None:
        """Rewrite the output."""
        self._show(self._reloaded.keep(self.html()))

    def finish(self, tally: Tally) -> None:
        """Leave what came of all trials, instead of how far they are."""
        said = f"<p>{escape(str(tally))}</p>"
        self._show(said)
        self._reloaded.finish(said)
        self._handle = None

    def close(self) -> None:
        """End the rewriting, and leave nothing that looks as if it went on."""
        super().close()
        if self._handle is not None:
            self._show("")
            self._reloaded.close()

    def _show(self, html: str) -> None:
        from IPython.display import HTML, display

        if html == self._html:
            return
        if self._handle is None:
            self._handle = display(HTML(html), display_id=True)
        else:
            self._handle.update(HTML(html))
        self._html = html

    def html(self) -> str:
        """Return what is shown: the sweep in a line, and each of its trials that runs."""
        course, now = self.course, self.course.clock()
        at = time.strftime("%H:%M:%S")
        parts = [f"<div>{escape(self._said)}</div>"] if self._said else []
        parts.append(f"<div>{escape(course.summary())} <small>at {at}</small></div>")
        for trial in course.running.values():
            left = trial.left(now)
            said = "" if left is None else f", about {duration(left)} left"
            parts.append(
                f"<div>{escape(course.title(trial))}<br>"
                f"<progress value='{trial.fraction:.3f}' max='1'></progress> "
                f"{trial.fraction:.0%}{said}<br>{escape(course.state(trial))}</div>"
            )
            if trial.roles:
                parts.append(f"<table>{_row('th', HEADS)}")
                parts += [_row("td", row) for row in _roles(trial)]
                parts.append("</table>")
        return "".join(parts)


def _row(kind: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{cell}</{kind}>' for cell in cells)}</tr>"


def _roles(trial: TrialCourse) -> list[list[str]]:
    """Return a row of a table for each kind of pod: its name, how many are how far, the rate."""
    rows = []
    for role, counts in trial.roles.items():
        rate = sum(trial.rates.values()) if role == "worker" else 0
        numbers = [str(counts.get(phase) or "") for phase in PHASES]
        rows.append([role, *numbers, f"{rate:.0f}" if rate else ""])
    return rows
