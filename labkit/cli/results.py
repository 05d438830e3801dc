"""``labkit results`` and ``tensorboard``: what has been measured."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from labkit.cli.main import main
from labkit.errors import LabkitError
from labkit.settings import REFERENCE

TABLES = ("trials", "steps", "evals")


@main.command(
    epilog="""\b
examples:
  labkit results                                   what has been measured here
  labkit results --reference                       what is published with labkit
  labkit results --table steps --format parquet --output steps.parquet"""
)
@click.option("--reference", is_flag=True, help="The published run instead of this machine's.")
@click.option("--launcher", default="local", show_default=True, help="Where it was run.")
@click.option("--table", type=click.Choice(TABLES), default="trials", show_default=True)
@click.option(
    "--format", "form", type=click.Choice(["table", "csv", "parquet"]), default="table",
    show_default=True, help="A short table to look at, or all columns.",
)  # fmt: skip
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="A file.")
def results(reference: bool, launcher: str, table: str, form: str, output: Path | None) -> None:
    """Print or save the tables of all runs."""
    if form == "parquet" and output is None:
        raise click.UsageError("--format parquet needs --output FILE")
    frame = read_table(table, reference, launcher)
    if form == "table":
        columns = {
            "trials": ["framework", "model", "workers", "batch_size", "learning_rate", "seed",
                       "initializer", "status", "batches_per_second", "oversubscribed",
                       "overloaded", "accuracy", "perplexity"],
            "steps": ["trial", "worker", "t", "steps", "updates", "loss", "accuracy"],
            "evals": ["trial", "t", "metric", "value", "samples", "seconds"],
        }[table]  # fmt: skip
        text = frame[columns].to_string(index=False, na_rep="-", float_format="{:.4g}".format)
        written = text.encode() + b"\n"
    elif form == "csv":
        written = frame.to_csv(index=False).encode()
    else:
        written = frame.to_parquet(index=False)
    if output:
        output.write_bytes(written)
    else:
        sys.stdout.buffer.write(written)


def read_table(name: str, reference: bool, launcher: str = "local") -> Any:
    """Return one of `TABLES` as a DataFrame: of the runs on a launcher, or of the published."""
    import pandas as pd

    from labkit.runs import Store
    from labkit.settings import outputs

    if reference:
        return pd.read_parquet(REFERENCE / f"{name}.parquet")
    store = Store(launcher=launcher)
    results = store.results()
    frame = {"trials": results.table, "steps": results.steps, "evals": results.evals}[name]
    if frame.empty:
        raise LabkitError(
            f"nothing has been measured in {outputs()} yet ({launcher}). `labkit reproduce --profile "
            "smoke` does, or `labkit results --reference` shows what is published."
        )
    return frame


@main.command()
@click.option("--port", default=6006, show_default=True)
def tensorboard(port: int) -> None:
    """Show the curves of all runs in TensorBoard, until Ctrl-C."""
    from labkit.runs import Store
    from labkit.runs.tensorboard import export
    from labkit.settings import outputs

    runs = [*Store().runs(), *Store(launcher="kubernetes").runs()]
    if not runs:
        raise LabkitError(f"no runs in {Store().root} yet")
    directory = outputs() / "tensorboard"
    export(runs, directory)
    # It says itself at which address it listens.
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(directory)]
    os.execv(sys.executable, [*command, "--port", str(port)])
