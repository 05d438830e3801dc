"""``labkit results`` and ``tensorboard``: what has been measured, also by other versions."""

import errno
import io
import json
import os
from pathlib import Path

import made_runs
import pandas as pd
import pytest

from labkit import datasets
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


def test_the_tables_of_what_was_measured(labkit, store, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # as tests that run side by side have it
    trials = [made_runs.trial(seed=seed) for seed in (1, 2)]
    for trial in trials:
        made_runs.add(store, trial)
    shown = labkit("results", "--format=csv")
    assert list(frame(shown)["trial"]) == sorted(store.find(t).directory.name for t in trials)
    assert shown.stderr == ""
    steps = frame(labkit("results", "--table=steps", "--format=csv"))
    assert steps["steps"].max() == trials[0].total_steps
    said, _, *lines = labkit("results").stdout.splitlines()
    assert said == ("In all trials: framework mxnet, model lenet5, workers 2, batch_size 50, "
                    "learning_rate 0.1, steps 100")  # fmt: skip
    assert lines[0].split() == ["seed", "batches_per_second", "accuracy"]
    assert [line.split()[0] for line in lines[1:]] == ["1", "2"]


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
    assert line.startswith("labkit: 2 runs are of another version of labkit, or damaged: ")
    assert f"1 shown, though the trainer or the data has changed since ({changed.name}-" in line
    assert "model: 'perceptron'" in line and f"({gone.name}-" in line
    assert now.name not in line


@pytest.mark.parametrize("content", ["", '{"status": "fin', "[]", "{}"])
@pytest.mark.parametrize("name", ["run.json", "trial.json"])
def test_a_damaged_run_hides_no_other(labkit, store, name, content):
    whole, damaged = (made_runs.add(store, made_runs.trial(seed=seed)) for seed in (1, 2))
    (damaged.directory / name).write_text(content)
    shown = labkit("results", "--format=csv")
    assert list(frame(shown)["trial"]) == [whole.directory.name]
    (line,) = shown.stderr.splitlines()
    assert "damaged" in line and damaged.directory.name in line


@pytest.mark.parametrize("log", ["worker-0.log", "server-1.log"])
def test_events_that_are_cut_off_hide_no_other_run(labkit, store, log):
    whole, damaged = (made_runs.add(store, made_runs.trial(seed=seed)) for seed in (1, 2))
    path = damaged.directory / log
    path.write_text(path.read_text()[:-50])
    for table in ("trials", "steps", "evals"):
        shown = labkit("results", "--format=csv", f"--table={table}")
        assert set(frame(shown)["trial"]) == {whole.directory.name}
        (line,) = shown.stderr.splitlines()
        who = log.removesuffix(".log").replace("-", " ")
        assert "damaged" in line and damaged.directory.name in line and who in line
        assert "labkit clean --failed" in line
    assert "1 run; 1 more cannot be read" in repr(store.results())


def test_a_sweep_whose_kept_run_is_damaged_says_which_and_why(store):
    trial = made_runs.trial()
    run = made_runs.add(store, trial)
    log = run.directory / "worker-0.log"
    log.write_text(log.read_text()[:-50])
    found = store.results([trial])
    (why,) = found.left_out.values()
    assert list(found.left_out) == [run.directory] and why.startswith("worker 0: ")
    assert "1 more cannot be read" in repr(found)


def test_many_runs_of_other_versions_are_counted_not_listed(labkit, store):
    for seed in range(1, 8):
        change(made_runs.add(store, made_runs.trial(seed=seed)), identity="of another trainer")
    (line,) = labkit("results").stderr.splitlines()
    assert line.startswith("labkit: 7 runs are") and line.endswith("and 5 more)")
    assert len(line) < 250


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


def test_the_published_run_has_the_columns_of_today(labkit, store, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    made_runs.add(store, made_runs.trial())
    today = frame(labkit("results", "--format=csv")).columns
    published = frame(labkit("results", "--reference", "--format=csv")).columns
    assert set(today) <= set(published)
    assert "batches_per_second" in labkit("results", "--reference").output


@pytest.mark.parametrize(
    ("ending", "read"),
    [(".csv", pd.read_csv), (".json", pd.read_json), (".parquet", pd.read_parquet)],
)
def test_a_file_is_written_as_its_name_ends(labkit, store, tmp_path, ending, read):
    for seed in (1, 2):
        made_runs.add(store, made_runs.trial(seed=seed))
    file = tmp_path / "not" / "yet" / f"there{ending}"
    done = labkit("results", "--output", str(file))
    assert done.exit_code == 0, done.output
    table = read(file)
    assert list(table["seed"]) == [1, 2]
    assert table["batches_per_second"].notna().all()


def test_formats_on_standard_output(labkit, store):
    made_runs.add(store, made_runs.trial())
    (row,) = json.loads(labkit("results", "--format=json").stdout)
    assert row["framework"] == "mxnet" and row["clip_norm"] is None
    refused = labkit("results", "--output", "table.xlsx")
    assert refused.exit_code == 2 and ".csv, .json, .parquet" in refused.output


def test_versions_are_selected_as_the_table_has_them(labkit, store):
    made_runs.add(store, made_runs.trial())
    versions = frame(labkit("results", "--format=csv"))["versions"][0]
    assert ", " in versions
    assert len(frame(labkit("results", "--format=csv", "--versions", versions))) == 1



@pytest.mark.parametrize("table", ["trials", "steps", "evals"])
def test_results_are_selected_as_figures_are(labkit, store, table):
    for seed in (1, 2, 3):
        made_runs.add(store, made_runs.trial(seed=seed))
    chosen = labkit("results", "--format=csv", f"--table={table}", "--seed", "1", "3")
    assert set(frame(chosen)["seed"]) == {1, 3}
    ranged = labkit("results", "--format=csv", f"--table={table}", "--seed=2-9", "--workers=1-4")
    assert set(frame(ranged)["seed"]) == {2, 3}
    none = labkit("results", f"--table={table}", "--seed=7", "--workers=2")
    assert none.exit_code == 1
    assert "seed: 7 is in none of the trials" in none.output and "only 1, 2, 3" in none.output


@pytest.mark.parametrize("error", [errno.EROFS, errno.ENOSPC, errno.EACCES])
@pytest.mark.parametrize("words", [("results", "--output=x/t.csv"), ("figure", "throughput"),
                                   ("reproduce", "--profile=smoke")],
                         ids=lambda words: words[0])  # fmt: skip
def test_a_place_that_cannot_be_written_is_one_clear_error(
    labkit, store, monkeypatch, words, error
):
    made_runs.add(store, made_runs.trial())

    def refuse(path, *_, **__):
        raise OSError(error, os.strerror(error), str(path))

    for writing in ("mkdir", "write_bytes", "write_text"):
        monkeypatch.setattr(Path, writing, refuse)
    monkeypatch.setattr(datasets, "fetch", lambda name: None)
    refused = labkit(*words)
    assert refused.exit_code == 1, refused.output
    (line,) = refused.stderr.strip().splitlines()
    assert line.startswith("labkit: ") and os.strerror(error) in line
    assert "LABKIT_OUTPUTS" in line and "Traceback" not in line


@pytest.mark.parametrize("table", ["trials", "steps"])
def test_of_the_published_run_those_on_one_launcher(table, labkit):
    every = frame(labkit("results", "--reference", "--table", table, "--format=csv"))
    parts = [
        frame(labkit("results", "--reference", "--launcher", where, "--table", table,
                     "--format=csv"))
        for where in ("local", "kubernetes")
    ]  # fmt: skip
    assert sum(map(len, parts)) == len(every)
    for where, part in zip(("local", "kubernetes"), parts, strict=True):
        assert part["trial"].str.contains("kubernetes").eq(where == "kubernetes").all()
