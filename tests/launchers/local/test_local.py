"""The local launcher: real processes, and a trainer that does at once what a test tells it to."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import made_runs
import psutil
import pytest
from processes import eventually, running

from labkit import datasets, trainers
from labkit.errors import LabkitError
from labkit.launchers import local
from labkit.launchers.local.launcher import LocalLauncher
from labkit.launchers.local.warm import WarmProcesses
from labkit.launchers.protocol import TrialDiverged, TrialFailed
from labkit.launchers.tracking import Replicas
from labkit.replicas import cores
from labkit.runs import Run
from labkit.settings import WARM, data_directory
from labkit.trials.frameworks import FRAMEWORKS, Framework

TRAINER = """
import os, signal, sys, time
from pathlib import Path

sys.path.append({trainers!r})
import common

def main(args):
    events = common.Events(args.role, args.index)
    events.start(args, {{}}, {data!r})
    exec(Path(__file__).with_name("act.py").read_text(), globals())
    act(args, events)

def train(args, events):
    events("ready")
    events("barrier")
    time.sleep(0.1)
    events("step", steps=args.steps, samples=args.steps * args.batch_size, loss=1.0)

def end(args, events):
    events.end(steps=args.steps, samples=args.steps * args.batch_size)
"""

ACT = """
def act(args, events):
    train(args, events)
    end(args, events)
"""


def write(folder, act=ACT, at_import=""):
    folder.mkdir(exist_ok=True)
    names = {"trainers": str(trainers.HERE), "data": datasets.checksum("fashion-mnist")}
    (folder / "train.py").write_text(TRAINER.format(**names) + at_import)
    (folder / "act.py").write_text(textwrap.dedent(act))


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Have the trainer imported; what it does when it is run is still open."""
    folder = tmp_path_factory.mktemp("trainer")
    write(folder)
    with pytest.MonkeyPatch.context() as patch, WarmProcesses(folder) as warm:
        patch.setattr(Framework, "script", folder / "train.py")
        for framework in FRAMEWORKS.values():
            warm.connect(framework, threads=1).close()
        yield folder


@pytest.fixture
def trainer(imported, monkeypatch):
    """Put the trainer in the place of all others; return a function that says what it does."""
    monkeypatch.setattr(Framework, "script", imported / "train.py")
    monkeypatch.setenv(WARM, str(imported))
    write(imported)
    return lambda act: write(imported, act)


@pytest.fixture
def importing(tmp_path, monkeypatch):
    """Likewise, but nothing is imported yet; return a function that says what the import does."""
    monkeypatch.setattr(Framework, "script", tmp_path / "trainer" / "train.py")
    monkeypatch.delenv(WARM, raising=False)
    write(tmp_path / "trainer")
    return lambda source, act=ACT: write(tmp_path / "trainer", act, source)


@pytest.fixture(autouse=True)
def no_process_is_left():
    before = psutil.Process().children()
    yield
    assert psutil.Process().children() == before


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "run"
    path.mkdir()
    return path


def single(**values):
    return made_runs.trial(strategy="single", **values)


def launch(trial, directory, on_event=lambda event: None, **options):
    """Run a trial; return its events and the record."""
    events = []

    def see(event):
        events.append(event)
        on_event(event)

    with LocalLauncher(**options) as launcher:
        record = launcher.run(trial, directory, see)
    return events, record


def failing(trial, directory, on_event=lambda event: None, **options):
    """Run a trial that fails; return the message, and make sure that nothing is left."""
    pids = []

    def see(event):
        if event["kind"] == "start":
            pids.append(event["pid"])
        on_event(event)

    with LocalLauncher(**options) as launcher:
        with pytest.raises(TrialFailed) as caught:
            launcher.run(trial, directory, see)
        assert [pid for pid in pids if psutil.pid_exists(pid)] == []
    return str(caught.value)


# --- replicas -------------------------------------------------------------------------------


def test_a_run(trainer, directory):
    trial = single()
    begun = time.monotonic()
    events, record = launch(trial, directory)
    took = time.monotonic() - begun
    assert [event["kind"] for event in events] == ["start", "ready", "barrier", "step", "end"]
    assert record["launcher"] == "local"
    assert 0 < record["startup_s"] < took
    assert record["started"].startswith("20")
    assert {"load_before", "load_after", "own_cpu", "other_cpu", "overloaded"} <= set(record)
    Run(trial, directory, record).check({"worker": 1})
    assert {path.name for path in directory.iterdir()} == {"worker-0.log", "worker-0.err"}


