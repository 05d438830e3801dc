"""Tidy tables of runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from labkit import analysis
from labkit.runs.run import Run, since_barrier

if TYPE_CHECKING:
    import pandas as pd

FORMER_NAMES = {"time_shared": "oversubscribed", "steadiness": "variation"}
"""What columns were called in tables that earlier versions have written."""


def modernise(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table that was read from a file, with its columns' present names."""
    return table.rename(columns=FORMER_NAMES)


def key_of(run: Run) -> dict[str, Any]:
    return {"trial": run.directory.name} | run.trial.model_dump()


def row_of(run: Run) -> dict[str, Any]:
    trial, record = run.trial, run.record
    here = record["machine"]
    row = key_of(run) | {
        "identity": run.identity,
        "launcher": run.launcher,
        "status": record["status"],
        "error": record.get("error"),
        "samples_per_epoch": trial.steps_per_epoch * trial.batch_size,
        "cores": here["cores"],
        "oversubscribed": record.get(
            "oversubscribed", trial.workers * trial.threads > here["cores"]
        ),
        "overloaded": bool(record.get("overloaded")),
    }
    row |= dict.fromkeys(
        ("duration_s", "window_s", "batches_per_second", "samples_per_second", "imbalance",
         "variation", "epoch_s", "startup_s", "cpu_ms_per_step", "peak_memory_mb", "accuracy",
         "perplexity", "inference_per_second"),
        math.nan,
    )  # fmt: skip
    if run.finished:
        row |= _numbers(run)
    versions = run.workers[0][0]["versions"] if run.finished else {}
    return row | {
        "started": record.get("started"),
        "host": here["host"],
        "cpu_model": here["cpu_model"],
        "revision": record["revision"],
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "load_before": record.get("load_before", math.nan),
        "load_after": record.get("load_after", math.nan),
        "other_cpu": record.get("other_cpu", math.nan),
    }


def _numbers(run: Run) -> dict[str, Any]:
    trial, progress = run.trial, run.progress()
    ends = [events[-1] for events in run.workers]
    numbers: dict[str, Any] = {
        "duration_s": max(p.t[-1] for p in progress),
        "startup_s": run.record["startup_s"],
        "cpu_ms_per_step": 1000 * sum(map(_training_cpu, run.workers))
        / sum(e["steps"] for e in ends),
        "peak_memory_mb": max(e["peak_bytes"] for e in ends) / 2**20,
    }  # fmt: skip
    evaluations = run.evaluations()
    if evaluations:
        last = evaluations[-1]
        numbers[last["metric"]] = last["value"]
        numbers["inference_per_second"] = last["samples"] / last["seconds"]
    if not run.record["overloaded"]:
        window = analysis.window(progress)
        rate = window.samples_per_second
        numbers |= {
            "window_s": window.end - window.begin,
            "samples_per_second": rate,
            "batches_per_second": rate / trial.batch_size,
            "epoch_s": trial.steps_per_epoch * trial.batch_size * trial.workers / rate,
            "imbalance": window.imbalance,
            "variation": window.variation,
        }
    return numbers


def _training_cpu(events: list[dict[str, Any]]) -> float:
    """Return the CPU seconds a worker spent between its barrier and its steps' ends."""
    pairs = itertools.pairwise(e for e in events if e["kind"] in ("barrier", "step", "eval"))
    return sum(after["cpu"] - before["cpu"] for before, after in pairs if after["kind"] == "step")


def step_rows(run: Run) -> Iterator[dict[str, Any]]:
    progress = run.progress()
    size = run.trial.batch_size
    for index, events in enumerate(run.workers):
        for event in since_barrier(events, "step"):
            updates = sum(np.interp(event["t"], p.t, p.samples) for p in progress) / size
            yield key_of(run) | {
                "worker": index,
                "t": event["t"],
                "steps": event["steps"],
                "samples": event["samples"],
                "updates": updates,
                "loss": event["loss"],
                "accuracy": event.get("accuracy", math.nan),
            }
