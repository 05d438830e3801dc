"""What a pod of a trial starts: its replicas, when those that they depend on can be found.

A server beside a worker shares the worker's container, and so its CPU limit. A worker is bound to
cores of its own, chosen by its local rank. All that the replicas print goes through this process
into the pod's log, and its own reports with it: on what it runs, which processors it is bound to,
once a second how busy the node is, and how each replica ended.
"""

import contextlib
import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import BinaryIO, Dict, List, NamedTuple, Optional, Set, Tuple

from labkit.replicas import cgroups, cores, machine, podlog, rendezvous

HOME = Path(__file__).resolve().parents[2]

SAMPLE_EVERY = 1.0

LOOK_EVERY = 0.2
"""Seconds between two looks at whether the pod has its limit."""

ROUNDED = 1.01
"""Times the cores that the pod is to have: nodes round limits, up to this."""

NETWORK = Path("/proc/net/dev")

APART = ("lo", "labkit-in")
"""Devices that pass what the pod's own processes send each other, or what another one passes, too:
the second one limits what reaches the pod (templates/trial.yaml.j2)."""

WAITING = {"scheduler", "server"}
"""Roles that may wait until the workers have finished."""

FAREWELL = 10.0
"""Seconds in which workers that have finished say so to whoever waits for that."""

GRACE = 2.0
"""Seconds that replicas have to leave after a SIGTERM."""


class Job(NamedTuple):
    """What all pods of a trial are given, as ``job.json``.

    Attributes
    ----------
    trainer : str
        The path of its script below `HOME`.
    arguments : list of str
        Of all replicas.
    worker_arguments : list of list of str
        Further ones, of each worker.
    hosts : dict of str to list of str
        For each role the ``host:port`` of its replicas.
    coordinator : str or None
        The role of which the first replica's pod coordinates the workers.
    known : dict of str to list of str
        For each role the keys of `hosts` whose addresses a pod must know before it starts that.
    servers_wait : bool
        Whether servers, and a scheduler, are ended when the workers have finished, rather than
        leave by themselves.
    cores_per_worker : int
        To which each worker is bound; 0 for none.
    rendezvous_timeout : float
        Seconds for which a pod waits for the names that it needs.
    secret : str
        By which the coordinator knows the workers of its trial.
    python : str
        The interpreter of the replicas; the agent's own if it is empty.
    cpu : float or None
        Cores to which labkit limits each pod when all are ready; None if it does not.
    """

    trainer: str
    arguments: List[str]
    worker_arguments: List[List[str]]
    hosts: Dict[str, List[str]]
    coordinator: Optional[str]
    known: Dict[str, List[str]]
    servers_wait: bool
    cores_per_worker: int
    rendezvous_timeout: float
    secret: str
    python: str
    cpu: Optional[float] = None


