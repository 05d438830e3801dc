"""The ``labkit`` command."""

from __future__ import annotations

from typing import Any

import click

from labkit import __version__
from labkit.errors import LabkitError
from labkit.settings import data_directory


class Group(click.Group):
    """Prints labkit's own errors as a message, and ends well after a Ctrl-C."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn what users can act on into an exit code and a message."""
        try:
            return super().invoke(ctx)
        except LabkitError as error:
            click.echo(f"labkit: {error}", err=True)
            ctx.exit(1)
        except KeyboardInterrupt:
            click.echo(
                "\nlabkit: interrupted; everything started has been ended, what had finished is "
                "kept, and the same command goes on from there.",
                err=True,
            )
            ctx.exit(130)


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 99},
    epilog="""\b
examples:
  labkit doctor                       what this machine can do, and what is missing
  labkit reproduce --profile smoke    the thesis's chapter 6, small, in about three minutes
  labkit run --framework mxnet --model lenet5 --workers 2 --batch-size 128 \\
      --learning-rate 0.025 --steps 200
  labkit results --format csv""",
)
@click.version_option(__version__)
def main() -> None:
    """Measure what happens to a deep-learning training job when it runs on more machines."""


@main.command()
def doctor() -> None:
    """Say what this machine can do, what is missing, and how to get it."""
    from labkit import doctor

    checks = doctor.examine()
    click.echo(doctor.render(checks))
    if any(check.ok is False for check in checks):
        raise click.exceptions.Exit(1)


@main.command(
    epilog="""\b
examples:
  labkit data                 all three data sets
  labkit data ptb             one of them
  labkit data --verify        only check what is there"""
)
@click.argument("names", nargs=-1, metavar="[fashion-mnist|mnist|ptb]...")
@click.option("--verify", is_flag=True, help="Only check the files that are there.")
def data(names: tuple[str, ...], verify: bool) -> None:
    """Fetch data sets and check them, byte for byte."""
    from tqdm import tqdm

    from labkit import datasets

    for name in names or datasets.DATASETS:
        if verify:
            datasets.verify(name)
        else:
            with tqdm(unit="B", unit_scale=True, leave=False, disable=None) as bar:

                def show(what: str, done: int, total: int | None, bar: Any = bar) -> None:
                    bar.set_description_str(what, refresh=False)
                    bar.total, bar.n = total, done
                    bar.refresh()

                datasets.fetch(name, progress=show)
        click.echo(f"{name}: verified, in {data_directory() / name}")
