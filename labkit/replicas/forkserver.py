"""A warm process: it imports a trainer once and forks every replica from there.

Importing a framework takes seconds, forking a process that has imported it and run nothing takes
milliseconds, and the copies share their memory. Started by `labkit.launchers.local.warm` with

    python -m labkit.replicas.forkserver TRAINER SOCKET < LIFELINE

it says ``ready`` (or a traceback) on standard output when the import is done, and then serves
requests on a Unix socket, one JSON object a line:

    {"spawn": NAME, "argv": [...], "cpus": [...], "directory": DIR} -> {"spawned": NAME, "pid": N}
    {"kill": NAME, "signal": N}
    {"keep": DIR}
    and, when a replica has ended                                   -> {"ended": NAME, "code": N}

The replica's standard output and error become files NAME.log and NAME.err in DIR. What a client
has spawned does not outlive its connection: replicas are killed and their directory, which nobody
will read any more, is removed, unless the client said to keep it. When standard input closes, or
the parent dies, all ends.
"""

import contextlib
import importlib.util
import json
import os
import select
import selectors
import shutil
import signal
import socket
import sys
import traceback
from pathlib import Path

from labkit.replicas import own_network
from labkit.replicas.orphan import die_with_parent


class Client:
    """A connection and the replicas it has asked for."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.buffer = b""
        self.replicas = {}  # process id -> name
        self.directories = set()

    def say(self, **message: object) -> None:
        """Send one message; a client that has gone is noticed when it is read from."""
        with contextlib.suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")


class ForkServer:
    """Forks replicas for its clients and tells them how these ended."""

    def __init__(self, trainer: object, path: str) -> None:
        self.trainer = trainer
        self.clients = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        # A SIGCHLD makes this pair readable, so that one select waits for everything.
        self.wake, wake_write = socket.socketpair()
        self.wake.setblocking(False)
        wake_write.setblocking(False)
        self.wake_write = wake_write
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write.fileno())
        self.selector = selectors.DefaultSelector()
        self.selector.register(sys.stdin.buffer, selectors.EVENT_READ)
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(self.wake, selectors.EVENT_READ)

    def serve(self) -> None:
        """Answer until standard input closes."""
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.listener:
                    self.accept()
                elif key.fileobj is self.wake:
                    self.wake.recv(4096)
                    self.reap()
                elif isinstance(key.data, Client):
                    self.read(key.data)
                else:
                    for client in list(self.clients):
                        self.drop(client)
                    return

    def accept(self) -> None:
        """Take a new client."""
        client = Client(self.listener.accept()[0])
        self.clients.append(client)
        self.selector.register(client.connection, selectors.EVENT_READ, client)

    def read(self, client: Client) -> None:
        """Do what a client asks for; a client that has gone takes its replicas with it."""
        try:
            received = client.connection.recv(65536)
        except OSError:
            received = b""
        if not received:
            self.drop(client)
            return
        *lines, client.buffer = (client.buffer + received).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if "spawn" in request:
                self.spawn(client, request)
            elif "keep" in request:
                client.directories.discard(request["keep"])
            else:
                for pid, name in client.replicas.items():
                    if name == request["kill"]:
                        self.kill(pid, request["signal"])

    def spawn(self, client: Client, request: dict) -> None:
        """Fork one replica in a session of its own."""
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            self.become_replica(request, server)
        client.replicas[pid] = request["spawn"]
        client.directories.add(request["directory"])
        client.say(spawned=request["spawn"], pid=pid)

    def become_replica(self, request: dict, server: int) -> None:
        """Run the trainer in the forked process; never returns."""
        code = 1
        try:
            die_with_parent(signal.SIGKILL)
            if os.getppid() != server:  # it died before the kernel knew
                os._exit(1)
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            for held in (self.listener, self.wake, self.wake_write):
                held.close()
            for client in self.clients:
                client.connection.close()
            base = Path(request["directory"], request["spawn"])
            for number, end in ((1, ".log"), (2, ".err")):
                file = os.open(f"{base}{end}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
                os.dup2(file, number)
                os.close(file)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.close(null)
            os.sched_setaffinity(0, request["cpus"])
            self.trainer.main(self.trainer.parse(request["argv"]))
            code = 0
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def reap(self) -> None:
        """Tell each client which of its replicas have ended, and how."""
        for client in self.clients:
            for pid in list(client.replicas):
                if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(pid, signal.SIGKILL)  # what it has left running
                    status = os.waitpid(pid, 0)[1]
                    name = client.replicas.pop(pid)
                    client.say(ended=name, code=exit_code(status))

    @staticmethod
    def kill(pid: int, number: int) -> None:
        """Signal a replica and all it has started."""
        with contextlib.suppress(ProcessLookupError):
            # Before its setsid a fresh replica leads no group yet.
            try:
                os.killpg(pid, number)
            except ProcessLookupError:
                os.kill(pid, number)

    def drop(self, client: Client) -> None:
        """End what is left of a client."""
        self.selector.unregister(client.connection)
        client.connection.close()
        self.clients.remove(client)
        for pid in client.replicas:
            self.kill(pid, signal.SIGKILL)
        for pid in client.replicas:
            os.waitpid(pid, 0)
        for directory in client.directories:
            shutil.rmtree(directory, ignore_errors=True)


def exit_code(status: int) -> int:
    """Return the exit code in a process's wait status, negative for a signal."""
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def main() -> None:
    """Import the trainer, say so, serve."""
    trainer, path = Path(sys.argv[1]), sys.argv[2]
    # While it imports nobody reads standard input: let the kernel watch the parent instead.
    die_with_parent(signal.SIGKILL)
    if select.select([sys.stdin], [], [], 0)[0]:
        return  # it died before the kernel knew
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is the launcher's to act on
    if sys.argv[3:] and own_network.possible():
        own_network.enter()  # now: MXNet, once imported, begins threads in each forked process
    spec = importlib.util.spec_from_file_location(trainer.stem, trainer)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server = ForkServer(module, path)
    # From here on standard input tells: once it reads "ready", the thread that started this
    # process, which is what the kernel takes for its parent, may end before labkit does.
    die_with_parent(0)
    print("ready", flush=True)
    server.serve()


if __name__ == "__main__":
    main()
