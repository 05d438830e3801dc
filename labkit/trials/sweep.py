"""A sweep: the trials of one experiment."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from labkit.trials.described import TrialError
from labkit.trials.own_data import loaded_once
from labkit.trials.script import ScriptTrial
from labkit.trials.trial import Trial


class Sweep(Sequence[Trial]):
    """The trials of one experiment, in the order of its results.

    Parameters
    ----------
    trials : sequence of Trial
        Duplicates are dropped.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._trials = tuple(dict.fromkeys(trials))
        if not self._trials:
            raise TrialError("a sweep needs at least one trial")

    @classmethod
    def grid(cls, repeats: int = 1, **values: Any) -> Sweep:
        """Build every combination of the values that are lists.

        Parameters
        ----------
        repeats : int
            How often each combination is run; repeats differ in their seed: the trial's own, the
            next one, and so on. Where several seeds are given, their whole range is repeated
            beyond the last one, so that no two trials share a seed: 1 and 2, then 3 and 4.
            Repeats are the outermost loop, so that slow changes of a machine meet all
            combinations alike.
        **values
            Fields of `Trial`; a list or tuple is an axis of the grid.

        Raises
        ------
        TrialError
            If any of the trials is impossible, before any is run.

        Examples
        --------
        >>> len(Sweep.grid(framework=["mxnet", "tensorflow"], workers=[1, 2], model="lenet5",
        ...                batch_size=128, learning_rate=0.025, steps=50, repeats=3))
        12
        """
        if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
            raise TrialError(f"repeats: {repeats!r}; allowed: a whole number from 1")
        axes = {k: v if isinstance(v, list | tuple) else (v,) for k, v in values.items()}
        empty = [name for name, axis in axes.items() if not axis]
        if empty:
            raise TrialError(f"{empty[0]}: an empty list; give at least one value")
        kind = ScriptTrial if "script" in values else Trial
        with loaded_once():
            grid = [
                kind(**dict(zip(axes, point, strict=True)))
                for point in itertools.product(*axes.values())
            ]
        seeds = [trial.seed for trial in grid]
        span = max(seeds) - min(seeds) + 1
        return cls([t.replace(seed=t.seed + k * span) for k in range(repeats) for t in grid])

    def __len__(self) -> int:
        return len(self._trials)

    def __getitem__(self, index: Any) -> Any:
        return self._trials[index]

    def __iter__(self) -> Iterator[Trial]:
        return iter(self._trials)

    def __add__(self, other: Sequence[Trial]) -> Sweep:
        return Sweep([*self, *other])

    @property
    def axes(self) -> dict[str, list[Any]]:
        """The fields in which the trials differ, each with its values."""
        return {name: found for name, found in self._values().items() if len(found) > 1}

    def _values(self) -> dict[str, list[Any]]:
        """Return the values of each field that is not everywhere at its default."""
        names = dict.fromkeys(name for trial in self for name in trial.values)
        rows = [dict(trial) | trial.values for trial in self]
        return {name: list(dict.fromkeys(row[name] for row in rows)) for name in names}

    def __repr__(self) -> str:
        trials = "1 trial" if len(self) == 1 else f"{len(self)} trials"
        said = (f"{name} {', '.join(map(str, found))}" for name, found in self._values().items())
        return f"Sweep of {trials}: {'; '.join(said)}"

    def _repr_html_(self) -> str:
        rows = (
            f"<tr><th style='text-align:left'>{name}</th>"
            f"<td style='text-align:left'>{escape(', '.join(map(str, found)))}</td></tr>"
            for name, found in self._values().items()
        )
        trials = "1 trial" if len(self) == 1 else f"{len(self)} trials"
        return f"<p>Sweep of {trials}</p><table>{''.join(rows)}</table>"


def _grid_signature() -> inspect.Signature:
    """Return the signature of `Sweep.grid`: the fields of a trial, and the repeats."""
    own = list(inspect.signature(Sweep.grid.__func__).parameters.values())[:2]
    fields = inspect.signature(Trial).parameters.values()
    return inspect.Signature([*own, *fields], return_annotation=Sweep)


Sweep.grid.__func__.__signature__ = _grid_signature()
