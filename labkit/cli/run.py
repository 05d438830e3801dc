"""``labkit run``: one trial, or a sweep of them."""

from __future__ import annotations

import math
import os
import shlex
from typing import Any

import click

from labkit.cli.formats import format_option, of_frame
from labkit.cli.lists import ListCommand, next_value
from labkit.cli.main import main
from labkit.cli.nodes import node_option
from labkit.cli.options import (
    deadline_option,
    dry_run_option,
    launcher_option,
    quiet_option,
    sweep_options,
)
from labkit.cli.table import rows_of, short
from labkit.cli.terminal import echo, terminal_width
from labkit.trials import Sweep
from labkit.trials.own_data import is_name

LABEL = 11
"""Columns of what stands before a value in the summary of a trial."""


@main.command(
    cls=ListCommand,
    epilog="""\b
examples:
  labkit run --framework mxnet --model lenet5 --workers 2 --batch-size 128 \\
      --learning-rate 0.025 --steps 200
  labkit run --framework mxnet tensorflow --model lenet5 --workers 1 2 4 \\
      --batch-size 128 --learning-rate 0.025 --steps 200 --repeats 3
  labkit run --framework mxnet --model lenet5 --workers 1-4 --batch-size 128 \\
      --learning-rate 0.025 --steps 200 --repeats 3 --dry-run
  labkit run --framework tensorflow --model lstm --batch-size 20 \\
      --learning-rate 0.05 --epochs 1 --loss-over-time sum --clip-norm 5
  labkit run --framework mxnet --model lenet5 --workers 1 10 20 \\
      --slowdown 20 --batch-size 128 --learning-rate 0.025 --steps 20 \\
      --eval-samples 0
  labkit run --framework mxnet --model lenet5 --workers 10 --batch-size 512 \\
      --learning-rate 0.1 --epochs 1 --launcher kubernetes
  labkit run --framework tensorflow --model lenet5 --workers 1 2 4 \\
      --batch-size 128 --learning-rate 0.025 --steps 200 \\
      --bandwidth 200Mbit --launcher kubernetes
  labkit run --framework mxnet --model lenet5 --workers 1 5 10 --node thesis \\
      --batch-size 512 --learning-rate 0.1 --steps 20 --launcher kubernetes
  labkit run --script train.py --framework mxnet --workers 1 2 -- \\
      --batch-size 128
  labkit run --script train.py --framework tensorflow --workers 2 \\
      --servers 1 -- --ps_hosts={ps_hosts} --worker_hosts={worker_hosts} \\
      --job_name={job_name} --task_index={task_index}
  labkit run --script train.py --framework torch --python /usr/bin/python3 \\
      --workers 2 --pattern 'speed (?P<samples>[0-9.]+)'
  labkit run --script train.py --framework torch --workers 1 2 4 \\
      --duration 60
  labkit run --script train.py --framework torch --workers 1 2 4 \\
      --launcher kubernetes --image registry.example.com/me/torch:1""",
)
@sweep_options
@node_option("What nodes are like.")
@click.option(
    "--script", metavar="FILE", help="A training script of your own, instead of --model."
)
@click.option(
    "--python", metavar="FILE",
    help="The interpreter of --script; in pods, one of their image.",
)  # fmt: skip
@click.option(
    "--image", metavar="IMAGE",
    help="An image of your own for the pods of --script; default: labkit's for the framework.",
)
@click.option(
    "--pattern", metavar="REGEX",
    help="What the rates that --script prints look like, with a group named samples or steps "
    "around the number per second, or samples_so_far or steps_so_far around a count. Common "
    "phrases, such as 123.4 images/sec, are found without one.",
)
@click.option(
    "--rates", metavar="each|first|total",
    help="Whose rates --script prints. each: every worker prints its own (default); first: only "
    "the first worker prints, and the others are as fast; total: only the first worker prints, "
    "for all of them.",
)
@click.option(
    "--duration", type=float, metavar="SECONDS",
    help="How long all workers of --script train before labkit ends it; default: until it ends "
    "by itself.",
)
@click.argument("arguments", nargs=-1, metavar="[-- ARGUMENT...]", shell_complete=next_value)
@click.option(
    "--repeats", default=1, show_default=True,
    help="Runs of each trial, which differ in their seeds.",
)  # fmt: skip
@launcher_option("Where to run.")
@deadline_option
@click.option("--force", is_flag=True, help="Run again what has been run before.")
@dry_run_option
@quiet_option
@format_option
def run(
    launcher: str,
    deadline: float,
    force: bool,
    dry_run: bool,
    quiet: bool,
    file_format: str,
    repeats: int,
    script: str | None,
    python: str | None,
    image: str | None,
    pattern: str | None,
    rates: str | None,
    duration: float | None,
    node: dict[str, float],
    arguments: tuple[str, ...],
    **values: tuple[Any, ...],
) -> None:
    """Run a trial and say how it went, or a sweep of trials.

    An option with several values makes one trial per value; several such options make one per
    combination. Whole numbers may be given as a range, 1-4. With --script, whatever follows --
    is passed on to the script.
    """
    given = node | {name: list(found) for name, found in values.items() if found}
    own = {"python": python, "image": image, "pattern": pattern, "rates": rates}
    own |= {"duration": duration, "arguments": shlex.join(arguments)}
    own = {name: value for name, value in own.items() if value not in (None, "")}
    if script:
        own["script"] = script
    elif own:
        raise click.UsageError(
            f"{', '.join(f'{name} {value}' for name, value in own.items())}: only for a --script, "
            "whose own arguments follow --"
        )
    sweep = Sweep.grid(repeats, **given, **own)
    from labkit.campaign import measure, plan
    from labkit.runs import Store

    if dry_run:
        planned = plan(sweep, launcher, force=force, deadline=deadline)
        if file_format != "table":
            click.echo(of_frame(planned.table, file_format), nl=False)
            return
        rows = rows_of(planned.short, terminal_width())
        echo("\n".join([*rows, "", planned.note, *planned.remarks]))
        return
    store = Store(launcher=launcher)
    known = {} if force else store.look_up(sweep)
    results = measure(sweep, launcher, force=force, deadline=deadline, quiet=quiet)
    if file_format != "table":
        click.echo(of_frame(results.table, file_format), nl=False)
        return
    if len(sweep) > 1:
        click.echo(short(results.table, width=terminal_width()))
        click.echo(f"kept in    {os.path.relpath(store.root)}")
        return
    if any(not run.overloaded for run in known.values()):
        click.echo("This trial has been run before; --force runs it once more.")
    echo(summary(results.table.iloc[0], results.evals), hang=LABEL)
    click.echo(f"kept in    {os.path.relpath(store.find(sweep[0]).directory)}")