def test_what_a_replica_gets(trainer, directory):
    trainer("""
        import threading
        def act(args, events):
            train(args, events)
            events("told", args={name: str(value) for name, value in vars(args).items()},
                   session=os.getsid(0), group=os.getpgid(0), cpus=list(os.sched_getaffinity(0)),
                   threads=os.environ["OMP_NUM_THREADS"], read=sys.stdin.read(),
                   default=[signal.getsignal(number) == signal.SIG_DFL for number in
                            (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
                   fds=os.listdir("/proc/self/fd"), wakeup=signal.set_wakeup_fd(-1))
            print("a framework's chatter", file=sys.stderr)
            end(args, events)
    """)
    trial = single(learning_rate=0.1, seed=7, clip_norm=2.5, initializer="xavier", eval_samples=0)
    events, _ = launch(trial, directory, deadline=100)
    told = next(event for event in events if event["kind"] == "told")
    for name, value in {
        "role": "worker", "index": "0", "model": "lenet5", "dataset": "fashion-mnist",
        "strategy": "single", "batch_size": "50", "learning_rate": "0.1", "epochs": "None",
        "steps": "100", "seed": "7", "initializer": "xavier", "clip_norm": "2.5",
        "loss_over_time": "default", "eval_samples": "0", "threads": "1", "trial": trial.identity,
        "data": str(data_directory()), "deadline": "130.0",
    }.items():  # fmt: skip
        assert told["args"][name] == value
    pid = events[0]["pid"]
    assert told["session"] == told["group"] == pid  # a session of its own
    assert len(told["cpus"]) == 1
    assert told["threads"] == "1"
    assert told["read"] == ""
    assert told["default"] == [True, True, True]
    assert told["wakeup"] == -1
    assert len(told["fds"]) <= 5  # 0, 1, 2, this very directory; nothing of the fork server's
    assert (directory / "worker-0.err").read_text() == "a framework's chatter\n"


def test_roles_cores_and_hosts(trainer, directory):
    trainer("""
        def act(args, events):
            (train if args.role == "worker" else (lambda *_: events("ready")))(args, events)
            events("told", hosts=args.hosts, cpus=sorted(os.sched_getaffinity(0)))
            end(args, events)
    """)
    events, _ = launch(made_runs.trial(workers=3), directory)
    told = {(e["role"], e["index"]): e for e in events if e["kind"] == "told"}
    assert set(told) == {("scheduler", 0), *itertools.product(("server", "worker"), range(3))}
    hosts = told["worker", 0]["hosts"]
    assert {role: len(places) for role, places in hosts.items()} == {
        "scheduler": 1, "server": 3, "worker": 3,
    }  # fmt: skip
    assert all(event["hosts"] == hosts for event in told.values())
    assert len({place for places in hosts.values() for place in places}) == 7
    here = cores.spread(os.sched_getaffinity(0))
    for index in range(3):
        # A server shares the core of the worker that it stands beside, as in the thesis.
        core = [here[index % len(here)]]
        assert told["worker", index]["cpus"] == told["server", index]["cpus"] == core
    assert told["scheduler", 0]["cpus"] == sorted(here)


def test_a_server_has_come_as_far_as_the_foremost_worker():
    """Also one that was told to leave, and said farewell, while they trained."""
    replicas = Replicas(made_runs.trial(framework="tensorflow"))

    def phase_after(role, index, kind):
        replicas.saw({"role": role, "index": index, "kind": kind})
        return replicas.phase("server-0"), replicas.training()

    assert phase_after("server", 0, "start") == ("before all were ready", False)
    assert phase_after("server", 0, "ready") == ("before all were ready", False)
    assert phase_after("worker", 1, "barrier") == ("while training", False)
    assert phase_after("worker", 0, "step") == ("while training", True)
    assert phase_after("server", 0, "end") == ("while training", True)
    assert phase_after("worker", 0, "end") == ("at the end", False)


def test_a_dedicated_server_may_use_all_cores_and_is_told_when_to_go(trainer, directory):
    trainer("""
        def act(args, events):
            if args.role == "worker":
                train(args, events)
            else:
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
                events("ready", cpus=sorted(os.sched_getaffinity(0)))
                signal.sigwait({signal.SIGTERM})
            end(args, events)
    """)
    trial = made_runs.trial(framework="tensorflow")
    events, _ = launch(trial, directory)
    ready = next(e for e in events if (e["role"], e["kind"]) == ("server", "ready"))
    assert ready["cpus"] == sorted(os.sched_getaffinity(0))
    ends = [event for event in events if event["kind"] == "end"]
    assert len(ends) == 3
    assert max(ends, key=lambda event: event["t"])["role"] == "server"


