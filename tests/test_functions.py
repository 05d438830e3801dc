"""Functions of a user's own, measured as scripts are."""

import linecache
import os
import re
import sys
import textwrap
from pathlib import Path

import pytest
from processes import REPOSITORY, eventually, running

from labkit import measure, speedups
from labkit.campaign import SweepFailed

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("once")]

ALONE = {"framework": "mxnet", "servers": 0, "quiet": True}
"""Of functions that use no framework."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Stand in a folder of our own."""
    monkeypatch.chdir(tmp_path)


def cell(text):
    """Return the function ``train`` that a notebook's cell defines."""
    space, text = {"__name__": "__main__"}, textwrap.dedent(text)
    name = f"cell {len(linecache.cache)}"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name  # as IPython
    exec(compile(text, name, "exec"), space)
    return space["train"]


LEARN = """
import numpy as np

target = np.arange(20)
steps = 3000

def train(job):
    random = np.random.default_rng(job.seed + 100 * job.index)
    weights = np.zeros(20)
    job.report.ready()
    for _ in range(steps):
        inputs = random.normal(size=(64, 20))
        errors = inputs @ weights - inputs @ target
        weights -= 0.05 * inputs.T @ errors / 64
        job.report.step(64, loss=(errors**2).mean())
    job.report.evaluation(error=np.abs(weights - target).max())
    print(job)
"""


def test_a_function_is_measured_as_a_script_is(store):
    results = measure(cell(LEARN), workers=[1, 2], repeats=2, store=store, **ALONE)
    table = results.table
    assert table.status.tolist() == ["finished"] * 4 and not table.reported.any()
    assert table.workers.tolist() == [1, 2, 1, 2] and table.seed.tolist() == [1, 1, 2, 2]
    assert set(table.model) == {"train"} and set(table.strategy) == {"script"}
    assert table.batch_size.isna().all() and table.arguments.isna().all(), "nobody gave any"
    assert (results.evals.value < 0.1).all() and results.steps.groupby("trial").steps.max().min()
    assert not speedups(table).empty
    # Each knew who it was, and the trial is kept with what was run.
    directory = results.runs[1].directory
    log = (directory / "worker-1.log").read_text()
    assert "role='worker', index=1, workers=2, servers=0, framework='mxnet'" in log
    kept = (directory / "script/labkit_function.py").read_text()
    assert "weights -= 0.05 * inputs.T @ errors / 64" in kept
    assert all(run.current for run in store.runs())
    # Defined again, elsewhere, it is the same; with another value it is not.
    again = measure(cell("\n" + LEARN), workers=[1, 2], repeats=2, store=store, **ALONE)
    assert again.note.startswith("4 trials: 0 run, 4 re-used")
    other = measure(cell(LEARN.replace("= 3000", "= 2000")), store=store, **ALONE)
    assert other.table.code[0] != table.code[0]


@pytest.mark.slow
def test_mxnets_servers_run_it_too(store):
    train = cell("""
    import numpy as np

    def train(job):
        import mxnet as mx  # a server's and the scheduler's process stays in here
        store = mx.kv.create("dist_sync")
        store.init("w", mx.nd.zeros(4))
        store.set_optimizer(mx.optimizer.create("sgd", learning_rate=0.5))
        pulled = mx.nd.zeros(4)
        job.report.ready()
        for step in range(20):
            store.push("w", mx.nd.ones(4))
            store.pull("w", out=pulled)
            pulled.wait_to_read()
            job.report.step(1)
        assert store.num_workers == job.workers and job.role == "worker"
    """)
    results = measure(train, workers=2, servers=2, framework="mxnet", store=store, quiet=True)
    assert results.table.status[0] == "finished" and results.table.servers[0] == 2


def test_what_it_prints_counts_where_it_does_not_report(store):
    train = cell("""
    import time

    def train(job):
        for _ in range(6):
            time.sleep(0.05)
            print("500 images/sec")
    """)
    row = measure(train, store=store, **ALONE).table.iloc[0]
    assert row.reported and row.samples_per_second == pytest.approx(500)


@pytest.mark.slow
def test_the_page_works_as_written(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_OUTPUTS", str(tmp_path / "outputs"))
    page = (REPOSITORY / "docs" / "bring-your-own.md").read_text()
    page = page.partition("## A function")[2].partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    space = {"__name__": "__main__"}
    exec(compile(code, "the page", "exec"), space)
    assert space["results"].table.model.tolist() == ["train"] * 6


# --- failure --------------------------------------------------------------------------------


def fail(store, text, **values):
    """Run a function that fails; return the error's text."""
    with pytest.raises(SweepFailed) as error:
        measure(cell(text), store=store, **ALONE | values)
    assert not list(store.runs()) and list((store.root / ".failed").iterdir())
    return str(error.value)


def test_a_function_that_raises_is_named_with_its_line(store):
    text = """
    def deeper():
        raise ValueError("no more data")

    def train(job):
        job.report.ready()
        if job.index == 1:
            deeper()
        job.report.step(1)
    """
    said = fail(store, text, workers=2)
    assert "worker 1" in said and "left with code 1" in said and "ValueError: no more data" in said
    assert re.search(r'File "<train>", line 4, in train\s+deeper\(\)', said), said
    assert 'File "<deeper>", line 2, in deeper' in said


def test_a_function_that_says_nothing_is_no_run(store):
    assert "printed no rates" in fail(store, "def train(job):\n    return 5\n")


@pytest.mark.slow
def test_a_function_that_hangs_is_ended_and_leaves_nothing(store):
    text = """
    import os, subprocess, sys, time

    def train(job):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        open("pids", "w").write("{} {}".format(os.getpid(), child.pid))
        time.sleep(600)
    """
    assert "did not finish within its deadline of 4 s" in fail(store, text, deadline=4)
    pids = list(map(int, Path("pids").read_text().split()))
    eventually(lambda: not running(pids))


def test_a_loss_that_is_none_is_a_result(store):
    train = cell("""
    def train(job):
        job.report.ready()
        job.report.step(8, loss=float("nan"))
    """)
    table = measure(train, store=store, **ALONE).table
    assert table.status[0] == "diverged" and "loss became nan at step 1" in table.error[0]


def test_another_interpreter_of_this_version_runs_it(store, tmp_path):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\nTHERE=yes exec {sys.executable} \"$@\"\n")
    python.chmod(0o755)
    train = cell("""
    import os

    def train(job):
        assert os.environ["THERE"] == "yes"
        job.report.ready()
        job.report.step(1)
    """)
    assert "THERE" not in os.environ
    table = measure(train, store=store, python=str(python), **ALONE).table
    assert table.status[0] == "finished"


def test_a_function_from_a_file_of_ones_own(store, tmp_path, monkeypatch):
    (tmp_path / "my_helper.py").write_text("def steps():\n    return 5\n")
    (tmp_path / "my_job.py").write_text(
        "from my_helper import steps\n\n\ndef train(job):\n    job.report.ready()\n"
        "    for _ in range(steps()):\n        job.report.step(1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import my_job

    results = measure(my_job.train, store=store, **ALONE)
    assert results.table.status[0] == "finished"
    kept = {path.name for path in (results.runs[0].directory / "script").iterdir()}
    assert kept == {"labkit_function.py", "my_job.py", "my_helper.py"}
