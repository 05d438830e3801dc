"""A trainer that does at once what a test tells it to, and trials that are run with it."""

import dataclasses
import json
import textwrap

import made_runs
import psutil
import pytest

from labkit import datasets
from labkit.launchers.local.launcher import LocalLauncher
from labkit.launchers.protocol import TrialFailed
from labkit.replicas.events import Start
from labkit.trials.frameworks import FRAMEWORKS

TRAINER = """
import json, os, signal, sys, time
from pathlib import Path

from labkit.replicas import checksum, loop, models
from labkit.replicas.arguments import parse
from labkit.replicas.events import Barrier, Ready, Start, Step, Writer

CODE = checksum(__file__)
HERE = Path(__file__).parent

def main(args):
    events = Writer(args.role, args.index)
    read = {{"model": "", "data": ""}}
    if args.role == "worker":
        read = {{"model": models.load(models.path_of(args.model)).SUM, "data": {data!r}}}
    events.write(Start, trial=args.trial, code=CODE, pid=os.getpid(), versions={{}}, **read)
    exec((HERE / "act.py").read_text(), globals())
    act(args, events)

def train(args, events):
    events.write(Ready)
    events.write(Barrier)
    time.sleep(0.1)
    events.write(Step, steps=args.steps, samples=args.steps * args.batch_size, loss=1.0)

def end(args, events):
    events.end(steps=args.steps, samples=args.steps * args.batch_size)

def tell(**found):
    os.write(1, json.dumps({{"told": found}}).encode() + b"\\n")

def wait_for(flag):
    while not (HERE / flag).exists():
        time.sleep(0.01)
"""

ACT = """
def act(args, events):
    train(args, events)
    end(args, events)
"""


def write(folder, act=ACT, at_import=""):
    """Write the trainer to a folder: what it does when it is run, and when it is imported."""
    folder.mkdir(exist_ok=True)
    text = TRAINER.format(data=datasets.checksum("fashion-mnist")) + at_import
    (folder / "train.py").write_text(text)
    (folder / "act.py").write_text(textwrap.dedent(act))


def put_in_place(folder, monkeypatch):
    """Have the trainer of a folder be that of all frameworks."""
    for name, row in FRAMEWORKS.items():
        row = dataclasses.replace(row, trainer=folder / "train.py")
        monkeypatch.setitem(FRAMEWORKS, name, row)


def told(directory, replica="worker-0"):
    """Return what a replica told, so far, in a run's directory."""
    lines = (directory / f"{replica}.log").read_text().splitlines()
    (found,) = (json.loads(line)["told"] for line in lines if line.startswith('{"told"'))
    return found


def single(**values):
    """Return a trial of one process without evaluation."""
    return made_runs.trial(strategy="single", **{"eval_samples": 0} | values)


def launch(trial, directory, on_event=lambda event: None, **options):
    """Run a trial; return its events and the record."""
    events = []

    def see(event):
        events.append(event)
        on_event(event)

    with LocalLauncher(**options) as launcher:
        record = launcher.run(trial, directory, see)
    return events, record


def failing(trial, directory, on_event=lambda event: None, **options):
    """Run a trial that fails; return the message, and make sure that nothing is left."""
    pids = []

    def see(event):
        if isinstance(event, Start):
            pids.append(event.pid)
        on_event(event)

    with LocalLauncher(**options) as launcher:
        with pytest.raises(TrialFailed) as caught:
            launcher.run(trial, directory, see)
        assert [pid for pid in pids if psutil.pid_exists(pid)] == []
    return str(caught.value)
