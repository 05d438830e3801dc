"""A network of its own for processes that talk to each other alone: nobody else can reach them.

TensorFlow's processes listen on all addresses, which they have no setting for, and do what whoever
connects tells them to. In a network that has nothing but its loopback they find each other, and
nobody finds them. For others than root it takes a user namespace, which not every kernel or
container allows.
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

from labkit.replicas.machine import CONGESTION_CONTROL, congestion_control

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
IFREQ = struct.Struct("16sh22x")

PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWER = "10000 32000"
"""Ports that the kernel gives away in there: none of those that it gives away outside, which may
have been promised to a replica."""

LIBC = ctypes.CDLL(None, use_errno=True)


def possible() -> bool:
    """Return whether `enter` would work here, tried in a process forked for that."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            enter()
            os._exit(0)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def enter() -> None:
    """Give this process, and those that it will fork, a network with nothing but a loopback.

    It must have a single thread.

    Raises
    ------
    OSError
        If the kernel does not allow it; half of it may be done then.
    """
    user, group = os.geteuid(), os.getegid()
    root = user == 0  # whose rights over others' files a user namespace would end
    algorithm = congestion_control()
    if LIBC.unshare(CLONE_NEWNET if root else CLONE_NEWUSER | CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    if not root:
        own = Path("/proc/self")
        own.joinpath("setgroups").write_text("deny")
        own.joinpath("uid_map").write_text(f"{user} {user} 1")
        own.joinpath("gid_map").write_text(f"{group} {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, IFREQ.pack(b"lo", IFF_UP))
    with contextlib.suppress(OSError):  # where /proc/sys is read-only
        PORTS.write_text(LOWER)
        # A new network has that of the machine, also within a container that has one of its own.
        CONGESTION_CONTROL.write_text(algorithm)
