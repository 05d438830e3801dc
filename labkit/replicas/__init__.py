"""What runs beside a framework: trainers, what they share, and the agent of a pod.

All of it needs the standard library and numpy alone, and no syntax newer than Python 3.6: a
framework may live in an environment of its own, with another Python than labkit's.
"""

import hashlib
from pathlib import Path

HERE = Path(__file__).parent

SHARED = (
    "events.py", "arguments.py", "own_data.py", "arrays.py", "models/__init__.py", "pace.py",
    "loop.py",
)  # fmt: skip
"""What all trainers import."""

SCRIPTED = (
    "events.py", "account.py", "arguments.py", "duration.py", "environments.py", "function.py",
    "meeting.py", "old_numpy.py", "orphan.py", "rates.py", "rendezvous.py", "../report.py",
)  # fmt: skip
"""What starts a script, and makes events of what it says."""


def checksum(trainer, shared=SHARED):
    """Return the SHA-256 of a trainer and of all that it shares with others.

    A trainer calls it when it is imported, so that it can say later what code it runs.
    """
    digest = hashlib.sha256()
    for path in [HERE / name for name in shared] + [Path(trainer)]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def sum_of(contents):
    """Return the SHA-256 over the checksums of some files, of which the contents are given."""
    digest = hashlib.sha256()
    for name in sorted(contents):
        content = hashlib.sha256(contents[name]).hexdigest()
        digest.update(f"{content}  {name}\n".encode())
    return digest.hexdigest()