# --- ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "says"),
    [
        ("os._exit(0)", "left with code 0 before all were ready, without having finished"),
        ("train(args, events)", "left with code 0 while training, without having finished"),
        ("events('ready'); os._exit(3)", "left with code 3 at the barrier"),
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
        with pytest.raises(LabkitError, match="worker 0: line 6 is cut off or garbled"):
            Run(trial, directory, record).check({"worker": 1})
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
                time.sleep(0.1)
                os.kill(os.getpid(), signal.SIGKILL)
            if args.role == "worker":
                time.sleep(0.2)
                events.error(ConnectionError("the server has gone"))
                sys.exit(1)
            time.sleep(60)
    """)
    error = failing(made_runs.trial(servers=1), directory)
    assert "server 0 was ended by SIGKILL" in error


def test_a_diverged_loss_comes_before_all_other_causes(trainer, directory):
    trainer("""
        def act(args, events):
            train(args, events)
            if (args.role, args.index) == ("worker", 1):
                time.sleep(0.1)
                events.error(common.Diverged("the loss became nan at step 3 of worker 1"))
                sys.exit(1)
            if args.role == "worker":
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)
    """)
    with pytest.raises(TrialDiverged, match="worker 1: the loss became nan at step 3"):
        launch(made_runs.trial(), directory)


def test_a_server_that_leaves_too_early(trainer, directory):
    trainer("""
        def act(args, events):
            if args.role == "server":
                events("ready")
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
    monkeypatch.setattr(local, "_oom_kills", lambda: next(kills))
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
    assert time.monotonic() - begun < 10


def test_a_watcher_that_fails(trainer, directory):
    """Whatever comes from outside ends the trial too."""
    trainer("""
        def act(args, events):
            train(args, events)
            time.sleep(60)
    """)
    pids = []

    def fail(event):
        if event["kind"] == "start":
            pids.append(event["pid"])
        if event["kind"] == "step":
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        launch(made_runs.trial(), directory, fail)
    assert len(pids) == 5
    assert not running(pids)
    assert (directory / "worker-0.log").exists()


# --- deadlines ------------------------------------------------------------------------------

HANGS = """
def act(args, events):
    events("ready")
    if args.index == 1:
        events("barrier")
    time.sleep(60)
"""


def test_a_deadline(trainer, directory):
    trainer(HANGS)
    trial = made_runs.trial(framework="tensorflow")
    begun = time.monotonic()
    error = failing(trial, directory, deadline=4)
    assert 4 < time.monotonic() - begun < 10
    assert error == (
        f"{trial.name} did not finish within its deadline of 4 s. Still running: server-0 while "
        "training, worker-0 at the barrier, worker-1 while training."
    )


def test_no_sign_of_life(trainer, directory, monkeypatch):
    trainer(HANGS)

    def be_impatient(event):
        monkeypatch.setattr(local, "STALL", 1.0)

    error = failing(single(), directory, be_impatient)
    assert "has shown no sign of life for 1 s. Still running: worker-0 at the barrier." in error


