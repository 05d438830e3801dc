"""What a pod of a trial starts: its replicas, after those they depend on can be found.

A server beside a worker shares the worker's container, and so its CPU limit. A worker is bound to
cores of its own: the pod that all workers know, of TensorFlow's first server or MXNet's scheduler,
hears on which node each of them is, and tells it how many of that node come before it.

What the replicas print goes through this process line by line, each line with its replica's name
in front: `|` for standard output, `!` for standard error. Lines of its own begin with `@pod`: on
what it runs, which cores it holds, once a second how busy the node is, and how each replica ended.
At the end it prints all once more, packed, in lines that begin with `@copy`, and its checksum: a
node that rotates its logs throws the beginning away, and then gives no more than the rest.
"""

from __future__ import annotations

import base64
import collections
import contextlib
import hashlib
import json
import math
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from datetime import UTC, datetime
from pathlib import Path

from labkit.replicas import cores

HOME = Path(__file__).resolve().parents[2]
CONTROL_PORT = 9003
SAMPLE_EVERY = 1.0
GRACE = 2.0
COPY_LINE = 12_000  # bytes; the runtime would break much longer lines
COPY_MOST = 32 << 20  # bytes kept for the copy


class Pod:
    """The replicas of one pod.

    Parameters
    ----------
    job : dict
        What all pods of the trial are told, from ``job.json``.
    roles : list of str
        Those that this pod holds.
    """

    def __init__(self, job: dict, roles: list[str]) -> None:
        self.job, self.roles = job, roles
        self.index = int(os.environ["JOB_COMPLETION_INDEX"])
        self.node = os.environ["NODE_NAME"]
        self.usable = cores.spread(os.sched_getaffinity(0))
        self.until = time.monotonic() + job["rendezvous"]
        self.lock = threading.Lock()
        self.kept = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the pod runs
        self.replicas: dict[str, subprocess.Popen[bytes]] = {}
        self.told_to_leave = False

    def say(self, line: bytes) -> None:
        """Print one whole line, and keep it with the time."""
        line = line if line.endswith(b"\n") else line + b"\n"
        with self.lock:
            os.write(1, line)
            if self.kept.tell() < COPY_MOST:
                self.kept.write(datetime.now(UTC).isoformat().encode() + b" " + line)

    def report(self, **fields) -> None:
        """Print a line of our own."""
        self.say(b"@pod " + json.dumps(fields).encode())

    def run(self) -> int:
        """Return the exit code of the pod."""
        self.report(node=self.node, **machine())
        threading.Thread(target=self.sample, daemon=True).start()
        try:
            hosts = self.hosts()
            code = self.train(hosts)
            if code == 0 and "worker" in self.roles:
                self.tell_servers(hosts)
        except TimeoutError as error:
            self.say(f"{self.roles[-1]}-{self.index}! {error}".encode())
            code = 1
        self.copy()
        return code

    def copy(self) -> None:
        """Print all once more."""
        with self.lock:
            self.kept.seek(0)
            whole = self.kept.read()
        packed = base64.b64encode(zlib.compress(whole, 9))
        for begin in range(0, len(packed), COPY_LINE):
            os.write(1, b"@copy " + packed[begin : begin + COPY_LINE] + b"\n")
        os.write(1, b"@copied " + hashlib.sha256(whole).hexdigest().encode() + b"\n")

    def hosts(self) -> dict[str, list[str]]:
        """Return where all replicas are, with the addresses of those that this one must know."""
        hosts = {role: list(names) for role, names in self.job["hosts"].items()}
        for role in self.job["meet"]:
            if role not in self.roles or len(hosts[role]) > 1:
                hosts[role] = [self.address_of(host) for host in hosts[role]]
        for role in self.roles:
            port = hosts[role][self.index].rpartition(":")[2]
            hosts[role][self.index] = f"{os.environ['POD_IP']}:{port}"
        return hosts

    def address_of(self, host: str) -> str:
        """Wait until a name is known."""
        name, _, port = host.rpartition(":")
        while True:
            try:
                return f"{socket.gethostbyname(name)}:{port}"
            except OSError:
                if time.monotonic() > self.until:
                    raise TimeoutError(
                        f"{name} had no address within {self.job['rendezvous']:g} s"
                    ) from None
                time.sleep(0.1)

    def train(self, hosts: dict[str, list[str]]) -> int:
        """Run the replicas; when one fails, end the other."""
        if "worker" in self.roles and self.job["bind"]:
            # Libraries look how many there are when they load, before a worker knows its place.
            os.sched_setaffinity(0, self.share(self.index))
        pumps = []
        paths = [str(HOME), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        for role in self.roles:
            name = f"{role}-{self.index}"
            command = [
                sys.executable, "-u", HOME / self.job["script"], *self.job["arguments"],
                f"--role={role}", f"--index={self.index}", f"--hosts={json.dumps(hosts)}",
            ]  # fmt: skip
            replica = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
            )
            self.replicas[name] = replica
            for stream, mark in ((replica.stdout, "|"), (replica.stderr, "!")):
                tag = f"{name}{mark} ".encode()
                pumps.append(threading.Thread(target=self.pump, args=(stream, tag), daemon=True))
                pumps[-1].start()
        if self.roles[0] in self.job["meet"]:
            threading.Thread(target=self.hear_workers, daemon=True).start()
        if "worker" in self.roles and self.job["bind"]:
            threading.Thread(target=self.bind, args=(hosts,), daemon=True).start()
        ended: dict[str, int] = {}
        while len(ended) < len(self.replicas):
            for name, replica in self.replicas.items():
                code = replica.poll()
                if code is not None and name not in ended:
                    ended[name] = code
                    self.report(ended=name, code=code)
                    if code:
                        self.end_all()
            time.sleep(0.05)
        for pump in pumps:
            pump.join(GRACE)
        first = next((code for code in ended.values() if code), 0)
        if first == 0 and self.told_to_leave:
            first = -signal.SIGTERM  # however well it ended, it had not finished
        return 128 - first if first < 0 else first

    def pump(self, stream, tag: bytes) -> None:
        """Pass a replica's lines on."""
        for line in stream:
            self.say(tag + line)

    def leave(self, *_) -> None:
        """End because the pod is deleted."""
        self.told_to_leave = True
        self.end_all()

    def end_all(self) -> None:
        """Ask all replicas to leave, and end those that do not."""

        def insist() -> None:
            for number in (signal.SIGTERM, signal.SIGKILL):
                for replica in self.replicas.values():
                    with contextlib.suppress(ProcessLookupError):
                        replica.send_signal(number)
                time.sleep(GRACE)

        threading.Thread(target=insist, daemon=True).start()

    def bind(self, hosts: dict[str, list[str]]) -> None:
        """Hold the replicas to as many cores as the worker has threads, the next free ones.

        Otherwise the kernel moves their threads about, away from what the cores' caches hold.
        """
        before = 0
        if self.job["meet"]:
            before = int(self.call(hosts[self.job["meet"][0]][0], "arrive", math.inf))
        bound = self.share(before)
        for replica in self.replicas.values():
            hold(replica.pid, bound)
        self.report(bound=sorted(bound))

    def share(self, before: int) -> set[int]:
        """Return the processors of a worker that comes after some others of its node."""
        return cores.take(self.usable, before * self.job["bind"], self.job["bind"])

    def tell_servers(self, hosts: dict[str, list[str]]) -> None:
        """Tell servers that wait for it that this worker has left, so that they can leave too."""
        if self.job["servers_wait"]:
            for host in hosts["server"]:
                self.call(host, "leave", 10.0)

    def call(self, host: str, what: str, patience: float) -> str:
        """Say to another pod what this worker does, and return the answer."""
        address = host.rpartition(":")[0], CONTROL_PORT
        until = time.monotonic() + patience
        while True:
            with contextlib.suppress(OSError), socket.create_connection(address, 5) as connection:
                connection.settimeout(30)
                connection.sendall(f"{what} {self.index} {self.node}\n".encode())
                if said := connection.makefile().readline():
                    return said
            if time.monotonic() > until:
                raise TimeoutError(f"{host} does not answer the last call")
            time.sleep(0.1)

    def hear_workers(self) -> None:
        """Tell workers how many of their node come before them; end the server after the last."""
        workers = set(range(len(self.job["hosts"]["worker"])))
        here: dict[int, tuple[str, socket.socket]] = {}
        left: set[int] = set()
        with socket.create_server(("", CONTROL_PORT), backlog=1024) as door:
            while left != workers:
                connection, _ = door.accept()
                with contextlib.suppress(OSError, ValueError):
                    connection.settimeout(5)
                    what, index, node = connection.makefile().readline().split()
                    if what == "leave":
                        left.add(int(index))
                        answer(connection, "ok")
                        continue
                    here[int(index)] = node, connection
                    if here.keys() == workers:
                        before: collections.Counter[str] = collections.Counter()
                        for _, (node, waiting) in sorted(here.items()):
                            answer(waiting, before[node])
                            before[node] += 1
        self.replicas[f"server-{self.index}"].terminate()

    def sample(self) -> None:
        """Print how many CPU seconds the node has worked so far, and how many of them for us."""
        while (busy := busy_seconds()) is not None:
            pids = [os.getpid(), *(replica.pid for replica in self.replicas.values())]
            own = sum(map(cpu_seconds, pids))
            self.report(t=round(time.monotonic(), 3), busy=busy, own=round(own, 2))
            time.sleep(SAMPLE_EVERY)