class Pod:
    """The replicas of one pod.

    Parameters
    ----------
    job : Job
    roles : list of str
        Those that this pod holds.
    """

    def __init__(self, job: Job, roles: List[str]) -> None:
        self.job, self.roles = job, roles
        self.index = int(os.environ["JOB_COMPLETION_INDEX"])
        self.node = os.environ["NODE_NAME"]
        self.processors = cores.spread(os.sched_getaffinity(0))
        self.log = podlog.Writer()
        self.replicas: Dict[str, subprocess.Popen] = {}
        self.readers: List[threading.Thread] = []
        self.terminated = False

    def run(self) -> int:
        """Return the exit code of the pod."""
        self.log.write(podlog.Machine(node=self.node, **machine.describe()))
        groups = list(cgroups.groups("cpu"))
        _in_background(_keep_sampling, self.log, groups)
        if self.job.cpu:
            _in_background(_await_limit, self.log, self.job.cpu)
        try:
            hosts = self._find_hosts()
            code = self._train(hosts)
            if code == 0 and "worker" in self.roles and self.job.servers_wait:
                for role in self.job.hosts.keys() & WAITING - set(self.roles):
                    for host in hosts[role]:
                        self._send(host, "finished", FAREWELL)
        except TimeoutError as error:
            who = f"{self.roles[-1]}-{self.index}"
            self.log.write(podlog.Output(who, podlog.ERR, str(error).encode()))
            code = 1
        _sample(self.log, groups)  # or the last second would be unknown
        self.log.write_copy()
        return code

    def terminate(self, *_) -> None:
        """End because the pod is deleted."""
        self.terminated = True
        _in_background(_end, list(self.replicas.values()))

    def _find_hosts(self) -> Dict[str, List[str]]:
        """Return where all replicas are, with the addresses of those that this one must know."""
        hosts = {role: list(names) for role, names in self.job.hosts.items()}
        for name in sorted({name for role in self.roles for name in self.job.known[role]}):
            if name not in self.roles or len(hosts[name]) > 1:
                hosts[name] = rendezvous.resolve(hosts[name], self.job.rendezvous_timeout)
        own = rendezvous.preferred(os.environ["POD_IPS"].split(","))
        for role in self.roles:
            port = rendezvous.split(hosts[role][self.index])[1]
            hosts[role][self.index] = rendezvous.join(own, port)
        return hosts

    def _send(self, host: str, message: str, timeout: float) -> str:
        """Send a worker's message to its coordinator; return the answer."""
        secret = self.job.secret
        return rendezvous.send(host, message, self.index, self.node, secret, timeout)

    def _train(self, hosts: Dict[str, List[str]]) -> int:
        """Run the replicas; when one fails, end the other."""
        binds = "worker" in self.roles and self.job.cores_per_worker
        if binds:
            # Libraries count processors when they load, before a worker knows its local rank.
            os.sched_setaffinity(0, self._processors_of(self.index))
        for role in self.roles:
            self._start(role, hosts)
        waits = self.job.servers_wait and "worker" not in self.roles
        coordinating = None
        if waits or self.job.coordinator == self.roles[0]:
            coordinating = _in_background(self._coordinate)
        if binds:
            _in_background(self._bind, hosts)
        code = self._wait()
        if code == 0 and waits:
            coordinating.join(FAREWELL)  # its replicas may have left before all workers said so
        for reader in self.readers:
            reader.join(GRACE)
        if code == 0 and self.terminated:
            code = -signal.SIGTERM  # however well it ended, it had not finished
        return 128 - code if code < 0 else code

    def _start(self, role: str, hosts: Dict[str, List[str]]) -> None:
        """Start a replica, and pass on what it prints."""
        name = f"{role}-{self.index}"
        paths = [str(HOME), *filter(None, [os.environ.get("PYTHONPATH")])]
        command = [
            self.job.python or sys.executable, "-u", str(HOME / self.job.trainer),
            *self.job.arguments,
            *(self.job.worker_arguments[self.index] if role == "worker" else []),
            "--role=" + role, f"--index={self.index}", "--hosts=" + json.dumps(hosts),
        ]  # fmt: skip
        replica = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(os.environ, PYTHONPATH=os.pathsep.join(paths),
                     **{rendezvous.SECRET: self.job.secret}),
        )  # fmt: skip
        self.replicas[name] = replica
        for pipe, stream in ((replica.stdout, podlog.OUT), (replica.stderr, podlog.ERR)):
            self.readers.append(_in_background(self._pass_on, name, pipe, stream))

    def _pass_on(self, name: str, pipe: BinaryIO, stream: str) -> None:
        for line in pipe:
            self.log.write(podlog.Output(name, stream, line.rstrip(b"\n")))

    def _wait(self) -> int:
        """Return the exit code of the first replica that fails, 0 when all have ended well."""
        # Polling would take from the replicas: their share of a core is this process's, too.
        ended = queue.Queue()
        for name, replica in self.replicas.items():
            _in_background(_report_end, name, replica, ended)
        codes = []
        for _ in self.replicas:
            name, code = ended.get()
            codes.append(code)
            self.log.write(podlog.Ended(name, code))
            # A server beside a worker serves the others', too: these have finished by now, as
            # scripts are stopped together, and MXNet's workers leave together.
            if code or (self.job.servers_wait and name.startswith("worker")):
                _in_background(_end, list(self.replicas.values()))
        return next((code for code in codes if code), 0)

    def _coordinate(self) -> None:
        """Serve the workers; when all have finished, end what waits for that."""
        rendezvous.coordinate(len(self.job.hosts["worker"]), self.job.secret)
        for replica in self.replicas.values():
            replica.terminate()

    def _bind(self, hosts: Dict[str, List[str]]) -> None:
        """Bind the replicas to as many processors as the worker has threads, by its local rank.

        Otherwise the kernel moves their threads about, away from what the cores' caches hold.
        """
        rank = 0
        if self.job.coordinator:
            host = hosts[self.job.coordinator][0]
            rank = int(self._send(host, "register", math.inf))
        processors = self._processors_of(rank)
        for replica in self.replicas.values():
            bind(replica.pid, processors)
        self.log.write(podlog.Bound(sorted(processors)))

    def _processors_of(self, rank: int) -> Set[int]:
        count = self.job.cores_per_worker
        return cores.take(self.processors, rank * count, count)


