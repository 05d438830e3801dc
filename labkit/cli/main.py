"""The ``labkit`` command itself, to which the other files add their subcommands."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import signal
import sys
from typing import Any

import click

from labkit import __version__
from labkit.cli.signals import interrupting
from labkit.cli.terminal import echo, fitted, terminal_width
from labkit.errors import LabkitError
from labkit.settings import OUTPUTS

UNUSABLE = (
    errno.EACCES, errno.EDQUOT, errno.EEXIST, errno.EISDIR, errno.EMFILE, errno.ENAMETOOLONG,
    errno.ENOENT, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS,
)  # fmt: skip
"""What a place answers that is missing, read-only, full, somebody else's, or no directory."""

COMMANDS = {
    "book": "book",
    "brief": "brief",
    "claims": "claims",
    "clean": "cluster",
    "compare": "compare",
    "data": "prepare",
    "doctor": "prepare",
    "figure": "figure",
    "image": "cluster",
    "logs": "cluster",
    "model": "model",
    "predict": "predict",
    "ps": "cluster",
    "render": "cluster",
    "reproduce": "reproduce",
    "results": "results",
    "run": "run",
    "stop": "cluster",
    "tensorboard": "results",
}
"""Which file each subcommand is in."""

GO_ON = ("data", "reproduce", "run")
"""Those that keep what has finished: typed again, they do the rest."""


class Group(click.Group):
    """Imports a subcommand's file when it is needed, and prints labkit's own errors as a message.

    After a Ctrl-C, a SIGTERM or a SIGHUP it ends in good order.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all subcommands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return a subcommand; some need most of a second of imports, and others not."""
        if name in COMMANDS:
            importlib.import_module(f"labkit.cli.{COMMANDS[name]}")
        return super().get_command(ctx, name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn what users can act on into a message and an exit code."""
        with interrupting() as came:
            try:
                return self._invoke(ctx)
            except (KeyboardInterrupt, OSError) as error:
                if isinstance(error, OSError) and not came:  # else of a terminal that was closed
                    raise
                how = f"ended by {came[0].name}" if came else "interrupted"
                said = f"\nlabkit: {how}; everything started has been ended"
                for note in getattr(error, "__notes__", ()):
                    said += f", but {note}"
                if ctx.invoked_subcommand in GO_ON:
                    said += ", what had finished is kept, and the same command goes on from there"
                with contextlib.suppress(OSError):
                    echo(f"{said}.", err=True)
                ctx.exit(128 + (came[0] if came else signal.SIGINT))

    def _invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except LabkitError as error:
            echo(f"labkit: {error}", err=True)
            ctx.exit(1)
        except click.UsageError as error:
            said = fitted(f"Error: {error.format_message()}", terminal_width(sys.stderr))
            raise click.UsageError(said.removeprefix("Error: "), error.ctx) from None
        except BrokenPipeError:  # whoever read has seen enough, as head does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(141)
        except OSError as error:
            if error.errno not in UNUSABLE:
                raise
            where = f"{error.filename}: " if error.filename else ""
            echo(
                f"labkit: {where}cannot be used: {error.strerror}. If that is a place to write "
                f"to, name another with --output, or set {OUTPUTS} to one.",
                err=True,
            )
            ctx.exit(1)


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 99},
    epilog="""\b
examples:
  labkit doctor                     what this machine can do, what is missing
  labkit reproduce --profile smoke  all notebooks, small, in some four minutes
  labkit run --framework mxnet --model lenet5 --workers 2 --batch-size 128 \\
      --learning-rate 0.025 --steps 200
  labkit results --format csv""",
)
@click.version_option(__version__)
def main() -> None:
    """Measure what happens to a deep-learning training job when it runs on more machines."""
