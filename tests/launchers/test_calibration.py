"""How a core is calibrated: once for all trials whose gradients are alike, on a quiet machine."""

import pytest
from made_runs import trial

from labkit.campaign import measure
from labkit.launchers.calibration import FEWEST, TRIES, Calibrations, alone_of
from labkit.launchers.protocol import TrialFailed, Waiting
from labkit.replicas.events import Computed
from labkit.trials import TrialError

pytestmark = pytest.mark.unit


class Machine:
    """Runs calibrations without a trainer: each finds gradients of 20 ms."""

    def __init__(self, *overloaded):
        self.overloaded, self.ran = list(overloaded), []

    def __call__(self, trial, directory, on_event):
        assert list(directory.iterdir()) == []
        (directory / "worker-0.log").touch()
        self.ran.append(trial)
        on_event(Waiting("nothing"))
        on_event(Computed(0, 1.0, "worker", 0, 2.0, trial.total_steps, 0, 0.019, 0.02, 0.021))
        return {"overloaded": self.overloaded.pop(0) if self.overloaded else False}


@pytest.fixture
def calibrated(tmp_path):
    """Return what calibrates for a trial; what it says is in its list ``said``."""

    def calibrate(trial):
        return calibrations.of(trial, calibrate.machine, scratch, calibrate.said.append)

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    calibrations = Calibrations(tmp_path / "kept")
    calibrate.said, calibrate.machine = [], Machine()
    return calibrate


def test_alone_and_not_stretched(calibrated):
    slow = trial(slowdown=20, workers=10, seed=3)
    assert calibrated(slow).median == 0.02
    (ran,) = calibrated.machine.ran
    assert ran == alone_of(slow)
    assert (ran.strategy, ran.workers, ran.slowdown, ran.eval_samples) == ("single", 1, 1.0, 0)
    assert (ran.batch_size, ran.model, ran.framework) == (50, "lenet5", "mxnet")
    assert calibrated.said == [Waiting("the calibration of a core")]


def test_once_for_all_whose_gradients_are_alike(calibrated):
    for values in ({}, {"workers": 5}, {"seed": 2}, {"slowdown": 3.0}, {"learning_rate": 0.2},
                   {"steps": 7}, {"eval_samples": 0}, {"servers": 1}):  # fmt: skip
        calibrated(trial(**{"slowdown": 20} | values))
    assert len(calibrated.machine.ran) == 1
    for values in ({"batch_size": 20}, {"framework": "tensorflow"}, {"model": "lstm"},
                   {"threads": 2}, {"clip_norm": 5.0}):  # fmt: skip
        calibrated(trial(**{"slowdown": 20} | values))
    assert len(calibrated.machine.ran) == 6


@pytest.mark.parametrize(("batch_size", "steps"), [(50, 80), (4, 1000), (60_000, 1)])
def test_how_many_gradients(batch_size, steps):
    if steps == 1:  # no more than the data have
        steps = min(FEWEST, 60_000 // batch_size)
    assert alone_of(trial(slowdown=2, batch_size=batch_size)).total_steps == max(steps, 2)


def test_a_busy_machine_is_calibrated_again(calibrated):
    calibrated.machine = Machine(True, False)
    assert not calibrated(trial(slowdown=2)).overloaded
    assert len(calibrated.machine.ran) == 2
    assert "other programs are busy" in calibrated.said[-1].for_


def test_a_machine_that_stays_busy_is_said_to_be(calibrated):
    calibrated.machine = Machine(*[True] * TRIES, False)
    assert calibrated(trial(slowdown=2)).overloaded
    assert len(calibrated.machine.ran) == TRIES


def test_a_calibration_that_fails_is_named(tmp_path):
    def fail(trial, directory, on_event):
        raise TrialFailed("worker-0 was killed")

    with pytest.raises(TrialFailed, match="the calibration of a core failed: worker-0 was killed"):
        Calibrations(tmp_path / "kept").of(trial(slowdown=2), fail, tmp_path, print)


def test_a_cluster_has_no_slow_nodes_yet():
    with pytest.raises(TrialError, match="slowdown: nothing that launcher 'kubernetes' can do"):
        measure([trial(slowdown=20)], "kubernetes")


def test_later_sweeps_have_the_same_nodes(tmp_path):
    """A speedup between two sweeps would be of different nodes otherwise."""
    machine = Machine()
    for _ in range(2):  # as two calls of measure do
        Calibrations(tmp_path / "kept").of(trial(slowdown=20), machine, tmp_path, print)
    assert len(machine.ran) == 1