def _report_end(name: str, replica: subprocess.Popen, ended: queue.Queue) -> None:
    ended.put((name, replica.wait()))


def _end(replicas: List[subprocess.Popen]) -> None:
    """Ask replicas to leave, and end those that do not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for replica in replicas:
            with contextlib.suppress(ProcessLookupError):
                replica.send_signal(number)
        time.sleep(GRACE)


def _keep_sampling(log: podlog.Writer, groups: List[Path]) -> None:
    while _sample(log, groups):
        time.sleep(SAMPLE_EVERY)


def _sample(log: podlog.Writer, groups: List[Path]) -> bool:
    """Report what the node has done so far, and this pod; return whether the node tells that."""
    busy = machine.busy_seconds()
    if busy is None:
        return False
    own = round(sum(map(machine.cpu_seconds, machine.family(os.getpid()))), 2)
    sent, received = traffic()
    log.write(podlog.Sample(
        t=round(time.monotonic(), 3), busy=busy, own=own,
        throttled=round(cgroups.throttled(groups), 3), sent=sent, received=received,
        agent=round(time.process_time(), 4),
    ))  # fmt: skip
    return True


def _await_limit(log: podlog.Writer, cpu: float) -> None:
    """Report when the pod has no more than so many cores."""
    while True:
        quota = cgroups.cpu_quota()
        if quota and quota.cores <= ROUNDED * cpu:
            log.write(podlog.Limited(t=round(time.monotonic(), 3), cores=round(quota.cores, 3)))
            return
        time.sleep(LOOK_EVERY)


def traffic() -> Tuple[int, int]:
    """Return the bytes that this pod has sent so far, and received; see proc_pid_net(5)."""
    sent = received = 0
    with contextlib.suppress(OSError):
        for line in NETWORK.read_text().splitlines()[2:]:
            name, _, numbers = line.partition(":")
            if name.strip() not in APART:
                fields = numbers.split()
                received += int(fields[0])
                sent += int(fields[8])
    return sent, received


def _in_background(work, *arguments) -> threading.Thread:
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


def bind(pid: int, processors: Set[int]) -> None:
    """Bind a process and all that it has started; what they start later inherits that."""
    bound: Set[int] = set()
    while True:
        processes = machine.family(pid) - bound
        if not processes:
            return
        for each in sorted(processes):
            _bind_threads(each, processors)
        bound |= processes


def _bind_threads(pid: int, processors: Set[int]) -> None:
    bound: Set[str] = set()
    with contextlib.suppress(FileNotFoundError):  # it has ended
        while True:
            threads = set(os.listdir(f"/proc/{pid}/task")) - bound
            if not threads:
                return
            for thread in threads:
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread), processors)
            bound |= threads


if __name__ == "__main__":
    pod = Pod(Job(**json.loads((HOME / "job.json").read_text())), sys.argv[1:])
    signal.signal(signal.SIGTERM, pod.terminate)
    raise SystemExit(pod.run())
