"""Options that several subcommands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import click

from labkit.cli.bandwidth import Bandwidth
from labkit.cli.completion import profiles, values_of_field
from labkit.launchers.limits import DEADLINE
from labkit.trials import Trial, choices


def trial_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each field of a trial; the trial itself judges their values."""
    return _trial_options(command)


def sweep_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the same options with several values each; for a `ListCommand`."""
    return _trial_options(command, multiple=True)


def _trial_options(command: Callable[..., None], multiple: bool = False) -> Callable[..., None]:
    for name, field in reversed(Trial.model_fields.items()):
        allowed = choices(name)
        kinds = [k for k in (*get_args(field.annotation), field.annotation) if k in (int, float)]
        bits = name == "bandwidth"
        text = field.description[0].upper() + field.description[1:]
        if not (field.is_required() or field.default is None):
            text += f"  [default: {field.default}]"
        command = click.option(
            f"--{name.replace('_', '-')}",
            type=Bandwidth() if bits else kinds[0] if kinds else str,
            metavar=f"1Gbit{'...' * multiple}" if bits else _metavar(allowed, kinds, multiple),
            multiple=multiple,
            help=text,
            shell_complete=values_of_field(name),
        )(command)
    return command


def _metavar(allowed: tuple[str, ...], kinds: list[type], multiple: bool) -> str | None:
    if not multiple:
        return "|".join(allowed) or None
    return f"{'|'.join(allowed) or ('NUMBER' if kinds else 'TEXT')}..."


deadline_option = click.option(
    "--deadline", type=float, default=DEADLINE, show_default=True,
    help="Seconds that a trial may take.",
)  # fmt: skip

profile_option = click.option(
    "--profile", default="laptop", show_default=True, shell_complete=profiles,
    help="smoke, laptop, laptop-nodes, fifty-nodes, emulated, learning-curves or thesis.",
)  # fmt: skip

EITHER = "local; with --reference all"
"""Where trials were run, for the help, if --launcher does not say it."""

reference_option = click.option(
    "--reference", is_flag=True, help="Use the published run instead of this machine's."
)

title_option = click.option("--title", help="Heading; default: what all trials have in common.")

quiet_option = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")

dry_run_option = click.option(
    "--dry-run", is_flag=True,
    help="Say what would be done and how long it would take; start and write nothing.",
)  # fmt: skip


def launcher_option(
    text: str, otherwise: str | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return an option for where trials run, refused at once if there is no such launcher.

    Parameters
    ----------
    text : str
        What the launcher decides, for the help.
    otherwise : str or None
        What holds without the option, if the command finds that out itself and gets None.
    """
    usual = {"default": "local", "show_default": True}
    return click.option(
        "--launcher", metavar="local|kubernetes", callback=_checked, help=text,
        shell_complete=values_of_field("launcher"),
        **{"default": None, "show_default": otherwise} if otherwise else usual,
    )  # fmt: skip


def _checked(context: click.Context, option: click.Parameter, name: str | None) -> str | None:
    from labkit.campaign import check_launcher

    return None if name is None else check_launcher(name)
