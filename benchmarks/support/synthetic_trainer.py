"""A trainer that computes nothing: it passes the barrier, waits at each step, prints its events.

With it `logs.py` runs pods by the hundred, for which real frameworks would need too much memory.
"""

import signal
import socket
import time

import numpy as np

from labkit.replicas import checksum, loop
from labkit.replicas.arguments import parse
from labkit.replicas.events import Ready

SECONDS = 0.1  # per step
PATIENCE = 600  # seconds


class Worker(loop.Network):
    """A worker without a network."""

    def __init__(self, args, model, data):
        self.address = args.hosts["server"][0].rsplit(":", 1)

    def train(self, inputs, labels):
        time.sleep(SECONDS)
        return 1.0, 0.5

    def warm_up(self, inputs, labels):
        pass

    def snapshot(self):
        pass

    def evaluate(self, inputs, labels):
        return np.ones(len(labels)), np.ones(len(labels))

    def finish(self):
        pass

    def barrier(self):
        with connect(self.address) as server:
            server.recv(1)

    def close(self):
        pass


def connect(address):
    """Return a connection to the server, which a fast worker may be ahead of."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(address, timeout=PATIENCE)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(SECONDS)


def serve(args, writer):
    """Let all workers go when the last of them has come, and wait for a SIGTERM."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    host, port = args.hosts["server"][0].rsplit(":", 1)
    with socket.create_server((host, int(port)), backlog=1024) as listener:
        writer.write(Ready)
        connections = [listener.accept()[0] for _ in args.hosts["worker"]]
        for connection in connections:
            connection.sendall(b"g")
            connection.close()
    signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    loop.main(parse(), {}, checksum(__file__), Worker, serve)
