"""``labkit run``: one trial, its summary, and what is refused."""

import io
import json
import shlex

import made_runs
import pandas as pd
import pytest

from labkit import campaign
from labkit.cli.run import summary
from labkit.runs import Store
from labkit.trials import Sweep

TINY = [
    "run", "--framework=mxnet", "--model=lenet5", "--strategy=single", "--batch-size=16",
    "--learning-rate=0.01", "--steps=8", "--eval-samples=250",
]  # fmt: skip


@pytest.mark.process
@pytest.mark.alone
@pytest.mark.usefixtures("warm")
def test_a_run_is_summed_up_and_kept_and_not_repeated(labkit):
    first = labkit(*TINY)
    assert first.exit_code == 0, first.output
    assert "throughput" in first.output and "test       accuracy" in first.output
    assert "in which the worker trained" in first.output
    second = labkit(*TINY)
    assert "has been run before" in second.output

    table = labkit("results", "--format=csv")
    frame = pd.read_csv(io.StringIO(table.stdout))
    assert list(frame["status"]) == ["finished"]
    assert list(frame["steps"]) == [8]
    steps = pd.read_csv(io.StringIO(labkit("results", "--table=steps", "--format=csv").stdout))
    assert steps["steps"].iloc[-1] == 8


@pytest.mark.unit
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--framework=mxnt",), ["framework: 'mxnt'", "did you mean 'mxnet'", "tensorflow"]),
        (("--workers=0",), ["workers: 0", "allowed: 1"]),
        (("--batch-size=70000",), ["batch_size: 70000", "60000"]),
        (("--steps=5", "--epochs=2"), ["epochs, steps", "both"]),
        (("--deadline=-1",), ["deadline", "more than 0"]),
    ],
)
def test_a_trial_that_cannot_be_is_refused_before_anything_starts(labkit, tmp_path, words, said):
    good = ["--framework=mxnet", "--model=lenet5", "--batch-size=16", "--learning-rate=0.01"]
    good += [] if any("steps" in word for word in words) else ["--steps=8"]
    refused = labkit("run", *good, *words)
    assert refused.exit_code == 1
    for piece in said:
        assert piece in refused.output
    assert "Traceback" not in refused.output
    assert not (tmp_path / "outputs").exists()


@pytest.mark.unit
@pytest.mark.parametrize("range", ["4-1", "1-20260101"])
def test_what_is_no_range_to_be_meant_is_refused(labkit, range):
    refused = labkit("run", *shlex.split(SETTING), "--workers", range)
    assert refused.exit_code == 2 and f"'{range}' is not a valid integer" in refused.output


SETTING = "--framework mxnet --model lenet5 --batch-size 128 --learning-rate 0.025 --steps 200"


@pytest.mark.unit
@pytest.mark.parametrize(
    ("words", "grid"),
    [
        ("--workers 1 2 4 --repeats 3", {"workers": [1, 2, 4], "repeats": 3}),
        ("--workers=1 2 4 --repeats=3", {"workers": [1, 2, 4], "repeats": 3}),
        ("--workers 1,2,4", {"workers": [1, 2, 4]}),
        ("--workers 1 --workers 2,4 --seed 5", {"workers": [1, 2, 4], "seed": 5}),
        ("--workers 1-4", {"workers": [1, 2, 3, 4]}),
        ("--workers 1-2,8 --seed=3-5", {"workers": [1, 2, 8], "seed": [3, 4, 5]}),
        ("--seed 1 2 --initializer xavier uniform --repeats 2",
         {"seed": [1, 2], "initializer": ["xavier", "uniform"], "repeats": 2}),
        ("--node thesis", {"slowdown": 10, "bandwidth": 2e9}),
        ("--workers 1-2 --slowdown 20 --node thesis",
         {"workers": [1, 2], "slowdown": 20, "bandwidth": 2e9}),
        ("--node today", {}),
    ],
)  # fmt: skip
def test_options_make_a_sweep(labkit, monkeypatch, words, grid):
    asked = []

    def measure(sweep, *_, **__):
        asked.append(list(sweep))
        raise campaign.SweepFailed("not in this test")

    monkeypatch.setattr(campaign, "measure", measure)
    refused = labkit("run", *shlex.split(f"{SETTING} {words}"))
    assert "not in this test" in refused.output
    setting = {"framework": "mxnet", "model": "lenet5", "batch_size": 128,
               "learning_rate": 0.025, "steps": 200}  # fmt: skip
    assert asked == [list(Sweep.grid(**setting | grid))]


@pytest.mark.unit
def test_what_names_of_nodes_are_refused(labkit, tmp_path):
    mistyped = labkit("run", *shlex.split(f"{SETTING} --node thesiss"))
    assert "node: 'thesiss'; did you mean 'thesis'?" in mistyped.output
    here = labkit("run", *shlex.split(f"{SETTING} --node thesis"))
    assert "bandwidth: 2000Mbit: only of pods: --launcher kubernetes" in here.output
    assert mistyped.exit_code == here.exit_code == 1
    assert not (tmp_path / "outputs").exists()


