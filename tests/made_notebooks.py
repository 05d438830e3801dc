"""Notebooks run here, on made-up results: their numbers are of no machine."""

import ast
import contextlib
import io
import json
import math
import warnings
from types import SimpleNamespace

import pandas as pd

import labkit
from labkit.campaign import LAUNCHERS
from labkit.figures.page import title_of
from labkit.thesis import figures
from labkit.trials import Sweep
from labkit.trials.demand import is_slow


def made_up(trials, measured=True, curve="usual", cores=2):
    """Return tables as a store would, with numbers of no machine.

    A learning curve is the `usual` one, or of `no report`, of `one report`, or on the plateau
    `always` or `never`; `diverged` trials have neither.
    """
    rows, steps = [], []
    measured = measured and curve != "diverged"
    parts = {"no report": (), "diverged": (), "one report": (1.0,)}
    for trial in trials:
        alone = {"tensorflow": 1.0, "mxnet": 1.3}[trial.framework] * 512 / trial.batch_size
        rate = alone * trial.workers * (1 + 0.01 * trial.seed) if measured else math.nan
        row = {"trial": trial.name} | trial.model_dump()
        rows.append(
            row
            | {
                "status": "diverged" if curve == "diverged" else "finished",
                "overloaded": not measured and curve != "diverged",
                "cores": cores,
                "oversubscribed": trial.workers > cores and not is_slow(trial),
                "batches_per_second": rate,
                "samples_per_second": rate * trial.batch_size,
                "epoch_s": 60_000 * trial.workers / (rate * trial.batch_size),
                "samples_per_epoch": 60_000,
                "cpu_ms_per_step": 20.0,
                "compute_ms": 15.0 if is_slow(trial) else math.nan,
                "server_cpu_ms_per_update": 2.0,
                "late_share": 0.02,
                "idle_share": 0.6,
                "imbalance": 0.02,
                "variation": 0.03,
                "startup_s": 1.0,
                "duration_s": 9.0,
                "launcher": "local",
                "accuracy": 80.0 if trial.model == "lenet5" else math.nan,
                "perplexity": 300.0 if trial.model == "lstm" else math.nan,
            }
        )
        flat = 0.4 if trial.initializer == "uniform" else 0.0
        flat = {"always": 2.0, "never": 0.0}.get(curve, flat)
        for worker in range(min(trial.workers, 2)):
            for part in parts.get(curve, (0.1, 0.3, 0.5, 0.7, 1.0)):
                done = part * trial.total_steps
                steps.append(
                    row
                    | {
                        "worker": worker,
                        "t": done / alone,
                        "steps": done,
                        "samples": done * trial.batch_size,
                        "updates": done * trial.workers,
                        "loss": 1.0,
                        "accuracy": 10.0 if part < flat else 70.0,
                    }
                )
    return SimpleNamespace(table=pd.DataFrame(rows), steps=pd.DataFrame(steps))


def execute(source, names):
    """Run a cell, and print its last value as Jupyter would."""
    body = ast.parse(source)
    last = body.body.pop() if isinstance(body.body[-1], ast.Expr) else None
    exec(compile(body, "a cell", "exec"), names)
    value = eval(compile(ast.Expression(last.value), "a cell", "eval"), names) if last else None
    if value is not None:
        print(value)


def run(page, monkeypatch, edits=(), **how):
    """Run a page's cells here; return its trials, figures and printed lines, measuring nothing.

    What `edits` name is replaced in the cells, as a learner would.
    """
    sweeps, found = [], {}

    def pretend(sweep, launcher="local", *, deadline=600, precision=1, max_repeats=1):
        assert launcher in LAUNCHERS and deadline > 0 and precision > 0 and max_repeats > 0
        sweeps.append(Sweep(sweep))
        return made_up(sweep, **how)

    def keep(number, results, name=None):
        assert number not in found
        if name:
            return found.setdefault(name, (title_of(number), set(results.table["trial"])))
        shown = figures.shown(number, results).table["trial"]
        found[number] = title_of(figures.draw(number, results)), set(shown)

    monkeypatch.setattr(labkit, "measure", pretend, raising=False)
    monkeypatch.setattr(labkit, "show", keep, raising=False)
    sources = [
        ("".join(cell["source"]), cell["metadata"].get("tags") == ["parameters"])
        for cell in json.loads(page.source.read_text())["cells"]
        if cell["cell_type"] == "code"
    ]
    for old, new in edits:
        assert any(old in source for source, _ in sources), old
        sources = [(source.replace(old, new), tagged) for source, tagged in sources]
    names = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed, warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        warnings.simplefilter("error", RuntimeWarning)
        for source, tagged in sources:
            execute(source, names)
            if tagged:
                names |= page.parameters
    trials = list(dict.fromkeys(trial for sweep in sweeps for trial in sweep))
    return trials, found, printed.getvalue()
