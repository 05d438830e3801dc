"""``labkit reproduce``."""

from __future__ import annotations

import click

from labkit.cli.main import main
from labkit.cli.options import launcher_option, quiet_option


@main.command(
    epilog="""\b
examples:
  labkit reproduce                                    the laptop profile
  labkit reproduce --profile smoke --only 6-1-3       one notebook of another
  labkit reproduce --profile laptop-nodes             ten slow nodes on two cores
  labkit reproduce --profile thesis --launcher kubernetes   the thesis's own grid, on a cluster"""
)
@click.option(
    "--profile", default="laptop", show_default=True, help="smoke, laptop, laptop-nodes or thesis."
)
@click.option("--only", multiple=True, metavar="NOTEBOOK", help="e.g. 6-1-3; may be repeated.")
@launcher_option("Where trials run; kubernetes: your kubeconfig's cluster, as cluster.toml says.")
@click.option("--force", is_flag=True, help="Render notebooks even if nothing has changed.")
@quiet_option
def reproduce(
    profile: str, only: tuple[str, ...], launcher: str, force: bool, quiet: bool
) -> None:
    """Run and render the notebooks of a profile."""
    from labkit.book import reproduce

    reproduce.reproduce(
        profile, only=only, launcher=launcher, force=force, quiet=quiet, echo=click.echo
    )
