"""The event protocol: what a replica says while it runs, written and read here alone.

An event is one JSON object on one line of standard output, behind `PREFIX`, so that no print of
a framework can be mistaken for one. Every event carries its number in the sequence (from 0,
without gaps), the time, who says it, and the CPU time used so far; each kind adds its own fields.
"""

import json
import math
import os
import resource
import time
import traceback
from dataclasses import asdict, dataclass, fields
from typing import ClassVar, Dict, List, Optional, Union

PREFIX = "@labkit "


class EventError(ValueError):
    """A line that should hold an event and does not, or events that are no whole sequence."""


@dataclass(frozen=True)
class Event:
    """What all events have in common.

    Attributes
    ----------
    seq : int
        Its place in the replica's sequence, from 0.
    t : float
        Monotonic seconds of the replica's machine.
    role : str
        ``scheduler``, ``server`` or ``worker``.
    index : int
        Of the replica in its role.
    cpu : float
        Seconds of CPU time that the replica has used so far.
    """

    kind: ClassVar[str] = ""

    seq: int
    t: float
    role: str
    index: int
    cpu: float

    @property
    def replica(self):
        """The replica's name, such as ``worker-0``."""
        return f"{self.role}-{self.index}"

    def as_dict(self):
        """Return the event as its line has it."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        given["kind"] = self.kind
        return given


@dataclass(frozen=True)
class Start(Event):
    """The replica runs.

    Attributes
    ----------
    trial : str
        The trial's identity.
    code, model, data : str
        Checksums of the trainer that runs, and of the model's file and the data that a worker has
        read; empty where there is none.
    pid : int
    host : str
    cpus : int
        Processors that the replica may use.
    threads : int
        That it was told to compute with.
    versions : dict of str to str
        Of Python, numpy and the framework.
    """

    kind: ClassVar[str] = "start"

    trial: str
    data: str
    pid: int
    versions: Dict[str, str]
    host: str = ""
    cpus: int = 0
    threads: int = 0
    code: str = ""
    model: str = ""


@dataclass(frozen=True)
class Ready(Event):
    """The replica is built and warmed up.

    Attributes
    ----------
    variables : list of int or None
        Elements of each of a network's variables, in the order in which the framework has them.
    """

    kind: ClassVar[str] = "ready"

    variables: Optional[List[int]] = None


@dataclass(frozen=True)
class Barrier(Event):
    """All workers have met: this worker's clock starts here.

    Attributes
    ----------
    turn : float
        Seconds from here until it trains: slow nodes begin one after the other.
    """

    kind: ClassVar[str] = "barrier"

    turn: float = 0.0


@dataclass(frozen=True)
class Step(Event):
    """A worker has trained.

    Attributes
    ----------
    steps, samples : int
        Taken and trained on so far.
    loss : float or None
        Mean since the last of these events, in nats per target; a script may leave it out.
    accuracy : float or None
        Likewise in percent, of models that are judged by it.
    metrics : dict of str to float, or None
        Means of what else a script says of its steps.
    """

    kind: ClassVar[str] = "step"

    steps: int
    samples: int
    loss: Optional[float] = None
    accuracy: Optional[float] = None
    metrics: Optional[Dict[str, float]] = None


@dataclass(frozen=True)
class Rate(Event):
    """A worker's script has printed how fast it is: nothing that labkit has measured.

    Attributes
    ----------
    rate : float
        Per second.
    unit : str
        Of what: ``samples`` or ``steps``.
    """

    kind: ClassVar[str] = "rate"

    rate: float
    unit: str


@dataclass(frozen=True)
class Evaluation(Event):
    """A worker has judged the network on the test set.

    Attributes
    ----------
    steps : int
        That the worker had taken.
    metric : str
    value : float
        Of the metric; a perplexity may be infinite.
    loss : float or None
        Mean, in nats per target; None of a script.
    samples : int or None
        Targets judged; None of a script.
    seconds : float or None
        Of inference alone; None of a script.
    pause : float
        Seconds in all since the worker's last step.
    """

    kind: ClassVar[str] = "eval"

    steps: int
    metric: str
    value: float
    pause: float
    loss: Optional[float] = None
    samples: Optional[int] = None
    seconds: Optional[float] = None


@dataclass(frozen=True)
class Computed(Event):
    """How long a worker's gradients took, of a trial whose computing is timed or stretched.

    Attributes
    ----------
    gradients : int
        That it has computed since the barrier.
    late : int
        Of these, those that took longer than their stretched time.
    low, median, high : float
        Seconds that they really took: 10th, 50th and 90th percentile.
    """

    kind: ClassVar[str] = "computed"

    gradients: int
    late: int
    low: float
    median: float
    high: float


@dataclass(frozen=True)
class End(Event):
    """The replica has done all it had to do.

    Attributes
    ----------
    peak_bytes : int
        Of resident memory.
    steps, samples : int or None
        Of a worker, in all.
    input : float or None
        Seconds of a worker's CPU time that went into preparing batches since the barrier; None
        where nobody measured it, as in scripts.
    """

    kind: ClassVar[str] = "end"

    peak_bytes: int
    steps: Optional[int] = None
    samples: Optional[int] = None
    input: Optional[float] = None


@dataclass(frozen=True)
class Error(Event):
    """The replica has failed.

    Attributes
    ----------
    type, message, traceback : str
        Of the exception.
    """

    kind: ClassVar[str] = "error"

    type: str
    message: str
    traceback: str


KINDS = {
    c.kind: c for c in (Start, Ready, Barrier, Step, Rate, Evaluation, Computed, End, Error)
}

_TYPES = {
    int: int, float: (int, float), str: str, Dict[str, str]: dict, Dict[str, float]: dict,
    List[int]: list,
}  # fmt: skip
_OPTIONAL = {Optional[each]: each for each in (int, float, Dict[str, float], List[int])}
_MAY_BE_INFINITE = {(Evaluation, "value"), (Evaluation, "loss")}


# --- writing ---


class Writer:
    """Writes a replica's events to standard output, numbered.

    Parameters
    ----------
    role : str
    index : int
    """

    def __init__(self, role, index):
        self._role, self._index = role, index
        self._seq = 0

    def write(self, kind, t=None, cpu=None, **values):
        """Write one event.

        Parameters
        ----------
        kind : type
            The event's class.
        t, cpu : float, optional
            The event's time and CPU time, of another process than this one.
        **values
            Its own fields.

        Returns
        -------
        float
            Its time, in monotonic seconds.

        Raises
        ------
        OSError
            If the line could not be written whole.
        """
        now = time.monotonic() if t is None else t
        event = kind(
            seq=self._seq,
            t=round(now, 6),
            role=self._role,
            index=self._index,
            cpu=round(time.process_time() if cpu is None else cpu, 4),
            **values
        )
        self._seq += 1
        # One write per line: it cannot be torn by what a framework's threads print meanwhile.
        line = encode(event).encode()
        if os.write(1, line) != len(line):
            raise OSError("an event line could not be written whole: is the disk full?")
        return now

    def end(self, **totals):
        """Close the sequence: this replica has done all it had to do."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        self.write(End, peak_bytes=peak, **totals)

    def error(self, error):
        """Close the sequence: this replica has failed."""
        trace = traceback.format_exception(type(error), error, error.__traceback__)
        self.write(
            Error, type=type(error).__name__, message=str(error), traceback="".join(trace)
        )


