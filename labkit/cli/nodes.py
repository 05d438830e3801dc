"""An option for nodes with a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

MEANING = (
    "Other options override it. The thesis's are estimated: --slowdown 10 --bandwidth 2Gbit."
)


def node_option(text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return an option that becomes what such nodes are like, a dictionary; without it, empty."""
    return click.option(
        "--node", metavar="today|thesis", callback=_preset, shell_complete=_names,
        help=f"{text} {MEANING}",
    )  # fmt: skip


def _preset(
    context: click.Context, option: click.Parameter, name: str | None
) -> dict[str, float]:
    if name is None:
        return {}
    # Not before: `labkit predict` with a table of points needs nothing of trials.
    from labkit.trials.nodes import preset

    return preset(name)


def _names(
    context: click.Context, option: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from labkit.cli.completion import offered
    from labkit.trials.nodes import PRESETS

    return offered(lambda _: PRESETS)(context, option, incomplete)
