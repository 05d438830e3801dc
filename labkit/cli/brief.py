"""``labkit brief``: one page to send to a colleague."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from labkit.cli.lists import ListCommand
from labkit.cli.main import main
from labkit.cli.options import EITHER, launcher_option, reference_option, title_option
from labkit.cli.results import Source
from labkit.cli.selection import selected, selection_options
from labkit.errors import LabkitError


@main.command(
    cls=ListCommand,
    epilog="""\b
examples:
  labkit brief --framework mxnet --model lenet5 --batch-size 128 \\
      --eval-samples 0
  labkit brief --model my_mlp.py --price 0.05 --output mlp.html
  labkit brief --reference --framework mxnet --batch-size 128 --slowdown 20""",
)
@reference_option
@launcher_option("Where the trials were run.", EITHER)
@click.option("--price", type=float, help="Price of a machine per hour.")
@title_option
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("brief.html"),
    show_default=True, help="The file to write.",
)  # fmt: skip
@selection_options
def brief(
    reference: bool,
    launcher: str | None,
    price: float | None,
    title: str | None,
    output: Path,
    **options: tuple[str, ...],
) -> None:
    """Write one page that says whether more machines help.

    The table and the figures of some runs, where their time goes, what more workers are expected
    to bring and how far that can be trusted, how it was measured and on what: one file, which
    needs no network. Rows lead to the runs behind them.
    """
    from labkit import figures
    from labkit.book.brief import brief
    from labkit.runs.selection import in_word

    table = selected(Source(reference, launcher).table, options).reset_index(drop=True)
    try:
        page = brief(table, price=price, title=title)
    except figures.AmbiguousFigure as error:
        option = f"--{error.column.replace('_', '-')}"
        ways = [f"{option} {shlex.quote(in_word(value))}" for value in error.values]
        raise LabkitError(f"{error.found}; choose: {', or '.join(ways)}") from None
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page)
    click.echo(output)
