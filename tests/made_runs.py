"""Made-up events of a run, as replicas would print them; their numbers are of no machine."""

import json

from labkit.replicas.events import PREFIX
from labkit.trials import Trial

STEP = 0.1
"""Seconds a step of worker 0 takes; worker 1 takes twice as long, worker 2 three times, ..."""

EVERY = 10
"""Steps between two `step` events."""

MACHINE = {
    "host": "here", "cpu_model": "a processor", "cores": 4, "memory": 2**33, "system": "x",
    "congestion_control": "cubic",
}  # fmt: skip

RECORD = {
    "machine": MACHINE,
    "revision": "0123456789ab",
    "status": "finished",
    "started": "2020-02-20T20:20:20+0000",
    "startup_s": 1.5,
    "load_before": 0.25,
    "load_after": 1.75,
    "own_cpu": 0.5,
    "other_cpu": 0.125,
    "overloaded": False,
}


def versions(framework):
    """Return the versions that replicas tell."""
    return {"python": "3.11.0", framework: "1.0"}


def trial(**values):
    """Return a small trial; LeNet with two workers, if not told otherwise."""
    small = {
        "framework": "mxnet",
        "model": "lenet5",
        "workers": 1 if values.get("strategy") == "single" else 2,
        "batch_size": 50,
        "learning_rate": 0.1,
        "steps": 100,
    }
    return Trial(**small | values)


def line(event):
    """Return an event as it is printed."""
    return f"{PREFIX}{json.dumps(event)}\n"


def events(trial, role, index, boot=1000.0):
    """Return the events of one replica; a machine's clock shows `boot` when it starts."""
    numbered = []

    def add(t, kind, **fields):
        who = {"role": role, "index": index}
        numbered.append({"seq": len(numbered), "t": boot + t, **who, "kind": kind} | fields)

    add(0, "start", trial=trial.identity, **trial.sums, pid=1, cpu=0.0,
        versions=versions(trial.framework))  # fmt: skip
    add(1, "ready", cpu=1.0)
    if role == "worker":
        add(2, "barrier", cpu=1.5)
        seconds = STEP * (1 + index)
        for steps in sorted({*range(EVERY, trial.total_steps, EVERY), trial.total_steps}):
            fields = {"loss": 2 - steps / trial.total_steps}
            if trial.network.metric == "accuracy":
                fields["accuracy"] = 10 + 80 * steps / trial.total_steps
            add(2 + steps * seconds, "step", steps=steps, samples=steps * trial.batch_size,
                cpu=1.5 + 0.5 * steps * seconds, **fields)  # fmt: skip
        if index == 0 and trial.eval_samples != 0:
            images = trial.network.metric == "accuracy"
            add(3 + trial.total_steps * seconds, "eval", cpu=100.0, samples=10_000, seconds=0.5,
                steps=trial.total_steps,
                metric="accuracy" if images else "perplexity", value=87.5 if images else 321.0,
                loss=0.5, pause=1.0)  # fmt: skip
        if trial.slowdown is not None:
            add(4 + trial.total_steps * seconds, "computed", gradients=trial.total_steps, late=3,
                low=0.01, median=0.02, high=0.03, cpu=101.0)  # fmt: skip
        add(
            4 + trial.total_steps * seconds,
            "end",
            steps=trial.total_steps,
            cpu=101.0,
            samples=trial.total_steps * trial.batch_size,
            input=0.002 * trial.total_steps * (1 + index),
            peak_bytes=(200 + index) << 20,
        )
    else:
        add(100, "end", cpu=7.0, peak_bytes=100 << 20)
    return numbered


def write(trial, directory, change=lambda role, index, lines: lines):
    """Write all logs of a trial's run; `change` may spoil the lines of a replica."""
    for role, count in trial.replicas.items():
        for index in range(count):
            lines = [line(event) for event in events(trial, role, index)]
            (directory / f"{role}-{index}.log").write_text("".join(change(role, index, lines)))


def add(store, trial, **record):
    """Put a made-up run of a trial into a store."""
    with store.claim(trial) as scratch:
        write(trial, scratch)
        return store.keep(trial, scratch, RECORD | record)


class Place:
    """A launcher for which nothing is missing, which makes runs up and notes of which trials."""

    parallel = 1

    def __init__(self):
        self.ran = []

    def __call__(self, deadline):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def check(self, trials):
        pass

    def run(self, trial, directory, on_event):
        self.ran.append(trial)
        write(trial, directory)
        return RECORD
