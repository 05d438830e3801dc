"""``labkit predict``: what more machines would bring."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from labkit.cli.bandwidth import Bandwidth
from labkit.cli.formats import format_option, of_rows
from labkit.cli.lists import ListCommand
from labkit.cli.main import main
from labkit.cli.nodes import node_option
from labkit.cli.terminal import echo
from labkit.errors import LabkitError

if TYPE_CHECKING:
    import pandas as pd
    from click.shell_completion import CompletionItem

    from labkit.cli.completion import Complete
    from labkit.prediction import Prediction
    from labkit.runs.whatif import WhatIf

COLUMNS = ("workers", "throughput", "low", "high", "limit")

MOST = 64
"""Workers up to which is predicted from one, if not told otherwise."""

SYSTEM = ("strategy", "servers", "slowdown", "slowdown_spread", "cpu", "bandwidth", "cores")
"""Options that say what is simulated, as arguments of `Measured.system`."""


def _values(field: str) -> Complete:
    """Return what offers the values of a trial's field, looked for when Tab is pressed."""

    def complete(
        context: click.Context, option: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from labkit.cli.completion import values_of_field

        return values_of_field(field)(context, option, incomplete)

    return complete


@main.command(
    cls=ListCommand,
    epilog="""\b
examples:
  labkit predict mine.csv                  up to four times the most measured
  labkit predict mine.csv --until 64 --format csv
  labkit predict mine.csv --workers 10 25 --efficiency 0.7
  labkit predict --framework mxnet --model lenet5 --batch-size 128 --until 128
  labkit predict --framework mxnet --model lenet5 --batch-size 128 \\
      --reference --servers 2 --bandwidth 1Gbit --slowdown 10 --price 0.05
  labkit predict --framework mxnet --model lenet5 --batch-size 128 \\
      --reference --strategy sync-ps --slowdown 20 --slowdown-spread 2
  labkit predict --framework tensorflow --model lenet5 --batch-size 128 \\
      --reference --node thesis --cpu 0.4""",
)
@click.argument("points", metavar="[MINE.CSV]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--until", type=int,
    help=f"The largest number of workers.  [default: 4 times the most measured; without "
    f"MINE.CSV {MOST}]",
)  # fmt: skip
@click.option(
    "--workers", type=int, multiple=True, metavar="NUMBER...",
    help="Only these numbers of workers.",
)  # fmt: skip
@click.option(
    "--level", default=0.9, show_default=True,
    help="How often an interval holds the truth.",
)  # fmt: skip
@click.option(
    "--efficiency", type=float, metavar="SHARE",
    help="Say how many workers there may be until the speedup is less than this share of their "
    "number.",
)  # fmt: skip
@format_option
@click.option(
    "--framework", shell_complete=_values("framework"),
    help="Without MINE.CSV: simulate from one-worker runs of this framework,",
)  # fmt: skip
@click.option("--model", shell_complete=_values("model"), help="of this model,")
@click.option("--batch-size", type=int, help="this batch size")
@click.option(
    "--optimizer", default="sgd", show_default=True, shell_complete=_values("optimizer"),
    help="and this optimizer.",
)  # fmt: skip
@click.option("--reference", is_flag=True, help="Use the published run instead of this machine's.")
@click.option(
    "--launcher", show_default="local; with --reference all", metavar="local|kubernetes",
    shell_complete=_values("launcher"), help="Where the trials were run.",
)  # fmt: skip
@click.option("--strategy", metavar="async-ps|sync-ps", help="What if updates were synchronous?")
@click.option("--servers", type=int, help="What if there were this many servers?")
@node_option("What if nodes were like these?")
@click.option("--slowdown", type=float, help="What if computing took this many times as long?")
@click.option(
    "--slowdown-spread", type=float,
    help="What if the last worker were this many times as slow as the first?",
)  # fmt: skip
@click.option(
    "--cpu", type=float, metavar="FRACTION",
    help="What if each node had this fraction of a core for all but computing gradients, its "
    "server included?",
)  # fmt: skip
@click.option(
    "--bandwidth", type=Bandwidth(), metavar="1Gbit",
    help="What if each node's network had this bandwidth?",
)  # fmt: skip
@click.option("--cores", type=int, help="What if all shared this many cores?")
@click.option(
    "--price", type=float, metavar="PER_HOUR",
    help="Price of a node: say what an epoch costs.",
)  # fmt: skip
def predict(
    points: Path | None, until: int | None, workers: tuple[int, ...], level: float,
    efficiency: float | None, file_format: str, **options: Any,
) -> None:  # fmt: skip
    """Predict the throughput of more workers from a few.

    MINE.CSV has the columns workers and throughput, with one line per number of workers, or one
    per repeat. Two numbers of workers are enough; three say much more. Throughput may be in any
    unit. Intervals grow fast beyond what was measured: where the points show no bend, they say
    how far that can be trusted.

    Without MINE.CSV the trial is simulated from what its runs recorded: the CPU time that a step
    costs a worker, from runs with one, and the servers, from all of them. That also answers what
    other servers, another network or slower nodes would change. The limit is the busiest station,
    such as a server, a link or the cores, if one is busy half the time; from points, what the
    shape of their curve speaks for.
    """
    price = options["price"]
    if efficiency is not None:
        from labkit.prediction.forecast import check_efficiency

        check_efficiency(efficiency)
    if points:
        _refuse_runs(options)
        found = _from_points(points, until, workers, level)
    else:
        found = _simulated(until, workers, level, options)
    rows = [
        {name: _short(getattr(forecast, name)) for name in COLUMNS} for forecast in found.forecasts
    ]
    if price is not None:
        rows = [row | {"cost": _short(found.cost(row["workers"], price))} for row in rows]
    if file_format != "table":
        click.echo(of_rows(rows, file_format), nl=False)
    else:
        _print(rows, [forecast.speedup for forecast in found.forecasts])
        echo(found.note)
    if efficiency is not None:
        most = found.worth(efficiency)
        enough = f"up to {_workers(most)}" if most else "with none of these numbers of workers"
        if most == rows[-1]["workers"]:
            enough += ", the most asked for"
        echo(f"speedup at least {efficiency:g} per worker: {enough}", err=True)
    if price is not None:
        best = min(rows, key=lambda row: row["cost"])
        echo(
            f"of these, a pass over the training set costs least with "
            f"{_workers(best['workers'])}, {best['cost']:g}", err=True,
        )  # fmt: skip


def _refuse_runs(options: dict[str, Any]) -> None:
    """Refuse options that say which runs are meant: beside MINE.CSV there are none."""
    source = click.get_current_context().get_parameter_source
    given = [name for name in options if source(name) == ParameterSource.COMMANDLINE]
    if given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"{names}: only without MINE.CSV")


