"""Tidy tables of runs: a row per trial, per reported step, per evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit.replicas.events import Ready, Step
from labkit.runs.circumstances import code_of, versions_of
from labkit.runs.cpu import busiest_server, cpu_variation, input_cpu, server_cpu, training_cpu
from labkit.runs.pods import use_of_pods
from labkit.runs.reported import unit_of
from labkit.runs.run import Run, RunError
from labkit.runs.sequence import evaluating, since_barrier
from labkit.runs.slow_nodes import idle_share, throttled_share
from labkit.settings import REFERENCE

if TYPE_CHECKING:
    import pandas as pd

NUMBERS = (
    "duration_s",
    "window_s",
    "paused_s",
    "batches_per_second",
    "samples_per_second",
    "imbalance",
    "variation",
    "epoch_s",
    "startup_s",
    "cpu_ms_per_step",
    "input_ms_per_step",
    "evaluation_ms_per_step",
    "compute_ms",
    "late_share",
    "idle_share",
    "cpu_variation",
    "server_cpu_ms_per_update",
    "busiest_server",
    "throttled_share",
    "sent_mb_per_step",
    "received_mb_per_step",
    "busiest_mbit_per_s",
    "peak_memory_mb",
    "accuracy",
    "perplexity",
    "inference_per_second",
)
"""Columns that only a finished run has."""

METRICS = ("loss", "accuracy", "perplexity")
"""Columns of what a network knows."""

RENAMED = {"time_shared": "oversubscribed", "steadiness": "variation"}
"""Columns and circumstances by the names that earlier versions gave them."""


def trials(runs: Iterable[Run]) -> pd.DataFrame:
    """Return one row per trial: its values, its rates, how it went and where."""
    import pandas as pd

    return pd.DataFrame(_rows(runs, lambda run: [_trial(run)]))


def steps(runs: Iterable[Run]) -> pd.DataFrame:
    """Return one row per step window of a worker, t in seconds since the barrier."""
    import pandas as pd

    return pd.DataFrame(_rows((run for run in runs if run.finished), _steps))


def evaluations(runs: Iterable[Run]) -> pd.DataFrame:
    """Return one row per evaluation on the test set."""
    import pandas as pd

    return pd.DataFrame(_rows((run for run in runs if run.finished), _evaluations))


def _rows(
    runs: Iterable[Run], rows_of: Callable[[Run], Iterable[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of each run; an error says of which."""
    for run in runs:
        try:
            yield from rows_of(run)
        except RunError as error:
            raise RunError(
                f"{run.directory} is damaged: {error}. `labkit clean --failed` removes such runs"
            ) from None


def published(name: str = "trials") -> pd.DataFrame:
    """Return a table of the run that is published with labkit: trials, steps or evals."""
    import pandas as pd

    table = modernise(pd.read_parquet(REFERENCE / f"{name}.parquet"))
    if name == "trials":  # what came later, nobody had looked for
        later = ("cpu", "bandwidth", *NUMBERS)
        table = table.assign(**{column: math.nan for column in later if column not in table})
    return table


