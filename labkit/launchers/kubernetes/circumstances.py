"""On what a trial ran, and what else its nodes did meanwhile: the record of a run."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from labkit.launchers.kubernetes.logs import Logs, event_in
from labkit.launchers.kubernetes.pods import Pod, seconds
from labkit.launchers.kubernetes.submission import Submission
from labkit.launchers.load import is_overloaded
from labkit.launchers.protocol import TrialFailed
from labkit.replicas import podlog
from labkit.replicas.events import Barrier, End, Event, Rate, Step
from labkit.trials import Trial

USED = ("own", "throttled", "sent", "received", "agent")
"""What a pod's samples say of its use of the CPU, of its share of it, of the network, and of the
CPU that labkit's own process in it used."""


UNKNOWN = {
    "cpu_model": "", "cores": 0, "memory": 0, "system": "", "congestion_control": "",
}  # fmt: skip
"""The machine of a run of which no pod has said on what it was."""


@dataclass
class PodRecord:
    """What a pod's whole log says of its circumstances.

    Attributes
    ----------
    pod : Pod
    machine : podlog.Machine
    processors : list of int or None
        To which its replicas were bound, if they were.
    samples : list of podlog.Sample
    barriers : list of float
        When workers passed the barrier, in seconds since the epoch.
    limited : float or None
        When it was given less than whole cores, in seconds since the epoch.
    begins, finishes : list of float
        When workers passed the barrier, or printed a rate, and took their last step, in the node's
        monotonic seconds.
    clocks : dict of str to float
        For each replica, the seconds since the epoch when its node's monotonic ones were 0. What
        it prints is stamped late, never early: so the least that any of its lines says.
    """

    pod: Pod
    machine: podlog.Machine | None = None
    processors: list[int] | None = None
    samples: list[podlog.Sample] = field(default_factory=list)
    barriers: list[float] = field(default_factory=list)
    limited: float | None = None
    begins: list[float] = field(default_factory=list)
    finishes: list[float] = field(default_factory=list)
    clocks: dict[str, float] = field(default_factory=dict)

    def use(self, training: tuple[float, float]) -> dict[str, float]:
        """Return what it used of its share of a core and of the network in a time.

        Parameters
        ----------
        training : tuple of float
            From when to when, in the node's monotonic seconds.
        """
        samples = np.array(self.samples)
        used = {
            name: float(np.ptp(np.interp(training, samples[:, 0], samples[:, column])))
            for column, name in enumerate(podlog.Sample._fields)
            if name in USED
        }
        return {"seconds": training[1] - training[0]} | used


@dataclass
class Node:
    """One node: what it is, and how busy it was while its workers trained, in cores."""

    name: str
    pods: list[PodRecord]
    own: float = 0.0
    other: float = 0.0

    @property
    def machine(self) -> dict[str, Any]:
        """What it is, as its pods report."""
        machine = self.pods[0].machine._asdict()
        return {key: value for key, value in machine.items() if key != "node"}

    @property
    def cores(self) -> int:
        """How many it has."""
        return self.pods[0].machine.cores

    def cores_needed(self, trial: Trial) -> int:
        """Return how many cores the workers and dedicated servers on it keep busy."""
        each = {"worker": trial.threads, "server": 1}
        return sum(each.get(record.pod.component, 0) for record in self.pods)

    @property
    def zero(self) -> float | None:
        """The seconds since the epoch when its monotonic ones were 0; None if nobody has said."""
        return min((t for record in self.pods for t in record.clocks.values()), default=None)

    @property
    def said(self) -> tuple[float, float] | None:
        """When its workers trained, in its monotonic seconds; None if none has said so."""
        begins = [t for record in self.pods for t in record.begins]
        finishes = [t for record in self.pods for t in record.finishes]
        return (min(begins), min(finishes)) if begins and finishes else None

    def training(self, first: Node | None) -> tuple[float, float] | None:
        """Return when all workers trained, in its monotonic seconds; None if nobody knows.

        Parameters
        ----------
        first : Node or None
            One whose workers have said so, for one whose have not, or that has none.
        """
        if self.said is None and first and None not in (first.zero, self.zero):
            begin, end = (t + first.zero - self.zero for t in first.said)
            return begin, end
        return self.said

    def measure_load(self, training: tuple[float, float] | None) -> None:
        """Measure its load while workers trained: ours, and all others'.

        The clocks of a node's pods are the same, so that their samples can be added.
        """
        samples = [np.array(record.samples) for record in self.pods]
        if training and all(len(sample) > 1 for sample in samples):
            ends = np.array(training)
            busy = np.ptp(np.interp(ends, *samples[0][:, :2].T))
            own = sum(np.ptp(np.interp(ends, sample[:, 0], sample[:, 2])) for sample in samples)
            seconds = max(np.ptp(ends), 1e-3)
            self.own = float(own / seconds)
            self.other = float(max(busy - own, 0.0) / seconds)


