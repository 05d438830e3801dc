"""``labkit results`` and ``tensorboard``: what has been measured."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from labkit.cli.formats import of_frame
from labkit.cli.lists import ListCommand
from labkit.cli.main import main
from labkit.cli.options import EITHER, launcher_option, reference_option
from labkit.cli.selection import selected, selection_options
from labkit.cli.table import short
from labkit.cli.terminal import echo, terminal_width
from labkit.errors import LabkitError

if TYPE_CHECKING:
    import pandas as pd

    from labkit.runs import Results

TABLES = ("trials", "steps", "evals")
MOST_NAMES = 2
"""That a line gives of runs of another version."""

TENSORBOARD = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "from tensorboard.main import run_main; run_main()"
)
"""TensorBoard, which would answer a Ctrl-C while it imports with a traceback."""

FORMATS = ("table", "csv", "json", "parquet")


@main.command(
    cls=ListCommand,
    epilog="""\b
examples:
  labkit results                                  what has been measured here
  labkit results --framework mxnet --workers 1 2  some of it
  labkit results --reference                      what is published
  labkit results --output trials.csv              all columns
  labkit results --table steps --output steps.parquet""",
)
@reference_option
@launcher_option("Where the trials were run.", EITHER)
@click.option("--table", type=click.Choice(TABLES), default="trials", show_default=True)
@click.option(
    "--format", "file_format", type=click.Choice(FORMATS),
    help="A short table to look at, or all columns.  [default: by the ending of --output, or "
    "table]",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path),
    help="A file instead of standard output.",
)  # fmt: skip
@selection_options
def results(
    reference: bool,
    launcher: str | None,
    table: str,
    file_format: str | None,
    output: Path | None,
    **options: tuple[str, ...],
) -> None:
    """Print or save the tables of all runs, or of some."""
    file_format = file_format or _format_of(output)
    if file_format == "parquet" and output is None:
        raise click.UsageError("--format parquet needs --output FILE")
    source = Source(reference, launcher)
    frame = source.table if table == "trials" else source.there(getattr(source, table))
    frame = selected(frame, options)
    if file_format == "table":
        width = None if output else terminal_width()
        written = f"{short(frame, table, width)}\n".encode()
    elif file_format == "parquet":
        written = frame.to_parquet(index=False)
    else:
        written = of_frame(frame, file_format).encode()
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(written)
        click.echo(output)
    else:
        sys.stdout.buffer.write(written)


def _format_of(output: Path | None) -> str:
    """Return the format that the name of a file ends with; a table to look at without one."""
    ending = output.suffix.removeprefix(".") if output else ""
    if ending in FORMATS:
        return ending
    if ending in ("", "txt"):
        return "table"
    raise click.UsageError(
        f"--output {output}: which format is .{ending}? Known endings: .csv, .json, .parquet and "
        ".txt; --format names one for any other."
    )


class Source:
    """The tables of the runs on a launcher, or of the published run, read when they are needed.

    Runs of another version of labkit are named on standard error, once: those of other code, whose
    rows are in the tables, and those that cannot be read.

    Parameters
    ----------
    reference : bool
        Whether the published run is meant.
    launcher : str or None
        Where the trials were run; without it locally, or anywhere for the published run.
    """

    def __init__(self, reference: bool, launcher: str | None = None) -> None:
        self._reference, self._launcher = reference, launcher

    @cached_property
    def trials(self) -> pd.DataFrame:
        """One row per trial; none, and no columns, if nothing has been measured."""
        return self._read("trials")

    @property
    def table(self) -> pd.DataFrame:
        """One row per trial; a LabkitError if there is none."""
        return self.there(self.trials)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row per report of a worker; none of trials that diverged."""
        return self._read("steps")

    @cached_property
    def evals(self) -> pd.DataFrame:
        """One row per evaluation; none of trials that diverged."""
        return self._read("evals")

    def there(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return a table that has rows.

        Raises
        ------
        LabkitError
            If it has none, as nothing has been measured.
        """
        from labkit.settings import outputs

        if frame.empty:
            raise LabkitError(
                f"nothing that can be shown has been measured in {outputs()} yet "
                f"({self._launcher or 'local'}). `labkit reproduce --profile smoke` does, or "
                "`labkit results --reference` shows what is published."
            )
        return frame

    def _read(self, name: str) -> pd.DataFrame:
        from labkit.runs.tables import published

        if self._reference:
            frame = published(name)
            if self._launcher is None:
                return frame
            trials = published("trials")
            there = trials.loc[trials["launcher"] == self._launcher, "trial"]
            return frame[frame["trial"].isin(there)].reset_index(drop=True)
        return getattr(self._results, "table" if name == "trials" else name)

    @cached_property
    def _results(self) -> Results:
        from labkit.runs import Store

        results = Store(launcher=self._launcher or "local").results()
        if others := other_versions(results):
            echo(f"labkit: {others}", err=True)
        return results


def other_versions(results: Results) -> str:
    """Return in one line which runs are of another version, or damaged, and why; or nothing."""
    reasons: dict[str, list[str]] = {}
    for run in results.runs:
        if not run.current:
            why = "shown, though the trainer or the data has changed since"
            reasons.setdefault(why, []).append(run.directory.name)
    for directory, why in results.left_out.items():
        reasons.setdefault(f"not shown, as {' '.join(why.split())}", []).append(directory.name)
    if not reasons:
        return ""
    count = sum(map(len, reasons.values()))
    kinds = (f"{len(names)} {why} ({_some(names)})" for why, names in reasons.items())
    runs = "1 run is" if count == 1 else f"{count} runs are"
    said = f"{runs} of another version of labkit, or damaged: {'; '.join(kinds)}"
    hint = "; labkit clean --failed removes damaged ones"
    return said + hint * any("damaged" in why for why in reasons)


def _some(names: list[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = [f"and {len(names) - MOST_NAMES} more"] * (len(names) > MOST_NAMES)
    return ", ".join([*names[:MOST_NAMES], *more])


@main.command(
    epilog="""\b
examples:
  labkit tensorboard
  labkit tensorboard --port 6007"""
)
@click.option("--port", default=6006, show_default=True)
def tensorboard(port: int) -> None:
    """Show the curves of all runs in TensorBoard, until Ctrl-C."""
    from labkit.runs import Store
    from labkit.runs.tensorboard import export
    from labkit.settings import outputs

    runs = [*Store().runs(), *Store(launcher="kubernetes").runs()]
    if not runs:
        raise LabkitError(f"no runs in {Store().root} yet")
    directory = outputs() / "tensorboard"
    if damaged := export(runs, directory):
        names = _some([run.directory.name for run in damaged])
        echo(f"labkit: not shown, as damaged ({names}); labkit clean --failed removes them",
             err=True)  # fmt: skip
    # It says itself at which address it listens.
    command = [sys.executable, "-c", TENSORBOARD, "--logdir", str(directory)]
    os.execv(sys.executable, [*command, "--port", str(port)])
