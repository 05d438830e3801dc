"""``labkit compare``: is one set of measurements faster than another?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from labkit.cli.formats import as_csv, as_json, format_option
from labkit.cli.lists import ListCommand
from labkit.cli.main import main
from labkit.cli.options import launcher_option
from labkit.cli.selection import selected, selection_options, values_of
from labkit.cli.table import MARKS, is_said, wrapped
from labkit.cli.terminal import echo, terminal_width
from labkit.errors import LabkitError

if TYPE_CHECKING:
    from labkit.analysis.comparison import Compared, Comparison
    from labkit.rates import Rates

SLOWER_STATUS = 3
"""The command's exit status where --fail-if-slower is met."""

ONLY = "only in "
"""What the reason of a setting begins with that one set lacks."""


def _share(context: click.Context, option: click.Parameter, text: str | None) -> float | None:
    """Return the share that a percentage is."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text.strip())
    if not found or not float(found[1]) < 100:
        raise LabkitError(f"--fail-if-slower: {text!r}; allowed: 0% to less than 100%, such as 5%")
    return float(found[1]) / 100


@main.command(
    cls=ListCommand,
    epilog="""\b
examples:
  labkit compare before.csv after.csv         columns workers and throughput
  labkit compare before.csv after.csv --fail-if-slower 5%   e.g. in CI
  labkit compare reference outputs --framework mxnet   published, and ours
  labkit compare reference --by framework --batch-size 512
  labkit compare --by versions --format json  of the runs that are kept here""",
)
@click.argument("before", metavar="[BEFORE]", required=False)
@click.argument("after", metavar="[AFTER]", required=False)
@click.option("--by", metavar="FIELD", help="Compare the two values of a field in one set.")
@click.option(
    "--fail-if-slower", "limit", metavar="PERCENT", callback=_share,
    help=f"Exit with {SLOWER_STATUS} if AFTER is slower by this much or more, and with 1 if that "
    "is not comparable, or a setting that BEFORE has is not.",
)  # fmt: skip
@click.option(
    "--level", default=0.99, show_default=True,
    help="How often an interval holds the truth.",
)  # fmt: skip
@launcher_option("Where the trials were run, in a folder of outputs.")
@format_option
@selection_options
def compare(
    before: str | None,
    after: str | None,
    by: str | None,
    limit: float | None,
    level: float,
    launcher: str,
    file_format: str,
    **options: tuple[str, ...],
) -> None:
    """Compare the throughputs of two sets of measurements.

    BEFORE and AFTER are each a csv file with the columns workers and throughput, a folder of
    outputs (of another machine or version, say), a table of trials that `labkit results --output`
    has saved as csv, json or parquet, or reference, the published run. With --by, one set is
    enough; without any it is what is kept here.

    Compared is setting by setting what both have measured, and all of it together: faster, slower,
    no difference seen, or not comparable. That takes two repeats or more on either side.
    """
    from labkit.runs.comparing import compare_sets, read

    if by is None and not (before and after):
        raise click.UsageError("give two sets, BEFORE and AFTER, or one and --by FIELD")
    if by is not None and after:
        raise click.UsageError("--by: of one set, so give one")
    by = by and by.replace("-", "_")
    if by:
        found = _by(_some(read(before, launcher, by), by, options), by, options.get(by, ()), level)
    else:
        found = compare_sets(
            *(_some(read(each, launcher), by, options) for each in (before, after)), level
        )
    for note in found.notes:
        echo(f"labkit: {note}", err=True)
    if file_format == "csv":
        click.echo(as_csv(found.table.to_dict("records")), nl=False)
    elif file_format == "json":
        click.echo(as_json(asdict(found)), nl=False)
    else:
        echo("\n".join(_lines(found, terminal_width())))
    if limit is not None:
        _judge(found, limit)


def _some(found: Rates, by: str | None, options: dict[str, tuple[str, ...]]) -> Rates:
    """Return the rows of a set that were asked for."""
    from labkit.runs.comparing import with_throughput

    try:
        return with_throughput(replace(found, table=selected(found.table, options)), by)
    except LabkitError as error:
        raise LabkitError(f"{found.name}: {error}") from None


def _by(found: Rates, by: str, texts: tuple[str, ...], level: float) -> Comparison:
    """Compare by a field: its two values in the order in which they were given, if they were."""
    from labkit.runs.comparing import compare_values

    values = tuple(values_of(found.table[by], texts)) if texts else ()
    return compare_values(found, by, values, level)


def _lines(found: Comparison, width: int | None) -> Iterator[str]:
    """Yield a comparison to look at: settings that both have, how many only one has, the whole."""
    import pandas as pd

    from labkit.runs.selection import in_word

    yield f"{found.before} -> {found.after}"
    both = [row for row in found.settings if not row.reason.startswith(ONLY)]
    if both:
        same = {}
        for name, value in both[0].setting.items() if len(both) > 1 else ():
            if {in_word(row.setting.get(name)) for row in both} == {in_word(value)}:
                same[name] = in_word(value)
        said = [f"{name} {word}" for name, word in same.items() if is_said(name, word)]
        if said:
            yield f"In all settings: {', '.join(said)}"
        yield ""
        yield from wrapped(pd.DataFrame([_row(row, same) for row in both]), width)
    if any(row.oversubscribed for row in both):
        yield f"* {MARKS['*']}"
    for name in (found.before, found.after):
        count = sum(row.reason == ONLY + name for row in found.settings)
        if count:
            yield f"{count} setting{'s' * (count != 1)} only in {name}"
    if found.differences:
        yield ""
        for name, (before, after) in found.differences.items():
            yield f"{name}: {before} -> {after}"
    yield ""
    yield found.note


def _row(row: Compared, same: Mapping[str, Any]) -> dict[str, str]:
    """Return a line of the table, of a setting without the values that all have in common."""
    ratio = "-" if row.reason else f"{row.ratio:.3f}"
    own = {name: value for name, value in row.setting.items() if name not in same}
    return {
        "setting": f"{replace(row, setting=own)}{'*' * row.oversubscribed}",
        "repeats": "{} -> {}".format(*row.repeats),
        "ratio": ratio,
        "interval": "-" if row.reason else f"{row.low:.3f} to {row.high:.3f}",
        "verdict": row.verdict + (f": {row.reason}" if row.reason else ""),
    }


def _judge(found: Comparison, limit: float) -> None:
    """End with the status that the comparison has, for whoever runs the command in a script."""
    from labkit.analysis.comparison import NOT_COMPARABLE, SLOWER

    if found.overall.verdict == NOT_COMPARABLE:
        raise LabkitError(f"--fail-if-slower: cannot be said, as {found.note}")
    if found.overall.verdict == SLOWER and found.overall.ratio <= 1 - limit:
        raise click.exceptions.Exit(SLOWER_STATUS)
    lost = [
        f"{row}, {row.reason}"
        for row in found.settings
        if row.repeats[0] and row.verdict == NOT_COMPARABLE
    ]
    if lost:
        raise LabkitError(
            f"--fail-if-slower: cannot be said, as {len(lost)} of the settings of {found.before} "
            f"cannot be compared: {'; '.join(lost)}"
        )
