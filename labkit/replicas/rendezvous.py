"""How the pods of a trial find each other, and coordinate their workers.

One pod, which all workers know, coordinates them: that of TensorFlow's first server or of MXNet's
scheduler. Each worker registers there with its node, and gets its local rank: how many workers of
lower index are on the same node. Where servers do not leave by themselves, each worker also says
that it has finished.

A message is one line, ``register INDEX NODE`` or ``finished INDEX NODE``; so is its answer.
"""

import collections
import contextlib
import socket
import time
from typing import Counter, Dict, List, Set, Tuple

PORT = 9003

RETRY = 0.1
"""Seconds between two attempts."""


def resolve(hosts: List[str], timeout: float) -> List[str]:
    """Return each ``host:port`` with an address for the name, as soon as all names have one.

    Raises
    ------
    TimeoutError
        If one has none within `timeout` seconds.
    """
    until = time.monotonic() + timeout
    found: List[str] = []
    while len(found) < len(hosts):
        name, _, port = hosts[len(found)].rpartition(":")
        try:
            found.append(f"{socket.gethostbyname(name)}:{port}")
        except OSError:
            if time.monotonic() > until:
                raise TimeoutError(f"{name} had no address within {timeout:g} s") from None
            time.sleep(RETRY)
    return found


def send(host: str, message: str, index: int, node: str, timeout: float) -> str:
    """Send a worker's message to the pod at ``host:port``, and return the answer.

    Raises
    ------
    TimeoutError
        If there is no answer within `timeout` seconds.
    """
    address = host.rpartition(":")[0], PORT
    until = time.monotonic() + timeout
    while True:
        with contextlib.suppress(OSError), socket.create_connection(address, 5) as connection:
            connection.settimeout(30)
            connection.sendall(f"{message} {index} {node}\n".encode())
            answer = connection.makefile().readline()
            if answer:
                return answer
        if time.monotonic() > until:
            raise TimeoutError(f"{host} does not answer to {message!r}")
        time.sleep(RETRY)


def coordinate(count: int) -> None:
    """Give all workers their local ranks; return when all have finished.

    Parameters
    ----------
    count : int
        How many workers there are.
    """
    workers = set(range(count))
    registered: Dict[int, Tuple[str, socket.socket]] = {}
    finished: Set[int] = set()
    with contextlib.closing(socket.socket()) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", PORT))
        listener.listen(1024)
        while finished != workers:
            connection, _ = listener.accept()
            with contextlib.suppress(OSError, ValueError):
                connection.settimeout(5)
                message, index, node = connection.makefile().readline().split()
                if message == "finished":
                    finished.add(int(index))
                    _answer(connection, "ok")
                    continue
                registered[int(index)] = node, connection
                if registered.keys() == workers:
                    _give_ranks(registered)


def _give_ranks(registered: Dict[int, Tuple[str, socket.socket]]) -> None:
    placed: Counter[str] = collections.Counter()
    for _, (node, connection) in sorted(registered.items()):
        _answer(connection, placed[node])
        placed[node] += 1


def _answer(connection: socket.socket, text: object) -> None:
    """Send one line and close; who has hung up asks again."""
    with contextlib.suppress(OSError), connection:
        connection.sendall(f"{text}\n".encode())
