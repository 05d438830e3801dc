"""``labkit model``: a file for a network of one's own, and whether it does what it should."""

from __future__ import annotations

import math
from pathlib import Path

import click

from labkit.cli.main import main
from labkit.errors import LabkitError
from labkit.settings import TEMPLATES
from labkit.trials import choices


@main.group(
    epilog="""\b
examples:
  labkit model new my_mlp.py
  labkit model check my_mlp.py"""
)
def model() -> None:
    """Begin a model of one's own, and check it."""


@model.command(
    epilog="""\b
examples:
  labkit model new my_mlp.py"""
)
@click.argument("file", type=click.Path(path_type=Path))
def new(file: Path) -> None:
    """Begin a model of one's own.

    Writes a commented starter, a small network for both frameworks, to FILE.
    """
    if file.suffix != ".py":
        raise LabkitError(f"{file}: a model's file is Python: name it {file}.py")
    try:
        with file.open("x") as target:
            target.write((TEMPLATES / "model.py").read_text())
    except FileExistsError:
        raise LabkitError(f"{file} exists; nothing was written. Name another one.") from None
    except OSError as error:
        raise LabkitError(f"{file}: cannot be written: {error.strerror}") from None
    click.echo(
        f"{file}: written. Change it, then\n"
        f"  labkit model check {file}\n"
        f"  labkit run --model {file} --framework mxnet --batch-size 50 \\\n"
        "      --learning-rate 0.1 --steps 200"
    )


@model.command(
    epilog="""\b
examples:
  labkit model check my_mlp.py
  labkit model check my_mlp.py --framework mxnet --learning-rate 0.01"""
)
@click.argument("file")
@click.option(
    "--framework", "frameworks", multiple=True, type=click.Choice(choices("framework")),
    help="This one only.  [default: all that FILE defines]",
)  # fmt: skip
@click.option("--learning-rate", default=0.05, show_default=True, help="Of plain SGD.")
@click.option("--batch-size", default=32, show_default=True, help="Samples to train on.")
def check(file: str, frameworks: tuple[str, ...], learning_rate: float, batch_size: int) -> None:
    """Try a model in seconds.

    In each framework the network in FILE is built, and trained on a few real samples: the shapes
    must fit, all its variables must have a gradient, the loss must fall. From equal weights both
    frameworks must come to the same loss. Exits with 1 if something is wrong.
    """
    from labkit.model_check import check

    report = check(file, frameworks, batch_size, learning_rate)
    for found in report.findings:
        if found.losses:
            size = ""
            if found.variables is not None:
                weights = sum(math.prod(shape) for _, shape in found.variables)
                size = f"{len(found.variables)} variables, {weights:,} weights, "
            before, after = found.losses
            click.echo(f"{found.framework}: {size}loss {before:.4g} -> {after:.4g}")
    if report.apart is not None:
        click.echo(f"from equal weights the losses are {report.apart:.1e} (as a share) apart")
    elif len(report.findings) > 1:
        click.echo(f"not compared from equal weights: {report.reason}")
    if report.problems:
        raise LabkitError(f"{file}:\n  " + "\n  ".join(report.problems))
    click.echo(f"{file}: nothing wrong was found")
