"""``labkit reproduce``."""

from __future__ import annotations

import click

from labkit.cli.main import main


@main.command(
    epilog="""\b
examples:
  labkit reproduce                                    the laptop profile
  labkit reproduce --profile smoke --only 6-1-3       one notebook of another
  labkit reproduce --profile thesis --launcher kubernetes   the thesis's own grid, on a cluster"""
)
@click.option("--profile", default="laptop", show_default=True, help="smoke, laptop or thesis.")
@click.option("--only", multiple=True, metavar="NOTEBOOK", help="e.g. 6-1-3; may be repeated.")
@click.option(
    "--launcher", default="local", show_default=True, help="local, or kubernetes: the "
    "cluster of your kubeconfig, used as cluster.toml says."
)  # fmt: skip
@click.option("--force", is_flag=True, help="Render notebooks even if nothing has changed.")
def reproduce(profile: str, only: tuple[str, ...], launcher: str, force: bool) -> None:
    """Run the notebooks with a profile's parameters and render them."""
    from labkit.book import make

    make.reproduce(profile, only=only, launcher=launcher, force=force, echo=click.echo)
