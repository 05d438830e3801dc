"""The ``labkit`` command."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click

from labkit import __version__
from labkit.errors import LabkitError
from labkit.settings import REFERENCE, data_directory
from labkit.trials import Trial, choices


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
@click.option("--again", is_flag=True, help="Run it even if it has been run before.")
def run(launcher: str, deadline: float, again: bool, **values: Any) -> None:
    """Run one trial and say how it went."""
    trial = Trial(**{name: value for name, value in values.items() if value is not None})
    from labkit.measure import measure
    from labkit.runs import Store

    store = Store(launcher=launcher)
    known = not again and store.find(trial) is not None
    results = measure([trial], launcher, again=again, deadline=deadline)
    if known:
        click.echo("This trial has been run before; --again runs it once more.")
    click.echo(summary(results.table.iloc[0], results.evals))
    click.echo(f"kept in    {os.path.relpath(store.find(trial).directory)}")


def summary(row: Any, evals: Any) -> str:
    """Return what there is to say of one trial: a table's row, in lines."""
    if row.status != "finished":
        return f"{row.trial}\n{row.status}: {row.error}"
    shared = "   (time-shared: more workers than cores)" if row.time_shared else ""
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
            + f"; the rate varies by {row.steadiness:.1%} within the run"
            * math.isfinite(row.steadiness)
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


@main.command(
    epilog="""\b
examples:
  labkit reproduce                                    the laptop profile
  labkit reproduce --profile smoke --only 6-1-3       one notebook of another
  labkit reproduce --profile thesis --on kubernetes   the thesis's own grid, on a cluster"""
)
@click.option("--profile", default="laptop", show_default=True, help="smoke, laptop or thesis.")
@click.option("--only", multiple=True, metavar="NOTEBOOK", help="e.g. 6-1-3; may be repeated.")
@click.option(
    "--on", "launcher", default="local", show_default=True, help="local, or kubernetes: the "
    "cluster of your kubeconfig, used as cluster.toml says."
)  # fmt: skip
@click.option("--again", is_flag=True, help="Render notebooks even if nothing has changed.")
def reproduce(profile: str, only: tuple[str, ...], launcher: str, again: bool) -> None:
    """Run the notebooks with a profile's parameters and render them."""
    from labkit import book

    book.reproduce(profile, only=only, launcher=launcher, again=again, echo=click.echo)


TABLES = ("trials", "steps", "evals")


@main.command(
    epilog="""\b
examples:
  labkit results                                   what has been measured here
  labkit results --reference                       what is published with labkit
  labkit results --table steps --format parquet --output steps.parquet"""
)
@click.option("--reference", is_flag=True, help="The published run instead of this machine's.")
@click.option("--on", default="local", show_default=True, help="Where it was run.")
@click.option("--table", type=click.Choice(TABLES), default="trials", show_default=True)
@click.option(
    "--format", "form", type=click.Choice(["table", "csv", "parquet"]), default="table",
    show_default=True, help="A short table to look at, or all columns.",
)  # fmt: skip
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="A file.")
def results(reference: bool, on: str, table: str, form: str, output: Path | None) -> None:
    """Print or save the tables of all runs."""
    if form == "parquet" and output is None:
        raise click.UsageError("--format parquet needs --output FILE")
    frame = read_table(table, reference, on)
    if form == "table":
        columns = {
            "trials": ["framework", "model", "workers", "batch_size", "learning_rate", "seed",
                       "initializer", "status", "batches_per_second", "time_shared",
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


def read_table(name: str, reference: bool, on: str = "local") -> Any:
    """Return one of `TABLES` as a DataFrame: of the runs on a launcher, or of the published."""
    import pandas as pd

    from labkit.runs import Store
    from labkit.settings import outputs

    if reference:
        return pd.read_parquet(REFERENCE / f"{name}.parquet")
    store = Store(launcher=on)
    frame = {"trials": store.table, "steps": store.steps, "evals": store.evals}[name]()
    if frame.empty:
        raise LabkitError(
            f"nothing has been measured in {outputs()} yet ({on}). `labkit reproduce --profile "
            "smoke` does, or `labkit results --reference` shows what is published."
        )
    return frame


@main.command(
    epilog="""\b
examples:
  labkit figure 6.3                     from all runs of this machine
  labkit figure 6.1b --profile laptop   from those that the laptop profile's notebook shows
  labkit figure 6.1b --reference        from the published ones"""
)
@click.argument("number")
@click.option("--profile", help="Only the trials that this profile's notebook shows.")
@click.option("--reference", is_flag=True, help="The published run instead of this machine's.")
@click.option("--on", default="local", show_default=True, help="Where it was run.")
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), default=Path(),
    help="The directory for the SVG and the PNG.",
)  # fmt: skip
def figure(
    number: str, profile: str | None, reference: bool, on: str, output: Path
) -> None:
    """Draw one of the thesis's figures, 6.1a to 6.10b."""
    from labkit import book, figures

    row = figures.find(number)
    trials = read_table("trials", reference, on)
    if profile or reference:
        shown = book.home(profile, on) if profile else REFERENCE
        trials = trials[trials["trial"].isin(_shown_in(shown, number))]
    else:
        trials = row.select(trials)
    tables = {"table": trials}
    if "steps" in row.tables:
        steps = read_table("steps", reference, on)
        tables["steps"] = steps[steps["trial"].isin(trials["trial"])]
    drawn = row.function(*(tables[name] for name in row.tables))
    output.mkdir(parents=True, exist_ok=True)
    for path in figures.save(drawn, output / f"figure-{number}"):
        click.echo(path)


