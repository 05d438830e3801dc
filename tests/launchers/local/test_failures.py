"""How a replica may end, what is said of it, and how late is too late."""

import itertools
import signal
import subprocess
import sys
import time

import made_runs
import psutil
import pytest
from made_trainer import failing, launch, single

from labkit.launchers import limits
from labkit.launchers.local import attempt
from labkit.launchers.protocol import TrialDiverged
from labkit.replicas.events import Ready
from labkit.runs import Run, RunError
from labkit.runs.check import check
from labkit.settings import data_directory
from labkit.trials.frameworks import FRAMEWORKS

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("no_process_is_left")]

HANG = 30
"""Seconds in which a trial has ended whose replicas would sleep for 60, on any machine."""


def test_a_fork_server_that_dies_after_the_trial_has_ended(importing, directory, monkeypatch):
    """What has been measured is not thrown away because nothing is left to clean up."""
    importing("")
    before = set(psutil.Process().children())
    run = attempt.Attempt.run

    def then_kill(self, *given):
        record = run(self, *given)
        servers = set(psutil.Process().children()) - before
        assert servers
        for server in servers:
            server.kill()
        assert not psutil.wait_procs(servers, 10)[1]
        return record

    monkeypatch.setattr(attempt.Attempt, "run", then_kill)
    trial = single()
    _, record = launch(trial, directory)
    check(Run(trial, directory, record | {"status": "finished"}))


# --- ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "says"),
    [
        ("os._exit(0)", "left with code 0 before all were ready, without having finished"),
        ("train(args, events)", "left with code 0 while training, without having finished"),
        ("events.write(Ready); os._exit(3)", "left with code 3 at the barrier"),
        ("sys.exit('no')", "left with code 1 before all were ready"),
        ("os.abort()", "was ended by SIGABRT before all were ready"),
        ("train(args, events); os.kill(os.getpid(), 11)", "was ended by SIGSEGV while training"),
        ("train(args, events); end(args, events); os._exit(1)", "left with code 1 at the end"),
        ("train(args, events); raise ValueError('it fell over')",
         "left with code 1 while training. Its last lines:.*ValueError: it fell over"),
        ("train(args, events); events.error(ValueError('it fell over')); sys.exit(1)",
         "failed while training: ValueError: it fell over"),
        ("train(args, events); end(args, events); os.write(1, b'@labkit {')",
         None),  # whole for the launcher; what is cut off is found when the run is checked
    ],
)  # fmt: skip
def test_how_a_replica_ends(act, says, trainer, directory):
    trainer(f"""
        def act(args, events):
            {act}
    """)
    trial = single()
    if says is None:
        _, record = launch(trial, directory)
        with pytest.raises(RunError, match="worker 0: line 6 is cut off or garbled"):
            check(Run(trial, directory, record))
        return
    error = failing(trial, directory)
    assert error.startswith(f"{trial.name}: worker 0 ")
    assert says.partition(".*")[0] in error
    assert says.rpartition(".*")[2] in error


def test_the_first_cause_is_named(trainer, directory):
    trainer("""
        def act(args, events):
            train(args, events)
            if args.role == "server":
                (HERE / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if args.role == "worker":
                wait_for("killed")
                time.sleep(0.1)
                events.error(ConnectionError("the server has gone"))
                sys.exit(1)
            time.sleep(60)
    """)
    error = failing(made_runs.trial(servers=1), directory)
    assert "server 0 was ended by SIGKILL" in error


def test_a_diverged_loss_comes_before_all_other_causes(trainer, directory, monkeypatch):
    monkeypatch.setattr(attempt, "AFTERMATH", 1.0)
    trainer("""
        def act(args, events):
            train(args, events)
            if (args.role, args.index) == ("worker", 1):
                wait_for("killed-0")
                events.error(loop.Diverged("loss became nan", 3, 1))
                sys.exit(1)
            if args.role == "worker":
                (HERE / "killed-0").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
    """)
    with pytest.raises(TrialDiverged, match="worker 1: the loss became nan at step 3"):
        launch(made_runs.trial(), directory)


def test_a_server_that_leaves_too_early(trainer, directory):
    trainer("""
        def act(args, events):
            if args.role == "server":
                events.write(Ready)
                end(args, events)
            else:
                time.sleep(60)
    """)
    error = failing(made_runs.trial(framework="tensorflow"), directory)
    assert "server 0 left before the workers had finished" in error


def test_memory_that_ran_out_is_recognised(trainer, directory, monkeypatch):
    trainer("""
        def act(args, events):
            train(args, events)
            os.kill(os.getpid(), signal.SIGKILL)
    """)
    kills = itertools.count()
    monkeypatch.setattr(attempt, "_oom_kills", lambda: next(kills))
    error = failing(single(), directory)
    assert "worker 0 was killed by the kernel while training, because memory ran out" in error


def test_a_replica_that_does_not_listen_to_sigterm_is_killed(trainer, directory):
    trainer("""
        def act(args, events):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            train(args, events)
            time.sleep(0 if (args.role, args.index) == ("worker", 0) else 60)
    """)
    begun = time.monotonic()
    assert "worker 0 left with code 0 while training" in failing(made_runs.trial(), directory)
    assert time.monotonic() - begun < HANG


# --- deadlines ------------------------------------------------------------------------------

HANGS = """
def act(args, events):
    events.write(Ready)
    if args.index == 1:
        events.write(Barrier)
    time.sleep(60)
"""


@pytest.mark.slow
def test_a_deadline(trainer, directory):
    trainer(HANGS)
    trial = made_runs.trial(framework="tensorflow")
    begun = time.monotonic()
    error = failing(trial, directory, deadline=4)
    assert 4 < time.monotonic() - begun < HANG
    assert error == (
        f"{trial.name} did not finish within its deadline of 4 s. Still running: server-0 while "
        "training, worker-0 at the barrier, worker-1 while training."
    )


def test_no_sign_of_life(trainer, directory, monkeypatch):
    trainer(HANGS)

    def be_impatient(event):
        if isinstance(event, Ready):
            monkeypatch.setattr(limits, "STALL", 1.0)

    error = failing(single(), directory, be_impatient)
    assert "has shown no sign of life for 1 s. Still running: worker-0 at the barrier." in error


def test_a_replica_that_starts_has_more_time(trainer, directory, monkeypatch):
    """It shares its cores with all others that start."""
    trainer("""
        def act(args, events):
            time.sleep(1)
            events.write(Ready)
            time.sleep(60)
    """)
    monkeypatch.setattr(limits, "STALL", 0.2)
    monkeypatch.setattr(limits, "STARTING", 60.0)
    error = failing(single(), directory)
    assert "has shown no sign of life for 0.2 s. Still running: worker-0 at the barrier." in error


@pytest.mark.usefixtures("datasets")
def test_a_replica_has_a_deadline_of_its_own(trainer):
    """It is for the case that neither launcher nor fork server is there to end it."""
    trainer("""
        def act(args, events):
            loop.main(args, {}, CODE, build=lambda *_: time.sleep(60), serve=None)
    """)
    done = subprocess.run(
        [sys.executable, "-c", "import train; train.main(train.parse(['--deadline=0.3', "
         f"'--data={data_directory()}']))"],
        cwd=FRAMEWORKS["mxnet"].trainer.parent, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGALRM, done.stderr
