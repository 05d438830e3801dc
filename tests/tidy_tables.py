"""Made-up tidy tables, as a store would return them; their numbers are of no machine."""

import itertools

import numpy as np
import pandas as pd

BATCHES_PER_SECOND = {"tensorflow": 1.3, "mxnet": 1.6}
"""Of one worker with batch 512."""
HALF_SPEED = {"tensorflow": 120, "mxnet": 60}
"""Workers at which each is half as fast as it would be alone."""


def trials(
    frameworks=("tensorflow", "mxnet"),
    workers=(1, 2, 5, 10, 25, 50),
    batch_sizes=(512,),
    repeats=3,
    cores=64,
    model="lenet5",
    learning_rates=(0.025,),
    initializers=("default",),
    spread=0.04,
):
    """Return a table of trials: every combination, measured with some spread."""
    random = np.random.default_rng(1)
    samples_per_epoch = {"lenet5": 60_000, "lstm": 30_986}[model]
    rows = []
    for framework, w, batch, rate, initializer, seed in itertools.product(
        frameworks, workers, batch_sizes, learning_rates, initializers, range(1, repeats + 1)
    ):
        alone = BATCHES_PER_SECOND.get(framework, 1.0) * 512 / batch
        batches = alone * w / (1 + w / HALF_SPEED.get(framework, 90))
        batches *= 1 + spread * random.standard_normal()
        samples_per_second = batches * batch
        rows.append(
            {
                "framework": framework,
                "model": model,
                "dataset": {"lenet5": "fashion-mnist", "lstm": "ptb"}[model],
                "strategy": "async-ps",
                "workers": w,
                "servers": w if framework == "mxnet" else 1,
                "batch_size": batch,
                "learning_rate": rate,
                "epochs": None,
                "steps": 200,
                "seed": seed,
                "optimizer": "sgd",
                "initializer": initializer,
                "clip_norm": None,
                "loss_over_time": "default",
                "eval_samples": None,
                "threads": 1,
                "trial": f"{framework}-{model}-w{w}-b{batch}-lr{rate:g}-{initializer}-s{seed}",
                "status": "finished",
                "error": None,
                "variables": None,
                "batches_per_second": batches,
                "samples_per_second": samples_per_second,
                "imbalance": 0.02,
                "variation": 0.03,
                "epoch_s": samples_per_epoch * w / samples_per_second,
                "cores": cores,
                "oversubscribed": w > cores,
                "overloaded": False,
                "reported": False,
            }
        )
    return pd.DataFrame(rows)


def lose(table, status="failed", overloaded=False, **where):
    """Return the table with the numbers of some trials lost, as a store loses them."""
    table = table.copy()
    rows = np.logical_and.reduce([table[column] == value for column, value in where.items()])
    numbers = ["batches_per_second", "samples_per_second", "imbalance", "variation", "epoch_s"]
    table.loc[rows, numbers] = np.nan
    table.loc[rows, "status"] = status
    table.loc[rows, "overloaded"] = overloaded
    return table


def steps(table, windows=30, noise=2.0):
    """Return the step windows of a table of trials: accuracy rises, after a plateau for mxnet."""
    random = np.random.default_rng(2)
    parts = []
    for trial in table.to_dict("records"):
        seconds = trial["steps"] * trial["workers"] / (trial["batches_per_second"] or 1)
        for worker in range(trial["workers"]):
            done = np.unique(np.linspace(0, trial["steps"], windows + 1).astype(int))[1:]
            updates = done * trial["workers"]
            late = 0.55 if trial["framework"] == "mxnet" else 0.1
            pace = 40 * (1 - late) * trial["learning_rate"] / 0.025
            rise = 1 / (1 + np.exp(-(updates / trial["steps"] - late) * pace / 2))
            accuracy = 10 + 72 * rise + noise * random.standard_normal(len(done))
            parts.append(
                pd.DataFrame(
                    {
                        "trial": trial["trial"],
                        "framework": trial["framework"],
                        "workers": trial["workers"],
                        "batch_size": trial["batch_size"],
                        "learning_rate": trial["learning_rate"],
                        "initializer": trial["initializer"],
                        "seed": trial["seed"],
                        "dataset": trial["dataset"],
                        "worker": worker,
                        "t": done / trial["steps"] * seconds,
                        "steps": done,
                        "samples": done * trial["batch_size"],
                        "updates": updates,
                        "loss": 2.3 * (1 - rise) + 0.4,
                        "accuracy": np.clip(accuracy, 0, 100),
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)