def test_a_replica_has_a_deadline_of_its_own(trainer, directory):
    """It is for the case that neither launcher nor fork server is there to end it."""
    trainer("""
        def act(args, events):
            common.main(args, {}, build=lambda args: time.sleep(60), serve=None)
    """)
    done = subprocess.run(
        [sys.executable, "-c", "import train; train.main(train.common.parse(['--deadline=0.3', "
         f"'--data={data_directory()}']))"],
        cwd=FRAMEWORKS["mxnet"].trainer.parent, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGALRM


# --- warm processes -------------------------------------------------------------------------


def test_a_framework_is_imported_once(importing, tmp_path):
    importing("open(__file__ + '.imports', 'a').write('x')")
    parents, took = set(), []

    def see(event):
        if event["kind"] == "start":
            parents.add(psutil.Process(event["pid"]).ppid())

    with LocalLauncher() as launcher:
        for seed in range(3):
            run = tmp_path / str(seed)
            run.mkdir()
            begun = time.monotonic()
            launcher.run(single(seed=seed), run, see)
            took.append(time.monotonic() - begun)
        (server,) = parents
        assert psutil.pid_exists(server)
    assert not psutil.pid_exists(server)
    assert (tmp_path / "trainer" / "train.py.imports").read_text() == "x"
    assert max(took[1:]) < 3


def test_other_threads_are_another_process(importing, tmp_path):
    importing(
        "",
        """
        def act(args, events):
            train(args, events)
            cpus = len(os.sched_getaffinity(0))
            events("told", threads=os.environ["OMP_NUM_THREADS"], cpus=cpus)
            end(args, events)
    """,
    )
    told = {}
    with LocalLauncher() as launcher:
        for threads in (1, 2):
            run = tmp_path / str(threads)
            run.mkdir()

            def see(event, threads=threads):
                if event["kind"] == "told":
                    told[threads] = (event["threads"], event["cpus"])

            launcher.run(single(threads=threads), run, see)
    assert told == {1: ("1", 1), 2: ("2", min(2, len(os.sched_getaffinity(0))))}


def test_warm_processes_are_shared(importing, tmp_path, monkeypatch):
    importing("open(__file__ + '.imports', 'a').write('x')")
    monkeypatch.setenv(WARM, str(tmp_path))
    with WarmProcesses(tmp_path) as warm:
        warm.connect(FRAMEWORKS["mxnet"], 1).close()
        for seed in range(2):
            run = tmp_path / f"run{seed}"
            run.mkdir()
            launch(single(seed=seed), run)
    assert (tmp_path / "trainer" / "train.py.imports").read_text() == "x"
    assert tmp_path.is_dir()


def test_the_thread_that_started_a_warm_process_may_end(importing):
    with WarmProcesses() as warm:
        before = psutil.Process().children()
        start = threading.Thread(
            target=lambda: warm.connect(FRAMEWORKS["mxnet"], threads=1).close()
        )
        start.start()
        start.join()
        (server,) = set(psutil.Process().children()) - set(before)
        time.sleep(0.5)
        assert running([server.pid])


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
    monkeypatch.setattr(local, "STALL", 0.5)
    with pytest.raises(LabkitError, match="cannot be imported.*it takes more than 0.5 s"):
        launch(single(), directory)


def test_an_import_that_is_interrupted(importing, directory):
    importing("time.sleep(60)")
    interrupt = threading.Timer(1, os.kill, (os.getpid(), signal.SIGINT))
    interrupt.start()
    with pytest.raises(KeyboardInterrupt):
        launch(single(), directory)


def test_a_fork_server_that_is_killed(importing, tmp_path):
    importing(
        "",
        """
        def act(args, events):
            train(args, events)
            time.sleep(60 if args.seed == 1 else 0)
            end(args, events)
    """,
    )
    pids = []

    def kill(event):
        if event["kind"] == "start":
            pids.append(event["pid"])
        if event["kind"] == "step" and len(pids) == 1:
            os.kill(psutil.Process(pids[0]).ppid(), signal.SIGKILL)

    with LocalLauncher() as launcher:
        (tmp_path / "1").mkdir()
        begun = time.monotonic()
        with pytest.raises(TrialFailed, match="process that holds mxnet warm has died"):
            launcher.run(single(seed=1), tmp_path / "1", kill)
        eventually(lambda: not running(pids))
        assert time.monotonic() - begun < 10
        (tmp_path / "2").mkdir()
        launcher.run(single(seed=2), tmp_path / "2", lambda event: None)  # a new one is started


def test_replicas_of_others_are_left_alone(importing, tmp_path):
    """One of two launchers on the same warm process is torn away while its trial runs."""
    importing(
        "",
        """
        def act(args, events):
            time.sleep(60)
    """,
    )
    cpus = list(os.sched_getaffinity(0))
    with WarmProcesses() as warm:

        def replica(name):
            connection = warm.connect(FRAMEWORKS["mxnet"], threads=1)
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
        assert running([second])
        keep = {"keep": str(tmp_path / "other")}
        other.sendall(json.dumps(keep).encode() + b"\n")
        other.close()
        eventually(lambda: not running([second]))
        assert (tmp_path / "other" / "worker-0.log").exists()


# --- one machine ----------------------------------------------------------------------------


def test_ports_are_nobody_elses_while_a_trial_runs(trainer, directory):
    trainer("""
        def act(args, events):
            if args.role == "worker":
                train(args, events)
            events("told", hosts=args.hosts)
            time.sleep(1)
            end(args, events)
    """)
    ports, taken, given = set(), set(), set()

    def watch(event):
        if event["kind"] == "told" and not ports:
            hosts = itertools.chain(*event["hosts"].values())
            ports.update(int(host.rpartition(":")[2]) for host in hosts)
            taken.update(port for port in ports if not can_bind(port))
            for _ in range(3000):
                with socket.create_server(("127.0.0.1", 0)) as other:
                    given.add(other.getsockname()[1])

    launch(made_runs.trial(), directory, watch)
    assert len(ports) == 5
    assert taken == ports
    assert not given & ports
    assert all(map(can_bind, ports))


def can_bind(port):
    with socket.socket() as other:
        try:
            other.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def test_trials_take_turns_on_a_machine(trainer, tmp_path):
    events = []

    def run(name):
        (tmp_path / name).mkdir()
        launch(single(), tmp_path / name, lambda event: events.append((name, event["kind"])))

    threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    waiter, kind = next(event for event in events if event[1] == "waiting")
    first = "a" if waiter == "b" else "b"
    assert events.index((first, "end")) < events.index((waiter, "start"))
    assert [kind for name, kind in events if name == waiter][1:] == [
        "start", "ready", "barrier", "step", "end",
    ]  # fmt: skip
