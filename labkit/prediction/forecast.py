"""Forecasts: what is to be expected of numbers of workers, whoever says so."""

from __future__ import annotations

import abc
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from labkit.errors import LabkitError

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.9
"""How often a predicted interval is to hold the truth."""

NEARLY_LINEAR = 0.9
"""From this share of the number of workers on, a speedup counts as not limited."""

NO_LIMIT = "none in sight"


def check_efficiency(efficiency: float) -> None:
    """Make sure that it is a share of the number of workers.

    Raises
    ------
    LabkitError
        If it is not between 0 and 1.
    """
    if not 0 < efficiency <= 1:
        raise LabkitError(f"efficiency: {efficiency!r}; allowed: above 0, at most 1")


def check_level(level: float) -> None:
    """Make sure that it is a share of cases.

    Raises
    ------
    LabkitError
        If it is not between 0 and 1.
    """
    if not 0 < level < 1:
        raise LabkitError(f"level: {level!r}; allowed: between 0 and 1, such as 0.9")


def check_workers(workers: Iterable[float]) -> list[int]:
    """Return numbers of workers in order, each once.

    Raises
    ------
    LabkitError
        If there is none, or one that is not a whole number from 1 on.
    """
    numbers = sorted(set(workers))
    if not numbers or any(not (1 <= n < math.inf and n == int(n)) for n in numbers):
        raise LabkitError(f"workers: {numbers}; allowed: whole numbers from 1 on")
    return [int(n) for n in numbers]


@dataclass(frozen=True)
class Forecast:
    """What is to be expected of a number of workers.

    Attributes
    ----------
    workers : int
    throughput : float
        Below and above which the true one is equally likely; in the unit of the points.
    low, high : float
        Ends of the interval that holds the true throughput with the stated probability.
    speedup : float
        Throughput in that expected of one worker.
    limit : str
        What most likely keeps it below the number of workers.
    """

    workers: int
    throughput: float
    low: float
    high: float
    speedup: float
    limit: str


@dataclass(frozen=True)
class Forecasts(abc.ABC):
    """Forecasts for several numbers of workers.

    Attributes
    ----------
    forecasts : tuple of Forecast
    level : float
        How often the intervals are to hold the truth.
    """

    forecasts: tuple[Forecast, ...]
    level: float

    @property
    @abc.abstractmethod
    def note(self) -> str:
        """How sure they are, and where they come from, in a sentence."""

    @property
    def table(self) -> pd.DataFrame:
        """One row per number of workers."""
        import pandas as pd

        return pd.DataFrame([vars(forecast) for forecast in self.forecasts])

    def compare(self, measured: Mapping[int, float]) -> pd.DataFrame:
        """Return each forecast beside what was measured afterwards.

        Parameters
        ----------
        measured : mapping of int to float
            Number of workers to throughput, in the unit of the points.

        Returns
        -------
        DataFrame
            One row per forecast: ``workers``, ``predicted``, ``low``, ``high``, ``measured``,
            ``error_percent`` (by how much the forecast was too high, of the measured) and
            ``held``: whether the interval holds the measured throughput. The last three are NaN
            where nothing was measured.
        """
        import pandas as pd

        rows = []
        for forecast in self.forecasts:
            truth = measured.get(forecast.workers, math.nan)
            held = forecast.low <= truth <= forecast.high
            rows.append(
                {
                    "workers": forecast.workers,
                    "predicted": forecast.throughput,
                    "low": forecast.low,
                    "high": forecast.high,
                    "measured": truth,
                    "error_percent": 100 * (forecast.throughput / truth - 1),
                    "held": math.nan if math.isnan(truth) else held,
                }
            )
        return pd.DataFrame(rows)

    def worth(self, efficiency: float) -> int:
        """Return the most workers whose speedup is at least this share of their number.

        Parameters
        ----------
        efficiency : float
            Between 0 and 1.

        Returns
        -------
        int
            Of the numbers asked for; 0 if none is worth it.

        Raises
        ------
        LabkitError
            If the efficiency is not between 0 and 1.
        """
        check_efficiency(efficiency)
        enough = [f.workers for f in self.forecasts if f.speedup >= efficiency * f.workers]
        return max(enough, default=0)

    def __repr__(self) -> str:
        return f"{self.table.to_string(index=False, float_format='{:.4g}'.format)}\n{self.note}"

    def _repr_html_(self) -> str:
        table = self.table.to_html(index=False, float_format="{:.4g}".format)
        return f"{table}<p>{self.note}</p>"
