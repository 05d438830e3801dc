"""The log of a pod: what its lines mean, written and read here alone.

A pod prints the lines of its replicas, each behind the replica's name: ``worker-0| `` for standard
output, ``worker-0! `` for standard error. Behind ``@pod`` it reports, as JSON, on itself. When its
replicas have ended it prints all of this once more, each line behind its time, compressed, in
lines that begin with ``@copy``, and the copy's checksum behind ``@copied``: a node that rotates
its logs has thrown the beginning away by then, and gives no more than the rest.

A node's API gives each line behind the time at which the node had it.
"""

import base64
import hashlib
import json
import os
import re
import tempfile
import threading
import zlib
from datetime import datetime, timezone
from typing import Iterable, List, NamedTuple, Optional, Tuple, Union

COPY_LINE = 12000
"""Bytes in a line of the copy: a container runtime would break much longer ones."""

COPY_LIMIT = 32 << 20
"""Bytes kept for the copy."""


class Output(NamedTuple):
    """A line that a replica has printed.

    Attributes
    ----------
    replica : str
        Its name, such as ``worker-0``.
    stream : str
        `OUT` or `ERR`.
    text : bytes
        The line, without its newline.
    """

    replica: str
    stream: str
    text: bytes


OUT, ERR = "|", "!"


class Machine(NamedTuple):
    """The report on what a pod runs on: its node's name, and what `machine.describe` says."""

    node: str
    cpu_model: str
    cores: int
    memory: int
    system: str
    congestion_control: str = ""


class Bound(NamedTuple):
    """The report that the replicas of a worker's pod are bound to some processors."""

    processors: List[int]


class Limited(NamedTuple):
    """The report that the pod has only so many cores from now on.

    Attributes
    ----------
    t : float
        Monotonic seconds of the node.
    cores : float
        Seconds of a core that it may use per second.
    """

    t: float
    cores: float


class Sample(NamedTuple):
    """The report on how busy the node is, and the pod.

    Attributes
    ----------
    t : float
        Monotonic seconds of the node.
    busy, own : float
        CPU seconds that the node has worked so far, and that this pod's processes have.
    throttled : float
        Seconds for which the pod's processes had to wait so far, as it had used up its share of a
        core.
    sent, received : int
        Bytes that have left the pod so far, and that have come; not what its own processes send
        each other.
    agent : float
        CPU seconds that the process which writes this log has worked so far; part of `own`.
    """

    t: float
    busy: float
    own: float
    throttled: float = 0.0
    sent: int = 0
    received: int = 0
    agent: float = 0.0


class Ended(NamedTuple):
    """The report that a replica has ended, with its exit code; negative for a signal."""

    replica: str
    code: int


class CopyPiece(NamedTuple):
    """A piece of the copy, in base 64."""

    text: bytes


class CopyEnd(NamedTuple):
    """The end of the copy, with its SHA-256."""

    checksum: str


Report = Union[Machine, Bound, Limited, Sample, Ended]
Entry = Union[Output, Report, CopyPiece, CopyEnd]

_REPORTS = {
    "machine": Machine, "bound": Bound, "limited": Limited, "sample": Sample, "ended": Ended,
}  # fmt: skip
_KINDS = {report: kind for kind, report in _REPORTS.items()}
_OUTPUT = re.compile(rb"([a-z]+-[0-9]+)([|!]) (.*)", re.DOTALL)


class CopyError(ValueError):
    """A log in which the copy is missing, cut off or changed."""


def encode(entry: Entry) -> bytes:
    """Return the line of an entry, with its newline."""
    if isinstance(entry, Output):
        return f"{entry.replica}{entry.stream} ".encode() + entry.text + b"\n"
    if isinstance(entry, CopyPiece):
        return b"@copy " + entry.text + b"\n"
    if isinstance(entry, CopyEnd):
        return b"@copied " + entry.checksum.encode() + b"\n"
    fields = dict(entry._asdict(), kind=_KINDS[type(entry)])
    return b"@pod " + json.dumps(fields).encode() + b"\n"


def decode(line: bytes) -> Optional[Entry]:
    """Return what a line says, None if it is none of a pod's."""
    mark, _, rest = line.rstrip(b"\n").partition(b" ")
    if mark == b"@copy":
        return CopyPiece(rest)
    if mark == b"@copied":
        return CopyEnd(rest.decode("ascii", "replace"))
    if mark == b"@pod":
        return _report(rest)
    found = _OUTPUT.match(line)
    if not found:
        return None
    replica, stream, text = found.groups()
    return Output(replica.decode(), stream.decode(), text.rstrip(b"\n"))


def _report(text: bytes) -> Optional[Report]:
    try:
        fields = json.loads(text.decode())
        return _REPORTS[fields.pop("kind")](**fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def split_time(line: bytes) -> Tuple[str, bytes]:
    """Return the time before a line, and the line."""
    time, _, rest = line.partition(b" ")
    return time.decode("ascii", "replace"), rest


def read_copy(lines: Iterable[bytes]) -> bytes:
    """Return the copy in a pod's log: all lines before it, each behind its time.

    Parameters
    ----------
    lines : iterable of bytes
        The log, each line behind its time.

    Raises
    ------
    CopyError
        If the copy is not whole.
    """
    pieces, checksum = [], ""
    for line in lines:
        entry = decode(split_time(line)[1])
        if isinstance(entry, CopyPiece):
            pieces.append(entry.text)
        elif isinstance(entry, CopyEnd):
            checksum = entry.checksum
    try:
        whole = zlib.decompress(base64.b64decode(b"".join(pieces)))
    except (zlib.error, ValueError) as error:
        raise CopyError(str(error)) from None
    if hashlib.sha256(whole).hexdigest() != checksum:
        raise CopyError("another checksum than the copy's own")
    return whole


class Writer:
    """Prints a pod's log, from any thread, and keeps it for the copy."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the pod runs

    def write(self, entry: Entry) -> None:
        """Print one line."""
        line = encode(entry)
        with self._lock:
            os.write(1, line)
            if self._kept.tell() < COPY_LIMIT:
                self._kept.write(datetime.now(timezone.utc).isoformat().encode() + b" " + line)

    def write_copy(self) -> None:
        """Print all once more."""
        with self._lock:  # samples are still taken, and a line of theirs would tear one of these
            self._kept.seek(0)
            whole = self._kept.read()
            packed = base64.b64encode(zlib.compress(whole, 9))
            for begin in range(0, len(packed), COPY_LINE):
                os.write(1, encode(CopyPiece(packed[begin : begin + COPY_LINE])))
            os.write(1, encode(CopyEnd(hashlib.sha256(whole).hexdigest())))