def _shown_in(directory: Path, number: str) -> Any:
    """Return the names of the trials that a rendered notebook's figure shows."""
    import pandas as pd

    try:
        return pd.read_csv(directory / "figures" / f"{number}.csv")["trial"]
    except FileNotFoundError:
        raise LabkitError(
            f"{directory} has no figure {number}; `labkit reproduce --profile {directory.name}` "
            "makes it"
        ) from None


@main.command()
@click.option("--port", default=6006, show_default=True)
def tensorboard(port: int) -> None:
    """Show the curves of all runs in TensorBoard, until Ctrl-C."""
    from labkit.runs import Store

    root = Store().root
    if not any(root.glob("*/tensorboard")):
        raise LabkitError(f"no runs in {root} yet")
    click.echo(f"http://localhost:{port} (Ctrl-C ends it)")
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(root)]
    os.execv(sys.executable, [*command, "--port", str(port), "--bind_all=false"])


# --- clusters -------------------------------------------------------------------------------


@main.command(
    epilog="""\b
examples:
  labkit render --framework mxnet --model lenet5 --workers 50 --batch-size 128 \\
      --learning-rate 0.025 --steps 200
  labkit render ... | kubectl apply -f -      run it without labkit"""
)
@trial_options
@click.option("--deadline", type=float, default=3600, show_default=True, help="Seconds.")
def render(deadline: float, **values: Any) -> None:
    """Print the Kubernetes objects of a trial, as YAML.

    They are what `labkit run --launcher kubernetes` creates, but for the owner references, which
    need the uid of the workers' Job.
    """
    trial = Trial(**{name: value for name, value in values.items() if value is not None})
    from labkit.cluster import Settings
    from labkit.manifests import render

    click.echo(render(trial, Settings.load(), deadline), nl=False)


@main.group(
    epilog="""\b
examples:
  labkit image build mxnet
  labkit image push mxnet"""
)
def image() -> None:
    """Build and push the container images in which trials run."""


def image_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Add the arguments that `image build` and `image push` share."""
    extra = click.argument(
        "extra", nargs=-1, type=click.UNPROCESSED, metavar="[-- TOOL_ARGUMENTS]..."
    )
    framework = click.argument("framework", type=click.Choice(choices("framework")))
    return framework(extra(command))


def image_name(framework: str) -> str:
    """Return the name that ``cluster.toml`` gives an image."""
    from labkit import images
    from labkit.cluster import Settings

    return Settings.load().image.format(framework=framework, tag=images.tag(framework))


@image.command(
    epilog="""\b
examples:
  labkit image build mxnet
  labkit image build tensorflow --public         without PTB, which may not be passed on
  labkit image build mxnet -- --network host     arguments for docker, podman or buildah"""
)
@image_arguments
@click.option("--public", is_flag=True, help="Leave PTB out: it is not ours to pass on.")
def build(framework: str, extra: tuple[str, ...], public: bool) -> None:
    """Build an image, with the data sets inside, under the name in cluster.toml."""
    from labkit import images

    name = image_name(framework)
    images.build(framework, name, public, extra)
    click.echo(name)


@image.command(
    epilog="""\b
examples:
  labkit image push tensorflow"""
)
@image_arguments
def push(framework: str, extra: tuple[str, ...]) -> None:
    """Push an image to the registry in its name.

    Unless it was built with --public, it holds PTB: push it only where others cannot pull it.
    """
    from labkit import images

    name = image_name(framework)
    images.push(name, extra)
    click.echo(name)


@main.command(
    epilog="""\b
examples:
  watch labkit ps"""
)
def ps() -> None:
    """List the trials in the cluster."""
    from labkit.cluster import Cluster
    from labkit.visitors import trials

    click.echo(trials(Cluster()))


@main.command(
    epilog="""\b
examples:
  labkit logs mxnet-0123456789ab
  labkit logs mxnet-0123456789ab --role worker --index 3 --follow"""
)
@click.argument("trial")
@click.option("--role", help="Only of this role: scheduler, server or worker.")
@click.option("--index", type=int, help="Only of this replica of the role.")
@click.option("--follow", is_flag=True, help="Go on until the trial ends, or Ctrl-C.")
def logs(trial: str, role: str | None, index: int | None, follow: bool) -> None:
    """Print what the replicas of a trial in the cluster have printed; `labkit ps` names them."""
    from labkit.cluster import Cluster
    from labkit.visitors import lines

    for line in lines(Cluster(), trial, role, index, follow):
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()


@main.command(
    epilog="""\b
examples:
  labkit stop mxnet-0123456789ab"""
)
@click.argument("trial")
def stop(trial: str) -> None:
    """End a trial in the cluster, and delete all that belongs to it."""
    from labkit.cluster import Cluster
    from labkit.manifests import selector_of
    from labkit.visitors import must_exist

    cluster = Cluster()
    must_exist(cluster, trial)
    cluster.remove_and_check(selector_of(trial))
    click.echo(f"{trial}: gone")


@main.command(
    epilog="""\b
examples:
  labkit clean --yes"""
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def clean(yes: bool) -> None:
    """Delete everything of labkit's in the namespace, also what others run there."""
    from labkit.cluster import PART_OF, Cluster

    cluster = Cluster()
    there = cluster.left(PART_OF)
    if not there:
        click.echo(f"nothing of labkit's is in namespace {cluster.namespace!r}")
        return
    if not yes:
        click.confirm(f"Delete {', '.join(there)} in {cluster.namespace!r}?", abort=True)
    cluster.remove_and_check(PART_OF)
    click.echo(f"{len(there)} objects are gone")