def _from_points(
    points: Path | pd.DataFrame, until: int | None, workers: tuple[int, ...], level: float
) -> Prediction:
    """Return forecasts from somebody's points, or from a table of trials that was saved."""
    from labkit.prediction import predict
    from labkit.prediction.points import is_of_trials

    if is_of_trials(points):
        from labkit.runs.comparing import points_of

        points = points_of(points)
    found = predict(points, until, workers=workers or None, level=level)
    for note in found.notes:
        echo(note, err=True)
    return found


def _simulated(
    until: int | None, workers: tuple[int, ...], level: float, options: dict[str, Any]
) -> WhatIf:
    """Return forecasts from the runs that were asked for."""
    from labkit.campaign import check_launcher
    from labkit.cli.results import Source
    from labkit.runs.basis import NotMeasured
    from labkit.runs.demands import measured
    from labkit.runs.whatif import what_if

    missing = [name for name in ("framework", "model", "batch_size") if options[name] is None]
    if missing:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in missing)
        raise click.UsageError(f"give MINE.CSV, or {names} of runs with one worker")
    if workers and until is not None:
        raise LabkitError("until and workers: give one of them")
    price = options["price"]
    if price is not None and not price > 0:
        raise LabkitError(f"price: {price!r}; allowed: more than 0")
    if price is not None and options["cores"] is not None:
        raise LabkitError("price: of nodes, but with cores all share one machine; leave one out")
    most = MOST if until is None else until
    if most < 1:
        raise LabkitError(f"until: {most!r}; allowed: 1 or more workers")
    doubled = [2**k for k in range(most.bit_length())]
    launcher = options["launcher"] and check_launcher(options["launcher"])
    table = Source(options["reference"], launcher).trials
    said = {name: options[name] for name in SYSTEM if options[name] is not None}
    asked = options["node"] | said
    alike = ("strategy", "slowdown", "cpu", "bandwidth")
    same = {name: asked[name] for name in alike if name in asked}
    same |= {"optimizer": options["optimizer"], "known": math.inf}
    framework, model = options["framework"], options["model"]
    try:
        found = measured(table, framework, model, options["batch_size"], **same)
    except NotMeasured as error:
        if options["reference"]:
            raise LabkitError(
                _published(table, framework, Path(model).name, options["optimizer"])
            ) from None
        where = "" if launcher in (None, "local") else f" --launcher {launcher}"
        raise LabkitError(f"{error}{where}") from None
    return what_if(found, workers or [*doubled, most], level, **asked)


def _published(table: pd.DataFrame, framework: str, model: str, optimizer: str) -> str:
    """Say of which batch sizes there are published runs with one worker."""
    ones = table[(table["workers"] == 1) & (table["strategy"] != "single")]
    ones = ones[ones["batches_per_second"].notna() & ones["batch_size"].notna()]
    ones = ones[(ones["optimizer"] == optimizer) & ~ones["oversubscribed"].astype(bool)]
    there = {
        names: ", ".join(str(int(size)) for size in sorted(set(rows["batch_size"])))
        for names, rows in ones.groupby(["framework", "model"])
    }
    if sizes := there.get((framework, model)):
        return (
            f"no such run is published of {framework} {model} with {optimizer}; batch sizes "
            f"there: {sizes}"
        )
    every = "; ".join(f"{' '.join(names)}: {sizes}" for names, sizes in there.items())
    return (
        f"no run with one worker is published of {framework} {model} with {optimizer}; "
        f"batch sizes: {every or 'none'}"
    )


def _print(rows: list[dict[str, Any]], speedups: list[float]) -> None:
    """Print a table to look at."""
    costs = "cost" in rows[0]
    line = ("{:>7}  {:>10}  {:>9}  {:>9}  {:>7}  " + "{:>10}  " * costs + "{}").format
    cells = ("workers", "throughput", "low", "high")
    click.echo(line(*cells, "speedup", *["cost"] * costs, "limit"))
    for row, speedup in zip(rows, speedups, strict=True):
        more = [row["cost"]] if costs else []
        click.echo(line(*(row[cell] for cell in cells), f"{speedup:.4g}", *more, row["limit"]))


def _workers(number: int) -> str:
    return f"{number} workers" if number > 1 else "1 worker"


def _short(value: float | str) -> float | str:
    """Return a number with the digits that a prediction has."""
    return float(f"{value:.5g}") if isinstance(value, float) else value
