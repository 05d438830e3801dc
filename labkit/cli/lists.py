"""Options that take several values."""

from __future__ import annotations

import click


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
                spread += _each(option, word)
                value_missing = False
            elif word.startswith("-"):
                option = name if name in lists else ""
                value_missing = bool(option) and not given
                spread += _each(option, value) if option and given else []
                spread += [] if option else [word]
            elif option and not (arguments and (needed or not self._fits(option, word))):
                spread += _each(option, word)
            else:
                arguments -= not spread or not self._takes_value(spread[-1])
                spread.append(word)
        if value_missing:
            spread.append(option)  # click says what is missing
        return super().parse_args(ctx, spread + behind)

    def _fits(self, option: str, word: str) -> bool:
        """Return whether a word can be a value of an option."""
        [param] = [p for p in self.params if option in p.opts]
        try:
            param.type(word.split(",")[0])
        except click.BadParameter:
            return False
        return True

    def _takes_value(self, word: str) -> bool:
        """Return whether a word is an option behind which a value stands."""
        return any(
            isinstance(param, click.Option) and word in param.opts and not param.is_flag
            for param in self.params
        )


def _each(option: str, values: str) -> list[str]:
    return [word for value in values.split(",") for word in (option, value)]
