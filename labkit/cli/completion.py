"""What a shell offers when Tab is pressed: the values that options and arguments may have.

Which shells: ``docs/api.md``. Click does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from labkit.trials import Trial, choices
from labkit.trials.frameworks import SCRIPTED

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def offered(values: Callable[[click.Context], Iterable[str]], files: bool = False) -> Complete:
    """Return what offers some values, or where none fits files."""

    def complete(
        context: click.Context, _: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        found = [CompletionItem(v) for v in values(context) if v.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="file")] * files

    return complete


def values_of_field(name: str) -> Complete:
    """Return what offers the values of a field of trials; none where it is not limited."""
    return offered(lambda context: _choices(context, name), files=name == "model")


def _choices(context: click.Context, name: str) -> Iterable[str]:
    if name == "launcher":
        from labkit.campaign import LAUNCHERS

        return LAUNCHERS
    if name == "framework" and context.params.get("script"):
        return SCRIPTED
    return choices(name) if name in Trial.model_fields else ()


@offered
def profiles(context: click.Context) -> Iterable[str]:
    """Offer the profiles of the book."""
    from labkit.book.plan import profiles

    return profiles()


@offered
def notebooks(context: click.Context) -> Iterable[str]:
    """Offer the notebooks of a profile."""
    from labkit.book.plan import plan

    return [page.name for page in plan(context.params.get("profile") or "laptop")]
