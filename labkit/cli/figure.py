"""``labkit figure``."""

from __future__ import annotations

import inspect
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labkit.cli.completion import offered, profiles
from labkit.cli.lists import ListCommand, expanded
from labkit.cli.main import main
from labkit.cli.options import EITHER, launcher_option, reference_option, title_option
from labkit.cli.results import Source
from labkit.cli.selection import selected, selection_options
from labkit.cli.table import short
from labkit.cli.terminal import echo, terminal_width
from labkit.errors import LabkitError, nearest

if TYPE_CHECKING:

    from labkit.figures import Tables

KINDS = ("throughput", "speedup", "epoch-time", "breakdown", "learning-curve", "slowdown")
"""The general figures, for anybody's trials."""

OF_TABLES = ("throughput", "speedup")
"""Those that need no more than numbers of workers and throughputs."""


@offered
def _numbers(context: click.Context) -> list[str]:
    """Offer the numbers of the thesis's figures, and the general ones."""
    from labkit.thesis.figures import FIGURES

    return [*FIGURES, *KINDS]


@main.command(
    cls=ListCommand,
    epilog="""\b
examples:
  labkit figure 6.3                    of the thesis, from all runs kept here
  labkit figure 6.1b --profile laptop  from those that its page shows
  labkit figure 6.1b-initializer --reference   from the published ones
  labkit figure 6.3 --reference --profile fifty-nodes
  labkit figure 6.3 --batch-size 64    as in the thesis but for its batch size
  labkit figure throughput --model lenet5 --batch-size 128 256 \\
      --panels batch_size
  labkit figure learning-curve --framework mxnet --x t --output curve.svg
  labkit figure slowdown --model lenet5 --batch-size 128 --reference
  labkit figure slowdown --model lenet5 --batch-size 128 \\
      --workers 5 10                   lines for 5 and 10
  labkit figure speedup --from mine.csv   your own table: workers,throughput"""
)
@click.argument("which", metavar=f"NUMBER|{'|'.join(KINDS)}", shell_complete=_numbers)
@click.option(
    "--profile", help="Only the trials that this profile's notebook shows.",
    shell_complete=profiles,
)  # fmt: skip
@reference_option
@launcher_option("Where the trials were run.", f"the profile's, or {EITHER}")
@click.option(
    "--from", "own", metavar="MINE.CSV", type=click.Path(path_type=Path),
    help="A table of your own instead, with the columns workers and throughput.",
)  # fmt: skip
@click.option("--x", help="The field along the horizontal axis, if not the usual one.")
@click.option(
    "--lines", metavar="FIELD,...",
    help="Fields that tell lines apart; default: those that vary.",
)  # fmt: skip
@click.option("--panels", metavar="FIELD,...", help="Fields that tell panels apart.")
@title_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path(),
    help="A directory for an SVG and a PNG, or a file: NAME.svg or NAME.png.",
)  # fmt: skip
@selection_options
def figure(
    which: str,
    profile: str | None,
    reference: bool,
    launcher: str | None,
    own: Path | None,
    output: Path,
    **options: Any,
) -> None:
    """Draw one of the thesis's figures, or a general one."""
    style = {name: options.pop(name) for name in ("x", "lines", "panels", "title")}
    style = {name: value for name, value in style.items() if value is not None}
    for name in ("lines", "panels"):
        if name in style:
            style[name] = style[name].replace("-", "_").split(",")

    from labkit import figures
    from labkit.analysis import MetricError
    from labkit.runs.selection import in_word
    from labkit.thesis.figures import draw

    general = which in KINDS
    if which == "slowdown" and options["workers"]:
        style["workers"] = _counts(options.pop("workers"))
    if general:
        _check_options(which, getattr(figures, which.replace("-", "_")), style)
    if own:
        _check_own(which, profile, reference, launcher)
    elif not general:
        _check(which, style)
    if general and profile:
        raise LabkitError(f"--profile: only for figures of the thesis, and {which} is none")
    chosen = (
        _own(own, which, options)
        if own
        else _trials(which, profile, reference, launcher, options)
    )
    try:
        if general:
            drawn = getattr(figures, which.replace("-", "_"))(chosen, **style)
        else:
            drawn = draw(which, chosen)
    except figures.AmbiguousFigure as error:
        option = f"--{error.column.replace('_', '-')}"
        ways = [f"{option} {shlex.quote(in_word(value))}" for value in error.values]
        ways += [f"--lines {error.column} (a line for each)"] * general
        raise LabkitError(f"{error.found}; choose: {', or '.join(ways)}") from None
    except MetricError as error:
        fewest = in_word(chosen.table["servers"].min())
        raise LabkitError(f"{error} (--servers {fewest})") from None
    if drawn.empty:
        raise LabkitError(
            f"{which}: there is nothing to draw, as {drawn.empty}; measured so far:\n"
            f"{short(chosen.table, width=terminal_width(sys.stderr) or 80)}"
        )
    formats = ["svg", "png"]
    if output.suffix in (".svg", ".png"):
        output, formats = output.with_suffix(""), [output.suffix[1:]]
    else:
        output = output / f"figure-{which}"
    for path in figures.save(drawn, output, formats):
        click.echo(path)