def why_overloaded(row: Any) -> str:
    """Return why a trial has no rate."""
    from labkit.runs.slow_nodes import is_held_up, is_saturated

    if not row.slowdown or not row.slowdown > 1:
        return f"other programs used {row.other_cpu:.1f} cores meanwhile"
    if is_saturated(row.late_share, row.idle_share):
        return (
            f"the machine could not keep up with its slow nodes: {row.late_share:.1%} of their "
            f"gradients late, {row.idle_share:.0%} idle. A larger slowdown, fewer workers or "
            "fewer other programs may help"
        )
    if is_held_up(row.throttled_share, row.other_cpu / row.cores):
        return (
            f"other programs used {row.other_cpu:.1f} of {row.cores:.0f} cores meanwhile, and a "
            f"pod that waited for its share of a core for {row.throttled_share:.0%} of the time "
            "cannot make up for what they take"
        )
    return "other programs kept the machine busy while a core was calibrated"


def summary(row: Any, evals: Any) -> str:
    """Return one trial's results as text.

    Parameters
    ----------
    row : Series
        The trial's row of the table of trials.
    evals : DataFrame
        Its evaluations.
    """
    if row.status != "finished":
        return f"{row.trial}\n{row.status}: {row.error}"
    alone = row.workers == 1
    lines = [row.trial]
    if row.overloaded:
        lines.append(f"throughput not measured: {why_overloaded(row)}")
    else:
        shared = "   (oversubscribed: more workers and dedicated servers than cores)"
        shared = shared if row.oversubscribed else ""
        if row.overloaded is None:
            shared += "   (too short to tell whether other programs held it up)"
        trained = "the worker trained" if alone else f"all {row.workers} workers trained"
        if row.reported:
            trained = "the script printed rates"
            if not alone:
                whose = "the first worker's script" if row.rates else "all workers' scripts"
                trained = f"{whose} printed rates"
        rates = {"batches": (row.batches_per_second, 2), "samples": (row.samples_per_second, 0)}
        said = [
            f"{rate:.{digits}f} {unit}/s" if math.isfinite(rate)
            else f"{unit}/s unknown without --batch-size"
            for unit, (rate, digits) in rates.items()
        ]  # fmt: skip
        lines.append(
            f"throughput {', '.join(said)}, over the {row.window_s:.1f} s in which "
            f"{trained}{shared}"
        )
        if row.reported:
            lines.append(
                "           as the script reports it; whether its workers began together, and "
                "what a step of it costs, is unknown"
            )
        spread = []
        if not alone and math.isfinite(row.imbalance):
            spread.append(f"{row.imbalance:.1%} between workers (imbalance)")
        if math.isfinite(row.variation):
            spread.append(f"{row.variation:.1%} over time (coefficient of variation)")
        if spread:
            lines.append(f"spread     {', '.join(spread)}")
    if math.isfinite(row.late_share):
        lines.append(
            f"slow nodes computing takes {row.slowdown:g} times the {row.compute_ms:.1f} ms of a "
            f"core here; {row.late_share:.1%} late, machine {row.idle_share:.0%} idle"
        )
    if row.cpu and math.isfinite(row.cpu):
        lines.append(
            f"           each pod has {row.cpu:g} of a core, and waited for it up to "
            f"{row.throttled_share:.0%} of the time"
        )
    if row.bandwidth and math.isfinite(row.bandwidth):
        lines.append(
            f"network    each node passes {row.bandwidth / 1e6:g} Mbit/s; the busiest used "
            f"{row.busiest_mbit_per_s:.3g}"
        )
    if not row.reported:
        lines += [
            f"CPU time   {row.cpu_ms_per_step:.1f} ms per step{'' if alone else ' and worker'}",
            f"start-up   {row.startup_s:.1f} s until "
            + ("the worker was ready" if alone else f"all {row.workers} workers were ready"),
        ]
    lines.append(
        f"memory     {row.peak_memory_mb:.0f} MiB at most"
        + ("" if alone else " in any of the workers")
    )
    for event in evals.itertuples():
        unit, things = (" %", "images") if event.metric == "accuracy" else ("", "words")
        things = "targets" if is_name(str(row.dataset)) else things
        line = f"test       {event.metric} {event.value:.2f}{unit} after {event.steps} steps"
        if event.seconds and math.isfinite(event.seconds):  # a script does not say
            line += f", inference at {event.samples / event.seconds:.0f} {things}/s"
        lines.append(line)
    return "\n".join(lines)
