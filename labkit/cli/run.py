"""``labkit run``: one trial."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, get_args

import click

from labkit.cli.main import main
from labkit.trials import Trial, choices


def trial_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each field of a trial; the trial itself judges their values."""
    for name, field in reversed(Trial.model_fields.items()):
        allowed = choices(name)
        kinds = [k for k in (*get_args(field.annotation), field.annotation) if k in (int, float)]
        text = field.description[0].upper() + field.description[1:]
        if not (field.is_required() or field.default is None):
            text += f"  [default: {field.default}]"
        command = click.option(
            f"--{name.replace('_', '-')}",
            type=kinds[0] if kinds else str,
            metavar="|".join(allowed) or None,
            help=text,
        )(command)
    return command


@main.command(
    epilog="""\b
examples:
  labkit run --framework mxnet --model lenet5 --workers 2 --batch-size 128 \\
      --learning-rate 0.025 --steps 200
  labkit run --framework tensorflow --model lstm --batch-size 20 --learning-rate 0.05 \\
      --epochs 1 --loss-over-time sum --clip-norm 5
  labkit run --framework mxnet --model lenet5 --workers 10 --batch-size 512 \\
      --learning-rate 0.1 --epochs 1 --launcher kubernetes"""
)
@trial_options
@click.option(
    "--launcher", default="local", show_default=True, help="Where to run it: local or kubernetes."
)
@click.option("--deadline", type=float, default=3600, show_default=True, help="Seconds.")
@click.option("--force", is_flag=True, help="Run it even if it has been run before.")
def run(launcher: str, deadline: float, force: bool, **values: Any) -> None:
    """Run one trial and say how it went."""
    trial = Trial(**{name: value for name, value in values.items() if value is not None})
    from labkit.campaign import measure
    from labkit.runs import Store

    store = Store(launcher=launcher)
    known = not force and store.find(trial) is not None
    results = measure([trial], launcher, force=force, deadline=deadline)
    if known:
        click.echo("This trial has been run before; --force runs it once more.")
    click.echo(summary(results.table.iloc[0], results.evals))
    click.echo(f"kept in    {os.path.relpath(store.find(trial).directory)}")


def summary(row: Any, evals: Any) -> str:
    """Return what there is to say of one trial: a table's row, in lines."""
    if row.status != "finished":
        return f"{row.trial}\n{row.status}: {row.error}"
    shared = "   (oversubscribed: more workers than cores)" if row.oversubscribed else ""
    if row.overloaded:
        rate = f"not measured: other programs used {row.other_cpu:.1f} cores meanwhile"
    else:
        rate = (
            f"{row.batches_per_second:.2f} batches/s, {row.samples_per_second:.0f} samples/s, "
            f"over {row.window_s:.1f} s in which all workers trained{shared}"
        )
    lines = [row.trial, f"throughput {rate}"]
    if not row.overloaded:
        lines.append(
            f"evenness   workers differ by {row.imbalance:.1%}"
            + f"; the rate varies by {row.variation:.1%} within the run"
            * math.isfinite(row.variation)
        )
    lines += [
        f"per step   {row.cpu_ms_per_step:.1f} ms of CPU in each worker",
        f"start-up   {row.startup_s:.1f} s until all workers were ready",
        f"memory     {row.peak_memory_mb:.0f} MiB in the largest worker",
    ]
    for event in evals.itertuples():
        unit, things = (" %", "images") if event.metric == "accuracy" else ("", "words")
        lines.append(
            f"test       {event.metric} {event.value:.2f}{unit} after {event.steps} steps; "
            f"{event.samples / event.seconds:.0f} {things}/s"
        )
    return "\n".join(lines)
