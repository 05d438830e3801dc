"""Warm processes: a framework is imported once, and none is ever run as another than it is."""

import json
import os
import signal
import threading
import time

import psutil
import pytest
from made_trainer import launch, single, told
from processes import eventually, running

from labkit.campaign import SweepFailed, measure
from labkit.errors import LabkitError
from labkit.launchers.local import warm as warm_processes
from labkit.launchers.local.launcher import LocalLauncher
from labkit.launchers.local.warm import Program, WarmProcesses
from labkit.launchers.protocol import TrialFailed
from labkit.replicas.events import Start, Step
from labkit.runs import Run
from labkit.runs.check import check
from labkit.settings import WARM
from labkit.trials.frameworks import FRAMEWORKS

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("no_process_is_left")]

COUNT = "open(__file__ + '.imports', 'a').write('x')\n"
"""Leaves a mark each time that the trainer is imported."""

HANGS = """
def act(args, events):
    train(args, events)
    time.sleep(60)
"""


def mxnet():
    """Return the trainer in MXNet's place, as it is now."""
    return Program.trainer(FRAMEWORKS["mxnet"])


def imports(tmp_path):
    """Return how often the trainer has been imported."""
    return len((tmp_path / "trainer" / "train.py.imports").read_text())


class Parents(list):
    """Notes from which process each replica was forked."""

    def __call__(self, event):
        if isinstance(event, Start):
            self.append(psutil.Process(event.pid).ppid())


# --- once and for all -----------------------------------------------------------------------


def test_a_framework_is_imported_once(importing, tmp_path):
    importing(COUNT)
    parents = Parents()
    with LocalLauncher() as launcher:
        for seed in range(3):
            run = tmp_path / str(seed)
            run.mkdir()
            launcher.run(single(seed=seed), run, parents)
        assert len(parents) == 3
        (server,) = set(parents)
        assert psutil.pid_exists(server)
    assert not psutil.pid_exists(server)
    assert imports(tmp_path) == 1


def test_other_threads_are_another_process(importing, tmp_path):
    importing(
        "",
        """
        def act(args, events):
            train(args, events)
            tell(threads=os.environ["OMP_NUM_THREADS"], cpus=len(os.sched_getaffinity(0)))
            end(args, events)
    """,
    )
    found = {}
    with LocalLauncher() as launcher:
        for threads in (1, 2):
            run = tmp_path / str(threads)
            run.mkdir()
            launcher.run(single(threads=threads), run, lambda event: None)
            found[threads] = told(run)
    here = len(os.sched_getaffinity(0))
    assert found == {1: {"threads": "1", "cpus": 1}, 2: {"threads": "2", "cpus": min(2, here)}}


def test_warm_processes_are_shared(importing, tmp_path, monkeypatch):
    importing(COUNT)
    monkeypatch.setenv(WARM, str(tmp_path))
    with WarmProcesses(tmp_path) as warm:
        warm.connect(mxnet(), 1).close()
        for seed in range(2):
            run = tmp_path / f"run{seed}"
            run.mkdir()
            launch(single(seed=seed), run)
    assert imports(tmp_path) == 1
    assert tmp_path.is_dir()


def test_the_thread_that_started_a_warm_process_may_end(importing):
    with WarmProcesses() as warm:
        before = psutil.Process().children()
        start = threading.Thread(target=lambda: warm.connect(mxnet(), threads=1).close())
        start.start()
        start.join()
        (server,) = set(psutil.Process().children()) - set(before)
        time.sleep(0.5)
        assert running([server.pid])


# --- a trainer that is edited ---------------------------------------------------------------


def test_a_trainer_that_is_edited_is_imported_anew(importing, tmp_path):
    """What is warm is the old code: its trials and the new ones are different trials."""
    importing(COUNT)
    parents, trials = Parents(), []
    with LocalLauncher() as launcher:
        for name, source in (("old", ""), ("new", "# edited\n"), ("old again", "")):
            importing(COUNT + source)
            run = tmp_path / name
            run.mkdir()
            trial = single()
            check(Run(trial, run, launcher.run(trial, run, parents)))
            trials.append(trial)
        old, new, again = parents
    assert old != new and old == again
    assert imports(tmp_path) == 2
    assert trials[0].identity != trials[1].identity
    assert trials[0].identity == trials[2].identity


