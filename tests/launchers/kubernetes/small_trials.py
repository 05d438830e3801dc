"""Small trials, and how they are run on a cluster."""

import time

import pytest

from labkit.campaign import SweepFailed, measure
from labkit.launchers.protocol import Submitted
from labkit.replicas.events import Event
from labkit.runs import Store
from labkit.trials import ScriptTrial, Trial

ENDLESS = {"steps": 100_000}
CASES = {
    "lenet5": {"batch_size": 32, "learning_rate": 0.05, "steps": 40, "eval_samples": 500},
    "lstm": {"batch_size": 4, "learning_rate": 0.5, "steps": 20, "eval_samples": 60},
}

def trial(framework="mxnet", model="lenet5", **values):
    return Trial(framework=framework, model=model, **CASES[model] | values)


WORK = """
import os, time
from labkit import report

report.ready()
began = time.monotonic()
while {}:
    time.sleep(0.02)
    report.step(1)
"""


def working(directory, condition, **values):
    """Return a trial of a script that works as long as a condition holds, on any machine."""
    script = directory / "work.py"
    script.write_text(WORK.format(condition))
    return ScriptTrial(framework="mxnet", servers=0, script=str(script), **values)


def run(trials, store, **options):
    return measure(trials, "kubernetes", store=store, **options)


def failing(trials, store, **options):
    """Return the error of a trial that fails, and the seconds it took."""
    begin = time.monotonic()
    with pytest.raises(SweepFailed) as caught:
        run(trials, store, **options)
    row = Store(store.root, "kubernetes").results(trials).table.iloc[0]
    assert row.status == "failed"
    assert row[["samples_per_second", "accuracy", "duration_s"]].isna().all()
    return str(caught.value), time.monotonic() - begin


class Live(list):
    """The replicas' events of a trial as they are shown; of its last try, if it had several."""

    def __call__(self, event):
        if isinstance(event, Submitted):  # again, if others kept the node busy
            self.clear()
        elif isinstance(event, Event):
            self.append((event.role, event.index, event.seq))
