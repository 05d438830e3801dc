"""Tables of a made-up world in which all claims of chapter 6 are true; of no machine.

That there is one shows that the claims, as they are written down, do not contradict each other.
"""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from labkit import claims
from labkit.thesis.claims import find
from labkit.thesis.claims.nodes import kinds
from labkit.thesis.claims.verdicts import judge

WORKERS = (1, 2, 5, 10, 25, 50)
SEEDS = (1, 2, 3)
SPREAD = (0.995, 1.0, 1.005)
"""Of the repeats of a rate."""

NEAR_IDEAL = (1, 1.98, 4.9, 9.7, 24, 48)
GOOD = (1, 1.96, 4.8, 9.4, 23.5, 45)

ALONE = {
    ("tensorflow", 512): 1.3, ("mxnet", 512): 1.3 * 1.31,
    ("tensorflow", 256): 2.6, ("mxnet", 256): 2.6 * 1.15,
    ("tensorflow", 128): 5.2, ("mxnet", 128): 5.2 * 1.1,
    ("tensorflow", 20): 1.0, ("mxnet", 20): 6.0,
    ("tensorflow", 5): 2.0, ("mxnet", 5): 18.0,
}  # fmt: skip
"""Batches per second of one worker, by framework and batch size."""

SPEEDUPS = {
    ("mxnet", 512): GOOD,
    ("mxnet", 256): GOOD,
    ("mxnet", 128): (*GOOD[:-1], 36),
    ("mxnet", 20): (1, 1.95, 4.7, 7.6, 9.2, 9.7),
    ("mxnet", 5): (1, 1.9, 4.5, 7.5, 9, 9.5),
    ("tensorflow", 5): (1, 1.97, 4.85, 9.1, 21.5, 42),
}
"""Where it is not near ideal."""

LEARNS_UNTIL = {0.1: 2, 0.05: 10, 0.025: 25}
"""Workers with which MXNet still learns, by rate."""

COMMON = {
    "strategy": "async-ps", "clip_norm": None, "loss_over_time": "default", "threads": 1,
    "optimizer": "sgd",
    "epochs": None, "status": "finished", "oversubscribed": False, "overloaded": False,
    "launcher": "local", "host": "here", "cpu_model": "a processor", "cores": 200,
    "congestion_control": "cubic",
}  # fmt: skip

BUSY = 0.9
"""Of a worker: its CPU time over time."""


def _trial(framework, batch, workers, seed, rate, **more):
    cnn = batch not in (20, 5) or "accuracy" in more
    values = {
        "framework": framework, "model": "lenet5" if cnn else "lstm",
        "dataset": "fashion-mnist" if cnn else "ptb", "batch_size": batch, "workers": workers,
        "servers": workers if framework == "mxnet" else 1, "seed": seed, "learning_rate": rate,
    }  # fmt: skip
    row = COMMON | values | {"initializer": "default", "eval_samples": 0, "steps": 50} | more
    parts = ("framework", "model", "workers", "batch_size", "learning_rate", "initializer", "seed")
    return row | {"trial": "-".join(str(row[part]) for part in parts)}


def _rates():
    for (framework, batch), alone in ALONE.items():
        speedups = SPEEDUPS.get((framework, batch), NEAR_IDEAL)
        for workers, speedup in zip(WORKERS, speedups, strict=True):
            for seed, factor in zip(SEEDS, SPREAD, strict=True):
                rate = alone * speedup * factor
                yield _trial(
                    framework, batch, workers, seed, 0.05 if batch < 128 else 0.025,
                    batches_per_second=rate,
                    epoch_s=10_000 * workers / (rate * batch),
                    cpu_ms_per_step=1000 * BUSY * workers / rate,
                )  # fmt: skip


def _learning():
    """Yield trials, each with its plateau and its rise in percent of the training."""
    for rate, until in LEARNS_UNTIL.items():
        for workers in WORKERS:
            learns = workers <= until
            yield "tensorflow", 512, workers, rate, "xavier", 86, 4, 30
            yield "mxnet", 512, workers, rate, "uniform", 85 if learns else 10, 60, 10
    yield "mxnet", 5, 1, 0.025, "uniform", 89, 20, 10
    yield "mxnet", 5, 10, 0.025, "uniform", 89, 4, 10
    yield "tensorflow", 512, 50, 0.025, "uniform", 86, 60, 10
    yield "mxnet", 512, 50, 0.025, "xavier", 86, 4, 30


def world():
    """Return the tables, as a store would return them."""
    rows, reports = list(_rates()), []
    for framework, batch, workers, rate, initializer, accuracy, plateau, rise in _learning():
        for seed in SEEDS:
            steps = 8 * (60_000 // batch)
            trial = _trial(
                framework, batch, workers, seed, rate, initializer=initializer, steps=steps,
                eval_samples=None, accuracy=accuracy + 0.1 * (seed - 2),
            )  # fmt: skip
            rows.append(trial)
            reports.append(curve(trial, plateau + (seed - 2), rise))
    table = pd.DataFrame(rows).astype({"clip_norm": object, "eval_samples": float})
    return SimpleNamespace(table=table, steps=pd.concat(reports, ignore_index=True))


def curve(trial, plateau, rise):
    """Return a learning curve: chance, a rise, and what is reached, by percent of the training."""
    percent = np.arange(1, 101)
    accuracy = np.select([percent <= plateau, percent <= plateau + rise], [10, 40], 85)
    done = percent * trial["steps"] // 100
    return pd.DataFrame(
        {
            "trial": trial["trial"], "worker": 0, "steps": done, "accuracy": accuracy,
            "samples": done * trial["batch_size"], "updates": done * trial["workers"],
        }
    )  # fmt: skip


# --- judging it -----------------------------------------------------------------------------


def judged(results):
    """Return all verdicts by number."""
    return {verdict.claim.number: verdict.verdict for verdict in claims(results)}


def verdict_of(number, results):
    """Return the verdict on one claim."""
    return judge(find(number), list(kinds(results.table, results.steps)))


def altered(results, where, **columns):
    """Return the results with columns of some trials changed by functions of them."""
    table = results.table.copy()
    for column, change in columns.items():
        table.loc[where, column] = change(table.loc[where, column])
    return SimpleNamespace(table=table, steps=results.steps)


def only(results, rows):
    """Return the results with some of their trials."""
    return SimpleNamespace(table=results.table[rows], steps=results.steps)


def is_rate(table):
    """Return which trials show rates, not learning."""
    return table["eval_samples"] == 0
