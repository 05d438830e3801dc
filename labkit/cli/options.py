"""Options that several subcommands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import click

from labkit.errors import LabkitError, nearest
from labkit.launchers.limits import DEADLINE
from labkit.trials import Trial, choices


class ListCommand(click.Command):
    """A command whose options take several values: ``--workers 1 2 4``, or ``--workers 1,2,4``.

    Click itself knows only ``--workers 1 --workers 2 --workers 4``, and that is what it gets.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Write a list as an option for each of its values, then parse as usual."""
        lists = {
            name
            for param in self.params
            if isinstance(param, click.Option) and param.multiple
            for name in param.opts
        }
        # What stands alone is an argument first, if the command takes any.
        arguments = sum(isinstance(param, click.Argument) for param in self.params)
        spread: list[str] = []
        option, value_missing = "", False
        for word in args:
            name, given, value = word.partition("=")
            if value_missing:
                spread += _each(option, word)
                value_missing = False
            elif word.startswith("-"):
                option = name if name in lists else ""
                value_missing = bool(option) and not given
                spread += _each(option, value) if option and given else []
                spread += [] if option else [word]
            elif option and not arguments:
                spread += _each(option, word)
            else:
                arguments -= not spread or not self._takes_value(spread[-1])
                spread.append(word)
        if value_missing:
            spread.append(option)  # click says what is missing
        return super().parse_args(ctx, spread)

    def _takes_value(self, word: str) -> bool:
        """Return whether a word is an option behind which a value stands."""
        return any(
            isinstance(param, click.Option) and word in param.opts and not param.is_flag
            for param in self.params
        )


def _each(option: str, values: str) -> list[str]:
    return [word for value in values.split(",") for word in (option, value)]


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
        text = field.description[0].upper() + field.description[1:]
        if not (field.is_required() or field.default is None):
            text += f"  [default: {field.default}]"
        command = click.option(
            f"--{name.replace('_', '-')}",
            type=kinds[0] if kinds else str,
            metavar=_metavar(allowed, kinds, multiple),
            multiple=multiple,
            help=text,
        )(command)
    return command


def _metavar(allowed: tuple[str, ...], kinds: list[type], multiple: bool) -> str | None:
    if not multiple:
        return "|".join(allowed) or None
    return f"{'|'.join(allowed) or ('NUMBER' if kinds else 'TEXT')}..."


deadline_option = click.option(
    "--deadline", type=float, default=DEADLINE, show_default=True, help="Seconds a trial may take."
)

quiet_option = click.option("-q", "--quiet", is_flag=True, help="Show no progress.")


def launcher_option(text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return an option for where trials run, refused at once if there is no such launcher.

    Parameters
    ----------
    text : str
        What the launcher decides, for the help.
    """

    def check(context: click.Context, option: click.Parameter, name: str) -> str:
        from labkit.campaign import LAUNCHERS

        if name not in LAUNCHERS:
            known = ", ".join(LAUNCHERS)
            raise LabkitError(f"launcher: {name!r}{nearest(name, LAUNCHERS)}; allowed: {known}")
        return name

    return click.option(
        "--launcher", default="local", show_default=True, metavar="local|kubernetes",
        callback=check, help=text,
    )  # fmt: skip