def modernise(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table that an earlier version wrote, with the names that columns have now."""
    table = table.rename(columns=RENAMED)
    if "status" in table and "reported" not in table:
        table = table.assign(reported=False)  # there were no scripts
    if "strategy" in table and "optimizer" not in table:
        own = table["strategy"] != "script"
        table = table.assign(optimizer=own.map({True: "sgd", False: None}))
    if "status" in table and "variables" not in table:
        table = table.assign(variables=None)  # nobody had said so
    return table


def _key(run: Run) -> dict[str, Any]:
    return {"trial": run.directory.name} | run.trial.columns


def _trial(run: Run) -> dict[str, Any]:
    record = {RENAMED.get(name, name): value for name, value in run.record.items()}
    machine = record["machine"]
    row = _key(run) | {
        "identity": run.identity,
        "launcher": run.launcher,
        "status": record["status"],
        "error": record.get("error"),
        "samples_per_epoch": _epoch(run),
        "variables": _variables(run),
        "cores": machine["cores"],
        "oversubscribed": run.oversubscribed,
        "overloaded": run.overloaded,
        "reported": run.finished and run.reported,
    }
    row |= dict.fromkeys(NUMBERS, math.nan)
    if run.finished:
        row |= _numbers(run)
    versions = versions_of(run)
    row |= {
        "started": record.get("started"),
        "host": machine["host"],
        "cpu_model": machine["cpu_model"],
        "congestion_control": machine.get("congestion_control", ""),
        "revision": record["revision"],
        "code": code_of(run),
        "versions": ", ".join(f"{name} {versions[name]}" for name in sorted(versions)),
        "load_before": record.get("load_before", math.nan),
        "load_after": record.get("load_after", math.nan),
        "other_cpu": record.get("other_cpu", math.nan),
        "steal_cpu": record.get("steal_cpu", math.nan),
    }
    if run.finished:
        row |= _beside(row, {event.metric: event.value for _, event in run.evaluations()})
    return row


def _beside(row: Mapping[str, Any], metrics: Mapping[str, float]) -> dict[str, float]:
    """Return metrics by names that a table has no other column of: a script's may be any."""
    return {
        name if name in METRICS or name not in row else f"{name}_": value
        for name, value in metrics.items()
    }


def _numbers(run: Run) -> dict[str, Any]:
    record = run.record
    ends = [events[-1] for events in run.workers]
    numbers: dict[str, Any] = {
        "peak_memory_mb": max(end.peak_bytes for end in ends) / 2**20,
    }
    if not run.reported:
        steps = sum(end.steps for end in ends)
        numbers |= {
            "duration_s": max(p.t[-1] for p in run.progress()),
            "startup_s": record["startup_s"],
            "cpu_ms_per_step": 1000 * sum(map(training_cpu, run.workers)) / steps,
            "input_ms_per_step": 1000 * input_cpu(run.workers) / steps,
            "evaluation_ms_per_step": 1000 * max(evaluating(w) / w[-1].steps for w in run.workers),
            "cpu_variation": cpu_variation(run.workers),
            "server_cpu_ms_per_update": 1000 * server_cpu(run),
            "busiest_server": busiest_server(run),
        }
    if "calibration" in record:
        numbers |= {
            "compute_ms": 1000 * record["calibration"]["median"],
            "late_share": run.late_share,
            "idle_share": idle_share(record),
        }
    if record.get("use"):
        numbers["throttled_share"] = throttled_share(record)  # it may be why there is no rate
    for _, event in run.evaluations():
        if event.seconds:
            numbers["inference_per_second"] = event.samples / event.seconds
    if not run.overloaded:
        window = run.window
        known = not run.reported or run.trial.printing == run.trial.workers
        samples, batches = _rates(run)
        numbers |= {
            "window_s": window.end - window.begin - window.paused,
            "paused_s": window.paused,
            "samples_per_second": samples,
            "batches_per_second": batches,
            "epoch_s": _epoch(run) * run.trial.workers / samples,
            "imbalance": window.imbalance if known else math.nan,
            "variation": window.variation,
        }
        numbers |= use_of_pods(run, batches)
    return numbers


def _variables(run: Run) -> str | None:
    """Return the elements of each variable; None where no worker has said so."""
    if not run.finished:
        return None
    ready = [event for event in run.workers[0] if isinstance(event, Ready)]  # few scripts say so
    return " ".join(map(str, ready[0].variables)) if ready and ready[0].variables else None


def _epoch(run: Run) -> float:
    """Return the samples in the full batches of one pass; NaN of a script's, as nobody knows."""
    steps = run.trial.steps_per_epoch
    return math.nan if steps is None else steps * run.trial.batch_size


def _batch_size(run: Run) -> float:
    """Return the samples per step; of a script's steps the mean, NaN of one that says nothing."""
    if run.trial.batch_size is not None:
        return run.trial.batch_size
    if run.reported:
        return math.nan
    ends = [events[-1] for events in run.workers]
    return sum(end.samples for end in ends) / sum(end.steps for end in ends)


def _rates(run: Run) -> tuple[float, float]:
    """Return samples and batches per second of all workers; NaN what nobody knows."""
    rate = run.window.samples_per_second
    if run.reported and unit_of(run.workers[: run.trial.printing]) == "steps":
        return rate * _batch_size(run), rate
    return rate, rate / _batch_size(run)


def _evaluations(run: Run) -> Iterator[dict[str, Any]]:
    names = ("steps", "metric", "value", "samples", "seconds")
    for t, event in run.evaluations():
        yield _key(run) | {"t": t} | {name: getattr(event, name) for name in names}


def _steps(run: Run) -> Iterator[dict[str, Any]]:
    if run.reported:
        return
    progress = run.progress()
    for index, events in enumerate(run.workers):
        for t, event in since_barrier(events, Step):
            updates = float(event.steps)
            if run.trial.total_steps is None:
                updates = math.nan  # a script does not say what it does with its gradients
            elif not run.trial.lock_step:
                samples = sum(np.interp(t, p.t, p.samples) for p in progress)
                updates = float(samples / run.trial.batch_size)
            row = _key(run) | {
                "worker": index,
                "t": t,
                "steps": event.steps,
                "samples": event.samples,
                "updates": updates,
                "loss": math.nan if event.loss is None else event.loss,
                "accuracy": math.nan if event.accuracy is None else event.accuracy,
            }
            yield row | _beside(row, event.metrics or {})
