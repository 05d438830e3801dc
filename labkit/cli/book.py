"""``labkit book``."""

from __future__ import annotations

from pathlib import Path

import click

from labkit.cli.main import main
from labkit.cli.options import profile_option


@main.command(
    epilog="""\b
examples:
  labkit book                          from the results of the laptop profile
  labkit book --profile smoke          from those of another
  labkit book --output /srv/www/book   to another place"""
)
@profile_option
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path),
    help="The directory of the site.  [default: outputs/book]",
)  # fmt: skip
def book(profile: str, output: Path | None) -> None:
    """Make a site of all notebooks with their results.

    A browser reads it from the disk, without a network. Where a profile's results are missing,
    those of the published run are shown, and each page says which. Notebooks that measure nothing
    are run.
    """
    from labkit.book import website

    website.build(profile, output, echo=click.echo)
