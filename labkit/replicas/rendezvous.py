"""How the pods of a trial find each other, and coordinate their workers.

One pod, which all workers know, coordinates them: that of TensorFlow's first server or of MXNet's
scheduler. Each worker registers there with its node, and gets its local rank: how many workers of
lower index are on the same node. Where servers do not leave by themselves, each worker also says
that it has finished, to every pod that has none.

A message is one line, ``SECRET register INDEX NODE`` or ``SECRET finished INDEX NODE``; so is its
answer. All pods of a trial know its secret. Who does not, or takes longer than `PATIENCE` for a
line, gets no answer.
"""

import collections
import contextlib
import hmac
import selectors
import socket
import time
from typing import Counter, Dict, Iterator, List, Optional, Set, Tuple

PORT = 9003

SECRET = "LABKIT_SECRET"
"""Environment variable in which replicas find the secret of their trial, for what they say to each
other themselves."""

RETRY = 0.1
"""Seconds between two attempts."""

PATIENCE = 5.0
"""Seconds that a caller has for its whole line."""

LONGEST = 1024
"""Bytes of a line, at most."""


def join(name: str, port: object) -> str:
    """Return ``host:port``, with an IPv6 address in brackets."""
    return ("[{}]:{}" if ":" in name else "{}:{}").format(name, port)


def split(host: str) -> Tuple[str, str]:
    """Return the name or address and the port of a ``host:port``."""
    name, _, port = host.rpartition(":")
    return name.strip("[]"), port


def preferred(addresses: List[str]) -> str:
    """Return the first IPv4 address, for MXNet knows no other; the first of all without one."""
    return next((address for address in addresses if ":" not in address), addresses[0])


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
        name, port = split(hosts[len(found)])
        try:
            known = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
            found.append(join(preferred([str(address[0]) for *_, address in known]), port))
        except OSError:
            if time.monotonic() > until:
                raise TimeoutError(f"{name} had no address within {timeout:g} s") from None
            time.sleep(RETRY)
    return found


def send(host: str, message: str, index: int, node: str, secret: str, timeout: float) -> str:
    """Send a worker's message to the pod at ``host:port``, and return the answer.

    Raises
    ------
    TimeoutError
        If there is no answer within `timeout` seconds.
    """
    address = split(host)[0], PORT
    until = time.monotonic() + timeout
    while True:
        with contextlib.suppress(OSError), socket.create_connection(address, 5) as connection:
            connection.settimeout(30)
            connection.sendall(f"{secret} {message} {index} {node}\n".encode())
            answer = connection.makefile().readline(LONGEST)
            if answer:
                return answer
        if time.monotonic() > until:
            raise TimeoutError(f"{host} does not answer to {message!r}")
        time.sleep(RETRY)


def coordinate(count: int, secret: str) -> None:
    """Give all workers their local ranks; return when all have finished.

    Parameters
    ----------
    count : int
        How many workers there are.
    secret : str
        That they know.
    """
    workers = set(range(count))
    registered: Dict[int, Tuple[str, socket.socket]] = {}
    finished: Set[int] = set()
    with contextlib.closing(_listen()) as listener, contextlib.closing(_calls(listener)) as calls:
        while finished != workers:
            connection, line = next(calls)
            known = _understand(line, secret)
            if known is None or known[1] not in workers:
                connection.close()
                continue
            message, index, node = known
            if message == "finished":
                finished.add(index)
                _answer(connection, "ok")
                continue
            if index in registered:
                registered[index][1].close()
            registered[index] = node, connection
            if registered.keys() == workers:
                _give_ranks(registered)


def _listen() -> socket.socket:
    """Listen to all addresses of this pod, of both versions of IP where there are both."""
    try:
        return _bound(socket.AF_INET6)
    except OSError:  # not here
        return _bound(socket.AF_INET)


def _bound(family: int) -> socket.socket:
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("", PORT))
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener


def _calls(listener: socket.socket) -> Iterator[Tuple[socket.socket, bytes]]:
    """Yield each caller with its line; nobody who is slow, or silent, keeps others waiting."""
    waiting: Dict[socket.socket, Tuple[float, bytes]] = {}  # until when, and what has come
    with selectors.DefaultSelector() as selector:

        def forget(connection: socket.socket) -> None:
            selector.unregister(connection)
            del waiting[connection]

        selector.register(listener, selectors.EVENT_READ)
        try:
            while True:
                # With nobody to lose patience with, it sleeps: a server here needs the core.
                for key, _ in selector.select(RETRY if waiting else None):
                    connection = key.fileobj
                    if connection is listener:
                        try:
                            connection, _ = listener.accept()
                        except OSError:  # too many of them; those that wait are soon let go
                            time.sleep(RETRY)
                            continue
                        connection.settimeout(PATIENCE)
                        selector.register(connection, selectors.EVENT_READ)
                        waiting[connection] = time.monotonic() + PATIENCE, b""
                        continue
                    until, line = waiting[connection]
                    piece = b""
                    with contextlib.suppress(OSError):
                        piece = connection.recv(LONGEST)
                    line += piece
                    if line.endswith(b"\n"):
                        forget(connection)
                        yield connection, line
                    elif piece and len(line) < LONGEST:
                        waiting[connection] = until, line
                    else:
                        forget(connection)
                        connection.close()
                for connection, (until, _) in list(waiting.items()):
                    if time.monotonic() > until:
                        forget(connection)
                        connection.close()
        finally:
            for connection in waiting:
                connection.close()


def _understand(line: bytes, secret: str) -> Optional[Tuple[str, int, str]]:
    """Return the message, index and node in a line, None if it is none of this trial's."""
    words = line.split()
    if len(words) != 4 or not hmac.compare_digest(words[0], secret.encode()):
        return None
    message, index, node = (word.decode(errors="replace") for word in words[1:])
    if message not in ("register", "finished") or not index.isdecimal():
        return None
    return message, int(index), node


def _give_ranks(registered: Dict[int, Tuple[str, socket.socket]]) -> None:
    placed: Counter[str] = collections.Counter()
    for _, (node, connection) in sorted(registered.items()):
        _answer(connection, placed[node])
        placed[node] += 1


def _answer(connection: socket.socket, text: object) -> None:
    """Send one line and close; who has hung up asks again."""
    with contextlib.suppress(OSError), connection:
        connection.sendall(f"{text}\n".encode())
