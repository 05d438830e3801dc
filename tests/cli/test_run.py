"""``labkit run``: one trial, its summary, and what is refused."""

import io

import pandas as pd
import pytest

TINY = [
    "run", "--framework=mxnet", "--model=lenet5", "--strategy=single", "--batch-size=16",
    "--learning-rate=0.01", "--steps=8", "--eval-samples=250",
]  # fmt: skip


@pytest.mark.process
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
