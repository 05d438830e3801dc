"""Labkit itself is ended: whatever it had begun ends with it, and what it had kept is whole."""

import signal
import time
from pathlib import Path

import made_runs
import pytest
from processes import eventually, running
from saboteur import ENDLESS, FEW, FIRST, LAST, LIMIT, Saboteur, nothing_is_left, trial

from labkit.replicas.events import Barrier, End, Ready, Start, Step, decode
from labkit.runs import Store
from labkit.settings import WARM

pytestmark = [
    pytest.mark.process,
    pytest.mark.slow,
    pytest.mark.usefixtures("warm", "once"),
    pytest.mark.timeout(300),
]


def events_of(labkit):
    return (decode(made_runs.line(event)) for event in labkit.events())


def follow(labkit, saboteur):
    for event in events_of(labkit):
        saboteur(event)
    assert saboteur.struck, labkit.errors.read_text()
    return labkit.wait()


MOMENTS = {
    "before ready": ((FIRST, Start), None, {}),
    "at the barrier": ((FIRST, Ready), (LAST, Start), {}),
    "while training": ((FIRST, Step), None, {}),
    "at the end": ((FIRST, End), (LAST, Barrier), {"steps": FEW}),
}


@pytest.mark.parametrize(("framework", "phase"), [
    *(("mxnet", phase) for phase in MOMENTS), ("tensorflow", "while training"),
])  # fmt: skip
def test_labkit_killed(framework, phase, start_labkit, tmp_path):
    """The warm process, which is not labkit's own here, clears up after it, and lives on."""
    moment, slow, values = MOMENTS[phase]
    labkit = start_labkit(framework=framework, **ENDLESS | values)
    saboteur = Saboteur(moment, lambda pids: labkit.signal(signal.SIGKILL), slow)
    assert follow(labkit, saboteur) == -signal.SIGKILL
    scratch = tmp_path / "runs" / ".scratch"
    eventually(lambda: not running(saboteur.pids.values()) and not any(scratch.iterdir()), LIMIT)
    nothing_is_left(Store(tmp_path / "runs"), saboteur)


# A script does not listen to SIGTERM, which therefore is as SIGKILL.
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_labkit_ended_with_a_warm_process_of_its_own(number, start_labkit, tmp_path, monkeypatch):
    monkeypatch.delenv(WARM)
    labkit = start_labkit(framework="mxnet", **ENDLESS)
    family = []

    def strike(pids):
        family.extend(labkit.family())
        labkit.signal(number)

    saboteur = Saboteur((FIRST, Step), strike)
    assert follow(labkit, saboteur) == -number
    assert len(family) == 1 + 1 + 2 + 2  # the warm process, a scheduler, servers, workers
    scratch = tmp_path / "runs" / ".scratch"
    eventually(lambda: not running(family) and not any(scratch.iterdir()), LIMIT)
    nothing_is_left(Store(tmp_path / "runs"), saboteur)


def has_begun(pid):
    """Whether a process has begun to import TensorFlow, which takes seconds."""
    return "/tensorflow/" in Path(f"/proc/{pid}/maps").read_text()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_labkit_ended_during_the_import(number, start_labkit, tmp_path, monkeypatch):
    monkeypatch.delenv(WARM)
    labkit = start_labkit(framework="tensorflow", **ENDLESS)
    eventually(lambda: any(map(has_begun, labkit.family("forkserver.py"))), 60)
    family = labkit.family()
    labkit.signal(number)
    assert labkit.wait() == -number
    eventually(lambda: not running(family), LIMIT)
    store = Store(tmp_path / "runs")
    with store.claim(trial("tensorflow")):  # the next one removes what a SIGKILL leaves here
        pass
    assert list((store.root / ".scratch").iterdir()) == []
    assert list(store.runs()) == []


@pytest.mark.parametrize(("framework", "presses"), [("tensorflow", 1), ("mxnet", 1), ("mxnet", 2)])
def test_ctrl_c(framework, presses, start_labkit, tmp_path):
    def strike(pids):
        for _ in range(presses):
            labkit.signal(signal.SIGINT)
            time.sleep(0.2)

    labkit = start_labkit(framework=framework, **ENDLESS | {"steps": [10, 1_000_000]})
    saboteur = Saboteur(None, strike)
    for event in events_of(labkit):
        if isinstance(event, Step) and event.steps > 10:
            saboteur.moment = (event.replica, Step)
        saboteur(event)
    assert labkit.wait() == -signal.SIGINT
    assert time.monotonic() - saboteur.struck < LIMIT
    eventually(lambda: not running(saboteur.pids.values()), LIMIT)
    store = Store(tmp_path / "runs")
    assert [run.trial for run in store.runs()] == [trial(framework, steps=10)]
    assert list((store.root / ".scratch").iterdir()) == []
    assert "KeyboardInterrupt" in labkit.errors.read_text()
