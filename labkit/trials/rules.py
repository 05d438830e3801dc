"""What may go together in a trial, and what follows from what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from labkit import datasets
from labkit.errors import nearest
from labkit.trials import own_data
from labkit.trials.frameworks import FRAMEWORKS
from labkit.trials.models import MODELS, Model, ModelError
from labkit.trials.strategies import STRATEGIES

TABLES = {
    "framework": FRAMEWORKS,
    "model": MODELS,
    "dataset": datasets.DATASETS,
    "strategy": STRATEGIES,
}
"""The fields of a trial that name a row of a table."""


def fill_in(values: dict[str, Any]) -> dict[str, Any]:
    """Return a trial's values with the defaults that depend on others.

    A wrong value there is reported by its own field.

    Raises
    ------
    ValueError
        If it is to learn data of a user's own, and that is not as it should be.
    """
    strategy = STRATEGIES.get(str(values.get("strategy", "async-ps")))
    framework = FRAMEWORKS.get(str(values.get("framework")))
    workers = values.get("workers", 1)
    servers = 1
    if strategy and not strategy.has_servers:
        servers = 0
    elif framework and type(workers) is int:
        servers = framework.servers_for(workers)
    if "dataset" not in values:
        values = {"dataset": _dataset(values)} | values
    return {"servers": servers} | values


def _dataset(values: dict[str, Any]) -> str:
    """Return what a trial learns that does not say it."""
    try:
        network = Model.named(str(values.get("model")))
        loads = network.loads
    except ModelError:
        return next(iter(datasets.DATASETS))
    return own_data.named(network.path) if loads else network.datasets[0]


def check_name(field: str, value: str) -> None:
    """Make sure that a field names a row of its table, or a model's file that can be used.

    Raises
    ------
    ValueError
        With the nearest name, and what is allowed.
    """
    known = TABLES[field]
    if field == "model":
        try:
            _ = Model.named(value).frameworks
        except ModelError as error:
            raise ValueError(f"model: {error}") from None
    elif value not in known and not (field == "dataset" and own_data.is_name(value)):
        raise ValueError(f"{field}: {value!r}{nearest(value, known)}; allowed: {', '.join(known)}")


def mistakes(trial: Any) -> Iterator[str]:
    """Say which values of a `Trial`, which needs these rules itself, do not go together."""
    yield from _rows(trial)
    yield from _numbers(trial)


def _rows(trial: Any) -> Iterator[str]:
    """Say which rows of the tables do not go together."""
    network = trial.network
    if network.loads and not own_data.is_name(trial.dataset):
        yield f"dataset: {trial.dataset!r}, but model {trial.model!r} loads its own; leave it out"
    if not network.loads and trial.dataset not in network.datasets:
        yield (
            f"dataset: {trial.dataset!r} is nothing for model {trial.model!r}; "
            f"allowed: {', '.join(network.datasets)}"
        )
    if trial.framework not in network.frameworks:
        able = [name for name in network.frameworks if name in FRAMEWORKS]
        yield (
            f"framework: model {trial.model!r} defines no function {trial.framework!r}; "
            f"allowed: {', '.join(able) or 'none'}"
        )
    able = FRAMEWORKS[trial.framework].strategies
    if trial.strategy not in able:
        yield (
            f"strategy: {trial.strategy!r} is nothing that {trial.framework} does; "
            f"allowed: {', '.join(able)}"
        )
    if trial.loss_over_time != "default" and network.time_steps == 1:
        yield (
            f"loss_over_time: {trial.loss_over_time!r} with model {trial.model!r}, which has "
            "no time steps; allowed: 'default'"
        )


def _numbers(trial: Any) -> Iterator[str]:
    """Say which numbers cannot be, given the others."""
    if trial.slowdown_spread is not None and trial.slowdown is None:
        yield f"slowdown_spread: {trial.slowdown_spread:g} of no slowdown; give both"
    if trial.cpu is not None and trial.slowdown is None:
        yield f"cpu: {trial.cpu:g} of no slowdown; give both"
    elif trial.cpu is not None and trial.cpu * trial.slowdown < trial.threads:
        least = trial.threads / trial.slowdown
        yield (
            f"cpu: {trial.cpu:g} is too little to compute a gradient within {trial.slowdown:g} "
            f"times its time; allowed: {least:g} or more, or a larger slowdown"
        )
    if (trial.epochs is None) == (trial.steps is None):
        given = "neither is" if trial.epochs is None else "both are"
        yield f"epochs, steps: give one of them; {given} given"
    samples = own_data.samples(trial.dataset)
    if trial.batch_size > samples:
        yield (
            f"batch_size: {trial.batch_size} is more than the {samples} training samples "
            f"of {trial.dataset}; allowed: 1 to {samples}"
        )
    strategy = STRATEGIES[trial.strategy]
    if strategy.most_workers and trial.workers > strategy.most_workers:
        most = "1" if strategy.most_workers == 1 else f"1 to {strategy.most_workers}"
        yield f"workers: {trial.workers} with strategy {trial.strategy!r}; allowed: {most}"
    if strategy.has_servers and trial.servers < 1:
        yield f"servers: {trial.servers} with strategy {trial.strategy!r}; allowed: 1 or more"
    if trial.servers and not strategy.has_servers:
        yield (
            f"servers: {trial.servers} with strategy {trial.strategy!r}, which has none; "
            "allowed: 0"
        )