def _trials(
    which: str,
    profile: str | None,
    reference: bool,
    launcher: str | None,
    options: dict[str, tuple[str, ...]],
) -> Tables:
    """Return the trials that a figure is to show, of those that were kept or published."""
    from labkit.book.edition import USUAL, published_in
    from labkit.book.plan import home, launcher_of
    from labkit.figures import Tables
    from labkit.runs.selection import in_words, there
    from labkit.thesis.figures import as_in_the_thesis

    own = launcher_of(profile) if profile else None
    source = Source(reference, launcher or (None if reference else own))
    table = source.table
    if which not in KINDS and (profile or reference):
        shown = published_in(profile or USUAL) if reference else home(profile, launcher)
        table = table[table["trial"].isin(_shown_in(shown, which, profile, reference))]
    table = selected(table, options)
    if not (which in KINDS or profile or reference):
        but = [name for name, values in options.items() if values]
        kept = as_in_the_thesis(which, table, [*but, "eval_samples"])
        table = as_in_the_thesis(which, table, but)
        if len(table) < len(kept):
            others = kept.loc[~kept["trial"].isin(table["trial"]), "eval_samples"]
            echo(
                f"labkit: {which} shows the {len(table)} trials with --eval-samples 0, as its "
                f"notebook does; {len(others)} more have {in_words(there(others))}",
                err=True,
            )
    return Tables(table.reset_index(drop=True), source)


def _check_own(
    which: str, profile: str | None, reference: bool, launcher: str | None
) -> None:
    """Refuse figures that a table of one's own cannot have, and options that it has no use for."""
    problems = []
    if which not in OF_TABLES:
        problems.append(
            f"figure {which!r}: a table of one's own has no more than workers and throughput; it "
            f"gives {' and '.join(OF_TABLES)}{nearest(which, OF_TABLES)}"
        )
    given = {"profile": profile, "reference": reference, "launcher": launcher}
    problems += [f"--{name}: not with --from" for name, value in given.items() if value]
    if problems:
        raise LabkitError("; ".join(problems))


def _own(path: Path, which: str, options: dict[str, tuple[str, ...]]) -> Tables:
    """Return a table of one's own, or the rows of it that were asked for."""
    from labkit.figures import Tables
    from labkit.rates import read

    found = read(path)
    table = selected(found.table, options)
    if which == "speedup" and not (table["workers"] == 1).any():
        raise LabkitError(
            f"{path}: no row with 1 worker, of whose throughput the speedup is a multiple; "
            f"`labkit figure throughput --from {path}` needs none"
        )
    for note in found.notes:
        echo(f"labkit: {note}", err=True)
    return Tables(table.reset_index(drop=True), found, found.notes)


def _check(number: str, style: dict[str, Any]) -> None:
    """Refuse a figure that is none, and options that a figure of the thesis does not have."""
    from labkit.thesis.figures import FIGURES

    if number not in FIGURES:
        known = [*FIGURES, *KINDS]
        raise LabkitError(
            f"figure {number!r}: no such figure{nearest(number, known)} "
            f"(known: {', '.join(known)})"
        )
    if style:
        raise LabkitError(
            f"--{next(iter(style))}: figure {number} of the thesis is drawn as its notebook draws "
            f"it; only general figures have this option: {', '.join(KINDS)}"
        )


def _check_options(kind: str, draw: Any, style: dict[str, Any]) -> None:
    """Refuse options that a general figure does not have."""
    has = inspect.signature(draw).parameters
    if wrong := [f"--{name}" for name in style if name not in has]:
        able = [f"--{name}" for name in ("x", "lines", "panels", "title") if name in has]
        raise LabkitError(
            f"{', '.join(wrong)}: figure {kind} has no such option; allowed: {', '.join(able)}"
        )


def _counts(texts: tuple[str, ...]) -> list[int]:
    """Return the numbers of workers of which there is to be a line."""
    try:
        return [int(text) for text in expanded(texts)]
    except ValueError:
        raise LabkitError(f"--workers: {', '.join(texts)}; allowed: numbers") from None


def _shown_in(directory: Path, number: str, profile: str | None, reference: bool) -> list[str]:
    """Return the names of the trials that a rendered notebook's figure shows."""
    from labkit.book.edition import published_in, shown_in
    from labkit.book.plan import profiles as all_profiles

    def table(directory: Path) -> Path:
        return directory / "figures" / f"{number}.csv"

    try:
        return shown_in(table(directory))
    except FileNotFoundError:
        made = f"; `labkit reproduce --profile {profile}` makes it" if profile else ""
        if reference:
            having = [name for name in all_profiles() if table(published_in(name)).exists()]
            made = f"; published with: --profile {', or '.join(having)}" if having else ""
        raise LabkitError(f"{directory} has no figure {number}{made}") from None
