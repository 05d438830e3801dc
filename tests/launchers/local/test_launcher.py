"""The local launcher: what its replicas are given, and what they share a machine with."""

import itertools
import os
import socket
import threading
import time

import made_runs
import pytest
from made_trainer import launch, single, told
from processes import cannot, running

from labkit import doctor
from labkit.launchers.protocol import Waiting
from labkit.replicas import cores, models
from labkit.replicas.events import End, Start, Step
from labkit.runs import Run
from labkit.runs.check import check
from labkit.settings import data_directory

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("no_process_is_left")]


# --- replicas -------------------------------------------------------------------------------


def test_a_run(trainer, directory):
    trial = single()
    begun = time.monotonic()
    events, record = launch(trial, directory)
    took = time.monotonic() - begun
    assert [event.kind for event in events] == ["start", "ready", "barrier", "step", "end"]
    assert record["launcher"] == "local"
    assert 0 < record["startup_s"] < took
    assert record["started"].startswith("20")
    assert {"load_before", "load_after", "own_cpu", "other_cpu", "overloaded"} <= set(record)
    check(Run(trial, directory, record))
    assert {path.name for path in directory.iterdir()} == {"worker-0.log", "worker-0.err"}


NETWORK = """
    def act(args, events):
        train(args, events)
        tell(network=os.readlink("/proc/self/ns/net"))
        end(args, events)
"""


def test_replicas_have_a_network_of_their_own(trainer, directory):
    """Nobody else can connect to them, and have them run what they like."""
    if not doctor.network().ok:
        cannot("no network of its own can be had here")
    trainer(NETWORK)
    launch(single(), directory)
    assert told(directory)["network"] != os.readlink("/proc/self/ns/net")


def test_a_users_own_code_has_the_machines_network(trainer, directory, tmp_path):
    """It may have something to fetch."""
    trainer(NETWORK)
    file = tmp_path / "mine.py"
    file.write_text(models.path_of("lenet5").read_text())
    launch(single(model=str(file), dataset="fashion-mnist"), directory)
    assert told(directory)["network"] == os.readlink("/proc/self/ns/net")


def test_starting_up_is_not_importing(importing, directory):
    """The first trial of a sweep starts as fast as any other."""
    importing("time.sleep(1)\n")
    begun = time.monotonic()
    _, record = launch(single(), directory)
    assert record["startup_s"] <= time.monotonic() - begun - 1


def test_what_a_server_takes_before_the_barrier_is_no_updates(trainer, directory):
    trainer("""
        def act(args, events):
            if args.role == "worker":
                events.write(Ready)
                wait_for("worked")
                events.write(Barrier)
                time.sleep(2)
                samples = args.steps * args.batch_size
                events.write(Step, steps=args.steps, samples=samples, loss=1.0)
                end(args, events)
                return (HERE / "trained").touch()
            if args.role == "server":
                events.write(Ready)
                while time.process_time() < 0.5:
                    pass
                (HERE / "worked").touch()
            wait_for("trained")
            events.end()
    """)
    _, record = launch(made_runs.trial(workers=1, eval_samples=0), directory)
    assert record["serving"]["cpu"][0] < 0.4


