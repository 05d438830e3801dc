"""``labkit results`` and ``tensorboard``: what has been measured, also by other versions."""

import io
import json

import made_runs
import pandas as pd
import pytest

from labkit.runs import Store

pytestmark = pytest.mark.unit


@pytest.fixture
def store(tmp_path):
    """Return the store that the command reads."""
    return Store(tmp_path / "outputs" / "runs")


def change(run, **values):
    """Change what a kept run says of its trial."""
    path = run.directory / "trial.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def frame(result):
    return pd.read_csv(io.StringIO(result.stdout))


def test_an_empty_store_says_how_to_fill_it(labkit):
    for command in (("results",), ("figure", "6.3")):
        empty = labkit(*command)
        assert empty.exit_code == 1
        assert "labkit reproduce" in empty.output
    assert labkit("tensorboard").exit_code == 1


def test_the_tables_of_what_was_measured(labkit, store):
    trials = [made_runs.trial(seed=seed) for seed in (1, 2)]
    for trial in trials:
        made_runs.add(store, trial)
    shown = labkit("results", "--format=csv")
    assert list(frame(shown)["trial"]) == sorted(store.find(t).directory.name for t in trials)
    assert shown.stderr == ""
    steps = frame(labkit("results", "--table=steps", "--format=csv"))
    assert steps["steps"].max() == trials[0].total_steps
    assert len(labkit("results").stdout.splitlines()) == 3  # with the names of the columns


def test_runs_of_other_versions_do_not_vanish(labkit, store):
    changed, gone, now = (made_runs.trial(seed=seed) for seed in (1, 2, 3))
    runs = {trial: made_runs.add(store, trial) for trial in (changed, gone, now)}
    change(runs[changed], identity="of another trainer")
    change(runs[gone], values=gone.model_dump() | {"model": "perceptron"})
    shown = labkit("results", "--format=csv")
    assert list(frame(shown)["trial"]) == [
        runs[changed].directory.name, runs[now].directory.name,
    ]  # fmt: skip
    (line,) = shown.stderr.splitlines()
    assert line.startswith("labkit: 2 runs are of another version of labkit: ")
    assert f"1 shown, though the trainer or the data has changed since ({changed.name}-" in line
    assert "model: 'perceptron'" in line and f"({gone.name}-" in line
    assert now.name not in line


def test_if_no_run_can_be_read_it_says_why(labkit, store):
    run = made_runs.add(store, made_runs.trial())
    change(run, values={"model": "perceptron"})
    shown = labkit("results")
    assert shown.exit_code == 1
    assert "1 run is of another version" in shown.stderr and "perceptron" in shown.stderr


def test_parquet_needs_a_file_and_fills_it(labkit, tmp_path):
    assert labkit("results", "--reference", "--format=parquet").exit_code == 2
    file = tmp_path / "steps.parquet"
    done = labkit(
        "results", "--reference", "--table=steps", "--format=parquet", "--output", str(file)
    )
    assert done.exit_code == 0, done.output
    assert {"trial", "updates", "loss"} <= set(pd.read_parquet(file).columns)


def test_the_published_run_has_the_columns_of_today(labkit, store):
    made_runs.add(store, made_runs.trial())
    today = frame(labkit("results", "--format=csv")).columns
    published = frame(labkit("results", "--reference", "--format=csv")).columns
    # the run that is published now was made before there were these
    assert set(today) - set(published) <= {"host", "code", "steal_cpu"}
    assert "batches_per_second" in labkit("results", "--reference").output