@pytest.mark.usefixtures("datasets", "once")
def test_code_that_is_not_the_trials_is_no_result(importing, store):
    """A sweep that was made before its trainer was edited."""
    trial = single()
    due = trial.sums["code"]
    importing("# edited\n")
    found = FRAMEWORKS["mxnet"].sum
    with pytest.raises(SweepFailed) as caught:
        measure([trial], store=store)
    assert f"worker 0: code is '{found}', should be '{due}'" in str(caught.value)
    assert list(store.runs()) == []
    assert store.failure(trial).record["status"] == "failed"


@pytest.mark.usefixtures("datasets", "once")
def test_a_warm_process_that_imported_other_code_is_no_result(importing, tmp_path, store):
    """One that was edited in the moments between its checksum and its import."""
    importing(COUNT + "Path(__file__).write_text(Path(__file__).read_text() + '# edited')\n"
              "CODE = checksum(__file__)\n")  # fmt: skip
    trial = single()
    with pytest.raises(SweepFailed, match="worker 0: code is '[0-9a-f]{64}', should be"):
        measure([trial], store=store)
    assert list(store.runs()) == []


# --- an import that fails -------------------------------------------------------------------


def test_a_framework_that_cannot_be_imported(importing, directory):
    importing("import no_such_framework")
    with LocalLauncher() as launcher:
        for _ in range(2):
            with pytest.raises(LabkitError) as caught:
                launcher.run(single(), directory, print)
        for piece in ("mxnet cannot be imported", "code 1", "No module named 'no_such_framework'",
                      "labkit doctor"):  # fmt: skip
            assert piece in str(caught.value)
        importing("")  # mended
        launcher.run(single(), directory, lambda event: None)


def test_a_framework_that_takes_its_process_down(importing, directory):
    importing("os.kill(os.getpid(), signal.SIGILL)")
    with pytest.raises(LabkitError, match="mxnet cannot be imported.*code -4"):
        launch(single(), directory)


def test_an_import_that_does_not_end(importing, directory, monkeypatch):
    importing("time.sleep(60)")
    monkeypatch.setattr(warm_processes, "STALL", 0.5)
    with pytest.raises(LabkitError, match="cannot be imported.*it takes more than 0.5 s"):
        launch(single(), directory)


@pytest.mark.slow
def test_an_import_that_is_interrupted(importing, directory, tmp_path):
    importing(COUNT + "time.sleep(60)")

    def interrupt():
        eventually((tmp_path / "trainer" / "train.py.imports").exists, 60)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        launch(single(), directory)


# --- ends -----------------------------------------------------------------------------------


def test_a_fork_server_that_is_killed(importing, tmp_path):
    importing("", HANGS)
    pids = []

    def kill(event):
        if isinstance(event, Start):
            pids.append(event.pid)
        if isinstance(event, Step):
            os.kill(psutil.Process(pids[0]).ppid(), signal.SIGKILL)

    with LocalLauncher() as launcher:
        (tmp_path / "1").mkdir()
        begun = time.monotonic()
        with pytest.raises(TrialFailed, match="process that holds mxnet warm has died"):
            launcher.run(single(seed=1), tmp_path / "1", kill)
        eventually(lambda: not running(pids))
        assert time.monotonic() - begun < 30  # the replica would sleep for 60
        importing("")
        (tmp_path / "2").mkdir()
        launcher.run(single(seed=2), tmp_path / "2", lambda event: None)  # a new one is started


def test_replicas_of_others_are_left_alone(importing, tmp_path):
    """One of two launchers on the same warm process is torn away while its trial runs."""
    importing("", HANGS)
    cpus = list(os.sched_getaffinity(0))
    with WarmProcesses() as warm:

        def replica(name):
            connection = warm.connect(mxnet(), threads=1)
            (tmp_path / name).mkdir()
            request = {"spawn": "worker-0", "argv": ["--steps=2"], "cpus": cpus,
                       "directory": str(tmp_path / name)}  # fmt: skip
            connection.sendall(json.dumps(request).encode() + b"\n")
            return connection, json.loads(connection.recv(1000))["pid"]

        one, first = replica("one")
        other, second = replica("other")
        one.close()
        eventually(lambda: not (tmp_path / "one").exists())
        assert not running([first])
        eventually((tmp_path / "other" / "worker-0.log").exists)
        assert running([second])
        keep = {"keep": str(tmp_path / "other")}
        other.sendall(json.dumps(keep).encode() + b"\n")
        other.close()
        eventually(lambda: not running([second]))
        assert (tmp_path / "other" / "worker-0.log").exists()
