"""PyTorch's own scripts, with PyTorch: as they are, and with three calls."""

import re
import subprocess

import made_scripts
import pytest
from processes import cannot

from labkit import ScriptTrial, measure
from labkit.settings import REFERENCE

PYTHON = "/usr/bin/python3"
"""Of Debian: an interpreter other than labkit's, with a numpy of its own and nothing of labkit."""

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.usefixtures("once", "torch")]


@pytest.fixture(scope="module")
def torch():
    """Have PyTorch."""
    found = subprocess.run([PYTHON, "-c", "import torch.distributed"], capture_output=True)
    if found.returncode:
        cannot(f"{PYTHON} has no PyTorch; Debian: apt-get install python3-torch (.ci/packages)")


@pytest.fixture
def run(tmp_path, monkeypatch, store):
    """Return a function that runs a script, and returns what came of it and what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(text, workers, arguments):
        (tmp_path / "train.py").write_text(text)
        trial = ScriptTrial(framework="torch", script="train.py", python=PYTHON, workers=workers,
                            arguments=str(arguments))  # fmt: skip
        results = measure([trial], store=store, quiet=True)
        directory = store.find(trial).directory
        return results, [(directory / f"worker-{i}.log").read_text() for i in range(workers)]

    return run


def weights_in(logs):
    """Return what each worker says of its network at the end."""
    found = [re.search(r"weights of worker (\d) of (\d): (\[.*\])", log) for log in logs]
    assert [match[1] for match in found] == [str(index) for index in range(len(logs))]
    assert {match[2] for match in found} == {str(len(logs))}
    return {match[3] for match in found}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_script_of_pytorchs_as_it_is(workers, run):
    results, logs = run(made_scripts.TORCH, workers, 60)
    (row,) = results.table.itertuples()
    assert row.status == "finished" and row.reported and row.samples_per_second > 0
    assert "torch " in row.versions
    printed = [[float(rate) for rate in re.findall(r"images/sec: (\S+)", log)] for log in logs]
    assert [len(rates) for rates in printed] == [6] * workers
    # The first line is left out, and what is left counts for the time that it was printed after.
    bounds = [sum(choose(rates[1:]) for rates in printed) for choose in (min, max)]
    assert bounds[0] - 1 <= row.samples_per_second <= bounds[1] + 1
    assert len(weights_in(logs)) == 1, "all have the same network after each step"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_script_of_pytorchs_with_three_calls(workers, run):
    results, logs = run(made_scripts.TORCH_REPORTS, workers, 60)
    (row,) = results.table.itertuples()
    assert row.status == "finished" and not row.reported
    assert row.batch_size is None and row.startup_s > 0 and row.cpu_ms_per_step > 0
    last = results.steps.groupby("worker").last()
    assert last.steps.tolist() == [60] * workers and last.samples.tolist() == [60 * 32] * workers
    assert last.loss.between(0, 5).all()
    assert len(weights_in(logs)) == 1


def test_the_script_of_what_was_measured_on_sixteen_cores(run):
    script = REFERENCE / "sixteen-cores" / "allreduce.py"
    results, _ = run(script.read_text(), 2, "8 20")
    (row,) = results.table.itertuples()
    assert row.status == "finished" and not row.reported
    last = results.steps.groupby("worker").last()
    assert last.steps.tolist() == [20, 20] and last.samples.tolist() == [160, 160]
