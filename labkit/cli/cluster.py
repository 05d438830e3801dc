"""What is for clusters: ``render``, ``image``, ``ps``, ``logs``, ``stop``, ``clean``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from labkit.cli.clean import clean_kept, kept_options
from labkit.cli.formats import format_option, of_frame
from labkit.cli.main import main
from labkit.cli.options import deadline_option, trial_options
from labkit.cli.table import rows_of
from labkit.cli.terminal import echo, terminal_width
from labkit.trials import Trial, choices

ROLES = ("scheduler", "server", "worker")


@main.command(
    epilog="""\b
examples:
  labkit render --framework mxnet --model lenet5 --workers 50 \\
      --batch-size 128 --learning-rate 0.025 --steps 200
  labkit render ... | kubectl apply -f -      run it without labkit"""
)
@trial_options
@deadline_option
def render(deadline: float, **values: Any) -> None:
    """Print the Kubernetes objects of a trial, as YAML.

    They are what `labkit run --launcher kubernetes` creates, but for the owner references, which
    need the uid of the workers' Job.
    """
    trial = Trial(**{name: value for name, value in values.items() if value is not None})
    from labkit.launchers.kubernetes.manifests import render
    from labkit.launchers.kubernetes.settings import Settings
    from labkit.launchers.limits import check_deadline

    check_deadline(deadline)
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


def public_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flag that `image build` and `image push` share."""
    return click.option(
        "--public", is_flag=True, help="The image without PTB, which is not ours to pass on."
    )(command)


@image.command(
    epilog="""\b
examples:
  labkit image build mxnet
  labkit image build tensorflow --public      without PTB, not ours to pass on
  labkit image build mxnet -- --network host  for docker or podman"""
)
@image_arguments
@public_option
def build(framework: str, extra: tuple[str, ...], public: bool) -> None:
    """Build an image, with the data sets inside.

    Its name is the one that cluster.toml gives. Trials find a public one if it also says
    public_images = true.
    """
    from labkit.launchers.kubernetes import images, manifests
    from labkit.launchers.kubernetes.settings import Settings

    settings = Settings.load()
    name = manifests.image_of(framework, settings, public)
    images.build(framework, name, public or settings.public_images, extra)
    click.echo(name)


@image.command(
    epilog="""\b
examples:
  labkit image push tensorflow
  labkit image push tensorflow --public          what was built with --public"""
)
@image_arguments
@public_option
def push(framework: str, extra: tuple[str, ...], public: bool) -> None:
    """Push an image to the registry in its name.

    Unless it was built with --public, it holds PTB: push it only where others cannot pull it.
    """
    from labkit.launchers.kubernetes import images, manifests
    from labkit.launchers.kubernetes.settings import Settings

    name = manifests.image_of(framework, Settings.load(), public)
    images.push(name, extra)
    click.echo(name)


@main.command(
    epilog="""\b
examples:
  watch labkit ps
  labkit ps --format json"""
)
@format_option
def ps(file_format: str) -> None:
    """List the trials in the cluster."""
    import pandas as pd

    from labkit.launchers.kubernetes.api import Cluster
    from labkit.launchers.kubernetes.status import COLUMNS, trials

    cluster = Cluster()
    table = pd.DataFrame(trials(cluster), columns=COLUMNS)
    if file_format != "table":
        click.echo(of_frame(table, file_format), nl=False)
    elif table.empty:
        click.echo(f"no trials in namespace {cluster.namespace!r}")
    else:
        ages = [f"{seconds} s" for seconds in table["age_s"]]
        shown = table.drop(columns=["age_s", "abandoned"])
        # From the right on, columns are left out where a terminal has no room for them.
        shown.insert(1, "state", shown.pop("state"))
        shown.insert(2, "age", ages)
        click.echo("\n".join(rows_of(shown, terminal_width())))
        for name in table.loc[table["abandoned"], "trial"]:
            echo(
                f"{name}: its labkit is gone. The same trial run again takes it over; labkit stop "
                f"{name} deletes it."
            )


@main.command(
    epilog="""\b
examples:
  labkit logs mxnet-0123456789ab
  labkit logs mxnet-0123456789ab --role worker --index 3 --follow"""
)
@click.argument("trial")
@click.option("--role", type=click.Choice(ROLES), help="Only of this role.")
@click.option("--index", type=int, help="Only of this replica of the role.")
@click.option("--follow", is_flag=True, help="Go on until the trial ends, or Ctrl-C.")
def logs(trial: str, role: str | None, index: int | None, follow: bool) -> None:
    """Print what the replicas of a trial have printed.

    `labkit ps` lists the trials in the cluster.
    """
    from labkit.launchers.kubernetes.api import Cluster
    from labkit.launchers.kubernetes.status import lines

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
    """End a trial in the cluster and delete its objects."""
    from labkit.launchers.kubernetes.api import Cluster
    from labkit.launchers.kubernetes.manifests import selector_of
    from labkit.launchers.kubernetes.status import must_exist

    cluster = Cluster()
    must_exist(cluster, trial)
    cluster.remove_and_check(selector_of(trial))
    click.echo(f"{trial}: gone")


@main.command(
    epilog="""\b
examples:
  labkit clean                                   everything in the namespace
  labkit clean --failed --overloaded             kept runs without a rate
  labkit clean --other-version --older-than 30"""
)
@kept_options
@click.option("--yes", is_flag=True, help="Do not ask.")
def clean(yes: bool, **kept: Any) -> None:
    """Delete all of labkit's in the namespace, or kept runs.

    Without an option that names runs: all objects in the namespace, also of trials that others
    run there. With one: those runs in outputs/runs, and nothing in a cluster. What goes is shown
    first.
    """
    if any(value is not None and value is not False for value in kept.values()):
        clean_kept(yes, **kept)
        return
    from labkit.launchers.kubernetes.api import PART_OF, Cluster

    cluster = Cluster()
    there = cluster.left(PART_OF)
    if not there:
        click.echo(f"nothing of labkit's is in namespace {cluster.namespace!r}")
        return
    if not yes:
        click.confirm(f"Delete {', '.join(there)} in {cluster.namespace!r}?", abort=True)
    cluster.remove_and_check(PART_OF)
    click.echo(f"{len(there)} objects are gone")
