"""``labkit doctor`` and ``data``: what a machine needs before its first trial."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from labkit.cli.formats import format_option, of_rows
from labkit.cli.main import main
from labkit.cli.options import quiet_option
from labkit.cli.terminal import terminal_width
from labkit.datasets import DATASETS, fetch, verify
from labkit.settings import data_directory


@main.command(
    epilog="""\b
examples:
  labkit doctor
  labkit doctor --format json"""
)
@format_option
def doctor(file_format: str) -> None:
    """Say what this machine can do, and how to get what is missing."""
    from labkit import doctor

    checks = doctor.examine()
    rows = [asdict(check) for check in checks]
    if file_format != "table":
        click.echo(of_rows(rows, file_format), nl=False)
    else:
        click.echo(doctor.render(checks, terminal_width() or doctor.WIDEST))
    if any(check.ok is False for check in checks):
        raise click.exceptions.Exit(1)


@main.command(
    epilog="""\b
examples:
  labkit data                 all three data sets
  labkit data ptb             one of them
  labkit data --verify        only check what is there"""
)
@click.argument("names", nargs=-1, metavar=f"[{'|'.join(DATASETS)}]...")
@click.option("--verify", "only_verify", is_flag=True, help="Only check the files that are there.")
@quiet_option
def data(names: tuple[str, ...], only_verify: bool, quiet: bool) -> None:
    """Fetch data sets and check them, byte for byte."""
    from tqdm import tqdm

    for name in names or DATASETS:
        if only_verify:
            verify(name)
        else:
            with tqdm(unit="B", unit_scale=True, leave=False, disable=quiet or None) as bar:

                def show(what: str, done: int, total: int | None, bar: Any = bar) -> None:
                    bar.set_description_str(what, refresh=False)
                    bar.total, bar.n = total, done
                    bar.refresh()

                fetch(name, progress=show)
        click.echo(f"{name}: verified, in {data_directory() / name}")