@pytest.mark.unit
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--workers 1 0", "workers: 0"),
        ("--workers 1 two", "'two' is not a valid integer"),
        ("--workers -1", "workers: -1"),
        ("--workers", "--workers"),
        ("--workers 4-1", "'4-1' is not a valid integer"),
        ("--workers 1 --clip-norm 1-2", "'1-2' is not a valid float"),
        ("--repeats 2 3", "3"),
        ("--repeats 0", "repeats: 0"),
        ("--steps 20 --epochs 1 2", "epochs, steps"),
    ],
)
def test_lists_that_make_no_sweep_are_refused(labkit, tmp_path, words, said):
    refused = labkit("run", *shlex.split(f"{SETTING} {words}"))
    assert refused.exit_code in (1, 2)
    assert said in refused.output
    assert "Traceback" not in refused.output
    assert not (tmp_path / "outputs").exists()


@pytest.fixture
def kept(labkit, monkeypatch):
    """Have a run of the setting with one worker, and a launcher that starts none."""
    monkeypatch.setitem(campaign.LAUNCHERS, "local", made_runs.Place())
    one = made_runs.trial(workers=1, batch_size=128, learning_rate=0.025, steps=200)
    return made_runs.add(Store(), one)


@pytest.mark.unit
def test_a_dry_run_says_what_would_be_run_and_starts_and_writes_nothing(
    labkit, kept, tmp_path, monkeypatch
):
    monkeypatch.delenv("COLUMNS", raising=False)  # as tests that run side by side have it
    before = sorted((tmp_path / "outputs").rglob("*"))
    words = shlex.split(f"{SETTING} --workers 1-2 --repeats 2 --dry-run")
    shown = labkit("run", *words)
    assert shown.exit_code == 0, shown.output
    head, one, two, _, note = shown.stdout.splitlines()
    assert head.split()[:3] == ["workers", "kept", "to_measure"]
    assert (one.split()[:3], two.split()[:3]) == (["1", "1", "1"], ["2", "0", "2"])
    assert note.startswith("4 trials: 1 kept, 3 to measure, about ")
    rows = json.loads(labkit("run", *words, "--format", "json").stdout)
    assert [(row["kept"], row["to_measure"]) for row in rows] == [(1, 1), (0, 2)]
    assert rows[1]["estimated_from"] == "1 run with workers 1"
    assert sorted((tmp_path / "outputs").rglob("*")) == before


@pytest.mark.unit
@pytest.mark.usefixtures("kept")
def test_a_plan_fits_the_terminal(labkit, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    words = shlex.split(f"{SETTING} --workers 1-2 --repeats 2 --dry-run")
    table, _, note = labkit("run", *words).stdout.partition("\n\n")
    *rows, left_out = table.splitlines()
    assert max(map(len, [*rows, left_out, *note.splitlines()])) <= 60
    assert rows[-1].split()[:3] == ["2", "0", "2"]
    assert left_out.startswith("No room for ") and "estimated_from; " in left_out + "; "
    assert note.startswith("4 trials: ")


@pytest.mark.unit
@pytest.mark.usefixtures("kept")
def test_what_was_run_for_programs(labkit):
    for repeats in ("1", "2"):  # a trial and a sweep alike; of two one has yet to be run
        words = shlex.split(f"{SETTING} --workers 1 --repeats {repeats}")
        if repeats == "2":
            made_runs.add(Store(), made_runs.trial(workers=1, batch_size=128, learning_rate=0.025,
                                                   steps=200, seed=2))  # fmt: skip
        rows = json.loads(labkit("run", *words, "--format", "json").stdout)
        assert [row["status"] for row in rows] == ["finished"] * int(repeats)
        table = pd.read_csv(io.StringIO(labkit("run", *words, "--format", "csv").stdout))
        assert table["trial"].tolist() == [row["trial"] for row in rows]


@pytest.mark.unit
def test_what_slow_pods_have_of_a_core_is_said(store):
    use = {"worker 0": {"seconds": 10.0, "throttled": 2.5, "sent": 1.0, "received": 1.0}}
    slow = made_runs.trial(workers=1, slowdown=10.0, cpu=0.16)
    made_runs.add(store, slow, calibration={"median": 0.01}, use=use, limited_s=0.5)
    results = store.results([slow])
    said = summary(results.table.iloc[0], results.evals)
    assert "each pod has 0.16 of a core, and waited for it up to 25% of the time" in said
    whole = made_runs.trial(workers=1, slowdown=10.0)
    made_runs.add(store, whole, calibration={"median": 0.01})
    results = store.results([whole])
    assert "of a core, and waited" not in summary(results.table.iloc[0], results.evals)
