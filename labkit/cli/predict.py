"""``labkit predict``: what more machines would bring."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import click

from labkit.cli.lists import ListCommand
from labkit.cli.main import main

COLUMNS = ("workers", "throughput", "low", "high", "limit")


@main.command(
    cls=ListCommand,
    epilog="""\b
examples:
  labkit predict mine.csv                          up to four times the most measured
  labkit predict mine.csv --until 64 --format csv
  labkit predict mine.csv --workers 10 25 --efficiency 0.7""",
)
@click.argument("points", metavar="MINE.CSV", type=click.Path(path_type=Path))
@click.option("--until", type=int, help="Up to how many.  [default: 4 times the most measured]")
@click.option("--workers", type=int, multiple=True, metavar="NUMBER...", help="For these only.")
@click.option("--level", default=0.9, show_default=True, help="How often an interval is right.")
@click.option(
    "--efficiency", type=float, metavar="SHARE",
    help="Say up to how many workers the speedup is at least this share of their number.",
)  # fmt: skip
@click.option(
    "--format", "file_format", type=click.Choice(["table", "csv", "json"]), default="table",
    show_default=True,
)  # fmt: skip
def predict(
    points: Path, until: int | None, workers: tuple[int, ...], level: float,
    efficiency: float | None, file_format: str,
) -> None:  # fmt: skip
    """Predict the throughput of more workers from a few.

    MINE.CSV has the columns workers and throughput, and a line for each number of workers that
    was measured; two are enough, three say much more. The unit of the throughput is yours. The
    intervals grow fast beyond what was measured: where the points show no bend, they say how far
    that can be trusted.
    """
    from labkit.prediction import predict

    found = predict(points, until, workers=workers or None, level=level)
    rows = [
        {name: _short(getattr(forecast, name)) for name in COLUMNS} for forecast in found.forecasts
    ]
    if file_format == "csv":
        writer = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    elif file_format == "json":
        click.echo(json.dumps(rows, indent=1))
    else:
        line = "{:>7}  {:>10}  {:>10}  {:>10}  {:>7}  {}".format
        click.echo(line("workers", "throughput", "low", "high", "speedup", "limit"))
        for row, forecast in zip(rows, found.forecasts, strict=True):
            *numbers, limit = row.values()
            click.echo(line(*numbers, f"{forecast.speedup:.4g}", limit))
        click.echo(found.note)
    if efficiency is not None:
        most = found.worth(efficiency)
        click.echo(f"speedup at least {efficiency:g} per worker: up to {most} workers", err=True)


def _short(value: float | str) -> float | str:
    """Return a number with the digits that a prediction has."""
    return float(f"{value:.5g}") if isinstance(value, float) else value
