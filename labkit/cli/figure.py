"""``labkit figure``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from labkit.cli.main import main
from labkit.cli.options import launcher_option
from labkit.cli.results import read_table
from labkit.errors import LabkitError
from labkit.settings import REFERENCE


@main.command(
    epilog="""\b
examples:
  labkit figure 6.3                     from all runs of this machine
  labkit figure 6.1b --profile laptop   from those that the laptop profile's notebook shows
  labkit figure 6.1b --reference        from the published ones"""
)
@click.argument("number")
@click.option("--profile", help="Only the trials that this profile's notebook shows.")
@click.option("--reference", is_flag=True, help="The published run instead of this machine's.")
@launcher_option("Where the trials were run.")
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), default=Path(),
    help="The directory for the SVG and the PNG.",
)  # fmt: skip
def figure(number: str, profile: str | None, reference: bool, launcher: str, output: Path) -> None:
    """Draw one of the thesis's figures, 6.1a to 6.10b."""
    from labkit.book.plan import home
    from labkit.figures.style import save
    from labkit.thesis.figures import find

    row = find(number)
    trials = read_table("trials", reference, launcher)
    if profile or reference:
        shown = home(profile, launcher) if profile else REFERENCE
        trials = trials[trials["trial"].isin(_shown_in(shown, number))]
    else:
        trials = row.select(trials)
    tables = {"table": trials}
    if "steps" in row.tables:
        steps = read_table("steps", reference, launcher)
        tables["steps"] = steps[steps["trial"].isin(trials["trial"])]
    drawn = row.function(*(tables[name] for name in row.tables))
    output.mkdir(parents=True, exist_ok=True)
    for path in save(drawn, output / f"figure-{number}"):
        click.echo(path)


def _shown_in(directory: Path, number: str) -> Any:
    """Return the names of the trials that a rendered notebook's figure shows."""
    import pandas as pd

    try:
        return pd.read_csv(directory / "figures" / f"{number}.csv")["trial"]
    except FileNotFoundError:
        raise LabkitError(
            f"{directory} has no figure {number}; `labkit reproduce --profile {directory.name}` "
            "makes it"
        ) from None
