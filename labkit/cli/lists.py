"""Options that take several values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import click
from click.shell_completion import CompletionItem

MOST = 1000
"""Numbers in a range: more of them are a slip of the hand."""

WITH_COMMAS = ("versions", "cpu_model", "arguments", "pattern")
"""Options whose values may have commas in them."""

OPEN = "labkit.open_list"
"""Where a context notes the option whose list the next word may continue, for completion."""


class ListCommand(click.Command):
    """A command whose options take several values: ``--workers 1 2 4``, or ``--workers 1,2,4``.

    Whole numbers may be given as a range, too: ``--workers 1-4``.

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
        # What stands behind -- is for somebody else, as it is.
        end = args.index("--") if "--" in args else len(args)
        args, behind = args[:end], args[end:]
        # What stands alone is an argument first, if the command takes any; one that may be left
        # out leaves a list what fits into it.
        taken = [p for p in self.params if isinstance(p, click.Argument) and p.nargs == 1]
        arguments, needed = len(taken), any(param.required for param in taken)
        spread: list[str] = []
        option, value_missing = "", False
        for word in args:
            name, given, value = word.partition("=")
            if value_missing:
                spread += self._each(option, word)
                value_missing = False
            elif word.startswith("-"):
                option = name if name in lists else ""
                value_missing = bool(option) and not given
                spread += self._each(option, value) if option and given else []
                spread += [] if option else [word]
            elif option and not (arguments and (needed or not self._fits(option, word))):
                spread += self._each(option, word)
            else:
                arguments -= not spread or not self._takes_value(spread[-1])
                spread.append(word)
        if value_missing:
            spread.append(option)  # click says what is missing
        ctx.meta[OPEN] = self._named(option) if option and not behind else None
        return super().parse_args(ctx, spread + behind)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer further values of the last option, beside what is offered anyway."""
        return [*next_value(ctx, self, incomplete), *super().shell_complete(ctx, incomplete)]

    def _named(self, option: str) -> click.Parameter:
        [param] = [p for p in self.params if option in p.opts]
        return param

    def _each(self, option: str, values: str) -> list[str]:
        """Return an option with each of several values that stand in one word."""
        each = [values] if self._named(option).name in WITH_COMMAS else values.split(",")
        if self._named(option).type is click.INT:
            each = expanded(each)
        return [word for value in each for word in (option, value)]

    def _fits(self, option: str, word: str) -> bool:
        """Return whether a word can be a value of an option."""
        try:
            self._named(option).type(self._each(option, word)[1])
        except click.BadParameter:
            return False
        return True

    def _takes_value(self, word: str) -> bool:
        """Return whether a word is an option behind which a value stands."""
        return any(
            isinstance(param, click.Option) and word in param.opts and not param.is_flag
            for param in self.params
        )


def expanded(words: Iterable[str]) -> list[str]:
    """Return words with the whole numbers of each range, such as ``1-4``, in its place.

    What ends before it begins is no range, and stays as it is; so does one of more than `MOST`.
    """
    found: list[str] = []
    for word in words:
        ends = re.fullmatch(r"(\d+)-(\d+)", word)
        numbers = range(int(ends[1]), int(ends[2]) + 1) if ends else ()
        found += map(str, numbers if 0 < len(numbers) <= MOST else [word])
    return found


def next_value(ctx: click.Context, _: Any, incomplete: str) -> list[CompletionItem]:
    """Return what may continue the list of values in which a command line ends so far."""
    option = ctx.meta.get(OPEN)
    return option.shell_complete(ctx, incomplete) if option else []