def encode(event: Event) -> str:
    """Return the line of an event, with its newline."""
    return f"{PREFIX}{json.dumps(event.as_dict())}\n"


# --- reading ---


def decode(line: Union[str, bytes]) -> Optional[Event]:
    """Return the event in a line, None if the line is somebody else's.

    Fields that are not known are passed over: they are of another version of labkit.

    Raises
    ------
    EventError
        If the line begins an event that is not whole, or not of the types that its kind has.
    """
    if isinstance(line, bytes):
        line = line.decode("utf-8", "replace")
    _, found, rest = line.partition(PREFIX)
    if not found:
        return None
    try:
        given = json.loads(rest)
        kind = KINDS[given["kind"]]
        event = kind(**{field.name: given[field.name] for field in fields(kind)
                        if field.name in given})  # fmt: skip
    except (ValueError, TypeError, KeyError, RecursionError):
        raise EventError(f"cut off or garbled: {line[:120]!r}") from None
    for field in fields(kind):
        _check(kind, field, getattr(event, field.name), line)
    return event


def _check(kind, field, value, line):
    """Make sure that a field's value is of its type, and a number that can be."""
    if value is None and field.default is None:
        return
    expected = _OPTIONAL.get(field.type, field.type)
    right = isinstance(value, _TYPES[expected]) and not isinstance(value, bool)
    if right and expected is float and not math.isfinite(value):
        right = (kind, field.name) in _MAY_BE_INFINITE and value == math.inf
    if right and expected is int:
        right = value >= 0
    if right and expected == Dict[str, float]:
        right = all(isinstance(v, (int, float)) and math.isfinite(v) for v in value.values())
    if right and expected == List[int]:
        right = all(type(v) is int and v > 0 for v in value)
    if not right:
        raise EventError(f"{field.name} of {kind.kind} is {value!r}: {line[:120]!r}")
