"""What becomes of a trial whose objects cannot be deleted, with a cluster that is made up."""

from types import SimpleNamespace

import pytest
from small_trials import trial

from labkit.launchers.kubernetes import launcher
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.kubernetes.launcher import KubernetesLauncher
from labkit.launchers.protocol import NoRoomForTrial, TrialDiverged, TrialFailed

pytestmark = pytest.mark.unit


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Return a function that runs a trial which goes as given, in a cluster that keeps it."""

    class Cluster:
        def __init__(self, settings):
            pass

        def remove_and_check(self, selector):
            raise ClusterError("deleted 60 s ago, but still there")

    def run(outcome):
        class Attempt:
            def __init__(self, *_):
                pass

            def wait(self):
                if isinstance(outcome, BaseException):
                    raise outcome
                return outcome

        monkeypatch.setattr(launcher, "Attempt", Attempt)
        with KubernetesLauncher() as runner:
            return runner.run(trial(), tmp_path, lambda event: None)

    monkeypatch.setattr(launcher, "Cluster", Cluster)
    monkeypatch.setattr(launcher, "submit", lambda *_: SimpleNamespace(name="t", objects=3))
    return run


def test_a_finished_trial_is_kept_though_its_objects_stay(run, capsys):
    assert run({"launcher": "kubernetes"}) == {"launcher": "kubernetes"}
    (line,) = capsys.readouterr().err.splitlines()
    assert "could not be deleted: deleted 60 s ago, but still there" in line
    assert "labkit clean" in line


@pytest.mark.parametrize("kind", [TrialFailed, TrialDiverged, NoRoomForTrial])
def test_a_trial_that_fails_stays_what_it_was(run, kind):
    with pytest.raises(kind, match="(?s)its own cause.*could not be deleted") as caught:
        run(kind("its own cause"))
    assert caught.type is kind


def test_an_interrupted_sweep_ends(run, capsys):
    """A clean-up that fails must not turn a Ctrl-C into one trial's failure."""
    with pytest.raises(KeyboardInterrupt):
        run(KeyboardInterrupt())
    assert "could not be deleted" in capsys.readouterr().err
