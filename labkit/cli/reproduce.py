"""``labkit reproduce``."""

from __future__ import annotations

from dataclasses import asdict

import click

from labkit.cli.completion import notebooks
from labkit.cli.formats import format_option, of_rows
from labkit.cli.main import main
from labkit.cli.options import dry_run_option, launcher_option, profile_option, quiet_option
from labkit.cli.table import rows_of
from labkit.cli.terminal import echo, terminal_width


@main.command(
    epilog="""\b
examples:
  labkit reproduce                               the laptop profile
  labkit reproduce --profile smoke --only 6-1-3  one notebook of another
  labkit reproduce --profile laptop-nodes        ten slow nodes on two cores
  labkit reproduce --profile emulated            fifty, in a cluster
  labkit reproduce --profile learning-curves     the thesis's eight epochs
  labkit reproduce --profile thesis --launcher kubernetes  the thesis's grid
  labkit reproduce --dry-run                     what would be run, no more"""
)
@profile_option
@click.option(
    "--only", multiple=True, metavar="NOTEBOOK",
    help="This notebook only, e.g. 6-1-3; may be repeated.",
    shell_complete=notebooks,
)  # fmt: skip
@launcher_option(
    "Where trials run: here, or in your kubeconfig's cluster, as cluster.toml says.",
    "the profile's, or local",
)
@click.option("--force", is_flag=True, help="Render notebooks even if nothing has changed.")
@dry_run_option
@quiet_option
@format_option
def reproduce(
    profile: str, only: tuple[str, ...], launcher: str | None, force: bool, dry_run: bool,
    quiet: bool, file_format: str,
) -> None:  # fmt: skip
    """Run and render the notebooks of a profile."""
    if dry_run:
        import pandas as pd

        from labkit.book.outlook import outlook

        rows, note = outlook(profile, only, launcher, force)
        records = [asdict(row) for row in rows]
        if file_format != "table":
            click.echo(of_rows(records, file_format), nl=False)
        else:
            echo("\n".join([*rows_of(pd.DataFrame(records), terminal_width()), "", note]))
        return
    if file_format != "table":
        raise click.UsageError(f"--format {file_format}: only with --dry-run")
    from labkit.book import reproduce

    reproduce.reproduce(
        profile, only=only, launcher=launcher, force=force, quiet=quiet, echo=echo
    )
