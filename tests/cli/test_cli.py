"""The ``labkit`` command: what it prints, and how it says no."""

import io

import pandas as pd
import pytest
from click.testing import CliRunner

from labkit.cli import main

TINY = [
    "run", "--framework=mxnet", "--model=lenet5", "--strategy=single", "--batch-size=16",
    "--learning-rate=0.01", "--steps=8", "--eval-samples=250",
]  # fmt: skip


@pytest.fixture
def labkit(tmp_path, monkeypatch):
    """Call the command with a store of its own."""
    monkeypatch.setenv("LABKIT_OUTPUTS", str(tmp_path / "outputs"))
    return lambda *words: CliRunner().invoke(main, list(words), prog_name="labkit")


@pytest.mark.parametrize("command", [(), *((name,) for name in main.commands)])
def test_help_says_what_it_does_and_shows_an_example(labkit, command):
    shown = labkit(*command, "--help")
    assert shown.exit_code == 0
    assert "Usage: labkit" in shown.output
    if command not in (("doctor",), ("tensorboard",)):
        assert "\nexamples:\n" in shown.output.replace("  examples:", "examples:")


def test_a_run_is_summed_up_and_kept_and_not_repeated(labkit):
    first = labkit(*TINY)
    assert first.exit_code == 0, first.output
    assert "throughput" in first.output and "test       accuracy" in first.output
    again = labkit(*TINY)
    assert "has been run before" in again.output

    table = labkit("results", "--format=csv")
    frame = pd.read_csv(io.StringIO(table.stdout))
    assert list(frame["status"]) == ["finished"]
    assert list(frame["steps"]) == [8]
    steps = pd.read_csv(io.StringIO(labkit("results", "--table=steps", "--format=csv").stdout))
    assert steps["steps"].iloc[-1] == 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--framework=mxnt",), ["framework: 'mxnt'", "did you mean 'mxnet'", "tensorflow"]),
        (("--workers=0",), ["workers: 0", "allowed: 1"]),
        (("--batch-size=70000",), ["batch_size: 70000", "60000"]),
        (("--steps=5", "--epochs=2"), ["epochs, steps", "both"]),
        (("--launcher=locl",), ["launcher: 'locl'", "did you mean 'local'"]),
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


def test_mistyped_names_are_met_with_the_nearest_one(labkit):
    assert "results" in labkit("reslts").output
    assert "did you mean '6.3'" in labkit("figure", "6.33").output


def test_an_empty_store_says_how_to_fill_it(labkit):
    for command in (("results",), ("figure", "6.3")):
        empty = labkit(*command)
        assert empty.exit_code == 1
        assert "labkit reproduce" in empty.output
    assert labkit("tensorboard").exit_code == 1


def test_parquet_needs_a_file_and_fills_it(labkit, tmp_path):
    assert labkit("results", "--reference", "--format=parquet").exit_code == 2
    file = tmp_path / "steps.parquet"
    done = labkit(
        "results", "--reference", "--table=steps", "--format=parquet", "--output", str(file)
    )
    assert done.exit_code == 0, done.output
    assert {"trial", "updates", "loss"} <= set(pd.read_parquet(file).columns)


@pytest.mark.parametrize("number", ["6.1b", "6.3"])
def test_a_figure_is_drawn_from_the_published_run(labkit, tmp_path, number):
    drawn = labkit("figure", number, "--reference", "--output", str(tmp_path))
    assert drawn.exit_code == 0, drawn.output
    assert {path.suffix for path in tmp_path.glob("figure-*")} == {".svg", ".png"}