def answer(connection: socket.socket, text: object) -> None:
    """Send one line and close; who has hung up calls again."""
    with contextlib.suppress(OSError), connection:
        connection.sendall(f"{text}\n".encode())


def hold(pid: int, cores: set[int]) -> None:
    """Bind all threads of a process to some cores; what they start later inherits that."""
    bound: set[str] = set()
    with contextlib.suppress(FileNotFoundError):  # it has ended
        while loose := set(os.listdir(f"/proc/{pid}/task")) - bound:
            for thread in loose:
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread), cores)
            bound |= loose


def busy_seconds() -> float | None:
    """Return the node's CPU seconds that were not idle, None where it does not tell."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        user, nice, system, _, _, irq, softirq = map(int, fields[1:8])
    except (OSError, ValueError):
        return None
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process, 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine() -> dict[str, str | int]:
    """Return the node's processor, cores, memory in bytes, and system."""
    model = ""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
    return {
        "cpu_model": model or platform.machine(),
        "cores": cores.count(range(os.cpu_count() or 1)),
        "memory": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": platform.platform(),
    }


if __name__ == "__main__":
    pod = Pod(json.loads((HOME / "job.json").read_text()), sys.argv[1:])
    signal.signal(signal.SIGTERM, pod.leave)
    raise SystemExit(pod.run())
