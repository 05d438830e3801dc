"""Where the workers of a script meet, whatever their framework.

They do so before they train, and at the end if that is not the script's own. The first worker
listens at an address that all know. Each says by a line, with its trial's secret, the occasion and
its index, that it has come; when all have, each gets a line as an answer.
"""

import contextlib
import errno
import hmac
import selectors
import socket

from labkit.replicas import rendezvous

PATIENCE = 2.0
"""Seconds for one attempt at a connection: between pods it may be lost without an answer."""

LATER = (errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH, errno.ETIMEDOUT)
"""What a connection fails by while the first worker is not there yet."""


READY, ENOUGH, STOP = OCCASIONS = "ready", "enough", "stop"
"""All is built; all scripts have trained long enough; and all replicas know that, so that what
scripts do from now on may be due to the end of others."""


class Meeting:
    """One worker's part in meetings; it never waits long, a selector tells it what has come.

    Parameters
    ----------
    host : str
        The ``host:port`` where the first worker listens; of no use to one that is alone.
    index : int
        Of this worker.
    count : int
        How many workers there are.
    secret : str
        That all of them know; a line without it counts for nothing.
    """

    def __init__(self, host, index, count, secret=""):
        self._index, self._count, self._secret = index, count, secret
        self._listener = None
        self._coming, self._connected, self._over = set(), set(), set()  # occasions
        self._lines = {}  # what has come from whom
        self._here = {occasion: {} for occasion in OCCASIONS}  # index -> connection
        if count == 1:
            return
        name, port = rendezvous.split(host)
        self._address = name, int(port)
        self._family = socket.AF_INET6 if ":" in name else socket.AF_INET
        if index == 0:
            self._listener = socket.socket(self._family)
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(self._address)
            self._listener.listen(count)

    def register(self, selector):
        """Have a selector call back when there is something to do."""
        self._selector = selector
        if self._listener:
            selector.register(self._listener, selectors.EVENT_READ, (self._accept, None))

    def come(self, occasion):
        """Say that this worker has come, as soon as the first one listens; once is enough."""
        if occasion not in self._coming:
            self._coming.add(occasion)
            self._connect(occasion)

    def over(self, occasion):
        """Return whether all have come; ask again and again."""
        if occasion in self._coming - self._connected - self._over:
            self._connect(occasion)
        return occasion in self._over

    def _connect(self, occasion):
        if self._count == 1:
            self._over.add(occasion)
            return
        connection = socket.socket(self._family)
        connection.settimeout(PATIENCE)
        try:
            connection.connect(self._address)
            connection.sendall(f"{self._secret}:{occasion}:{self._index}\n".encode())
        except OSError as error:
            connection.close()
            if not isinstance(error, socket.timeout) and error.errno not in LATER:
                raise
            return
        self._connected.add(occasion)
        self._selector.register(connection, selectors.EVENT_READ, (self._answered, occasion))

    def _accept(self, listener, _):
        connection = listener.accept()[0]
        self._lines[connection] = b""
        self._selector.register(connection, selectors.EVENT_READ, (self._said, None))

    def _said(self, connection, _):
        received = b""
        with contextlib.suppress(OSError):
            received = connection.recv(rendezvous.LONGEST)
        self._lines[connection] += received
        line = self._lines[connection]
        if received and not line.endswith(b"\n") and len(line) < rendezvous.LONGEST:
            return
        self._selector.unregister(connection)
        said, _, index = line.strip().rpartition(b":")
        secret, _, occasion = said.rpartition(b":")
        here = self._here.get(occasion.decode(errors="replace"))
        known = hmac.compare_digest(secret, self._secret.encode())
        if not (known and here is not None and index.isdigit() and int(index) < self._count):
            connection.close()
            return
        here[int(index)] = connection
        if len(here) == self._count:
            for met in here.values():
                with contextlib.suppress(OSError):
                    met.sendall(b"go\n")

    def _answered(self, connection, occasion):
        with contextlib.suppress(OSError):
            if connection.recv(64):
                self._over.add(occasion)
        self._selector.unregister(connection)
        connection.close()
