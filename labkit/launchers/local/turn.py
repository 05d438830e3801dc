"""One measurement at a time on a machine: two at once would measure each other.

Whoever measures holds a lock on a file in the folder of temporary files, which all users of the
machine share. As anybody can put things there, no link is followed, and what the file says is for
showing only. Where it is not an ordinary file that can be opened, each user has one of their own.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import json
import os
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from labkit.errors import LabkitError
from labkit.launchers.protocol import OnEvent, Waiting
from labkit.trials import Trial

REMIND = 10.0
"""Seconds after which it is said again for whom and how long a trial has waited."""


@contextlib.contextmanager
def turn(trial: Trial, on_event: OnEvent) -> Iterator[None]:
    """Hold the one right to measure on this machine, as soon as nobody else does.

    Parameters
    ----------
    trial : Trial
        What is to be measured; others who wait are told.
    on_event : callable
        Gets a `Waiting`, again and again, that says for whom and how long.

    Raises
    ------
    LabkitError
        If no lock can be opened.
    """
    descriptor = _open()
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with _telling(descriptor, on_event):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        about = {"user": _user(), "trial": trial.name[:-13], "since": time.strftime("%H:%M:%S")}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(about).encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _telling(descriptor: int, on_event: OnEvent) -> Iterator[None]:
    """Say at once and from time to time who holds the lock, and how long that has lasted."""
    began, over = time.monotonic(), threading.Event()

    def tell() -> None:
        while True:
            seconds = time.monotonic() - began
            on_event(Waiting(f"{_holder(descriptor)}; {seconds:.0f} s so far"))
            if over.wait(REMIND):
                return

    # The lock itself is waited for in the kernel's queue: polling would seldom find it free
    # between two trials of a sweep.
    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _holder(descriptor: int) -> str:
    """Return in words who measures what since when, as far as that can be read."""
    try:
        about = json.loads(os.pread(descriptor, 1000, 0))
        user, trial, since = (_plain(about[name]) for name in ("user", "trial", "since"))
    except (ValueError, TypeError, KeyError):  # not yet written, or by somebody else
        return "another trial on this machine"
    return f"{user}'s trial {trial} on this machine, measured since {since}"


def _plain(text: object) -> str:
    return "".join(filter(str.isprintable, str(text)))[:80]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's, of which nobody has a name
        return f"user {os.getuid()}"


def _open() -> int:
    """Open the file of the machine's lock, or else of the user's."""
    folder = Path(tempfile.gettempdir())
    names = {f"labkit-{os.getuid()}.lock": 0o600, "labkit.lock": 0o666}
    while names:
        name, mode = names.popitem()
        with contextlib.suppress(OSError):
            return _open_file(folder / name, mode)
    raise LabkitError(
        f"{folder / 'labkit.lock'} and {folder / name}, by which labkit makes sure that one trial "
        "at a time is measured here, cannot be opened or are links. Remove them, or set TMPDIR to "
        "a directory of your own."
    )


def _open_file(path: Path, mode: int) -> int:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        # Without O_CREAT, which kernels refuse here for files of others (fs.protected_regular).
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
            os.fchmod(descriptor, mode)  # whatever the umask
        except FileExistsError:  # by somebody else meanwhile
            descriptor = os.open(path, flags)
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(descriptor)
        raise OSError(f"{path} is no ordinary file")
    return descriptor
