"""Where the workers of a script meet before they train, whatever their framework.

The first worker listens at an address that all know. Each says by a line with its index that it
has come; when all have, each gets a line as an answer.
"""

import contextlib
import errno
import selectors
import socket


class Meeting:
    """One worker's part in the meeting; it never waits, but is told by a selector what has come.

    Parameters
    ----------
    host : str
        The ``host:port`` where the first worker listens.
    index : int
        Of this worker.
    count : int
        How many workers there are.
    """

    def __init__(self, host, index, count):
        name, _, port = host.rpartition(":")
        self._address = name, int(port)
        self._index, self._count = index, count
        self._listener = self._own = None
        self._coming = self._over = False
        self._lines = {}  # what has come from whom
        self._here = {}  # index -> connection
        if index == 0:
            self._listener = socket.socket()
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind(self._address)
            self._listener.listen(count)

    def register(self, selector):
        """Have a selector call back when there is something to do."""
        self._selector = selector
        if self._listener:
            selector.register(self._listener, selectors.EVENT_READ, (self._accept, None))

    def come(self):
        """Say that this worker has come, as soon as the first one listens."""
        self._coming = True
        self._connect()

    def over(self):
        """Return whether all have come; ask again and again."""
        if self._coming and self._own is None:
            self._connect()
        return self._over

    def _connect(self):
        connection = socket.socket()
        try:
            connection.connect(self._address)
            connection.sendall(f"{self._index}\n".encode())
        except OSError as error:
            connection.close()
            if error.errno not in (errno.ECONNREFUSED, errno.ECONNRESET, errno.EHOSTUNREACH):
                raise
            return
        self._own = connection
        self._selector.register(connection, selectors.EVENT_READ, (self._answered, None))

    def _accept(self, listener, _):
        connection = listener.accept()[0]
        self._lines[connection] = b""
        self._selector.register(connection, selectors.EVENT_READ, (self._said, None))

    def _said(self, connection, _):
        received = _received(connection)
        self._lines[connection] += received
        line = self._lines[connection]
        if received and not line.endswith(b"\n"):
            return
        self._selector.unregister(connection)
        if line.strip().isdigit():
            self._here[int(line)] = connection
        if set(self._here) == set(range(self._count)):
            for met in self._here.values():
                with contextlib.suppress(OSError):
                    met.sendall(b"go\n")

    def _answered(self, connection, _):
        self._over = bool(_received(connection))
        self._selector.unregister(connection)


def _received(connection):
    """Return what has come; nothing from one that has died, of which others tell the cause."""
    try:
        return connection.recv(64)
    except OSError:
        return b""
