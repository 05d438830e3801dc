"""Which rows of a table of trials say what a step demands, or why none do."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from labkit.analysis.scaling import CIRCUMSTANCES, latest, plain, settled, unevaluated
from labkit.errors import LabkitError, nearest
from labkit.runs.circumstances import MACHINE
from labkit.trials import Trial
from labkit.trials.frameworks import FRAMEWORKS, SCRIPTED
from labkit.trials.models import MODELS
from labkit.trials.nodes import NODE

if TYPE_CHECKING:
    import pandas as pd

OPTIMIZERS = get_args(Trial.model_fields["optimizer"].annotation)

ALIKE = ("servers", "clip_norm", "loss_over_time")
"""Fields of a trial that ask workers or servers for more or less, and are not asked about."""


class NoDemands(LabkitError):
    """No run from which the demands of a step could be taken."""


class NotMeasured(NoDemands):
    """No run of what was asked for; the last line of the message is a command that makes one."""


class Basis(NamedTuple):
    """Rows from which the demands of a step are taken.

    Attributes
    ----------
    every : DataFrame
        All that count, of one worker and of more.
    ones : DataFrame
        Of these, the ones with one worker.
    served : DataFrame
        Of these, the last repeats that are alike, with servers, on the nodes asked for or else on
        those that say most of them, and without evaluation if there are any.
    node : tuple of float
        Slowdown, share of a core, and bits per second of the network of these.
    """

    every: pd.DataFrame
    ones: pd.DataFrame
    served: pd.DataFrame
    node: tuple[float, float, float]

    @property
    def circumstances(self) -> dict[str, Any]:
        """Where and with what the ones with servers were run."""
        served = self.served
        return {name: served[name].iloc[0] for name in CIRCUMSTANCES if name in served}

    @property
    def alone(self) -> pd.DataFrame:
        """The runs of one process without servers, in the same circumstances."""
        rows = self.ones
        rows = rows[(rows["strategy"] == "single") & (rows["slowdown"] == 1) & (rows["cpu"] == 1)]
        for name, value in self.circumstances.items():
            rows = rows.loc[[plain(other) == plain(value) for other in rows[name]]]
        return rows


def basis(
    table: pd.DataFrame,
    framework: str,
    model: str,
    batch_size: int,
    strategy: str,
    slowdown: float,
    optimizer: str,
    cpu: float,
    known: float,
    bandwidth: float | None,
) -> Basis:
    """Return the rows that say what a step demands; the arguments are those of `measured`.

    Raises
    ------
    NoDemands
        If there are none; it says which trial would do.
    LabkitError
        If something has a name that nothing has.
    """
    name = Path(model).name  # as tables have it
    _check(table, framework, name, optimizer)
    asked = f"{framework} {name} at batch size {batch_size}"
    asked += f" with {optimizer}" * (optimizer != "sgd")
    absent = NotMeasured(
        f"no run of {asked} with one worker and its server has been measured, so there is nothing "
        f"to predict from. First:\n  labkit run --framework {framework} --model "
        f"{shlex.quote(model)} --batch-size {batch_size} --workers 1 --learning-rate 0.025 "
        f"--steps 200 --repeats 3" + f" --optimizer {optimizer}" * (optimizer != "sgd")
    )
    if table.empty:
        raise absent
    rows = table[
        (table["framework"] == framework)
        & (table["model"] == name)
        & (table["batch_size"] == batch_size)
        & (table["workers"] <= known)
        & table["batches_per_second"].notna()
    ]
    if "optimizer" in rows:  # servers have more to do for some than for others
        rows = rows[rows["optimizer"] == optimizer]
    for field in ("threads", *NODE):
        usual = math.inf if field == "bandwidth" else 1.0
        said = rows[field].astype(float).fillna(usual) if field in rows else usual
        rows = rows.assign(**{field: said})
    every = settled(rows[rows["threads"] == 1])
    ones = every[every["workers"] == 1]
    served = ones[(ones["strategy"] != "single") & ~ones["oversubscribed"].astype(bool)]
    network = bandwidth or math.inf
    for node in ((slowdown, cpu, network), (slowdown, cpu, math.inf), (slowdown, 1.0, math.inf),
                 (1.0, 1.0, math.inf)):  # fmt: skip
        alike = (served[["slowdown", "cpu", "bandwidth"]] == node).all(axis="columns")
        if alike.any():
            break
    served = served[alike]
    same = served["strategy"] == strategy
    served = served[same] if same.any() else served
    if served.empty:
        there = rows[(rows["workers"] == 1) & (rows["strategy"] != "single")]
        if (there["threads"] > 1).any() or there["oversubscribed"].astype(bool).any():
            raise NoDemands(
                f"the runs of {asked} with one worker do not say what a step demands: its server "
                "had no core to itself, or the worker had several threads. A run counts with "
                "--threads 1 where there are as many cores as processes, or in pods."
            )
        raise absent
    last = latest(unevaluated(served), (*CIRCUMSTANCES, *ALIKE))
    return Basis(every, ones, last, node)


def of_one_machine(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one machine, so that what several settings demand can be compared.

    It is the one on which a single worker with whole cores last ran, without evaluation if any
    did.

    Parameters
    ----------
    table : DataFrame
        One row per trial.
    """
    alone = (table["workers"] == 1) & table["batches_per_second"].notna()
    alone &= table["strategy"] != "single"
    # What had a share of a core says nothing of whole ones, nor a limited network of others.
    for name in {"cpu", "bandwidth"} & set(table):
        alone &= table[name].isna()
    last = latest(unevaluated(table[alone]), MACHINE)
    for name in MACHINE:
        if name in table and len(last):
            table = table[table[name] == last[name].iloc[0]]
    return table


def _check(table: pd.DataFrame, framework: str, model: str, optimizer: str) -> None:
    """Refuse what nothing is known of."""
    if framework not in SCRIPTED:
        raise LabkitError(
            f"framework: {framework!r}{nearest(framework, SCRIPTED)}; allowed: "
            f"{', '.join(FRAMEWORKS)}"
        )
    models = [*MODELS] if table.empty else [*MODELS, *dict.fromkeys(table["model"])]
    if model not in models and (meant := nearest(model, models, 0.75)):
        raise LabkitError(f"model: nothing is known of {model!r}{meant}")
    scripts = [] if table.empty else table.loc[table["model"] == model, "strategy"] == "script"
    if framework not in FRAMEWORKS or (len(scripts) and all(scripts)):
        raise NoDemands(
            f"{model} is a script: what it asks of servers is unknown, so it cannot be simulated. "
            "From its throughputs with two numbers of workers or more:\n"
            f"  labkit results --model {shlex.quote(model)} --output mine.csv\n"
            "  labkit predict mine.csv"
        )
    if optimizer not in OPTIMIZERS:
        raise LabkitError(
            f"optimizer: {optimizer!r}{nearest(optimizer, OPTIMIZERS)}; allowed: "
            f"{', '.join(OPTIMIZERS)}"
        )