def record(
    submission: Submission, cluster: str, pods: Iterable[Pod], logs: Logs
) -> dict[str, Any]:
    """Return the circumstances of a run, from the whole logs of its pods.

    Its machine is the cluster, by its name: on which nodes a trial's pods are is chance.
    """
    trial = submission.trial
    records = [_read(pod, logs, trial) for pod in pods]
    limited = _limited(records, trial)
    for each in records:
        each.begins = [t + limited for t in each.begins]
    nodes = _by_node(records)
    first = next((node for node in nodes if node.said), None)
    use = {}
    for node in nodes:
        training = node.training(first)
        node.measure_load(training)
        if training:
            use |= {str(r.pod): r.use(training) for r in node.pods if len(r.samples) > 1}
    return {
        "launcher": "kubernetes",
        "started": datetime.fromtimestamp(submission.submitted).astimezone().isoformat(),
        "startup_s": _startup(records, submission.submitted),
        "machine": nodes[0].machine | {"host": cluster},
        "oversubscribed": any(node.cores_needed(trial) > node.cores for node in nodes),
        "own_cpu": round(max(node.own for node in nodes), 3),
        "other_cpu": round(max(node.other for node in nodes), 3),
        "overloaded": any(is_overloaded(node.own, node.other, node.cores) for node in nodes),
        "nodes": {node.name: node.machine for node in nodes},
        "pods": {str(r.pod): r.pod.node for r in records},
        "bound": {str(r.pod): r.processors for r in records if r.processors is not None},
        "image": submission.image,
        "clocks": {name: zero for r in records for name, zero in r.clocks.items()},
        "limited_s": round(limited, 3),
        "use": use,
    }


@contextlib.contextmanager
def told(known: Callable[[], dict[str, Any]]) -> Iterator[None]:
    """Have a failure tell where it was, as far as it does not know that better."""
    try:
        yield
    except TrialFailed as error:
        error.record = known() | error.record
        raise


def somewhere(cluster: str) -> dict[str, Any]:
    """Return the circumstances of a run that has failed, of which no more is known."""
    return {
        "launcher": "kubernetes",
        "machine": UNKNOWN | {"host": cluster},
        "oversubscribed": False,
    }


def known(submission: Submission, cluster: str, pods: Iterable[Pod], logs: Logs) -> dict[str, Any]:
    """Return the circumstances of a run that has failed, as far as its pods have told them."""
    found = somewhere(cluster) | {
        "started": datetime.fromtimestamp(submission.submitted).astimezone().isoformat(),
        "image": submission.image,
    }
    machines = (_read(pod, logs, submission.trial).machine for pod in pods)
    if told := next(filter(None, machines), None):
        found["machine"] = {name: getattr(told, name) for name in UNKNOWN} | {"host": cluster}
    return found


def _limited(records: list[PodRecord], trial: Trial) -> float:
    """Return from how many seconds after the barrier on all pods had their share of a core.

    Raises
    ------
    TrialFailed
        If one ended without.
    """
    if not trial.cpu:
        return 0.0
    if whole := [str(record.pod) for record in records if record.limited is None]:
        raise TrialFailed(
            f"{trial.name}: {', '.join(whole[:5])} ended before it had {trial.cpu:g} of a core. "
            "The trial was over too soon; it needs more steps"
        )
    # The clocks of a node are the least late of all that its replicas have said.
    passed = min(
        begin + record.clocks[f"worker-{record.pod.index}"]
        for record in records
        for begin in record.begins
    )
    return max(0.0, *(record.limited - passed for record in records))


def _startup(records: list[PodRecord], submitted: float) -> float | None:
    """Return the seconds to the last worker's barrier; None of scripts that have none."""
    barriers = [t for record in records for t in record.barriers]
    return max(barriers) - submitted if barriers else None


def _by_node(records: list[PodRecord]) -> list[Node]:
    def node(record: PodRecord) -> str:
        return record.pod.node

    groups = itertools.groupby(sorted(records, key=node), node)
    return [Node(name, list(group)) for name, group in groups]


def _read(pod: Pod, logs: Logs, trial: Trial) -> PodRecord:
    record = PodRecord(pod)
    for stamp, entry in logs.of(pod).entries():
        match entry:
            case podlog.Machine():
                record.machine = entry
            case podlog.Bound():
                record.processors = entry.processors
            case podlog.Limited():
                record.limited = seconds(stamp)
            case podlog.Sample():
                record.samples.append(entry)
            case podlog.Output():
                if event := event_in(entry):
                    zero = seconds(stamp) - event.t
                    known = record.clocks.get(entry.replica, zero)
                    record.clocks[entry.replica] = min(known, zero)
                    _note(record, event, seconds(stamp), trial)
    return record


def _note(record: PodRecord, event: Event, when: float, trial: Trial) -> None:
    """Note when a worker begins and finishes; a script says of no step that it is the last."""
    match event:
        case Barrier():
            record.barriers.append(when)
            record.begins = [event.t]  # not what a script has printed before
        case Rate() if not record.begins:
            record.begins.append(event.t)
        case Step() if event.steps == trial.total_steps:
            record.finishes.append(event.t)
        case End() if event.role == "worker" and trial.total_steps is None:
            record.finishes.append(event.t)
