"""What becomes of a trial whose objects cannot be deleted, with a stand-in for its API server."""

from types import SimpleNamespace

import pytest
from small_trials import trial

from labkit.launchers.kubernetes import api, launcher
from labkit.launchers.kubernetes.api import Cluster
from labkit.launchers.kubernetes.errors import ClusterError
from labkit.launchers.kubernetes.launcher import KubernetesLauncher
from labkit.launchers.kubernetes.settings import Settings
from labkit.launchers.protocol import NoRoomForTrial, TrialDiverged, TrialFailed

pytestmark = pytest.mark.unit


@pytest.fixture
def run(api_server, monkeypatch, tmp_path):
    """Return a function that runs a trial which goes as given, in a cluster that keeps it."""

    def run(outcome, stopped=False):
        class Attempt:
            def __init__(self, *_):
                pass

            def known(self):
                return {}

            def wait(self):
                if stopped:
                    runner.stop()
                if isinstance(outcome, BaseException):
                    raise outcome
                return outcome

        monkeypatch.setattr(launcher, "Attempt", Attempt)
        api_server.fail(403, "they are protected", method="DELETE")
        with KubernetesLauncher() as runner:
            return runner.run(trial(), tmp_path, lambda event: None)

    return run


def test_a_finished_trial_is_kept_though_its_objects_stay(run, capsys):
    assert run({"launcher": "kubernetes"}) == {"launcher": "kubernetes"}
    (line,) = capsys.readouterr().err.splitlines()
    assert "could not be deleted: labkit may not delete Job" in line
    assert "labkit clean" in line


@pytest.mark.parametrize("kind", [TrialFailed, TrialDiverged, NoRoomForTrial])
def test_a_trial_that_fails_stays_what_it_was(run, kind):
    with pytest.raises(kind, match="(?s)its own cause.*could not be deleted") as caught:
        run(kind("its own cause"))
    assert caught.type is kind


def test_an_interrupted_sweep_ends(run, capsys):
    """A clean-up that fails must not turn a Ctrl-C into one trial's failure."""
    with pytest.raises(KeyboardInterrupt) as caught:
        run(KeyboardInterrupt())
    assert "could not be deleted" in capsys.readouterr().err
    assert caught.value.__notes__ == ["what is named above could not be"]


@pytest.mark.parametrize("stopped", [False, True])
def test_what_is_left_of_a_trial_that_is_stopped_is_said(stopped, run, capsys):
    """A sweep that is interrupted waits for its other trials, and drops their errors."""
    with pytest.raises(TrialFailed):
        run(TrialFailed("it was stopped"), stopped)
    assert ("could not be deleted" in capsys.readouterr().err) == stopped


def test_a_thousand_pods_are_not_polled_all_the_time(api_server, monkeypatch):
    """Each list of them is ten requests, of some megabytes together."""
    now = [0.0]
    monkeypatch.setattr(api, "time", SimpleNamespace(
        monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds),
    ))  # fmt: skip
    labels = {"app.kubernetes.io/part-of": "labkit"}
    for number in range(1000):
        api_server.put("pods", {"metadata": {"name": f"pod-{number}", "labels": dict(labels)}})
    monkeypatch.setattr(api_server, "delete", lambda kind, name: {})
    with pytest.raises(ClusterError, match="still there: Pod pod-0, .* and 995 more"):
        Cluster(Settings()).remove_and_check(api.PART_OF, patience=100.0)
    lists = [request for request in api_server.requests if request[:2] == ("GET", "pods")]
    assert len(lists) / now[0] < 2