def test_what_a_replica_gets(trainer, directory):
    trainer("""
        import threading
        def act(args, events):
            train(args, events)
            tell(args={name: str(value) for name, value in vars(args).items()},
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
    found = told(directory)
    for name, value in {
        "role": "worker", "index": "0", "model": str(models.path_of("lenet5")),
        "dataset": "fashion-mnist", "strategy": "single", "batch_size": "50",
        "learning_rate": "0.1", "epochs": "None", "steps": "100", "seed": "7",
        "initializer": "xavier", "clip_norm": "2.5", "loss_over_time": "default",
        "eval_samples": "0", "threads": "1", "trial": trial.identity,
        "data": str(data_directory()), "deadline": "130.0",
    }.items():  # fmt: skip
        assert found["args"][name] == value
    assert found["session"] == found["group"] == events[0].pid  # a session of its own
    assert len(found["cpus"]) == 1
    assert found["threads"] == "1"
    assert found["read"] == ""
    assert found["default"] == [True, True, True]
    assert found["wakeup"] == -1
    assert len(found["fds"]) <= 5  # 0, 1, 2, this very directory; nothing of the fork server's
    assert (directory / "worker-0.err").read_text() == "a framework's chatter\n"


def test_roles_cores_and_hosts(trainer, directory):
    trainer("""
        def act(args, events):
            tell(hosts=args.hosts, cpus=sorted(os.sched_getaffinity(0)))
            (train if args.role == "worker" else (lambda *_: events.write(Ready)))(args, events)
            end(args, events)
    """)
    launch(made_runs.trial(workers=3), directory)
    names = ["scheduler-0", *(f"{role}-{i}" for role in ("server", "worker") for i in range(3))]
    assert {path.stem for path in directory.glob("*.log")} == set(names)
    found = {name: told(directory, name) for name in names}
    hosts = found["worker-0"]["hosts"]
    assert {role: len(places) for role, places in hosts.items()} == {
        "scheduler": 1, "server": 3, "worker": 3,
    }  # fmt: skip
    assert all(one["hosts"] == hosts for one in found.values())
    assert len({place for places in hosts.values() for place in places}) == 7
    here = cores.spread(os.sched_getaffinity(0))
    for index in range(3):
        # A server shares the core of the worker that it stands beside, as in the thesis.
        core = [here[index % len(here)]]
        assert found[f"worker-{index}"]["cpus"] == found[f"server-{index}"]["cpus"] == core
    assert found["scheduler-0"]["cpus"] == sorted(here)


def test_a_dedicated_server_may_use_all_cores_and_is_told_when_to_go(trainer, directory):
    trainer("""
        def act(args, events):
            if args.role == "worker":
                train(args, events)
            else:
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
                tell(cpus=sorted(os.sched_getaffinity(0)))
                events.write(Ready)
                signal.sigwait({signal.SIGTERM})
            end(args, events)
    """)
    events, _ = launch(made_runs.trial(framework="tensorflow"), directory)
    assert told(directory, "server-0")["cpus"] == sorted(os.sched_getaffinity(0))
    ends = [event for event in events if isinstance(event, End)]
    assert len(ends) == 3
    assert max(ends, key=lambda event: event.t).role == "server"


def test_an_on_event_that_fails(trainer, directory):
    """Whatever comes from outside ends the trial too."""
    trainer("""
        def act(args, events):
            train(args, events)
            time.sleep(60)
    """)
    pids = []

    def fail(event):
        if isinstance(event, Start):
            pids.append(event.pid)
        if isinstance(event, Step):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        launch(made_runs.trial(), directory, fail)
    assert len(pids) == 5
    assert not running(pids)
    assert (directory / "worker-0.log").exists()


# --- one machine ----------------------------------------------------------------------------


def test_ports_are_nobody_elses_while_a_trial_runs(trainer, directory):
    trainer("""
        def act(args, events):
            if (args.role, args.index) == ("worker", 0):
                tell(hosts=args.hosts)
            if args.role == "worker":
                train(args, events)
            end(args, events)
    """)
    ports, taken, given = set(), set(), set()

    def take_others(event):  # the trial waits meanwhile
        if event.replica == "worker-0" and isinstance(event, Step):
            hosts = itertools.chain(*told(directory)["hosts"].values())
            ports.update(int(host.rpartition(":")[2]) for host in hosts)
            taken.update(port for port in ports if not can_bind(port))
            for _ in range(3000):
                with socket.create_server(("127.0.0.1", 0)) as other:
                    given.add(other.getsockname()[1])

    launch(made_runs.trial(), directory, take_others)
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


def test_trials_take_turns_on_a_machine(trainer, imported, tmp_path):
    trainer("""
        def act(args, events):
            wait_for("waiting")
            train(args, events)
            end(args, events)
    """)
    events = []

    def run(name):
        def see(event):
            if isinstance(event, Waiting):
                (imported / "waiting").touch()
                if (name, "waiting") not in events:  # it is said again from time to time
                    events.append((name, "waiting"))
            else:
                events.append((name, event.kind))

        (tmp_path / name).mkdir()
        launch(single(), tmp_path / name, see)

    threads = [threading.Thread(target=run, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (waiter,) = (name for name, kind in events if kind == "waiting")
    first = "a" if waiter == "b" else "b"
    assert events.index((first, "end")) < events.index((waiter, "start"))
    assert [kind for name, kind in events if name == waiter][1:] == [
        "start", "ready", "barrier", "step", "end",
    ]  # fmt: skip
