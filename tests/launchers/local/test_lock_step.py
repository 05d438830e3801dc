"""Workers in lock step: they wait for each other all the way, and none is left behind."""

import os
import signal
import time

import pytest
from extensions import CHANCE, MLP
from saboteur import FIRST, LAST, Saboteur, trial

from labkit import Trial, measure
from labkit.replicas.events import Barrier, Evaluation, Step

pytestmark = [
    pytest.mark.process,
    pytest.mark.usefixtures("warm", "once"),
    pytest.mark.timeout(300),
]

STILL = 2.0
"""Seconds for which a worker is stopped."""

STEPS_PER_EPOCH = 30


def told(run, kind):
    """Return the events of a kind, of each worker."""
    return [[event for event in events if isinstance(event, kind)] for events in run.workers]


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["tensorflow", "mxnet"])
def test_when_one_stands_still_so_do_the_others(framework, store, tmp_path, monkeypatch):
    """And when one evaluates, too; meanwhile they learn."""
    (tmp_path / "my_mlp.py").write_text(MLP)
    monkeypatch.chdir(tmp_path)
    one = Trial(
        framework=framework, strategy="sync-ps", model="my_mlp.py", workers=2, epochs=2,
        batch_size=60_000 // STEPS_PER_EPOCH, learning_rate=0.5, initializer="xavier",
        eval_samples=2000,
    )  # fmt: skip
    still = []

    def stop(pids):
        os.kill(pids[LAST], signal.SIGSTOP)
        still.append(time.monotonic())
        time.sleep(STILL)
        still.append(time.monotonic())
        os.kill(pids[LAST], signal.SIGCONT)

    results = measure([one], store=store, on_event=Saboteur((FIRST, Barrier), stop))
    (run,) = results.runs
    first, second = told(run, Step)
    # The clock that events tell is the machine's.
    meanwhile = [event.steps for event in first if still[0] < event.t < still[1]]
    assert not meanwhile or meanwhile[-1] - meanwhile[0] <= 1
    # At any moment, as far as events tell, the workers are at most a step apart.
    for ones, others in ((first, second), (second, first)):
        for event in ones:
            before = [other.steps for other in others if other.t < event.t]
            after = [other.steps for other in others if other.t > event.t]
            assert not before or before[-1] <= event.steps + 1
            assert not after or after[0] >= event.steps - 1
    (evaluations, nobodys) = told(run, Evaluation)
    assert [event.steps for event in evaluations] == [STEPS_PER_EPOCH, 2 * STEPS_PER_EPOCH]
    assert nobodys == []
    row = results.table.iloc[0]
    assert row.accuracy > 5 * CHANCE
    assert second[-1].loss < second[0].loss
    assert row.paused_s == pytest.approx(evaluations[0].pause, abs=1e-4)
    assert row.imbalance < 0.1


@pytest.mark.parametrize(("framework", "slow"), [
    ("tensorflow", FIRST), ("tensorflow", LAST), ("mxnet", LAST),
])  # fmt: skip
def test_whoever_leaves_first_leaves_nobody_behind(framework, slow, store):
    """A worker that has a tenth of its time hears of the last update long after the other."""
    few = trial(framework, strategy="sync-ps", steps=5)
    saboteur = Saboteur((None, None), None, slow=(slow, Barrier))
    row = measure([few], store=store, on_event=saboteur).table.iloc[0]
    assert row.status == "finished"
