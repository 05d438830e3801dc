"""What is shown of a sweep in a cluster while it runs."""

import io
import json

import made_runs
import pytest
from rich.console import Console

from labkit.launchers.protocol import Pods, Submitted, Waiting
from labkit.progress import ClusterProgress, work
from labkit.replicas.events import Barrier, Step
from labkit.settings import PROGRESS

pytestmark = pytest.mark.unit

ROLES = {
    "worker": {"Pending": 3, "Running": 2, "Succeeded": 0, "Failed": 0},
    "scheduler": {"Pending": 0, "Running": 1, "Succeeded": 0, "Failed": 0},
}


def event(kind, index=0, **fields):
    """Return an event of a worker."""
    return kind(seq=0, role="worker", index=index, cpu=0.0, **fields)


@pytest.fixture
def trials():
    return [made_runs.trial(seed=1, workers=5), made_runs.trial(seed=2, workers=5)]


def screen(progress):
    """Return what a narrow terminal, or an output of JupyterLab, would show."""
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(progress._table())
    return console.export_text()


def test_a_table_of_roles_and_a_bar_a_trial(trials, monkeypatch):
    monkeypatch.delenv(PROGRESS, raising=False)
    with ClusterProgress(trials) as progress:
        for trial in trials:
            progress.begin(trial)
            progress.event(trial, Pods(ROLES))
        samples = work(trials[0]) // 5  # a fifth of it all, by each of two workers
        step = {"steps": 4, "samples": samples, "loss": 1.5, "accuracy": 50.0}
        for index in (0, 1):
            progress.event(trials[0], event(Barrier, index, t=10.0))
            progress.event(trials[0], event(Step, index, t=12.0, **step))
        text = screen(progress)
        assert "1 of 2: mxnet-lenet5-w5" in text and "2 of 2: mxnet-lenet5-w5" in text
        bars = [line.split() for line in text.splitlines() if "%" in line]
        assert bars[0][0] == 12 * "━" and bars[0][1:3] == ["40%", "about"]
        assert bars[1] == ["0%"]  # and no guess yet of what is left
        rows = [line.split() for line in text.splitlines()]
        assert ["worker", "3", "2", str(samples)] in rows  # a second: two workers in two seconds
        assert ["worker", "3", "2"] in rows  # nothing measured yet
        assert ["scheduler", "1"] in rows
        assert "step 4, loss 1.5, accuracy 50" in text
        progress.event(trials[1], Waiting("a node"))
        assert "waits for a node" in screen(progress)
        progress.end(trials[0])
        assert "1 of 2" not in screen(progress) and "2 of 2" in screen(progress)
        progress.end(trials[1])


def test_a_report_instead(trials, monkeypatch, tmp_path):
    monkeypatch.setenv(PROGRESS, str(tmp_path / "report"))
    with ClusterProgress(trials) as progress:
        progress.begin(trials[0])
        progress.event(trials[0], Submitted("mxnet-1", 4))
        progress.event(trials[0], Pods(ROLES))
        progress.end(trials[0])
    lines = [json.loads(line) for line in (tmp_path / "report").read_text().splitlines()]
    assert [line["state"] for line in lines] == [
        "starting", "submitted as mxnet-1",
        "workers 3 pending, 2 running; schedulers 1 running", "done",
    ]  # fmt: skip
    assert lines[-1]["text"].startswith("trial 1 of 2: mxnet-lenet5-w5")
