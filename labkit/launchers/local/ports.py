"""Ports for replicas."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def reserved_hosts(roles: dict[str, int]) -> Iterator[dict[str, list[str]]]:
    """Reserve a port for every replica, free of races, as long as the trial runs.

    The sockets stay bound without listening. Linux lets a replica bind the same port (gRPC with
    SO_REUSEPORT, ZeroMQ with SO_REUSEADDR), and gives it to nobody else meanwhile. They are bound
    on all addresses, as gRPC will: a port that is free on one may be taken on another.
    """
    with contextlib.ExitStack() as stack:
        hosts: dict[str, list[str]] = {}
        for role, count in roles.items():
            for _ in range(count):
                held = stack.enter_context(socket.socket())
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                held.bind(("", 0))
                hosts.setdefault(role, []).append(f"127.0.0.1:{held.getsockname()[1]}")
        yield hosts
